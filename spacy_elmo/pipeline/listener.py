"""The listener: the layer of a task's model that gets the layers of the shared biLM and mixes them for the task.

It follows the protocol of spaCy's `Tok2VecListener`: in training the ELMo component passes it the layers of the batch,
at prediction it reads them from the Docs. If a Doc has none, the component computes them: `nlp.rehearse`, `debug model`
and the entity linker pass Docs that no ELMo component has processed.

`Language.replace_listeners` replaces it by `spacy-elmo.ElmoTok2Vec.v1`: a copy of the biLM with the trained mix.
"""

import copy
import warnings
import weakref
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import numpy
from spacy.attrs import ORTH
from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d, Floats3d

from ..errors import Errors, Warnings
from .doc_vectors import get_boundary_sums, get_layers, has_layers
from .mix import (
    BoundarySums,
    ElmoBatch,
    LayersWithBoundaries,
    MixSettings,
    ScalarMix,
    add_boundary_sums,
    boundaries_without_gradient,
    check_width,
    get_mix_settings,
    set_sizes,
    wrong_sizes,
)
from .settings import LayerNorm, Mix

ANY_UPSTREAM = "*"  # the nearest ELMo component upstream
TRAINED_WITH = "bilm"  # Thinc attribute of a listener
EARLIER = "an earlier state of it"  # label of a biLM that was trained further, without the listener
N_TOLERATED = 10  # updates of the biLM that a listener may miss, as in training with one task after the other
# Takes the gradient of the layers; None if the biLM is frozen.
LayersBackprop = Optional[Callable[[Floats3d], None]]
Backprop = Callable[[List[Floats2d]], List[Doc]]
MixInput = Union[Floats3d, LayersWithBoundaries]


