"""The listener: the layer of a task that receives the layers of the shared biLM and mixes them for the task.

As spaCy's `Tok2VecListener`. In training the ELMo component passes the layers of each batch to it
(`receive`), and takes their gradient (`backprop`). At prediction it reads the layers of the Docs. If a Doc has none,
the component computes them: `nlp.rehearse`, `debug model` and the entity linker pass Docs that no ELMo component has
read.
"""

import copy
import dataclasses
import warnings
import weakref
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Set, Tuple

import numpy
import srsly
from spacy.attrs import ORTH
from spacy.tokens import Doc
from thinc.api import Model, Optimizer, deserialize_attr, serialize_attr
from thinc.types import Floats2d, Floats3d

from ..errors import Errors, Warnings
from ..settings import read_block, takes
from .doc_vectors import get_layers, has_layers
from .mix import ElmoBatch, MixSettings, ScalarMixLayer, check_initialized, check_sizes, check_width, set_sizes

ANY_UPSTREAM = "*"  # the nearest ELMo component upstream
BILM_ATTR = "bilm"  # Thinc attribute of a listener
BatchId = Tuple[int, ...]  # for each Doc with tokens, a hash of its words
# Takes the gradient of the layers; None if the biLM is frozen.
LayersBackprop = Optional[Callable[[Floats3d], None]]
VectorsBackprop = Callable[[List[Floats2d]], List[Doc]]


@dataclasses.dataclass(frozen=True)
class TrainedWith:
    """The biLM of the last update of a listener.

    label (str): See `ElmoComponent.bilm_label`; empty if the listener has only initial values, and in files without it.
    is_upstream (bool): It is the biLM that the component upstream has now, whose label is computed when the listener is
        saved.
    """

    label: str = ""
    is_upstream: bool = False


UNTRAINED, WITH_UPSTREAM = TrainedWith(), TrainedWith(is_upstream=True)


@dataclasses.dataclass
class LayersGradient:
    """The gradient of the layers of a training batch: the sum of what the listeners return.

    The last listener runs the backward pass of the biLM, as in spaCy's Tok2Vec. If one returns nothing (a frozen
    component, a batch without annotation), `finish_update` or `complete` run it.

    model (Model): The model of the biLM.
    backprop (Optional[Callable[[Floats3d], Any]]): Its backward pass; None when it has run.
    awaited (Set[int]): Ids of the listeners that have received the layers, but returned no gradient so far.
    losses (Dict[str, float]), name (str): The squared gradient is added under this name.
    optimizer (Optional[Optimizer]): Updates the weights after the backward pass; None until `finish_update`.
    """

    model: Model[Any, Any]
    backprop: Optional[Callable[[Floats3d], Any]]
    awaited: Set[int]
    losses: Dict[str, float]
    name: str
    optimizer: Optional[Optimizer] = None
    d_layers: Optional[Floats3d] = None

    def add(self, listener_id: int, d_layers: Floats3d) -> None:
        """d_layers (Floats3d): What a listener returns, shape (L+1, T, D)."""
        self.losses[self.name] += float((d_layers**2).sum())
        self.d_layers = d_layers if self.d_layers is None else self.d_layers + d_layers
        self.awaited.discard(listener_id)
        if not self.awaited:
            self.complete()

    def finish_update(self, optimizer: Optimizer) -> None:
        """Update the weights of the biLM: with the last listener if none has returned a gradient so far, since
        `nlp.update` with an optimizer calls this before it updates the components that listen; else now.
        """
        self.optimizer = optimizer
        if self.d_layers is not None or not self.awaited:
            self.complete()

    def complete(self) -> None:
        """Run the backward pass with the gradients returned so far, and update the weights if there is an optimizer."""
        if self.d_layers is not None and self.backprop is not None:
            self.backprop(self.d_layers)
            self.d_layers = self.backprop = None
        if self.optimizer is not None:
            self.model.finish_update(self.optimizer)
            self.optimizer = None


