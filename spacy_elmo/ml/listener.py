"""The listener: the layer of a task's model that gets the layers of the shared biLM and mixes them for the task.

It follows the protocol of spaCy's `Tok2VecListener`: in training the ELMo component passes it the layers of the batch,
at prediction it reads them from the Docs. If a Doc has none, the component computes them: `nlp.rehearse`, `debug model`
and the entity linker pass Docs that no ELMo component has processed.
"""

import copy
import warnings
import weakref
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import numpy
from spacy.attrs import ORTH
from spacy.language import Language
from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d, Floats3d

from ..errors import Errors, Warnings
from .batch_norm import BoundarySums, LayersWithBoundaries, add_boundary_sums
from .calling_pipeline import is_rehearsed, using_pipeline
from .doc_vectors import get_boundary_sums, get_layers, has_layers
from .missing_upstream import (
    ANY_UPSTREAM,
    describe_missing,
    find_owner,
    is_before,
    link_late,
    no_upstream,
    not_initialized,
)
from .mix_settings import MixSettings, takes_mix_settings
from .scalar_mix import ScalarMix, get_mix_settings, set_sizes, wrong_sizes
from .types import ElmoBatch
from .upstream import Upstream

TRAINED_WITH = "bilm"  # Thinc attribute of a listener
N_TOLERATED = 10  # updates of the biLM that a listener may miss, as in training with one task after the other
# Takes the gradient of the layers; None if the biLM is frozen.
LayersBackprop = Optional[Callable[[Floats3d], None]]
Backprop = Callable[[List[Floats2d]], List[Doc]]
MixInput = Union[Floats3d, LayersWithBoundaries]