class ElmoListener(Model[List[Doc], List[Floats2d]]):
    """Mixes the layers computed by an ELMo component upstream.

    The attribute "bilm" says which biLM it was trained with. It is saved with the component, and empty before the first
    update, and in a pipeline of an earlier version. A biLM that is trained too changes with each update: until the
    component upstream is saved, the listener remembers the number of the update (`last_update`) instead.

    upstream_name (str): Name of the component to listen to, "*" for the nearest one upstream.
    settings (MixSettings): The task's own mix.
    """

    name = "elmo-listener"
    _batch_id: Optional[int]
    _outputs: Optional[ElmoBatch]
    _backprop: LayersBackprop
    _is_answered: bool
    last_update: Optional[int]

    def __init__(self, upstream_name: str, settings: MixSettings) -> None:
        super().__init__(
            self.name, forward, init=init, dims={"nO": settings.projection_width}, layers=[ScalarMix(settings)]
        )
        self.upstream_name = upstream_name
        self.prefix = "elmo"
        self.owner = ""  # name of the component with this listener
        self._upstream: Optional[weakref.ReferenceType[Any]] = None
        self._sample: Any = None
        self.forget_training()
        self.forget_batch()

    @property
    def mix(self) -> Model[Floats3d, Floats2d]:
        """RETURNS (Model[Floats3d, Floats2d]): The layer mix of this task."""
        return self.layers[0]

    @property
    def is_initialized(self) -> bool:
        """RETURNS (bool): Whether its mix has values: initial or trained ones."""
        return bool(self.mix.has_param("w"))

    @property
    def upstream(self) -> Any:
        """RETURNS (Optional[Elmo]): The component it listens to, None if it is not linked."""
        return None if self._upstream is None else self._upstream()

    @property
    def is_linked(self) -> bool:
        """RETURNS (bool): Whether it listens to a component that knows of it, or it is a copy of such a listener."""
        return self.upstream is not None and self.owner in self.upstream.listener_map

    def link(self, upstream: Any, component_name: str) -> None:
        """Listen to a component; a listener with "*" stops listening to the previous one."""
        if self.upstream is not None and self.upstream is not upstream:
            self.upstream.remove_listener(self, component_name)
            self.settle_bilm()
        self._upstream = weakref.ref(upstream)
        self.prefix, self.owner = upstream.prefix, component_name or self.owner
        # Sizes of a trained listener are kept; they are checked when vectors arrive.
        if upstream.sizes is not None and not self.is_initialized:
            self.set_sizes(*upstream.sizes)

    def set_sizes(self, n_layers: int, width: int) -> None:
        """Set the number of layers, L+1, and their width D. ValueError EL068 if the mix has other sizes; for another
        number of initial weights.
        """
        set_sizes(self.mix, n_layers, width, owner=self.owner)
        self.set_dim("nO", self.mix.get_dim("nO"), force=True)

    def check_sizes(self) -> None:
        """RAISES (ValueError): EL068 if the mix was trained for other sizes than those of the biLM upstream."""
        sizes = None if self.upstream is None else self.upstream.sizes
        known = (self.mix.maybe_get_dim("nL"), self.mix.maybe_get_dim("nI"))
        if sizes is not None and self.is_initialized and known != sizes:
            raise wrong_sizes(self.owner, known, sizes)
        if self.is_initialized:
            check_width(self.mix, self.owner)

    # Which biLM it was trained with

    @property
    def trained_with(self) -> str:
        """RETURNS (str): Label of the biLM of the last update, see `TorchBiLM.label`; empty if it is not known."""
        label: str = self.attrs[TRAINED_WITH]
        return label

    @property
    def is_behind(self) -> bool:
        """RETURNS (bool): Whether the biLM was trained further without this listener, after its last gradient."""
        if self.last_update is None or self.upstream is None:
            return False
        return bool(self.upstream.n_updates - self.last_update > N_TOLERATED + 1)

    def follow(self, label: str) -> None:
        """The biLM with this label may be trained: if this listener was trained with it, count its updates from now."""
        if self.last_update is None and self.trained_with and not self.has_other_bilm(label):
            self.last_update = self.upstream.n_updates

    def note_update(self, is_bilm_trained: bool) -> None:
        """Remember the biLM of an update. If the update changes it too, its label is not known before the end."""
        self.last_update, self.warned_of = None, ""
        if is_bilm_trained:
            self.last_update = self.upstream.n_updates
        self.attrs[TRAINED_WITH] = "" if is_bilm_trained or self.upstream is None else self.upstream.bilm_label

    def label_bilm(self) -> None:
        """Before saving: store the label of the biLM upstream, if it is trained with this listener."""
        if self.last_update is not None and self.upstream is not None:
            self.attrs[TRAINED_WITH] = EARLIER if self.is_behind else self.upstream.bilm_label

    def settle_bilm(self) -> None:
        """Keep the label of the biLM upstream from now on, since another biLM follows."""
        self.label_bilm()
        self.last_update = None

    def has_other_bilm(self, label: str) -> bool:
        """Whether the biLM upstream, with this label, is known to be another one than that of the last update."""
        if self.last_update is not None:
            return self.is_behind
        return bool(label and self.trained_with) and label.split()[0] != self.trained_with.split()[0]

    def forget_training(self) -> None:
        """Forget the biLM of earlier updates: the values are initial ones."""
        self.attrs[TRAINED_WITH] = ""
        self.last_update = None
        self.warned_of = ""  # what a warning of another biLM was about

    # The training batch

    @classmethod
    def get_batch_id(cls, docs: Iterable[Doc]) -> int:
        """RETURNS (int): A checksum of the words of a batch, to detect changed ones."""
        return sum(sum(token.orth for token in doc) for doc in docs)

    def receive(self, docs: Sequence[Doc], outputs: ElmoBatch, backprop: LayersBackprop) -> None:
        """Store the layers of a training batch; `backprop` takes their gradient, None if the biLM is frozen."""
        self._docs, self._batch_id = _with_tokens(docs), self.get_batch_id(docs)
        self._outputs, self._backprop = outputs, backprop
        self._is_answered = False

    def forget_batch(self) -> None:
        """Release the last training batch."""
        self._docs, self._batch_id, self._outputs, self._backprop = [], None, None, None
        self._is_answered = True

    def received(self, docs: Sequence[Doc]) -> Optional[ElmoBatch]:
        """The stored layers, if the Docs are those of the batch or copies of them, in the same order; otherwise None.
        Docs without tokens, which have no rows in the layers, may be left out.

        Copies are recognized by their words, and only until the gradient is returned, since later Docs may have the
        same words.
        RAISES (ValueError): If the tokens of the Docs have changed since.
        """
        docs = _with_tokens(docs)
        if self._outputs is None or len(docs) != len(self._docs):
            return None
        is_changed = self.get_batch_id(docs) != self._batch_id
        if all(doc is other for doc, other in zip(docs, self._docs)):
            if is_changed:
                raise ValueError(
                    "The tokens of a training batch have changed since the ELMo component computed its layers "
                    f"(batch {self.get_batch_id(docs)}, expected {self._batch_id}). Move components that change "
                    "tokens before the ELMo component."
                )
            return self._outputs
        is_copy = (
            not self._is_answered
            and not is_changed
            and all(
                doc is other or numpy.array_equal(doc.to_array(ORTH), other.to_array(ORTH))
                for doc, other in zip(docs, self._docs)
            )
        )
        return self._outputs if is_copy else None

    def __getstate__(self) -> Dict[str, Any]:
        """State for pickling, without the batch and the component, but with the prefix of the vectors on a Doc."""
        slots = {name: getattr(self, name) for name in Model.__slots__ if hasattr(self, name)}
        lost = ("_upstream", "_sample", "_docs", "_batch_id", "_outputs", "_backprop", "_is_answered", "last_update")
        return {**slots, **{name: value for name, value in self.__dict__.items() if name not in lost}}

    def __deepcopy__(self, memo: Dict[int, Any]) -> "ElmoListener":
        """Copies listen to the same component; spaCy copies models for `nlp.rehearse`."""
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        copied.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        copied._upstream = self._upstream
        return copied

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.last_update, self.warned_of, self.owner = None, "", ""
        for name, value in state.items():
            setattr(self, name, value)
        self.attrs.setdefault(TRAINED_WITH, "")
        self._upstream, self._sample = None, None
        self.forget_batch()


