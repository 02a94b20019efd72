"""Options of the biLM in a model of AllenNLP: from the files that its config names, else from the shapes of tensors.

Neither the shapes nor the config contain the clips and the activation: it has the path of an options file, a copy
of which may be in the archive (up to AllenNLP 0.9 in the folder `fta`, later where `include_in_archive` put it).
"""

import re
import warnings
from pathlib import PurePosixPath
from typing import Any, Dict, Iterator, Mapping, NamedTuple, Optional, Tuple

from ..bilm.config import BiLMConfig
from ..errors import Errors, Warnings
from ..util import DIRECTIONS, shorten
from .allennlp_names import CHARACTERS, EMBEDDER, LSTM
from .archive import CONFIG_NAME, OPTIONS_NAME, File, ModelFiles, Shape, parse_json, read_json
from .bilm_tf import derive_options, read_options

NO_ELMO = (
    "'{path}' has no ELMo of AllenNLP: {problem}. Pass an archive or a state dict of a model with an `Elmo` or an "
    "`ElmoTokenEmbedder`."
)
ELMO_EMBEDDER = "elmo_token_embedder"
# AllenNLP's own models. The first is the default of `ElmoTokenEmbedder`.
OFFICIAL = tuple(
    f"elmo_{size}_options.json"
    for size in (
        *("2x4096_512_2048cnn_2xhighway", "2x1024_128_2048cnn_1xhighway", "2x2048_256_2048cnn_1xhighway"),
        "2x4096_512_2048cnn_2xhighway_5.5B",
    )
)
# An escape, a quotation mark, or a comma that only white space separates from a closing bracket. A pattern of whole
# strings would take quadratic time where a string has no end.
TOKEN = re.compile(rb'\\.|"|,(?=\s*[\]}])', re.DOTALL)


class Module(NamedTuple):
    """A biLM in a state dict.

    name (str): Name of the `Elmo` module, or of the biLM if it is not in one; "" for the whole state dict.
    prefix (str): Prefix of the biLM's tensors.
    mixes (str): Prefix of its scalar mixes.
    """

    name: str
    prefix: str
    mixes: str


class ElmoBlock(NamedTuple):
    """Settings of an `Elmo` or `ElmoTokenEmbedder` in a config.

    path (str): Its place, keys joined by dots.
    settings (Mapping[str, Any]): The settings.
    """

    path: str
    settings: Mapping[str, Any]


def find_block(config: Any, module: Module) -> Optional[ElmoBlock]:
    """The settings of a biLM in the config of an archive: the only ones, or those named as its token embedder."""
    blocks = list(_walk_config(config, ()))
    named = [block for block in blocks if f"token_embedder_{block.path.rpartition('.')[2]}" in module.name.split(".")]
    candidates = named if len(named) == 1 else blocks
    return candidates[0] if len(candidates) == 1 else None


def read_bilm_config(
    files: ModelFiles,
    config: Any,
    module: Module,
    block: Optional[ElmoBlock],
    shapes: Mapping[str, Shape],
    user_options: Optional[File],
) -> Tuple[BiLMConfig, str]:
    """The config of a biLM, and the source of the options.

    config (Any), block (Optional[ElmoBlock]): The config of the archive, and the settings of the biLM in it.
    shapes (Mapping[str, Shape]): Shapes of its tensors by their names in it.
    user_options (Optional[File]): Options that the user specifies, which are used first.
    RAISES (ValueError): With all problems.
    """
    options, source = _find_options(files, config, block, user_options)
    where = str(files.weights)
    if options is None:
        options, source = _derive_options(shapes, where), f"shapes of {where}"
        if not _is_official(block):
            warnings.warn(Warnings.WL310.format(path=where, name=module.name or "the biLM"), stacklevel=2)
    bilm_config = read_options(options, source, has_projection=True)
    if not bilm_config.has_projection:
        problem = f"its LSTMs project to their own width, {bilm_config.cell_width}, which a biLM here does not have"
        raise ValueError(NO_ELMO.format(path=where, problem=problem))
    if not bilm_config.has_skip and bilm_config.n_layers > 1:
        problem = "lstm.use_skip_connections is false, but AllenNLP's ELMo always has skip connections"
        raise ValueError(Errors.EL023.format(path=source, problems=problem))
    return bilm_config, source


