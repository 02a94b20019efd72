"""The component `elmo`: contextual vectors on Docs, and layers for the components that listen."""

import weakref
from dataclasses import replace
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Type

from spacy.language import Language
from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer, set_dropout_rate
from thinc.types import Floats3d

from ..errors import Errors
from ..ml import concat as _tok2vec  # noqa: F401
from ..ml import listener as _listener  # noqa: F401  registers the architectures
from ..ml import loaders as _loaders  # noqa: F401
from ..ml.batch_norm import add_marks
from ..ml.doc_vectors import DocVectors, set_vectors
from ..ml.elmo_model import fill, get_bilm, get_settings, prepare, read_marks, set_bilm, write_layers
from ..ml.listener import ElmoListener, get_listeners, settings_of
from ..ml.mixing import equal_weights, mix_layers
from ..ml.types import ElmoBatch
from .defaults import DEFAULT_BLOCKS, check_settings
from .extensions import register_extensions
from .gradient_buffer import PendingGradient
from .multiprocessing import configure_worker, is_sent_to_worker, load_encoders_once, prepare_before_fork
from .vector_hooks import set_vector_hooks


@Language.factory(
    "elmo",
    assigns=[f"{owner}._.{name}" for owner in ("doc", "span", "token") for name in ("elmo", "elmo_layers")],
    default_config=DEFAULT_BLOCKS,
)
def make_elmo(
    nlp: Language,
    name: str,
    model: Model[List[Doc], ElmoBatch],
    mix: Dict[str, Any],
    store: str,
    dtype: str,
    prefix: str,
    set_vectors: bool,
) -> "Elmo":
    """Make the component from its config.

    nlp (Language): The pipeline.
    name (str): The component's name in it.
    model (Model[List[Doc], ElmoBatch]): Docs to layers, see `spacy-elmo.ElmoModel.v1`.
    mix (Dict[str, Any]): The component's own mix: `weights`, `gamma`, `layer_norm`.
    store (str): What a Doc keeps: "mixed" vectors, "layers" (mixed on demand) or "both". Layers are kept in any case as
        long as components listen, since listeners read them from the Doc.
    dtype (str): Precision of what a Doc keeps, "float32" or "float16".
    prefix (str): Name of the extension attributes; two ELMo components in one pipeline need two.
    set_vectors (bool): Also fill `doc.tensor`, and let `vector` and `similarity` of Doc, span and token use it.
    RETURNS (Elmo): The component.
    """
    elmo = Elmo(nlp.vocab, model, name, mix=mix, store=store, dtype=dtype, prefix=prefix, set_vectors=set_vectors)
    elmo.belong_to(nlp)
    return elmo