def build_listener(
    upstream: str = ANY_UPSTREAM,
    initial_weights: Optional[List[float]] = None,
    learn_weights: bool = True,
    initial_gamma: float = 1.0,
    learn_gamma: bool = True,
    layer_dropout: float = 0.0,
    weights_l2: float = 0.0,
    layer_norm: Optional[LayerNorm] = None,
    output_dropout: float = 0.0,
    projection_width: Optional[int] = None,
    mix: Mix = "learned",
) -> Model[List[Doc], List[Floats2d]]:
    """The layers of the biLM with a mix of this component's own: Peters et al. (2018), eq. 1. A `tok2vec` layer.

    The width is that of the biLM, or `projection_width`; it is known when the listener is linked to a component with
    weights.
    upstream (str): Name of the ELMo component; "*" for the nearest one upstream.
    The other settings are those of the mix, see `MixSettings`.
    RETURNS (Model[List[Doc], List[Floats2d]]): The listener.
    RAISES (ValueError): For invalid settings.
    """
    settings = MixSettings(
        initial_weights=initial_weights,
        learn_weights=learn_weights,
        initial_gamma=initial_gamma,
        learn_gamma=learn_gamma,
        layer_dropout=layer_dropout,
        weights_l2=weights_l2,
        layer_norm=layer_norm,
        output_dropout=output_dropout,
        projection_width=projection_width,
        mix=mix,
    )
    return ElmoListener(upstream, settings)


def init(model: ElmoListener, X: Any = None, Y: Any = None) -> None:
    """Take the sizes from upstream and set the initial values of the mix. ValueError EL071 without an upstream."""
    model._sample = X  # Thinc infers the sizes of other layers from predictions on it, before upstream has run
    if model.upstream is not None:
        model.upstream.fill()
        if model.upstream.sizes is not None:
            model.mix.set_param("w", None)  # initialized again, possibly with other sizes
            model.set_sizes(*model.upstream.sizes)
    if not model.has_dim("nO") or not model.mix.has_dim("nL"):
        raise ValueError(Errors.EL071.format(listener=_describe(model)))
    model.mix.initialize()
    model.forget_training()


def forward(model: ElmoListener, docs: Sequence[Doc], is_train: bool) -> Tuple[List[Floats2d], Backprop]:
    """Map Docs to arrays (n, D). In training they are the received batch, or have annotations of a frozen component.

    RAISES (ValueError): EL098 if the component of the listener is not initialized.
    """
    if not model.is_initialized:
        raise not_initialized(model.owner or model.name)
    lengths = [len(doc) for doc in docs]
    find_layers = _training_layers if is_train else _doc_layers
    layers, backprop_layers = find_layers(model, docs)
    outputs, backprop_mix = _mix_docs(model.mix, layers, lengths, is_train, backprop_layers)

    def backprop(d_outputs: List[Floats2d]) -> List[Doc]:
        model._is_answered = True
        model.note_update(backprop_layers is not None)
        return backprop_mix(d_outputs)

    return outputs, backprop