def _find_options(
    files: ModelFiles, config: Any, block: Optional[ElmoBlock], user_options: Optional[File]
) -> Tuple[Any, str]:
    if user_options is not None:
        return read_json(user_options), str(user_options)
    stated = None if block is None else block.settings.get("options_file")
    if block is not None and isinstance(stated, Mapping):
        return stated, f"{files.by_name[CONFIG_NAME]}, {block.path}.options_file"
    name = find_member(files, block, "options_file")
    if name is None and not _is_official(block) and OPTIONS_NAME in files.by_name:
        name = OPTIONS_NAME
    if name is not None:
        return read_jsonnet(files.by_name[name]), str(files.by_name[name])
    if isinstance(config, Mapping) and "lstm" in config:  # options under the name of a config
        return config, str(files.by_name[CONFIG_NAME])
    return None, ""


def find_member(files: ModelFiles, block: Optional[ElmoBlock], key: str) -> Optional[str]:
    """The name in the archive or folder of the copy of a file whose path is a setting, "options_file" or "weight_file";
    files elsewhere are not opened.
    """
    if block is None:
        return None
    stated = block.settings.get(key)
    names = [f"fta/{block.path}.{key}"]
    if isinstance(stated, str):
        inner = stated.replace("\\", "/").rpartition("!")[2]
        names += [inner.removeprefix("./"), PurePosixPath(inner).name]
    return next((name for name in names if name in files.by_name), None)


def _is_official(block: Optional[ElmoBlock]) -> bool:
    if block is None:
        return False
    stated = block.settings.get("options_file")
    if stated is None:
        return block.settings.get("type") == ELMO_EMBEDDER
    return isinstance(stated, str) and PurePosixPath(stated).name in OFFICIAL


def _walk_config(node: Any, path: Tuple[str, ...]) -> Iterator[ElmoBlock]:
    """All blocks of a config that make an ELMo."""
    if isinstance(node, Mapping):
        if "options_file" in node or node.get("type") == ELMO_EMBEDDER:
            yield ElmoBlock(".".join(path), node)
            return
        for key, inner in node.items():
            yield from _walk_config(inner, (*path, str(key)))
    elif isinstance(node, list):
        for index, inner in enumerate(node):
            yield from _walk_config(inner, (*path, str(index)))


def _derive_options(shapes: Mapping[str, Shape], where: str) -> Dict[str, Any]:
    """Options for the shapes of a biLM's tensors by their names in it, in the form of bilm-tf's options.json.
    ValueError if a tensor whose shape gives a size is missing or has another number of dimensions.
    """
    cell = f"{LSTM}{DIRECTIONS[0]}_layer_"
    names = {
        "characters": CHARACTERS,
        "filters": EMBEDDER + "char_conv_{}.weight",
        "highways": EMBEDDER + "_highways._layers.{}.weight",
        "gates": cell + "{}.input_linearity.weight",
        "projections": cell + "{}.state_projection.weight",
    }
    outputs_last = {name: shape if name == CHARACTERS else shape[::-1] for name, shape in shapes.items()}
    options, problems = derive_options(outputs_last, names, 3)
    if problems:
        raise ValueError(NO_ELMO.format(path=where, problem=shorten("; ".join(problems))))
    return options


def to_json(content: bytes) -> bytes:
    """JSON without trailing commas; other Jsonnet is unchanged."""
    plain = bytearray()
    start, is_string = 0, False
    for token in TOKEN.finditer(content):
        if token[0] == b'"':
            is_string = not is_string
        elif token[0] == b"," and not is_string:
            plain += content[start : token.start()]
            start = token.end()
    return bytes(plain + content[start:])


def read_jsonnet(source: File) -> Any:
    """The value of a JSON file, in which AllenNLP allows some Jsonnet. ValueError EL022."""
    return parse_json(to_json(source.read_bytes()), source)
