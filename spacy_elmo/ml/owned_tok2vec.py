"""Support for `Language.replace_listeners`: a listener is replaced by a copy of the biLM with the trained mix.

`spacy-elmo.ElmoTok2Vec.v1` is this `tok2vec` layer, which needs no ELMo component upstream.
"""

from typing import Any, Callable, Dict, List, Tuple

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d

from ..errors import Errors
from .batch_norm import LayersWithBoundaries, add_boundary_sums
from .calling_pipeline import replaced_listener
from .missing_upstream import not_initialized
from .mix_settings import MixSettings, takes_mix_settings
from .scalar_mix import ScalarMix, get_mix_settings, set_sizes
from .types import ElmoBatch

LISTENER = "spacy-elmo.ElmoListener.v1"
OWNED = "spacy-elmo.ElmoTok2Vec.v1"
TOK2VEC = "model.tok2vec"  # the block that spaCy passes
NO_MIX_SETTINGS = ("@architectures", "upstream", "elmo")


@takes_mix_settings
def ElmoTok2Vec(elmo: Model[List[Doc], ElmoBatch], *, settings: MixSettings) -> Model[List[Doc], List[Floats2d]]:
    """Create a layer with its own biLM and layer mix.

    elmo (Model[List[Doc], ElmoBatch]): The biLM, created by `spacy-elmo.ElmoModel.v1`. It loads the packaged weights at
        `initialize` if it has none.
    settings (MixSettings): In a config, each of its fields is a setting.
    RETURNS (Model[List[Doc], List[Floats2d]]): A `tok2vec` layer.
    RAISES (ValueError): EL060 for invalid settings.
    """
    return join_mix(elmo, ScalarMix(settings))


def join_mix(elmo: Model[List[Doc], ElmoBatch], mix: Model[Any, Any]) -> Model[List[Doc], List[Floats2d]]:
    """elmo (Model[List[Doc], ElmoBatch]): The biLM.
    mix (Model): A `ScalarMix`, trained or not.
    RETURNS (Model[List[Doc], List[Floats2d]]): Both as one layer.
    RAISES (ValueError): EL076 for a norm that includes BOS and EOS with a biLM that is trained.
    """
    if get_mix_settings(mix).needs_boundaries and not elmo.attrs["settings"].frozen:
        raise ValueError(Errors.EL076)
    dims = {"nO": mix.maybe_get_dim("nO")}
    return Model("elmo_tok2vec", forward, init=init, dims=dims, layers=[elmo, mix])


def init(model: Model[List[Doc], List[Floats2d]], X: Any = None, Y: Any = None) -> None:
    """Load the packaged weights if there are none, and set the initial values of the mix."""
    elmo, mix = model.layers
    elmo.initialize()
    set_sizes(mix, elmo.get_dim("nL"), elmo.get_dim("nO"))
    mix.initialize()
    model.set_dim("nO", mix.get_dim("nO"))


def forward(
    model: Model[List[Doc], List[Floats2d]], docs: List[Doc], is_train: bool
) -> Tuple[List[Floats2d], Callable[[List[Floats2d]], List[Doc]]]:
    """docs (List[Doc]): The Docs.
    is_train (bool): Whether there will be a backward pass.
    RETURNS (Tuple[List[Floats2d], Callable]): One array (n, D) per Doc, and the backward pass.
    RAISES (ValueError): EL098 if the layer is not initialized.
    """
    elmo, mix = model.layers
    if not mix.has_param("w"):
        raise not_initialized(model)
    batch, backprop_elmo = elmo(docs, is_train)
    layers: Any = batch.layers
    if get_mix_settings(mix).needs_boundaries:
        boundaries = elmo.attrs["read_boundary_sums"](elmo, docs)
        layers = LayersWithBoundaries(layers, add_boundary_sums(boundaries, len(layers)))
    mixed, backprop_mix = mix(layers, is_train)
    is_trained = elmo.attrs["is_trained"](elmo)

    def backprop(d_outputs: List[Floats2d]) -> List[Doc]:
        d_layers = backprop_mix(model.ops.flatten(list(d_outputs)), is_trained)
        if d_layers is not None:
            backprop_elmo(d_layers)
        return []

    return model.ops.unflatten(mixed, model.ops.asarray1i(batch.lengths)), backprop


