"""Options of the biLM in an AllenNLP archive: from the files that its config names, else from the shapes of tensors.

Shapes do not tell the clips and the activation. The config does not either: it has the path of an options file, a copy
of which may be in the archive (up to AllenNLP 0.9 in the folder `fta`, later where `include_in_archive` put it).
"""

import warnings
from pathlib import PurePosixPath
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from ...bilm.config import BiLMConfig
from ...errors import Errors, Warnings
from ..bilm_tf.options import read_options
from ..limits import shorten
from ..sources import Source, read_json
from ..tensor_map import Shape
from .files import CONFIG_NAME, OPTIONS_NAME, AllenNLPFiles
from .layout import Module, read_sizes

ELMO_EMBEDDER = "elmo_token_embedder"
# Activation and clips of AllenNLP's own models. The first is the default of `ElmoTokenEmbedder`.
OFFICIAL = tuple(
    f"elmo_{size}_options.json"
    for size in (
        *("2x4096_512_2048cnn_2xhighway", "2x1024_128_2048cnn_1xhighway", "2x2048_256_2048cnn_1xhighway"),
        "2x4096_512_2048cnn_2xhighway_5.5B",
    )
)
ASSUMED: Dict[str, Dict[str, Any]] = {"lstm": {"cell_clip": 3.0, "proj_clip": 3.0}, "char_cnn": {"activation": "relu"}}


class Block(NamedTuple):
    """Settings of an `Elmo` or `ElmoTokenEmbedder` in a config.

    path (str): Its place, keys joined by dots.
    settings (Mapping[str, Any]): The settings.
    """

    path: str
    settings: Mapping[str, Any]


def find_block(config: Any, module: Module) -> Optional[Block]:
    """config (Any): The config of the archive.
    module (Module): The biLM.
    RETURNS (Optional[Block]): Its settings: the only ones, or those with the name of its token embedder.
    """
    blocks = list(_walk(config, ()))
    named = [block for block in blocks if f"token_embedder_{block.path.rpartition('.')[2]}" in module.name.split(".")]
    found = named if len(named) == 1 else blocks
    return found[0] if len(found) == 1 else None


def read_bilm_config(
    files: AllenNLPFiles,
    module: Module,
    block: Optional[Block],
    shapes: Mapping[str, Shape],
    given: Optional[Source],
) -> Tuple[BiLMConfig, str]:
    """The config of a biLM.

    files (AllenNLPFiles): The archive.
    module (Module): The biLM.
    block (Optional[Block]): Its settings in the config of the archive.
    shapes (Mapping[str, Shape]): Shapes of its tensors by their names in it.
    given (Optional[Source]): Options that the user specifies, which are used first.
    RETURNS (Tuple[BiLMConfig, str]): The config, and the source of the options.
    RAISES (ValueError): EL020, EL022, EL023 or EL314.
    """
    options, source = _find_options(files, block, given)
    place = files.place(files.weights)
    if options is None:
        options, source = _merge(read_sizes(shapes, place), ASSUMED), f"shapes of {place}"
        if not _is_official(block):
            warnings.warn(Warnings.WL310.format(path=place, name=module.name or "the biLM"), stacklevel=2)
    config = read_options(options, source, has_projection=True)
    if not config.has_projection:
        problem = f"its LSTMs project to their own width, {config.cell_width}, which a biLM here does not have"
        raise ValueError(Errors.EL314.format(path=place, problem=problem))
    if not config.has_skip and config.n_layers > 1:
        problem = "lstm.use_skip_connections is false, but AllenNLP's ELMo always has skip connections"
        raise ValueError(Errors.EL023.format(path=source, problems=problem))
    return config, source


def _find_options(files: AllenNLPFiles, block: Optional[Block], given: Optional[Source]) -> Tuple[Any, str]:
    """The options and their source, None if there are none."""
    if given is not None:
        return read_json(given), str(given)
    stated = None if block is None else block.settings.get("options_file")
    if block is not None and isinstance(stated, Mapping):
        return stated, f"{files.place(CONFIG_NAME)}, {block.path}.options_file"
    name = find_member(files, block, "options_file")
    if name is None and not _is_official(block) and OPTIONS_NAME in files.sources:
        name = OPTIONS_NAME
    if name is not None:
        return files.read_json(name), files.place(name)
    config = files.read_config()
    if isinstance(config, Mapping) and "lstm" in config:  # options under the name of a config
        return config, files.place(CONFIG_NAME)
    return None, ""


def find_member(files: AllenNLPFiles, block: Optional[Block], key: str) -> Optional[str]:
    """block (Optional[Block]): Settings of the biLM.
    key (str): A setting with the path of a file, "options_file" or "weight_file".
    RETURNS (Optional[str]): Name of its copy in the archive or folder; files elsewhere are not opened.
    """
    if block is None:
        return None
    stated = block.settings.get(key)
    names = [f"fta/{block.path}.{key}"]
    if isinstance(stated, str):
        inner = stated.replace("\\", "/").rpartition("!")[2]
        names += [inner.removeprefix("./"), PurePosixPath(inner).name]
    return next((name for name in names if name in files.sources), None)


def _is_official(block: Optional[Block]) -> bool:
    if block is None:
        return False
    stated = block.settings.get("options_file")
    if stated is None:
        return block.settings.get("type") == ELMO_EMBEDDER
    return isinstance(stated, str) and PurePosixPath(stated).name in OFFICIAL


def _walk(node: Any, path: Tuple[str, ...]) -> Iterator[Block]:
    """All blocks of a config that make an ELMo. JSON is nested at most `MAX_JSON_DEPTH` levels."""
    if isinstance(node, Mapping):
        if "options_file" in node or node.get("type") == ELMO_EMBEDDER:
            yield Block(".".join(path), node)
            return
        for key, inner in node.items():
            yield from _walk(inner, (*path, str(key)))
    elif isinstance(node, list):
        for number, inner in enumerate(node):
            yield from _walk(inner, (*path, str(number)))


def _merge(options: Mapping[str, Mapping[str, Any]], more: Mapping[str, Mapping[str, Any]]) -> Dict[str, Any]:
    return {name: {**settings, **more.get(name, {})} for name, settings in options.items()}


def describe(modules: List[Module]) -> str:
    """RETURNS (str): Names of biLMs, for messages."""
    return shorten(", ".join(f"'{module.name}'" for module in modules), 1000)