class ElmoListener(Model[List[Doc], List[Floats2d]]):
    """Mixes the layers computed by an ELMo component upstream.

    The attribute "bilm" says which biLM it was trained with. It is saved with the component, and empty before the first
    update, and in a pipeline of an earlier version. A biLM that is trained too changes with each update, so that the
    component upstream sets the attribute when it is saved.

    upstream_name (str): Name of the component to listen to, "*" for the nearest one upstream.
    settings (MixSettings): The task's own mix.
    """

    name = "elmo-listener"
    _batch_id: Optional[int]
    _outputs: Optional[ElmoBatch]
    _backprop: LayersBackprop
    _is_answered: bool

    def __init__(self, upstream_name: str, settings: MixSettings) -> None:
        super().__init__(
            self.name, forward, init=init, dims={"nO": settings.projection_width}, layers=[ScalarMix(settings)]
        )
        self.upstream_name = upstream_name
        self.prefix = "elmo"
        self.owner = ""  # name of the component with this listener
        self._upstream: Optional[weakref.ReferenceType[Any]] = None
        self._sample: Any = None
        self.has_warned = False  # that it reads the layers of another pipeline
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
    def upstream(self) -> Optional[Upstream]:
        """RETURNS (Optional[Upstream]): The component it listens to, None if it is not linked."""
        return None if self._upstream is None else self._upstream()

    def link(self, upstream: Upstream, component_name: str) -> None:
        """Listen to a component; a listener with "*" stops listening to the previous one.

        upstream (Upstream): The ELMo component.
        component_name (str): Name of the component with this listener.
        """
        if self.upstream is not None and self.upstream is not upstream:
            self.upstream.remove_listener(self, component_name)
            self.settle_bilm(self.upstream.bilm_label)
        self._upstream = weakref.ref(upstream)
        self.prefix, self.owner = upstream.prefix, component_name or self.owner
        # Sizes of a trained listener are kept; they are checked when vectors arrive.
        if upstream.sizes is not None and not self.is_initialized:
            self.set_sizes(*upstream.sizes)

    def set_sizes(self, n_layers: int, width: int) -> None:
        """n_layers (int): Layers to mix, L+1.
        width (int): D.
        RAISES (ValueError): EL068 if the mix has other sizes, EL069 for another number of initial weights.
        """
        set_sizes(self.mix, n_layers, width, owner=self.owner)
        self.set_dim("nO", self.mix.get_dim("nO"), force=True)

    def check_sizes(self) -> None:
        """RAISES (ValueError): EL068 if the mix was trained for other sizes than those of the biLM upstream."""
        sizes = None if self.upstream is None else self.upstream.sizes
        known = (self.mix.maybe_get_dim("nL"), self.mix.maybe_get_dim("nI"))
        if sizes is not None and self.is_initialized and known != sizes:
            raise wrong_sizes(self.owner, known, sizes)

    @property
    def trained_with(self) -> str:
        """RETURNS (str): Label of the biLM of the last update, see `TorchBiLM.label`; empty if it is not known."""
        label: str = self.attrs[TRAINED_WITH]
        return label

    def note_update(self, is_bilm_trained: bool) -> None:
        """Remember the biLM of an update.

        is_bilm_trained (bool): Whether the update changes the biLM too, so that its label is not known before the end.
        """
        self.follows_bilm, self.n_missed = is_bilm_trained, 0
        self.attrs[TRAINED_WITH] = "" if is_bilm_trained or self.upstream is None else self.upstream.bilm_label

    def label_bilm(self, label: str) -> None:
        """label (str): Of the biLM upstream, taken over if it is trained with this listener."""
        if self.follows_bilm:
            self.attrs[TRAINED_WITH] = label

    def settle_bilm(self, label: str) -> None:
        """label (str): As for `label_bilm`, and kept from now on, since another biLM follows."""
        self.label_bilm(label)
        self.follows_bilm = False

    def miss_update(self) -> None:
        """The biLM is about to be updated without this listener. After some such updates the vectors are no longer
        those it was trained on: it keeps the label of the biLM at the second one, after its own last gradient.
        """
        if not self.follows_bilm or self.upstream is None:
            return
        self.n_missed += 1
        if self.n_missed == 2:
            self.label_missed = self.upstream.bilm_label
        if self.n_missed > N_TOLERATED:
            self.settle_bilm(self.label_missed)

    def has_other_bilm(self, label: str) -> bool:
        """label (str): Of the biLM upstream.
        RETURNS (bool): Whether it is known to be another one than that of the last update.
        """
        if not label or not self.trained_with or self.follows_bilm:
            return False
        return label.split()[0] != self.trained_with.split()[0]

    def forget_training(self) -> None:
        """Forget the biLM of earlier updates: the values are initial ones."""
        self.attrs[TRAINED_WITH] = ""
        self.follows_bilm, self.n_missed, self.label_missed = False, 0, ""
        self.warned_of = ""  # label of the biLM that a warning was about

    @classmethod
    def get_batch_id(cls, docs: Iterable[Doc]) -> int:
        """RETURNS (int): A checksum of the words of a batch, to detect changed ones."""
        return sum(sum(token.orth for token in doc) for doc in docs)

    def receive(self, docs: Sequence[Doc], outputs: ElmoBatch, backprop: LayersBackprop) -> None:
        """Store the layers that the component upstream computed for a training batch.

        docs (Sequence[Doc]): The batch.
        outputs (ElmoBatch): Its layers.
        backprop (LayersBackprop): Takes the gradient of the layers; None if the biLM is frozen.
        """
        self._docs, self._batch_id = _with_tokens(docs), self.get_batch_id(docs)
        self._outputs, self._backprop = outputs, backprop
        self._is_answered = False

    def forget_batch(self) -> None:
        """Release the last training batch."""
        self._docs, self._batch_id, self._outputs, self._backprop = [], None, None, None
        self._is_answered = True

    def received(self, docs: Sequence[Doc]) -> Optional[ElmoBatch]:
        """The stored layers, if the Docs are those of the batch or copies of them, in the same order. Docs without
        tokens, which have no rows in the layers, may be left out.

        Copies are recognized by their words, and only until the gradient is returned, since later Docs may have the
        same words.
        RETURNS (Optional[ElmoBatch]): None for other Docs.
        RAISES (ValueError): EL070 if the tokens of the Docs have changed since.
        """
        docs = _with_tokens(docs)
        if self._outputs is None or len(docs) != len(self._docs):
            return None
        is_changed = self.get_batch_id(docs) != self._batch_id
        if all(doc is other for doc, other in zip(docs, self._docs)):
            if is_changed:
                raise ValueError(Errors.EL070.format(found=self.get_batch_id(docs), wanted=self._batch_id))
            return self._outputs
        is_copy = not self._is_answered and not is_changed and all(map(_has_same_tokens, docs, self._docs))
        return self._outputs if is_copy else None

    def __getstate__(self) -> Dict[str, Any]:
        """State for pickling, without the batch and the component, but with the prefix of the vectors on a Doc."""
        slots = {name: getattr(self, name) for name in Model.__slots__ if hasattr(self, name)}
        lost = ("_upstream", "_sample", "_docs", "_batch_id", "_outputs", "_backprop", "_is_answered")
        return {**slots, **{name: value for name, value in self.__dict__.items() if name not in lost}}

    def __deepcopy__(self, memo: Dict[int, Any]) -> "ElmoListener":
        """Copies listen to the same component; spaCy copies models for `nlp.rehearse`."""
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        copied.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        copied._upstream = self._upstream
        return copied

    def __setstate__(self, state: Dict[str, Any]) -> None:
        # Not in pickles of earlier versions.
        self.follows_bilm, self.warned_of, self.owner, self.has_warned = False, "", "", False
        self.n_missed, self.label_missed = 0, ""
        for name, value in state.items():
            setattr(self, name, value)
        self.attrs.setdefault(TRAINED_WITH, "")
        self._upstream, self._sample = None, None
        self.forget_batch()