class ElmoListener(Model[List[Doc], List[Floats2d]]):
    """Mixes the layers computed by an ELMo component upstream.

    upstream_name (str): Name of the component to listen to, "*" for the nearest one upstream.
    settings (MixSettings): The task's own mix.
    """

    name = "elmo-listener"
    _batch_id: Optional[BatchId]
    _outputs: Optional[ElmoBatch]
    _backprop: LayersBackprop

    def __init__(self, upstream_name: str, settings: MixSettings) -> None:
        super().__init__(
            self.name,
            forward,
            init=init,
            dims={"nO": settings.projection_width},
            layers=[ScalarMixLayer(settings)],
            attrs={BILM_ATTR: UNTRAINED},
        )
        self.upstream_name = upstream_name
        self.prefix = "elmo"
        self.owner = ""  # name of the component with this listener
        self._upstream: Optional[weakref.ReferenceType[Any]] = None
        self._sample: Any = None
        self.clear_batch()

    @property
    def mix(self) -> Model[Floats3d, Floats2d]:
        """RETURNS (Model[Floats3d, Floats2d]): The layer mix of this task."""
        return self.layers[0]

    @property
    def is_initialized(self) -> bool:
        """RETURNS (bool): Whether its mix has values, initial or trained."""
        return bool(self.mix.has_param("w"))

    # The component upstream

    @property
    def upstream(self) -> Any:
        """RETURNS (Optional[ElmoComponent]): The component it listens to, None if it is not linked."""
        return None if self._upstream is None else self._upstream()

    @property
    def is_linked(self) -> bool:
        """RETURNS (bool): Whether it, or the listener that it is a copy of, is registered by a component."""
        return self.upstream is not None and self.owner in self.upstream.listener_map

    def link(self, upstream: Any, component_name: Optional[str] = None) -> None:
        """Listen to a component; a listener with "*" stops listening to the previous one.

        component_name (Optional[str]): The component with this listener; None for the one that it has already.
        """
        self.owner = component_name or self.owner
        if self.upstream is not None and self.upstream is not upstream:
            self.upstream.remove_listener(self, self.owner)
            self.record_bilm()
        self._upstream = weakref.ref(upstream)
        self.prefix = upstream.prefix
        # Sizes of a trained listener are kept; they are checked when vectors arrive.
        if upstream.sizes is not None and not self.is_initialized:
            self.set_sizes(*upstream.sizes)

    def set_sizes(self, mixture_size: int, width: int) -> None:
        """Set the number of layers, L+1, and their width D. ValueError EL068 if the mix has other sizes; for another
        number of initial weights.
        """
        set_sizes(self.mix, mixture_size, width, owner=self.owner)
        self.set_dim("nO", self.mix.get_dim("nO"), force=True)

    def check_sizes(self, mixture_size: int, width: int) -> None:
        """RAISES (ValueError): EL068 if the mix was trained for other sizes than L+1 and D; for another `mix`."""
        check_sizes(self.mix, (mixture_size, width), owner=self.owner)
        check_width(self.mix, self.owner)

    @property
    def trained_with(self) -> str:
        """RETURNS (str): Label of the biLM of the last update, empty if it is not known."""
        trained: TrainedWith = self.attrs[BILM_ATTR]
        return self.upstream.bilm_label if trained.is_upstream and self.upstream is not None else trained.label

    def record_bilm(self) -> None:
        """Store the label of the biLM upstream. Called before the biLM is replaced."""
        if self.attrs[BILM_ATTR].is_upstream:
            self.attrs[BILM_ATTR] = TrainedWith(self.trained_with)

    # The training batch

    @classmethod
    def get_batch_id(cls, docs: Iterable[Doc]) -> BatchId:
        """RETURNS (BatchId): A hash of the words of each Doc, without Docs that have no tokens, and so no layers."""
        return tuple(hash(doc.to_array(ORTH).tobytes()) for doc in docs if len(doc))

    def receive(self, batch_id: BatchId, outputs: ElmoBatch, backprop: LayersBackprop) -> None:
        """Store the layers of a training batch until their gradient is known; `backprop` takes it."""
        self._batch_id, self._outputs, self._backprop = batch_id, outputs, backprop

    def clear_batch(self) -> None:
        """Release the layers of the last training batch."""
        self._batch_id, self._outputs, self._backprop = None, None, None

    def verify_inputs(self, docs: Sequence[Doc]) -> bool:
        """RETURNS (bool): Whether these are the Docs of the batch, or copies of them, in the same order.
        RAISES (ValueError): If only some are, so that their gradient would not reach a biLM that is trained.
        """
        if self._batch_id is None:
            return False
        batch_id = self.get_batch_id(docs)
        if batch_id != self._batch_id and self._backprop is not None and set(batch_id).intersection(self._batch_id):
            raise ValueError(
                f"{_describe_listener(self)} got some Docs of the training batch, or all in another order, or with "
                "other tokens than before, so that their gradient would not reach the biLM, which is trained too "
                "(frozen = false). Pass the Docs of the batch as they are, move components that change tokens before "
                "the ELMo component, or set frozen = true."
            )
        return batch_id == self._batch_id

    # Copies

    def __getstate__(self) -> Dict[str, Any]:
        """State for pickling, without the batch and the component, but with the prefix of the vectors on a Doc."""
        slots = {name: getattr(self, name) for name in Model.__slots__ if hasattr(self, name)}
        slots["_attrs"] = {**self.attrs, BILM_ATTR: TrainedWith(self.trained_with)}
        lost = ("_upstream", "_sample", "_batch_id", "_outputs", "_backprop")
        return {**slots, **{name: value for name, value in self.__dict__.items() if name not in (*slots, *lost)}}

    def __deepcopy__(self, memo: Dict[int, Any]) -> "ElmoListener":
        """Copies listen to the same component; spaCy copies models for `nlp.rehearse`."""
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        copied.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        copied._upstream = self._upstream
        return copied

    def __setstate__(self, state: Dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self._upstream, self._sample = None, None
        self.clear_batch()


@serialize_attr.register(TrainedWith)
def _serialize_trained_with(_: Any, value: TrainedWith, name: str, model: ElmoListener) -> bytes:
    """Called by Thinc when the component is saved."""
    return bytes(srsly.msgpack_dumps(model.trained_with))


@deserialize_attr.register(TrainedWith)
def _deserialize_trained_with(_: Any, value: bytes, name: str, model: ElmoListener) -> TrainedWith:
    """Called by Thinc when the component is loaded."""
    return TrainedWith(srsly.msgpack_loads(value))


@takes(MixSettings)
def build_listener(upstream: str = ANY_UPSTREAM, **mix: Any) -> Model[List[Doc], List[Floats2d]]:
    """The layers of the biLM with a mix of this component's own: Peters et al. (2018), eq. 1. A `tok2vec` layer.

    The width is D of the biLM, or `projection_width`; it is known when the listener is linked to a component with
    weights.
    upstream (str): Name of the ELMo component; "*" for the nearest one upstream.
    The other settings, of the mix, see `MixSettings`.
    RETURNS (Model[List[Doc], List[Floats2d]]): The listener.
    RAISES (ValueError): For invalid settings.
    """
    return ElmoListener(upstream, read_block(MixSettings, mix, "ElmoListener block"))


def init(model: ElmoListener, X: Any = None, Y: Any = None) -> None:
    """Take the sizes from upstream and set the initial values of the mix. ValueError EL071 without an upstream."""
    model._sample = X  # Thinc infers the sizes of other layers from predictions on it, before upstream has run
    if model.upstream is not None:
        model.upstream.ensure_bilm()
        if model.upstream.sizes is not None:
            model.mix.set_param("w", None)  # initialized again, possibly with other sizes
            model.set_sizes(*model.upstream.sizes)
    if not model.has_dim("nO") or not model.mix.has_dim("nL"):
        raise ValueError(Errors.EL071.format(listener=_describe_listener(model)))
    model.mix.initialize()
    model.attrs[BILM_ATTR] = UNTRAINED


def forward(model: ElmoListener, docs: Sequence[Doc], is_train: bool) -> Tuple[List[Floats2d], VectorsBackprop]:
    """Map Docs to arrays (n, D). In training they are the batch that was received, or have annotations of a frozen
    component.

    RAISES (ValueError): EL098 if the component of the listener is not initialized, EL071 if it is trained without an
        ELMo component before it.
    """
    check_initialized(model.mix, model.owner or model.name)
    batch, backprop_layers = None, None
    if is_train and model.verify_inputs(docs):
        batch, backprop_layers = model._outputs, model._backprop
    layers = _read_layers(model, docs, is_train) if batch is None else batch.layers
    model.check_sizes(len(layers), layers.shape[2])
    outputs, backprop_mix = mix_docs(model.mix, layers, [len(doc) for doc in docs], is_train, backprop_layers)

    def backprop(d_outputs: List[Floats2d]) -> List[Doc]:
        model.attrs[BILM_ATTR] = WITH_UPSTREAM
        if model._outputs is batch:
            model.clear_batch()
        return backprop_mix(d_outputs)

    return outputs, backprop


def mix_docs(
    mix: Model[Any, Any],
    layers: Floats3d,
    lengths: Sequence[int],
    is_train: bool,
    backprop_layers: Optional[Callable[[Floats3d], Any]],
) -> Tuple[List[Floats2d], VectorsBackprop]:
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


def _read_layers(model: ElmoListener, docs: Sequence[Doc], is_train: bool) -> Floats3d:
    """RETURNS (Floats3d): Layers stored on the Docs, or computed by the component; zeros and a warning without it."""
    bounds = numpy.cumsum([0, *(len(doc) for doc in docs)]).tolist()
    layers = model.ops.alloc3f(model.mix.get_dim("nL"), bounds[-1], model.mix.get_dim("nI"))
    missing: List[int] = []
    for i, (doc, start, end) in enumerate(zip(docs, bounds, bounds[1:])):
        if has_layers(doc, model.prefix):
            stored = get_layers(doc, model.prefix, 0, len(doc))
            model.check_sizes(len(stored), stored.shape[2])
            layers[:, start:end] = model.ops.asarray(stored)
        elif len(doc):
            missing.append(i)
    if not missing or docs is model._sample:
        return layers
    # An unlinked listener stands before its ELMo component in the pipeline, and would get no vectors after loading.
    if is_train and not model.is_linked:
        raise ValueError(Errors.EL071.format(listener=_describe_listener(model)))
    if model.upstream is None:
        warnings.warn(Warnings.WL060.format(listener=_describe_listener(model), n_docs=len(missing)), stacklevel=2)
        return layers
    batch: ElmoBatch = model.upstream.compute([docs[i] for i in missing], is_train=is_train)
    model.check_sizes(len(batch.layers), batch.width)
    rows = numpy.concatenate([numpy.arange(bounds[i], bounds[i + 1]) for i in missing])
    layers[:, model.ops.xp.asarray(rows)] = batch.layers
    return layers


def _describe_listener(model: ElmoListener) -> str:
    owner = f" of '{model.owner}'" if model.owner else ""
    return f"The ELMo listener{owner} (upstream = '{model.upstream_name}')"


def get_listeners(model: Model[Any, Any]) -> List[ElmoListener]:
    """RETURNS (List[ElmoListener]): The listeners inside a component's model."""
    return [node for node in model.walk() if isinstance(node, ElmoListener)]


def find_listeners(component: Any) -> List[ElmoListener]:
    """RETURNS (List[ElmoListener]): The listeners of a component, none without a model."""
    model = getattr(component, "model", None)
    return get_listeners(model) if isinstance(model, Model) else []