def _mix_docs(
    mix: Model[Any, Any],
    layers: MixInput,
    lengths: Sequence[int],
    is_train: bool,
    backprop_layers: Optional[Callable[[Floats3d], Any]],
) -> Tuple[List[Floats2d], Backprop]:
    """Mix the layers of Docs to an array (n, D) for each; `backprop_layers` takes their gradient, None if the biLM is
    frozen.
    """
    mixed, backprop_mix = mix(layers, is_train)

    def backprop(d_outputs: List[Floats2d]) -> List[Doc]:
        d_layers = backprop_mix(mix.ops.flatten(list(d_outputs)), backprop_layers is not None)
        if backprop_layers is not None and d_layers is not None:
            backprop_layers(d_layers)
        return []

    return mix.ops.unflatten(mixed, mix.ops.asarray1i(lengths)), backprop


def _training_layers(model: ElmoListener, docs: Sequence[Doc]) -> Tuple[MixInput, LayersBackprop]:
    """The received layers; for other Docs, without a gradient, layers stored on them or computed by the component."""
    outputs = model.received(docs)
    if outputs is not None:
        _check_sizes(model, outputs.layers)
        return _with_boundaries(model, outputs.layers, [outputs.boundaries]), model._backprop
    batch = {id(doc) for doc in model._docs}
    if model._backprop is not None and not model._is_answered and any(id(doc) in batch for doc in docs):
        raise ValueError(
            f"{_describe(model)} got some Docs of the training batch, or all in another order, so that their gradient "
            "would not reach the biLM, which is trained too (frozen = false). Pass the Docs of the batch as they are, "
            "or copies with the same tokens, or set frozen = true."
        )
    # One that spaCy has not linked comes before its ELMo component: once trained, saved and loaded it would have none.
    if not model.is_linked and not all(has_layers(doc, model.prefix) for doc in docs if len(doc)):
        raise ValueError(Errors.EL071.format(listener=_describe(model)))
    model.forget_batch()  # received when the component was trained or active
    return _doc_layers(model, docs, is_train=True)


def _doc_layers(model: ElmoListener, docs: Sequence[Doc], is_train: bool = False) -> Tuple[MixInput, None]:
    """RETURNS (Tuple[MixInput, None]): Layers stored on the Docs, or computed by the component."""
    bounds = numpy.cumsum([0, *(len(doc) for doc in docs)]).tolist()
    layers = model.ops.alloc3f(model.mix.get_dim("nL"), bounds[-1], model.mix.get_dim("nI"))
    missing: List[int] = []
    boundaries: List[Optional[BoundarySums]] = []
    for i, (doc, start, end) in enumerate(zip(docs, bounds, bounds[1:])):
        if has_layers(doc, model.prefix):
            found = get_layers(doc, model.prefix, 0, len(doc))
            _check_sizes(model, found)
            layers[:, start:end] = model.ops.asarray(found)
            boundaries.append(get_boundary_sums(doc, model.prefix))
        elif len(doc):
            missing.append(i)
    if missing and docs is not model._sample:
        batch = _ask_upstream(model, [docs[i] for i in missing], is_train)
        if batch is not None:
            places = numpy.concatenate([numpy.arange(bounds[i], bounds[i + 1]) for i in missing])
            layers[:, model.ops.xp.asarray(places)] = batch.layers
            boundaries.append(batch.boundaries)
    return _with_boundaries(model, layers, boundaries), None


def _ask_upstream(model: ElmoListener, docs: Sequence[Doc], is_train: bool) -> Optional[ElmoBatch]:
    """RETURNS (Optional[ElmoBatch]): Layers of Docs without stored ones; None, with a warning, without a component."""
    if model.upstream is None:
        warnings.warn(Warnings.WL060.format(listener=_describe(model), n_docs=len(docs)), stacklevel=2)
        return None
    batch: ElmoBatch = model.upstream.compute(docs, is_train=is_train)
    _check_sizes(model, batch.layers)
    return batch


def _describe(model: ElmoListener) -> str:
    owner = f" of '{model.owner}'" if model.owner else ""
    return f"The ELMo listener{owner} (upstream = '{model.upstream_name}')"


def not_initialized(name: str) -> ValueError:
    """EL098, as spaCy's E109, for a component, or a layer of it, with a mix that has no weights."""
    return ValueError(Errors.EL098.format(name=name))


def _with_boundaries(model: ElmoListener, layers: Floats3d, boundaries: Sequence[Optional[BoundarySums]]) -> MixInput:
    """RETURNS (MixInput): The layers, with the sums of the boundaries if the norm of this task includes them."""
    if not settings_of(model).needs_boundaries:
        return layers
    known = [part for part in boundaries if part is not None]
    if len(known) < len(boundaries):
        raise ValueError(
            f"layer_norm is \"allennlp\" in a listener (upstream = '{model.upstream_name}'), but some Docs have "
            "no vectors of BOS and EOS, which this norm includes: these Docs were cut, joined, or processed by "
            "a component without such a listener. Process them with the ELMo component of this pipeline."
        )
    return LayersWithBoundaries(layers, add_boundary_sums(known, len(layers)))