@takes_mix_settings
def build_listener(upstream: str = ANY_UPSTREAM, *, settings: MixSettings) -> Model[List[Doc], List[Floats2d]]:
    """Create a listener with its own layer mix, for use as a `tok2vec` layer.

    The width is that of the biLM, or `projection_width`; it is known when the listener is linked to a component with
    weights.
    upstream (str): Name of the ELMo component, "*" for the nearest one upstream.
    settings (MixSettings): In a config, each of its fields is a setting.
    RETURNS (Model[List[Doc], List[Floats2d]]): The listener.
    RAISES (ValueError): EL060 for invalid settings.
    """
    return ElmoListener(upstream, settings)


def init(model: ElmoListener, X: Any = None, Y: Any = None) -> None:
    """Take the sizes from upstream and set the initial values of the mix.

    RAISES (ValueError): EL071 if the listener has no upstream.
    """
    model._sample = X  # Thinc infers the sizes of other layers from predictions on it, before upstream has run
    if model.upstream is not None:
        model.upstream.fill()
        if model.upstream.sizes is not None:
            model.mix.set_param("w", None)  # initialized again, possibly with other sizes
            model.set_sizes(*model.upstream.sizes)
    if not model.has_dim("nO") or not model.mix.has_dim("nL"):
        raise no_upstream(model, model.upstream_name)
    model.mix.initialize()
    model.forget_training()


