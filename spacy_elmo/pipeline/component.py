"""The component `elmo`: contextual vectors on Docs, and layers for components with listeners."""

import os
import weakref
from dataclasses import asdict
from functools import cache, partial
from itertools import chain
from multiprocessing.context import get_spawning_popen
from typing import Any, Callable, Dict, Iterable, Iterator, List, Literal, Optional, Sequence, Tuple, Type

import srsly
import torch
from pydantic.dataclasses import dataclass
from spacy.language import Language
from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer, set_dropout_rate

from ..files import AnyPath
from ..inference.bilm import BiLM
from ..settings import KNOWN_NAMES, DType, Flag, Number, Prefix, Store, WeightsPath, read_block, takes
from ..weights.formats.native import PACKAGED_NAMES
from ..weights.load import resolve
from .checks import (
    check_bilm,
    check_examples_have_words,
    check_frozen,
    check_language,
    check_listeners,
    check_model,
    check_schedules,
    check_weights,
    names_loader,
)
from .doc_vectors import read_only, register_extensions, set_vector_hooks, set_vectors
from .listener import ANY_UPSTREAM, BILM_ATTR, UNTRAINED, ElmoListener, LayersGradient, find_listeners
from .mix import ElmoBatch, check_count, fill_weights
from .model import (
    MODEL_NAME,
    BiLMLoader,
    ElmoSettings,
    ensure_bilm,
    get_bilm,
    get_settings,
    get_shim,
    iter_doc_layers,
    read_docs,
    set_bilm,
)
from .task_layers import infer_residual_widths
from .vector_record import DocVectors, write_rows

MAX_NAME = 40  # characters of the name of a biLM in its label


@dataclass(frozen=True, config=KNOWN_NAMES)
class OwnMix:
    """The component's own mix of the layers, for doc._.elmo; it is not trained. Listeners have their own.

    Norms over a batch are excluded: a vector must not depend on other Docs of the batch.

    initial_weights (Optional[List[float]]): Raw weights, one per layer, the token layer first; null for the mean of the
        layers.
    initial_gamma (float): Scale of the mixed vectors.
    layer_norm (Optional[str]): Norm of each layer before the mix: "token" (mean 0, variance 1 over the values of a
        token) or null.
    """

    initial_weights: Optional[List[Number]] = None
    initial_gamma: Number = 1.0
    layer_norm: Optional[Literal["token"]] = None


@dataclass(frozen=True, config=KNOWN_NAMES)
class ComponentSettings:
    """Weights of the component, and what it stores on Docs.

    weights (Optional[str]): Weights of the biLM: a packaged name, or a folder, zip or file in any known format, read
        when they are first needed; null for the packaged biLM, and where a loader in [initialize] gives them. A saved
        pipeline contains its weights and does not read the path again; of a frozen biLM given by its packaged name it
        contains only this name.
    store (str): Vectors stored on a Doc: "mixed", "layers" (mixed on access) or "both". If there are listeners, layers
        are always stored, since listeners read them from the Doc.
    dtype (str): Precision of the stored vectors: "float32" or "float16".
    prefix (str): Name of the extension attributes, doc._.elmo and doc._.elmo_layers; a second component needs another.
    set_vectors (bool): true: also set doc.tensor, and use it for vector and similarity of Doc, span and token.
    average_merged (bool): true: a merged token gets the mean of the vectors of its original tokens; false: reading its
        vector is an error.
    """

    weights: Optional[WeightsPath] = None
    store: Store = "both"
    dtype: DType = "float32"
    prefix: Prefix = "elmo"
    set_vectors: Flag = False
    average_merged: Flag = False


DEFAULT_BLOCKS: Dict[str, Any] = {
    **asdict(ComponentSettings()),
    "model": {"@architectures": "spacy-elmo.ElmoModel.v1", **asdict(ElmoSettings())},
    "mix": asdict(OwnMix()),
}