def _check_sizes(model: ElmoListener, layers: Floats3d) -> None:
    wanted = (model.mix.get_dim("nL"), model.mix.get_dim("nI"))
    found = (layers.shape[0], layers.shape[2])
    if wanted != found:
        raise wrong_sizes(model.owner, wanted, found)


def _with_tokens(docs: Sequence[Doc]) -> List[Doc]:
    return [doc for doc in docs if len(doc)]


def get_listeners(model: Model[Any, Any]) -> List[ElmoListener]:
    """RETURNS (List[ElmoListener]): The listeners inside a component's model."""
    return [node for node in model.walk() if isinstance(node, ElmoListener)]


def find_listeners(component: Any) -> List[ElmoListener]:
    """RETURNS (List[ElmoListener]): The listeners of a component, none without a model."""
    model = getattr(component, "model", None)
    return get_listeners(model) if isinstance(model, Model) else []


def settings_of(listener: ElmoListener) -> MixSettings:
    """RETURNS (MixSettings): The mix settings of a listener."""
    return get_mix_settings(listener.mix)


LISTENER = "spacy-elmo.ElmoListener.v1"
OWNED = "spacy-elmo.ElmoTok2Vec.v1"
TOK2VEC = "model.tok2vec"  # the block that spaCy passes
NO_MIX_SETTINGS = ("@architectures", "upstream", "elmo")


def ElmoTok2Vec(
    elmo: Model[List[Doc], ElmoBatch],
    initial_weights: Optional[List[float]] = None,
    learn_weights: bool = True,
    initial_gamma: float = 1.0,
    learn_gamma: bool = True,
    layer_dropout: float = 0.0,
    weights_l2: float = 0.0,
    layer_norm: Optional[LayerNorm] = None,
    output_dropout: float = 0.0,
    projection_width: Optional[int] = None,
    mix: Mix = "learned",
) -> Model[List[Doc], List[Floats2d]]:
    """Create a layer with its own biLM and layer mix.

    elmo (Model[List[Doc], ElmoBatch]): The biLM, created by `spacy-elmo.ElmoModel.v1`. It loads the packaged weights at
        `initialize` if it has none.
    The other settings are those of the mix, see `MixSettings`.
    RETURNS (Model[List[Doc], List[Floats2d]]): A `tok2vec` layer.
    RAISES (ValueError): For invalid settings.
    """
    settings = MixSettings(
        initial_weights=initial_weights,
        learn_weights=learn_weights,
        initial_gamma=initial_gamma,
        learn_gamma=learn_gamma,
        layer_dropout=layer_dropout,
        weights_l2=weights_l2,
        layer_norm=layer_norm,
        output_dropout=output_dropout,
        projection_width=projection_width,
        mix=mix,
    )
    return join_mix(elmo, ScalarMix(settings))


def join_mix(elmo: Model[List[Doc], ElmoBatch], mix: Model[Any, Any]) -> Model[List[Doc], List[Floats2d]]:
    """Join a biLM and a `ScalarMix`, trained or not, to one layer.

    RAISES (ValueError): For a norm that includes BOS and EOS with a biLM that is trained.
    """
    if get_mix_settings(mix).needs_boundaries and not elmo.attrs["settings"].frozen:
        raise boundaries_without_gradient()
    dims = {"nO": mix.maybe_get_dim("nO")}
    return Model("elmo_tok2vec", forward_tok2vec, init=init_tok2vec, dims=dims, layers=[elmo, mix])


def init_tok2vec(model: Model[List[Doc], List[Floats2d]], X: Any = None, Y: Any = None) -> None:
    """Load the packaged weights if there are none, and set the initial values of the mix."""
    elmo, mix = model.layers
    elmo.initialize()
    set_sizes(mix, elmo.get_dim("nL"), elmo.get_dim("nO"))
    mix.initialize()
    model.set_dim("nO", mix.get_dim("nO"))


