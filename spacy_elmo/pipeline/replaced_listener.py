"""The layer that `Language.replace_listeners` puts in place of a listener: a copy of the biLM, and the trained mix.

spaCy calls two hooks, `replace_listener` for the layer and `replace_listener_cfg` for its config. It calls the latter
once for each path that it was given, and puts the result there. It passes the block `model.tok2vec`, which may contain
several listeners, and not the path. So each call gives the settings of the first listener that is left, and corrects
the results of earlier calls, whose paths are known by now.
"""

from typing import Any, Dict, Iterable, List, Tuple

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d

from ..settings import read_block, takes
from .listener import ElmoListener, VectorsBackprop, mix_docs
from .mix import ElmoBatch, MixSettings, ScalarMixLayer, check_initialized, set_sizes

LISTENER_ARCHITECTURE = "spacy-elmo.ElmoListener.v1"
ELMO_TOK2VEC = "spacy-elmo.ElmoTok2Vec.v1"
TOK2VEC_PATH = "model.tok2vec"  # the block that spaCy passes
NO_MIX_SETTINGS = ("@architectures", "upstream", "elmo")


@takes(MixSettings)
def ElmoTok2Vec(elmo: Model[List[Doc], ElmoBatch], **mix: Any) -> Model[List[Doc], List[Floats2d]]:
    """Create a layer with its own biLM and layer mix.

    elmo (Model[List[Doc], ElmoBatch]): The biLM, created by `spacy-elmo.ElmoModel.v1`. It loads the packaged weights at
        `initialize` if it has none.
    The other settings, of the mix, see `MixSettings`.
    RETURNS (Model[List[Doc], List[Floats2d]]): A `tok2vec` layer.
    RAISES (ValueError): For invalid settings.
    """
    return _join_mix(elmo, ScalarMixLayer(read_block(MixSettings, mix, "ElmoTok2Vec block")))


def _join_mix(elmo: Model[List[Doc], ElmoBatch], mix: Model[Any, Any]) -> Model[List[Doc], List[Floats2d]]:
    """Join a biLM and a `ScalarMixLayer`, trained or not, to one layer."""
    dims = {"nO": mix.maybe_get_dim("nO")}
    return Model("elmo_tok2vec", _forward_tok2vec, init=init_tok2vec, dims=dims, layers=[elmo, mix])


def init_tok2vec(model: Model[List[Doc], List[Floats2d]], X: Any = None, Y: Any = None) -> None:
    """Load the packaged weights if there are none, and set the initial values of the mix."""
    elmo, mix = model.layers
    elmo.initialize()
    set_sizes(mix, elmo.get_dim("nL"), elmo.get_dim("nO"))
    mix.initialize()
    model.set_dim("nO", mix.get_dim("nO"))


def _forward_tok2vec(
    model: Model[List[Doc], List[Floats2d]], docs: List[Doc], is_train: bool
) -> Tuple[List[Floats2d], VectorsBackprop]:
    """Map Docs to one array (n, D) each. ValueError EL098 if the layer is not initialized."""
    elmo, mix = model.layers
    check_initialized(mix, model.name)
    batch, backprop_elmo = elmo(docs, is_train)
    shim: Any = elmo.shims[0]
    return mix_docs(mix, batch.layers, batch.lengths, is_train, backprop_elmo if shim.is_trained else None)


def replace_listener(
    copied: Model[List[Doc], ElmoBatch], listener: ElmoListener, component: Any
) -> Model[List[Doc], List[Floats2d]]:
    """Hook of spaCy: create the layer that replaces a listener, from a copied biLM and the trained mix.

    RAISES (ValueError): If the config of the whole `tok2vec` was replaced, but the listener is only a part of it.
    """
    nlp = component._get_pipeline()
    if nlp is not None and listener.owner in nlp.component_names:  # its config is replaced already
        block = nlp.get_pipe_config(listener.owner)["model"]["tok2vec"]
        if isinstance(block, ReplacedListener) and TOK2VEC_PATH not in block.listener_settings:
            raise _wrong_path(block.listener_settings)
    if copied.has_dim("nO") is None:  # no weights yet: the component loads them
        component.ensure_bilm()
        copied = component.model.copy()
    mix = listener.layers[0]
    set_sizes(mix, copied.get_dim("nL"), copied.get_dim("nO"))
    return _join_mix(copied, mix)


class ReplacedListener(Dict[str, Any]):
    """Config of an `ElmoTok2Vec` in place of a listener, and the mix settings of all listeners by path."""

    listener_settings: Dict[str, Dict[str, Any]]


def replace_listener_cfg(elmo_cfg: Dict[str, Any], tok2vec_cfg: Dict[str, Any]) -> Dict[str, Any]:
    """Hook of spaCy: create the config of the layer that replaces a listener.

    tok2vec_cfg (Dict[str, Any]): Config of the listener, or of a block that contains it.
    RETURNS (Dict[str, Any]): Config of an `ElmoTok2Vec`.
    RAISES (ValueError): If an earlier path was no listener's.
    """
    blocks = _find_blocks(tok2vec_cfg)
    replaced = {path: block for path, block in blocks.items() if isinstance(block, ReplacedListener)}
    earlier = next((block.listener_settings for block in replaced.values()), None)
    settings = earlier or find_listener_blocks(tok2vec_cfg)  # by path
    remaining = [path for path in settings if path not in replaced]
    if not remaining or not settings.keys() >= replaced.keys():
        raise _wrong_path(settings)
    for path in replaced:
        replaced[path].update(settings[path])
    config = ReplacedListener({"@architectures": ELMO_TOK2VEC, "elmo": dict(elmo_cfg), **settings[remaining[0]]})
    config.listener_settings = settings
    return config


def find_listener_blocks(tok2vec_cfg: Any) -> Dict[str, Dict[str, Any]]:
    """The mix settings of the listeners in a block `model.tok2vec` by dotted name, in the order of the config. A value
    may refer to a listener in the same block.
    """
    settings: Dict[str, Dict[str, Any]] = {}
    blocks = _find_blocks(tok2vec_cfg)
    for path, block in blocks.items():
        target = block
        if isinstance(block, str):
            target = blocks.get(TOK2VEC_PATH + block.rstrip("}").partition(TOK2VEC_PATH)[2])
        if isinstance(target, dict) and target.get("@architectures") == LISTENER_ARCHITECTURE:
            settings[path] = {name: value for name, value in target.items() if name not in NO_MIX_SETTINGS}
    return settings


def _find_blocks(value: Any, path: str = TOK2VEC_PATH) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Blocks of listeners or of what replaced them, and references, by dotted name."""
    if not isinstance(value, dict):
        return {path: value} if isinstance(value, str) and value.startswith("${") else {}
    if isinstance(value, ReplacedListener) or value.get("@architectures") == LISTENER_ARCHITECTURE:
        return {path: value}
    blocks = [_find_blocks(inner, f"{path}.{name}") for name, inner in value.items()]
    return {name: block for inner in blocks for name, block in inner.items()}


def _wrong_path(listeners: Iterable[str]) -> ValueError:
    paths = ", ".join(listeners)
    return ValueError(f"replace_listeners names a path that is not a listener's. Name all listeners: {paths}.")