@Language.factory(
    "elmo",
    assigns=[f"{owner}._.{name}" for owner in ("doc", "span", "token") for name in ("elmo", "elmo_layers")],
    default_config=DEFAULT_BLOCKS,
)
@takes(ComponentSettings)
def make_elmo(
    nlp: Language, name: str, model: Model[List[Doc], ElmoBatch], mix: Dict[str, Any], **settings: Any
) -> "ElmoComponent":
    """Contextual vectors on Docs, and layers for the components that listen.

    nlp (Language): The pipeline.
    name (str): Name of the component in the pipeline.
    model (Model[List[Doc], ElmoBatch]): Computes layers, see `spacy-elmo.ElmoModel.v1`.
    mix (Dict[str, Any]): The component's own mix, see `OwnMix`.
    The other settings, see `ComponentSettings`.
    RETURNS (ElmoComponent): The component.
    """
    elmo = ElmoComponent(nlp.vocab, model, name, mix=mix, **settings)
    elmo.set_pipeline(nlp)
    return elmo


class ElmoComponent(TrainablePipe):  # type: ignore[misc]  # spaCy's class is compiled and has no types
    """Computes ELMo vectors, stores them on Docs, and shares the biLM with components that listen. Settings: see
    `ComponentSettings`, and for `mix` see `OwnMix`.

    RAISES (ValueError): For invalid settings, if the extension names are taken, for another model.
    """

    def __init__(
        self,
        vocab: Vocab,
        model: Model[List[Doc], ElmoBatch],
        name: str = "elmo",
        *,
        mix: Optional[Dict[str, Any]] = None,
        **settings: Any,
    ) -> None:
        self.vocab, self.model, self.name = vocab, model, name
        self.cfg: Dict[str, Any] = {}
        checked = read_block(ComponentSettings, settings, f"[components.{name}] block")
        self.weights, self._loader = checked.weights, None if checked.weights is None else BiLMLoader(checked.weights)
        own_mix = read_block(OwnMix, mix or {}, f"[components.{name}.mix] block")
        self.mix: Dict[str, Any] = asdict(own_mix)
        self.store, self.dtype, self.prefix = checked.store, checked.dtype, checked.prefix
        self.set_vectors, self.average_merged = checked.set_vectors, checked.average_merged
        self.listener_map: Dict[str, List[ElmoListener]] = {}
        self._gradient: Optional[LayersGradient] = None  # of the last training batch, None for a frozen biLM
        self._nlp: Optional[weakref.ReferenceType[Language]] = None
        self._linked_names: Optional[List[str]] = None  # enabled components when the listeners were linked
        self._checked_bilm: Optional[weakref.ReferenceType[Any]] = None  # biLM that the listeners were compared with
        self._has_warned = False  # that no component listens
        check_model(name, model, model.name == MODEL_NAME, "spacy-elmo.ElmoModel.v1")
        register_extensions(self.prefix)
        _components.add(self)
        _register_before_fork()

    def _get_pipeline(self) -> Optional[Language]:
        """None for a component with a `source`: it has no reference to its pipeline."""
        return None if self._nlp is None else self._nlp()

    def set_pipeline(self, nlp: Language) -> None:
        """nlp (Language): The pipeline with this component."""
        self._nlp = weakref.ref(nlp)

    @property
    def sizes(self) -> Optional[Tuple[int, int]]:
        """RETURNS (Optional[Tuple[int, int]]): L+1 and D, None if there are no weights yet."""
        if get_bilm(self.model) is None:
            return None
        return self.model.get_dim("nL"), self.model.get_dim("nO")

    @property
    def bilm_label(self) -> str:
        """RETURNS (str): Which biLM it has: digest, and name if there is one; empty without weights."""
        bilm = get_bilm(self.model)
        return "" if bilm is None else f"{bilm.digest} {str(bilm.meta.get('name', ''))[:MAX_NAME]}".rstrip()

    # Weights

    def load_weights(self, path: AnyPath, **files: Optional[AnyPath]) -> None:
        """Load the weights of a biLM from files. Trained components do not change; WL066 names those that were trained
        with another biLM.

        path (AnyPath): A packaged name, or a folder, zip or file in any known format.
        **files (Optional[AnyPath]): `options`, `weights`, `vocab`, `token_embeddings`, see `spacy-elmo.BiLMLoader.v1`.
        RAISES (ValueError): EL020 and others if there is no biLM at the path, if its sizes differ from the
            config, EL068 if a trained listener has other sizes.
        """
        resolved = {name: None if file is None else resolve(file) for name, file in files.items()}
        self._take(BiLMLoader(resolve(path), **resolved)())
        self.ensure_bilm()

    def ensure_bilm(self) -> BiLM:
        """Load the biLM in `weights`, or the packaged biLM, if the component has none. Warn once of components trained
        with another biLM.

        RETURNS (BiLM): The biLM.
        RAISES (ValueError): If the config has other sizes, or a loader that was not called.
        """
        bilm = get_bilm(self.model) or self._load()
        if self._checked_bilm is None or self._checked_bilm() is not bilm:
            self._check_mix()
            self._checked_bilm = weakref.ref(bilm)
            check_bilm(self)
        return bilm

    def _load(self) -> BiLM:
        if names_loader(self._get_pipeline(), self.name):
            raise ValueError(
                f"The component '{self.name}' has no weights, but [initialize.components.{self.name}.loader] defines a "
                f"loader that was not called. Load the weights with `nlp.get_pipe('{self.name}').load_weights(path)`; "
                f"in an untrained pipeline, `nlp.initialize()` calls the loader. If '{self.name}' is in "
                "`frozen_components` or `disabled`, remove it there: spaCy does not initialize such components, and "
                "`frozen = true` in its model already freezes the biLM."
            )
        if self._loader is None:
            bilm = ensure_bilm(self.model)
            self._fit(bilm, ())
            return bilm
        bilm = self._take(self._loader())
        if self.weights in PACKAGED_NAMES:
            get_shim(self.model).set_packaged(self.weights)
        return bilm

    def _take(self, bilm: BiLM, *, initialized: Sequence[str] = ()) -> BiLM:
        """Replace the biLM. Listeners of components that are `initialized` afterwards may have any sizes."""
        before = get_bilm(self.model)
        self._record_bilm()
        set_bilm(self.model, bilm)
        try:
            self._fit(bilm, [name for name in self.listener_map if name not in initialized])
        except ValueError:
            if before is not None:
                set_bilm(self.model, before)
            raise
        return bilm

    def _fit(self, bilm: BiLM, names: Iterable[str]) -> None:
        """RAISES (ValueError): EL068 if a listener of these components has other sizes; see `_check_mix`."""
        self._check_mix()
        for listener in chain.from_iterable(self.listener_map[name] for name in names):
            listener.set_sizes(bilm.config.n_layers + 1, bilm.config.output_width)
        check_language(self.name, bilm.meta.get("lang"), self.vocab.lang)

    def _check_mix(self) -> None:
        """RAISES (ValueError): If the component's mix has not one weight for each layer."""
        check_count(f"mix.initial_weights of '{self.name}'", self.mix["initial_weights"], self.model.get_dim("nL"))

    # Listeners, with the methods and attributes that spaCy requires of a Tok2Vec

    @property
    def listeners(self) -> List[ElmoListener]:
        """RETURNS (List[ElmoListener]): All listeners, grouped by component."""
        return [listener for listeners in self.listener_map.values() for listener in listeners]

    @property
    def listening_components(self) -> List[str]:
        """RETURNS (List[str]): Names of the components that listen."""
        return list(self.listener_map)

    def add_listener(self, listener: ElmoListener, component_name: str) -> None:
        """Register a listener of a component."""
        listeners = self.listener_map.setdefault(component_name, [])
        if listener not in listeners:
            listeners.append(listener)
        listener.link(self, component_name)

    def remove_listener(self, listener: ElmoListener, component_name: str) -> bool:
        """RETURNS (bool): Whether it was registered."""
        listeners = self.listener_map.get(component_name, [])
        if listener not in listeners:
            return False
        # A new list, since `Language.replace_listeners` removes listeners while it iterates over the old one.
        self.listener_map[component_name] = [other for other in listeners if other is not listener]
        if not self.listener_map[component_name]:
            del self.listener_map[component_name]
        return True

    def find_listeners(self, component: Any) -> None:
        """component (Any): A component downstream; its listeners are added if their upstream is this component.
        RAISES (ValueError): If it is an ELMo component with the same prefix.
        """
        nlp = self._get_pipeline()
        if nlp is not None and all(pipe is not component for _, pipe in nlp.components):
            self._nlp = None  # the pipeline that this component has as its `source`
        if isinstance(component, ElmoComponent) and component.prefix == self.prefix:
            raise ValueError(
                f"The ELMo components '{self.name}' and '{component.name}' have the same prefix '{self.prefix}', so "
                f"'{component.name}' would overwrite the vectors that the listeners of '{self.name}' read. Remove "
                f"'{component.name}' and add it again with another prefix in its config."
            )
        for listener in find_listeners(component):
            if listener.upstream_name in (ANY_UPSTREAM, self.name):
                self.add_listener(listener, component.name)
                infer_residual_widths(component.model)
            self._checked_bilm = None  # later, since an ELMo component that is nearer may take the listeners over

    def _link_enabled(self) -> None:
        """Link components that have been enabled since spaCy linked the listeners."""
        nlp = self._get_pipeline()
        if nlp is None or nlp.pipe_names == self._linked_names:
            return
        new = [pipe for _, pipe in nlp.pipeline if not all(listener.is_linked for listener in find_listeners(pipe))]
        for i, (_, pipe) in enumerate(nlp.pipeline):
            if isinstance(pipe, ElmoComponent):
                pipe._linked_names = list(nlp.pipe_names)
                for _, other in nlp.pipeline[i + 1 :]:
                    if other in new:
                        pipe.find_listeners(other)

    def _record_bilm(self) -> None:
        """Store the label of the biLM in the listeners that were trained with it, also in disabled components.
        Called before the biLM is replaced.
        """
        nlp = self._get_pipeline()
        pipes = [] if nlp is None else [pipe for _, pipe in nlp.components]
        linked = (listener for pipe in pipes for listener in find_listeners(pipe) if listener.upstream is self)
        for listener in chain(self.listeners, linked):
            listener.record_bilm()

    # Prediction

    def pack(self) -> None:
        """Derive everything from the weights that forked workers can share."""
        self.ensure_bilm().pack(get_settings(self.model).state)

    def predict(self, docs: Iterable[Doc]) -> List[DocVectors]:
        """From texts to vectors, in this order:

        1. `_link_enabled`, `ensure_bilm`: listeners are linked, and weights loaded, at first use.
        2. `model.read_docs`: the tokens of each Doc, without white space, as sequences (sentences, or windows of long
           Docs).
        3. `BiLM.iter_encode` (`inference/encoder.py`), in slices of `batch_tokens`: distinct words to characters to
           vectors, layer 0 (`inference/word_encoder.py`); sequences, packed in lanes, through the encoder, layers 1 to
           L (`inference/runner.py`).
        4. `model.iter_doc_layers`: rows of the sequences, (L+1, n, D), to the tokens of their Doc.
        5. `vector_record.write_rows`: layers, and their mix by eq. 1 (`mix.mix_layers`), into the arrays of the Doc.

        `set_annotations` stores the arrays on the Doc, where `doc._.elmo` and listeners read them.

        RETURNS (List[DocVectors]): The vectors of each Doc, in separate arrays.
        """
        docs = list(docs)
        self._link_enabled()
        bilm = self.ensure_bilm()
        doc_sequences = read_docs(docs, get_settings(self.model))
        vectors = [self._alloc(len(doc)) for doc in docs]
        for i, rows, layers in iter_doc_layers(self.model, bilm, doc_sequences):
            write_rows(vectors[i], rows, layers)
        return vectors

    def _alloc(self, n_tokens: int) -> DocVectors:
        """RETURNS (DocVectors): Arrays of zeros for a Doc, and the mix."""
        xp, (mixture_size, width) = self.model.ops.xp, (self.model.get_dim("nL"), self.model.get_dim("nO"))
        has_mixed = self.store != "layers" or self.set_vectors
        has_layers = self.store != "mixed" or bool(self.listener_map)
        return DocVectors(
            mixed=xp.zeros((n_tokens, width), dtype=self.dtype) if has_mixed else None,
            layers=xp.zeros((mixture_size, n_tokens, width), dtype=self.dtype) if has_layers else None,
            weights=fill_weights(self.mix["initial_weights"], mixture_size),
            gamma=float(self.mix["initial_gamma"]),
            norm=self.mix["layer_norm"],
            averages_merged=self.average_merged,
            sets_hooks=self.set_vectors,
        )

    def compute(self, docs: Sequence[Doc], *, is_train: bool) -> ElmoBatch:
        """Compute layers for a listener that got Docs without them.

        is_train (bool): Whether the listener is trained; a biLM that is not trained then caches the layers for later
            epochs.
        RETURNS (ElmoBatch): Their layers, without a backward pass.
        """
        self.ensure_bilm()
        batch: ElmoBatch = self.model(list(docs), is_train and not get_shim(self.model).is_trained)[0]
        return batch

    def set_annotations(self, docs: Iterable[Doc], scores: Sequence[DocVectors]) -> None:
        """Store the vectors from `predict` on the Docs."""
        for doc, vectors in zip(docs, scores):
            mixed = None if self.store == "layers" else vectors.mixed
            set_vectors(doc, self.prefix, vectors._replace(mixed=mixed))
            if self.set_vectors:
                doc.tensor = read_only(vectors.mixed)
                set_vector_hooks(doc, self.prefix)

    # Training

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Optional[Language] = None,
        loader: Optional[Callable[[], Any]] = None,
    ) -> None:
        """Load weights, and set the sizes of the listeners.

        get_examples (Callable[[], Iterable[Example]]): Called with `nlp` only, to check that there is a token.
        nlp (Optional[Language]): The pipeline, if all of it is initialized.
        loader (Optional[Callable[[], Any]]): Returns the biLM, see `spacy-elmo.BiLMLoader.v1`. Without it, existing
            weights are kept, and an empty component loads the biLM in the setting `weights`, or the packaged one.
        RAISES (ValueError): If the loader does not return a biLM, if its sizes differ from the config,
            EL068 if a listener that stays trained has other sizes, EL083 if a frozen component was trained with
            another biLM (if it is trained further), and with `nlp` the errors of `check_weights`.
        """
        if nlp is not None:
            self.set_pipeline(nlp)
            for name in set(nlp.pipe_names).intersection(self.listener_map):  # initialized below, in their components
                for listener in self.listener_map[name]:
                    listener.attrs[BILM_ATTR] = UNTRAINED
            check_examples_have_words(get_examples, nlp, self.name)
            check_weights(nlp, self, has_loader=loader is not None)
        if loader is not None:
            self._take(loader(), initialized=() if nlp is None else nlp.pipe_names)
        if self.sizes is None:
            self._load()
        get_shim(self.model).begin_training()
        for listener in self.listeners:
            listener.link(self)
        check_frozen(nlp, self)
        check_schedules(nlp, self)
        self._has_warned = nlp is not None and not self.listener_map and check_listeners(nlp, self.name)
        if nlp is None:
            self.ensure_bilm()

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optional[Optimizer] = None,
        losses: Optional[Dict[str, float]] = None,
    ) -> Dict[str, float]:
        """Compute the layers of a training batch and pass them to the listeners. If the biLM is trained, they return
        gradients.

        drop (float): Dropout; the biLM has none.
        sgd (Optional[Optimizer]): Updates the weights when the last listener has returned its gradient.
        losses (Optional[Dict[str, float]]): The squared gradient of the layers is added under the component's name.
        """
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, "ElmoComponent.update")
        self._link_enabled()
        self.ensure_bilm()
        nlp = self._get_pipeline()
        if nlp is not None and not self._has_warned and not self.listener_map:
            self._has_warned = check_listeners(nlp, self.name)
        if self._gradient is not None:
            self._gradient.complete()
        docs = [eg.predicted for eg in examples]
        set_dropout_rate(self.model, drop)
        batch, backprop = self.model.begin_update(docs)
        gradient = None
        if get_shim(self.model).is_trained:  # the backward pass of a frozen biLM would only keep memory
            awaited = {listener.id for listener in self.listeners}
            gradient = LayersGradient(self.model, backprop, awaited, losses, self.name, sgd)
        batch_id = ElmoListener.get_batch_id(docs)
        for listener in self.listeners:
            listener.receive(batch_id, batch, None if gradient is None else partial(gradient.add, listener.id))
        self._gradient = gradient
        return losses

    def finish_update(self, sgd: Optimizer) -> None:
        """sgd (Optimizer): Updates the weights with the gradients of the listeners, see `LayersGradient`."""
        (self._gradient or self.model).finish_update(sgd)

    # Saving: a component without weights loads the packaged biLM first

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """RETURNS (bytes): The component, weights included."""
        self.ensure_bilm()
        data: bytes = super().to_bytes(exclude=exclude)
        return data

    def to_disk(self, path: Any, *, exclude: Iterable[str] = ()) -> None:
        """path (Union[str, Path]): The folder to write."""
        self.ensure_bilm()
        super().to_disk(path, exclude=exclude)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "ElmoComponent":
        """bytes_data (bytes): From `to_bytes`."""
        self._record_bilm()
        super().from_bytes(bytes_data, exclude=exclude)
        return self

    def from_disk(self, path: Any, *, exclude: Iterable[str] = ()) -> "ElmoComponent":
        """RAISES (ValueError): If the weights are damaged or do not fit the config; FileNotFoundError without them."""
        self._record_bilm()
        try:
            super().from_disk(path, exclude=exclude)
        except (ValueError, FileNotFoundError) as error:
            kind = FileNotFoundError if isinstance(error, FileNotFoundError) else ValueError
            raise kind(f"The component '{self.name}' cannot be read from '{path}': {error}") from error
        return self

    def __reduce__(self) -> Tuple[Any, ...]:
        self.ensure_bilm()
        state = {
            name: value
            for name, value in self.__dict__.items()
            if name not in ("_gradient", "_nlp", "_linked_names", "_checked_bilm")
        }
        to_worker = get_spawning_popen() is not None  # this pickle is for a process that is being spawned
        if to_worker:
            _load_encoders_once()
        return _restore_component, (type(self), self.vocab, self.model, self.name, self.cfg, state, to_worker)


