"""What `Language.replace_listeners` does to a listener: the component gets the biLM and the mix as its own.

`spacy-elmo.ElmoTok2Vec.v1` is that pair, a `tok2vec` layer that needs no ELMo component upstream.
"""

from typing import Any, Callable, Dict, List, Optional, Tuple

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d

from ..errors import Errors
from .batch_norm import MarkedLayers, add_marks
from .scalar_mix import MixSettings, ScalarMix, get_mix_settings, set_sizes
from .types import ElmoBatch

LISTENER = "spacy-elmo.ElmoListener.v1"
OWNED = "spacy-elmo.ElmoTok2Vec.v1"


def ElmoTok2Vec(
    elmo: Model[List[Doc], ElmoBatch],
    initial_weights: Optional[List[float]] = None,
    learn_weights: bool = True,
    initial_gamma: float = 1.0,
    learn_gamma: bool = True,
    layer_dropout: float = 0.0,
    weights_l2: float = 0.0,
    layer_norm: Optional[str] = None,
    output_dropout: float = 0.0,
    projection_width: Optional[int] = None,
) -> Model[List[Doc], List[Floats2d]]:
    """A biLM of one's own and a layer mix.

    elmo (Model[List[Doc], ElmoBatch]): The biLM, as `spacy-elmo.ElmoModel.v1` builds it. It takes the packaged weights
        at `initialize` if it has none.
    initial_weights, learn_weights, initial_gamma, learn_gamma, layer_dropout, weights_l2, layer_norm, output_dropout,
    projection_width: See `MixSettings`.
    RETURNS (Model[List[Doc], List[Floats2d]]): A `tok2vec` layer.
    RAISES (ValueError): EL060 for settings that make no sense.
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
    )
    return join_mix(elmo, ScalarMix(settings))


def join_mix(elmo: Model[List[Doc], ElmoBatch], mix: Model[Any, Any]) -> Model[List[Doc], List[Floats2d]]:
    """elmo (Model[List[Doc], ElmoBatch]): The biLM.
    mix (Model): A `ScalarMix`, trained or not.
    RETURNS (Model[List[Doc], List[Floats2d]]): Both as one layer.
    RAISES (ValueError): EL076 for a norm that counts boundaries, and a biLM that is trained.
    """
    if get_mix_settings(mix).needs_marks and not elmo.attrs["settings"].frozen:
        raise ValueError(Errors.EL076)
    dims = {"nO": mix.maybe_get_dim("nO")}
    return Model("elmo_tok2vec", forward, init=init, dims=dims, layers=[elmo, mix])


def init(model: Model[List[Doc], List[Floats2d]], X: Any = None, Y: Any = None) -> None:
    """Fill the biLM if it is empty, and set the start values of the mix."""
    elmo, mix = model.layers
    elmo.initialize()
    set_sizes(mix, elmo.get_dim("nL"), elmo.get_dim("nO"))
    mix.initialize()
    model.set_dim("nO", mix.get_dim("nO"))


def forward(
    model: Model[List[Doc], List[Floats2d]], docs: List[Doc], is_train: bool
) -> Tuple[List[Floats2d], Callable[[List[Floats2d]], List[Doc]]]:
    """docs (List[Doc]): The Docs.
    is_train (bool): Whether a gradient will come back.
    RETURNS (Tuple[List[Floats2d], Callable]): One array (n, D) per Doc, and the callback that takes their gradients.
    """
    elmo, mix = model.layers
    batch, backprop_elmo = elmo(docs, is_train)
    layers: Any = batch.layers
    if get_mix_settings(mix).needs_marks:
        layers = MarkedLayers(layers, add_marks(elmo.attrs["read_marks"](elmo, docs), len(layers)))
    mixed, backprop_mix = mix(layers, is_train)
    is_frozen = elmo.attrs["settings"].frozen

    def backprop(d_outputs: List[Floats2d]) -> List[Doc]:
        d_layers = backprop_mix(model.ops.flatten(list(d_outputs)), not is_frozen)
        if d_layers is not None:
            backprop_elmo(d_layers)
        return []

    return model.ops.unflatten(mixed, model.ops.asarray1i(batch.lengths)), backprop


def replace_listener(
    copied: Model[List[Doc], ElmoBatch], listener: Model[Any, Any], component: Any
) -> Model[List[Doc], List[Floats2d]]:
    """spaCy's hook: what takes the place of a listener.

    copied (Model[List[Doc], ElmoBatch]): A copy of the component's model.
    listener (Model): The listener, whose trained mix goes along.
    component (Any): The ELMo component.
    RETURNS (Model[List[Doc], List[Floats2d]]): A layer that gives the same vectors.
    """
    if copied.has_dim("nO") is None:  # no weights yet: the component knows where they come from
        component.fill()
        copied = component.model.copy()
    mix = listener.layers[0]
    set_sizes(mix, copied.get_dim("nL"), copied.get_dim("nO"))
    return join_mix(copied, mix)


def replace_listener_cfg(elmo_cfg: Dict[str, Any], tok2vec_cfg: Dict[str, Any]) -> Dict[str, Any]:
    """spaCy's hook: the config of what takes the place of a listener.

    spaCy always gives the block `model.tok2vec`. Of several listeners inside it, the first that was not replaced yet
    is meant, so `replace_listeners` should name their paths in the order of the config.
    elmo_cfg (Dict[str, Any]): Config of the component's model.
    tok2vec_cfg (Dict[str, Any]): Config of the listener, or of a block around it.
    RETURNS (Dict[str, Any]): Config of an `ElmoTok2Vec`.
    """
    listener_cfg = _find_listener(tok2vec_cfg) or {}
    mix_cfg = {name: value for name, value in listener_cfg.items() if name not in ("@architectures", "upstream")}
    return {"@architectures": OWNED, "elmo": dict(elmo_cfg), **mix_cfg}


def _find_listener(block: Any) -> Optional[Dict[str, Any]]:
    if not isinstance(block, dict):
        return None
    if block.get("@architectures") == LISTENER:
        return block
    found = (_find_listener(value) for value in block.values())
    return next((listener for listener in found if listener is not None), None)