def forward_tok2vec(
    model: Model[List[Doc], List[Floats2d]], docs: List[Doc], is_train: bool
) -> Tuple[List[Floats2d], Backprop]:
    """Map Docs to one array (n, D) each. ValueError EL098 if the layer is not initialized."""
    elmo, mix = model.layers
    if not mix.has_param("w"):
        raise not_initialized(model.name)
    batch, backprop_elmo = elmo(docs, is_train)
    layers: Any = batch.layers
    if get_mix_settings(mix).needs_boundaries:
        boundaries = elmo.attrs["read_boundary_sums"](elmo, docs)
        layers = LayersWithBoundaries(layers, add_boundary_sums(boundaries, len(layers)))
    shim: Any = elmo.shims[0]
    return _mix_docs(mix, layers, batch.lengths, is_train, backprop_elmo if shim.is_trained else None)


def replace_listener(
    copied: Model[List[Doc], ElmoBatch], listener: ElmoListener, component: Any
) -> Model[List[Doc], List[Floats2d]]:
    """Hook of spaCy: create the layer that replaces a listener, from a copied biLM and the trained mix.

    RAISES (ValueError): If the config of the whole `tok2vec` was replaced, but the listener is only a part of it.
    """
    nlp = component._get_pipeline()
    if nlp is not None and listener.owner in nlp.component_names:  # its config is replaced already
        block = nlp.get_pipe_config(listener.owner)["model"]["tok2vec"]
        if isinstance(block, ReplacedListener) and TOK2VEC not in block.before:
            raise _wrong_path(block.before)
    if copied.has_dim("nO") is None:  # no weights yet: the component loads them
        component.fill()
        copied = component.model.copy()
    mix = listener.layers[0]
    set_sizes(mix, copied.get_dim("nL"), copied.get_dim("nO"))
    return join_mix(copied, mix)


class ReplacedListener(Dict[str, Any]):
    """Config of an `ElmoTok2Vec` in place of a listener; `before` has the mix settings of all listeners by path."""

    before: Dict[str, Dict[str, Any]]


def replace_listener_cfg(elmo_cfg: Dict[str, Any], tok2vec_cfg: Dict[str, Any]) -> Dict[str, Any]:
    """Hook of spaCy: create the config of the layer that replaces a listener.

    spaCy calls it once for each path that it was given, and puts the result there. It passes the block `model.tok2vec`,
    which may contain several listeners, and not the path. So each call gives the settings of the first listener that is
    left, and corrects the results of earlier calls, whose paths are known by now.
    tok2vec_cfg (Dict[str, Any]): Config of the listener, or of a block that contains it.
    RETURNS (Dict[str, Any]): Config of an `ElmoTok2Vec`.
    RAISES (ValueError): If a path before was not that of a listener.
    """
    blocks = _find_blocks(tok2vec_cfg)
    replaced = {path: block for path, block in blocks.items() if isinstance(block, ReplacedListener)}
    before = next((block.before for block in replaced.values()), None) or find_listener_blocks(tok2vec_cfg)
    left = [path for path in before if path not in replaced]
    if not left or not before.keys() >= replaced.keys():
        raise _wrong_path(before)
    for path in replaced:
        replaced[path].update(before[path])
    config = ReplacedListener({"@architectures": OWNED, "elmo": dict(elmo_cfg), **before[left[0]]})
    config.before = before
    return config


def find_listener_blocks(tok2vec_cfg: Any) -> Dict[str, Dict[str, Any]]:
    """The mix settings of the listeners in a block `model.tok2vec` by dotted name, in the order of the config. A value
    may refer to a listener in the same block.
    """
    found: Dict[str, Dict[str, Any]] = {}
    blocks = _find_blocks(tok2vec_cfg)
    for path, block in blocks.items():
        target = block
        if isinstance(block, str):
            target = blocks.get(TOK2VEC + block.rstrip("}").partition(TOK2VEC)[2])
        if isinstance(target, dict) and target.get("@architectures") == LISTENER:
            found[path] = {name: value for name, value in target.items() if name not in NO_MIX_SETTINGS}
    return found


def _find_blocks(value: Any, path: str = TOK2VEC) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Blocks of listeners or of what replaced them, and references, by dotted name."""
    if not isinstance(value, dict):
        return {path: value} if isinstance(value, str) and value.startswith("${") else {}
    if isinstance(value, ReplacedListener) or value.get("@architectures") == LISTENER:
        return {path: value}
    parts = [_find_blocks(inner, f"{path}.{name}") for name, inner in value.items()]
    return {name: block for part in parts for name, block in part.items()}


def _wrong_path(listeners: Iterable[str]) -> ValueError:
    paths = ", ".join(listeners)
    return ValueError(f"replace_listeners names a path that is not a listener's. Name all listeners: {paths}.")