def _restore_component(
    cls: Type[ElmoComponent],
    vocab: Vocab,
    model: Any,
    name: str,
    cfg: Dict[str, Any],
    state: Dict[str, Any],
    is_in_worker: bool = False,
) -> ElmoComponent:
    if is_in_worker:  # Python has not yet set the state of a worker process
        torch.set_num_threads(1)  # as in forked workers, not as many as the machine has cores
        _load_encoders_once()
    elmo = cls(vocab, model, name, prefix=state["prefix"])
    elmo.cfg = cfg
    elmo.__dict__.update(state)
    for listener in elmo.listeners:
        listener.link(elmo)
    return elmo


# Workers of `nlp.pipe(n_process=2)`: spaCy does not notify components of a fork, and each worker would load and prepack
# the weights.

_components: "weakref.WeakSet[ElmoComponent]" = weakref.WeakSet()


@cache
def _register_before_fork() -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before_fork)


def _before_fork() -> None:
    for component in list(_components):
        try:
            component.pack()
        except Exception:  # a component without weights raises an error when it is used; the fork must not fail
            continue
    if len(_components):
        _load_encoders_once()


def _load_encoders_once() -> None:
    """Make srsly look up the entry points of its msgpack encoders once, not for every field of a Doc.

    To send a Doc with user data to a worker and back takes six such searches of 0.2 ms each, as much time as ELMo needs
    for a short sentence. Encoders that are registered later by a decorator are still found.
    """
    for registry in (srsly.msgpack_encoders, srsly.msgpack_decoders):
        if registry.entry_points:
            for name, function in registry.get_entry_points().items():
                registry.register(name, func=function)
            registry.entry_points = False


def find_models(nlp: Language) -> Iterator[Tuple[str, Model[List[Doc], ElmoBatch]]]:
    """YIELDS (Tuple[str, Model]): Each model of a biLM and the name of its component, in the order of the pipeline."""
    for name, pipe in nlp.components:
        model = getattr(pipe, "model", None)
        if isinstance(model, Model):
            yield from ((name, node) for node in model.walk() if node.name == MODEL_NAME)


def find_model(nlp: Language) -> Optional[Model[List[Doc], ElmoBatch]]:
    """RETURNS (Optional[Model]): The model of the first component `elmo`, with its weights; otherwise of the first
    component with a biLM of its own (after `nlp.replace_listeners`, or with an ElmoTok2Vec); None if there is none.
    """
    for _, pipe in nlp.components:
        if isinstance(pipe, ElmoComponent):
            pipe.ensure_bilm()
            return pipe.model
    return next((model for _, model in find_models(nlp)), None)