def replace_listener(
    copied: Model[List[Doc], ElmoBatch], listener: Model[Any, Any], component: Any
) -> Model[List[Doc], List[Floats2d]]:
    """Hook of spaCy: create the layer that replaces a listener.

    copied (Model[List[Doc], ElmoBatch]): A copy of the component's model.
    listener (Model): The listener; its trained mix is used.
    component (Any): The ELMo component.
    RETURNS (Model[List[Doc], List[Floats2d]]): A layer with the same vectors.
    """
    if copied.has_dim("nO") is None:  # no weights yet: the component loads them
        component.fill()
        copied = component.model.copy()
    mix = listener.layers[0]
    set_sizes(mix, copied.get_dim("nL"), copied.get_dim("nO"))
    return join_mix(copied, mix)


def replace_listener_cfg(elmo_cfg: Dict[str, Any], tok2vec_cfg: Dict[str, Any]) -> Dict[str, Any]:
    """Hook of spaCy: create the config of the layer that replaces a listener.

    spaCy always passes the block `model.tok2vec`, which may contain several listeners: the one at the path that
    `nlp.replace_listeners` has come to, or else the first one that is not replaced yet.
    elmo_cfg (Dict[str, Any]): Config of the component's model.
    tok2vec_cfg (Dict[str, Any]): Config of the listener, or of a block that contains it.
    RETURNS (Dict[str, Any]): Config of an `ElmoTok2Vec`.
    RAISES (ValueError): EL378 if there is no listener at the path.
    """
    component, path = replaced_listener()
    paths = find_paths(tok2vec_cfg, TOK2VEC, component)
    if path.startswith(TOK2VEC) and path not in paths:
        raise ValueError(Errors.EL378.format(path=path, paths=", ".join(paths)))
    listener_cfg = _block_at(tok2vec_cfg, path or paths[0], component)
    mix_cfg = {name: value for name, value in listener_cfg.items() if name not in NO_MIX_SETTINGS}
    return {"@architectures": OWNED, "elmo": dict(elmo_cfg), **mix_cfg}


def find_paths(block: Any, path: str, component: str) -> List[str]:
    """block (Any): A block of a config, or a value.
    path (str): Its dotted name, below that of the component.
    component (str): The component.
    RETURNS (List[str]): The dotted names of the listeners in it, references to a listener included.
    """
    if _refers_to(block, component):
        return [path]
    if not isinstance(block, dict):
        return []
    if block.get("@architectures") == LISTENER:
        return [path]
    return [found for name, value in block.items() for found in find_paths(value, f"{path}.{name}", component)]


def _refers_to(value: Any, component: str) -> str:
    """RETURNS (str): Dotted name of the block of the component's tok2vec that a value refers to; empty for others."""
    start = f"${{components.{component}."
    is_reference = isinstance(value, str) and value.startswith(f"{start}{TOK2VEC}.") and value.endswith("}")
    return value[len(start) : -1] if is_reference else ""


def _block_at(tok2vec_cfg: Dict[str, Any], path: str, component: str) -> Dict[str, Any]:
    """path (str): Of a listener, for instance "model.tok2vec.elmo_output".
    RETURNS (Dict[str, Any]): Its block, or that which it refers to, which may have been replaced before.
    """
    block: Any = tok2vec_cfg
    for name in path.removeprefix(TOK2VEC).split(".")[1:]:
        block = block[name]
    reference = _refers_to(block, component)
    return _block_at(tok2vec_cfg, reference, component) if reference else dict(block)