def forward(model: ElmoListener, docs: Sequence[Doc], is_train: bool) -> Tuple[List[Floats2d], Backprop]:
    """docs (Sequence[Doc]): The Docs.
    is_train (bool): Whether they are the received batch, or have annotations of a frozen component.
    RETURNS (Tuple[List[Floats2d], Callable]): One array (n, D) per Doc, and the backward pass.
    RAISES (ValueError): EL098 if the component of the listener is not initialized.
    """
    if not model.is_initialized:
        raise not_initialized(model, model.owner)
    lengths = [len(doc) for doc in docs]
    find_layers = _training_layers if is_train else _doc_layers
    layers, backprop_layers = find_layers(model, docs)
    mixed, backprop_mix = model.mix(layers, is_train)

    def backprop(d_outputs: List[Floats2d]) -> List[Doc]:
        model._is_answered = True
        model.note_update(backprop_layers is not None)
        d_layers = backprop_mix(model.ops.flatten(list(d_outputs)), backprop_layers is not None)
        if backprop_layers is not None and d_layers is not None:
            backprop_layers(d_layers)
        return []

    return model.ops.unflatten(mixed, model.ops.asarray1i(lengths)), backprop


def _training_layers(model: ElmoListener, docs: Sequence[Doc]) -> Tuple[MixInput, LayersBackprop]:
    """RETURNS (Tuple[MixInput, LayersBackprop]): The received layers. For other Docs, without a gradient, the layers
    stored on the Docs or computed by the component.
    """
    outputs = model.received(docs)
    if outputs is not None:
        _check_sizes(model, outputs.layers)
        return _with_boundaries(model, outputs.layers, [outputs.boundaries]), model._backprop
    if not all(has_layers(doc, model.prefix) for doc in docs if len(doc)):
        if model._backprop is not None and not model._is_answered and not is_rehearsed():
            raise ValueError(Errors.EL080.format(upstream=model.upstream_name))
        if model.upstream is None:
            raise ValueError(Errors.EL072.format(**describe_missing(model, model.upstream_name, using_pipeline())))
    model.forget_batch()  # received when the component was trained or active
    return _doc_layers(model, docs, is_train=True)


def _doc_layers(model: ElmoListener, docs: Sequence[Doc], is_train: bool = False) -> Tuple[MixInput, None]:
    """RETURNS (Tuple[MixInput, None]): Layers stored on the Docs, or computed by the component."""
    link_late(model)
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
    nlp = using_pipeline()
    if model.upstream is None:
        told = describe_missing(model, model.upstream_name, nlp)
        warnings.warn(Warnings.WL060.format(n_docs=len(docs), **told), stacklevel=2)
        return None
    _warn_of_borrowed_layers(model, nlp)
    batch = model.upstream.compute(docs, is_train=is_train)
    _check_sizes(model, batch.layers)
    return batch


def _warn_of_borrowed_layers(model: ElmoListener, nlp: Optional[Language]) -> None:
    """Warn, once, if the component upstream is not before the listener in the pipeline that uses it."""
    owner = find_owner(nlp, model)
    if nlp is not None and owner and not model.has_warned and not is_before(nlp, model.upstream, owner):
        model.has_warned = True
        text = Warnings.WL072.format(**describe_missing(model, model.upstream_name, nlp))
        warnings.warn(text, stacklevel=2)


def _with_boundaries(model: ElmoListener, layers: Floats3d, boundaries: Sequence[Optional[BoundarySums]]) -> MixInput:
    """RETURNS (MixInput): The layers, with the sums of the boundaries if the norm of this task includes them."""
    if not settings_of(model).needs_boundaries:
        return layers
    known = [part for part in boundaries if part is not None]
    if len(known) < len(boundaries):
        raise ValueError(Errors.EL077.format(upstream=model.upstream_name))
    return LayersWithBoundaries(layers, add_boundary_sums(known, len(layers)))


def _check_sizes(model: ElmoListener, layers: Floats3d) -> None:
    wanted = (model.mix.get_dim("nL"), model.mix.get_dim("nI"))
    found = (layers.shape[0], layers.shape[2])
    if wanted != found:
        raise wrong_sizes(model.owner, wanted, found)


def _with_tokens(docs: Sequence[Doc]) -> List[Doc]:
    return [doc for doc in docs if len(doc)]


def _has_same_tokens(doc: Doc, other: Doc) -> bool:
    return doc is other or numpy.array_equal(doc.to_array(ORTH), other.to_array(ORTH))


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