class Elmo(TrainablePipe):  # type: ignore[misc]  # spaCy's class has no types
    """Computes ELMo vectors, keeps them on the Docs, and shares the biLM with the components that listen.

    vocab (Vocab): The pipeline's vocabulary.
    model (Model[List[Doc], ElmoBatch]): Docs to layers.
    name (str): The component's name.
    mix (Optional[Dict[str, Any]]): Raw `weights` (null for equal shares), `gamma`, `layer_norm` ("token" or null).
    store (str): "mixed", "layers" or "both".
    dtype (str): "float32" or "float16".
    prefix (str): Name of the extension attributes.
    set_vectors (bool): Fill `doc.tensor` and set vector hooks.
    RAISES (ValueError): EL060 for settings that make no sense, EL073 if the extension names are taken.
    """

    def __init__(
        self,
        vocab: Vocab,
        model: Model[List[Doc], ElmoBatch],
        name: str = "elmo",
        *,
        mix: Optional[Dict[str, Any]] = None,
        store: str = "both",
        dtype: str = "float32",
        prefix: str = "elmo",
        set_vectors: bool = False,
    ) -> None:
        self.vocab = vocab
        self.model = model
        self.name = name
        self.cfg: Dict[str, Any] = {}
        self.mix = {"weights": None, "gamma": 1.0, "layer_norm": None, **(mix or {})}
        self.store, self.dtype, self.prefix, self.set_vectors = store, dtype, prefix, set_vectors
        self.listener_map: Dict[str, List[ElmoListener]] = {}
        self._pending: Optional[PendingGradient] = None
        self._nlp: Optional[weakref.ReferenceType[Language]] = None
        check_settings(self.mix, store, dtype, prefix)
        register_extensions(prefix)
        prepare_before_fork(self)

    def belong_to(self, nlp: Language) -> None:
        """nlp (Language): The pipeline, asked for a loader before packaged weights are taken."""
        self._nlp = weakref.ref(nlp)

    # Listeners, as in spaCy's Tok2Vec

    @property
    def listeners(self) -> List[ElmoListener]:
        """RETURNS (List[ElmoListener]): The listeners, component after component."""
        return [listener for listeners in self.listener_map.values() for listener in listeners]

    @property
    def listening_components(self) -> List[str]:
        """RETURNS (List[str]): Names of the components that listen."""
        return list(self.listener_map)

    def add_listener(self, listener: ElmoListener, component_name: str) -> None:
        """listener (ElmoListener): A listener.
        component_name (str): The component it belongs to.
        RAISES (ValueError): EL076 for a norm that counts sentence marks, and a biLM that is trained.
        """
        if settings_of(listener).needs_marks and not get_settings(self.model).frozen:
            raise ValueError(Errors.EL076)
        listeners = self.listener_map.setdefault(component_name, [])
        if listener not in listeners:
            listeners.append(listener)
        listener.link(self, component_name)

    def remove_listener(self, listener: ElmoListener, component_name: str) -> bool:
        """listener (ElmoListener): A listener.
        component_name (str): The component it belongs to.
        RETURNS (bool): Whether it was known.
        """
        listeners = self.listener_map.get(component_name, [])
        if listener not in listeners:
            return False
        # A new list: `Language.replace_listeners` removes while it iterates over the old one.
        self.listener_map[component_name] = [other for other in listeners if other is not listener]
        if not self.listener_map[component_name]:
            del self.listener_map[component_name]
        return True

    def find_listeners(self, component: Any) -> None:
        """component (Any): A component further down, whose listeners are added if they mean this component.
        RAISES (ValueError): EL078 if it is an ELMo component that writes where this one does.
        """
        if isinstance(component, Elmo) and component.prefix == self.prefix:
            raise ValueError(Errors.EL078.format(first=self.name, second=component.name, prefix=self.prefix))
        if isinstance(getattr(component, "model", None), Model):
            for listener in get_listeners(component.model):
                if listener.upstream_name in ("*", self.name):
                    self.add_listener(listener, component.name)

    @property
    def sizes(self) -> Optional[Tuple[int, int]]:
        """RETURNS (Optional[Tuple[int, int]]): L+1 and D, None while there are no weights."""
        if get_bilm(self.model) is None:
            return None
        return self.model.get_dim("nL"), self.model.get_dim("nO")

    # Prediction

    def fill(self) -> None:
        """Load the packaged biLM if nobody gave the component other weights.

        RAISES (ValueError): EL067 if the config asks for other sizes, EL075 if it names a loader that was not called.
        """
        if self.sizes is None and self._has_loader():
            raise ValueError(Errors.EL075.format(name=self.name))
        fill(self.model)

    def prepare(self) -> None:
        """Derive from the weights what forked workers share."""
        self.fill()
        prepare(self.model)

    def _has_loader(self) -> bool:
        """RETURNS (bool): Whether the pipeline's config says where the weights come from."""
        nlp = None if self._nlp is None else self._nlp()
        blocks: Dict[str, Any] = {} if nlp is None else nlp.config["initialize"]["components"]
        return bool(blocks.get(self.name, {}).get("loader"))

    def predict(self, docs: Iterable[Doc]) -> List[DocVectors]:
        """docs (Iterable[Doc]): The Docs.
        RETURNS (List[DocVectors]): What each Doc will keep, in arrays of its own.
        """
        docs = list(docs)
        self.fill()
        found = [self._alloc(len(doc)) for doc in docs]
        write_layers(self.model, docs, lambda i, rows, layers: self._keep(found[i], rows, layers))
        if self._has_marks():
            found = [vectors._replace(marks=marks) for vectors, marks in zip(found, read_marks(self.model, docs))]
        return found

    def _has_marks(self) -> bool:
        """RETURNS (bool): Whether a listener normalises as AllenNLP does, over sentence marks, too."""
        return any(settings_of(listener).needs_marks for listener in self.listeners)

    def set_annotations(self, docs: Iterable[Doc], scores: Sequence[DocVectors]) -> None:
        """docs (Iterable[Doc]): The Docs.
        scores (Sequence[DocVectors]): What `predict` gave.
        """
        for doc, vectors in zip(docs, scores):
            stored = vectors if self.store != "layers" else vectors._replace(mixed=None)
            set_vectors(doc, self.prefix, stored)
            if self.set_vectors:
                doc.tensor = vectors.mixed  # type: ignore[assignment]  # spaCy's stub says float64
                set_vector_hooks(doc)

    def _alloc(self, n_tokens: int) -> DocVectors:
        n_layers, width = self.model.get_dim("nL"), self.model.get_dim("nO")
        xp = self.model.ops.xp
        has_mixed = self.store != "layers" or self.set_vectors
        has_layers = self.store != "mixed" or bool(self.listener_map)
        return DocVectors(
            mixed=xp.zeros((n_tokens, width), dtype=self.dtype) if has_mixed else None,
            layers=xp.zeros((n_layers, n_tokens, width), dtype=self.dtype) if has_layers else None,
            weights=_raw_weights(self.mix["weights"], n_layers),
            gamma=float(self.mix["gamma"]),
            norm=self.mix["layer_norm"],
        )

    def _keep(self, vectors: DocVectors, rows: Any, layers: Floats3d) -> None:
        """Write what was computed for some tokens of a Doc into its arrays."""
        if not len(rows):
            return
        first, last = int(rows[0]), int(rows[-1])
        has_gaps = last - first + 1 != len(rows)  # where space tokens are
        places = self.model.ops.xp.asarray(rows) if has_gaps else slice(first, last + 1)
        if vectors.layers is not None:
            vectors.layers[:, places] = layers
        if vectors.mixed is not None:
            vectors.mixed[places] = mix_layers(layers, vectors.weights, vectors.gamma, vectors.norm)

    # Training

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Optional[Language] = None,
        loader: Optional[Callable[[], Any]] = None,
    ) -> None:
        """Load weights, and tell the listeners their sizes.

        get_examples (Callable[[], Iterable[Example]]): Not looked at.
        nlp (Optional[Language]): The pipeline.
        loader (Optional[Callable[[], Any]]): Gives the biLM, see `spacy-elmo.BiLMLoader.v1`. Without one, weights that
            are there already stay, and an empty component takes the packaged ones.
        RAISES (ValueError): EL065 if the loader gives no biLM, EL066 if its sizes are not those of the config.
        """
        validate_get_examples(get_examples, "Elmo.initialize")
        if loader is not None:
            set_bilm(self.model, loader())
        self.fill()
        for listener in self.listeners:
            listener.link(self, "")

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optional[Optimizer] = None,
        losses: Optional[Dict[str, float]] = None,
    ) -> Dict[str, float]:
        """Compute a training batch and hand it to the listeners; they send the gradient back, if one is wanted.

        examples (Iterable[Example]): The batch.
        drop (float): Dropout; the biLM has none.
        sgd (Optional[Optimizer]): The optimizer.
        losses (Optional[Dict[str, float]]): Gets the squared gradient of the layers under the component's name.
        RETURNS (Dict[str, float]): The losses.
        """
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, "Elmo.update")
        self._flush(sgd)  # what a listener sent after the weights were last changed
        docs = [eg.predicted for eg in examples]
        set_dropout_rate(self.model, drop)
        batch, backprop = self.model.begin_update(docs)
        if self._has_marks():
            batch = replace(batch, marks=add_marks(read_marks(self.model, docs), self.model.get_dim("nL")))
        pending = None if get_settings(self.model).frozen else PendingGradient(backprop)
        self._pending = pending
        for listener in self.listeners:
            listener.receive(docs, batch, None if pending is None else pending.receiver(losses, self.name))
        return losses

    def finish_update(self, sgd: Optimizer) -> None:
        """sgd (Optimizer): Changes the weights by the gradients that came back."""
        self._flush(None)
        self.model.finish_update(sgd)

    def get_loss(self, examples: Iterable[Example], scores: Any) -> Tuple[float, float]:
        """RETURNS (Tuple[float, float]): Zeros: the component has no loss of its own."""
        return 0.0, 0.0

    def add_label(self, label: str) -> int:
        """RAISES (NotImplementedError): Always, there are no labels."""
        raise NotImplementedError

    def _flush(self, sgd: Optional[Optimizer]) -> None:
        """Send the gradient that has come back so far through the biLM.

        spaCy's Tok2Vec waits for its last listener, which may never answer (a frozen component, a batch without
        annotation); here whatever came back counts when the weights are to change.
        """
        if self._pending is not None and self._pending.has_gradient:
            pending, self._pending = self._pending, None
            pending.finish()
            if sgd is not None:
                self.model.finish_update(sgd)

    # Saving: an untouched component takes the packaged weights first

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """RETURNS (bytes): The component, weights included."""
        self.fill()
        data: bytes = super().to_bytes(exclude=exclude)
        return data

    def to_disk(self, path: Any, *, exclude: Iterable[str] = ()) -> None:
        """path (Union[str, Path]): The folder to write."""
        self.fill()
        super().to_disk(path, exclude=exclude)

    def __reduce__(self) -> Tuple[Any, ...]:
        self.fill()
        state = {name: value for name, value in self.__dict__.items() if name not in ("_pending", "_nlp")}
        if is_sent_to_worker():
            load_encoders_once()
        return _restore, (type(self), self.vocab, self.model, self.name, self.cfg, state)


def _restore(
    cls: Type[Elmo],
    vocab: Vocab,
    model: Any,
    name: str,
    cfg: Dict[str, Any],
    state: Dict[str, Any],
) -> Elmo:
    """RETURNS (Elmo): A component that was pickled, on the way to a spawned worker for instance."""
    configure_worker()
    elmo = cls(vocab, model, name, prefix=state["prefix"])
    elmo.cfg = cfg
    elmo.__dict__.update(state)
    return elmo


def _raw_weights(weights: Optional[Sequence[float]], n_layers: int) -> List[float]:
    if weights is not None and len(weights) != n_layers:
        raise ValueError(Errors.EL069.format(n_weights=len(weights), n_layers=n_layers))
    return equal_weights(weights, n_layers)
