"""The native format: config.json, weights.safetensors, optionally meta.json, vocab.txt, lexicon.json; or bytes."""

import json
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, cast

import numpy as np
import srsly
import torch
from safetensors.numpy import load, save
from torch import from_numpy, nn

from ..bilm.config import BiLMConfig
from ..bilm.lm_head import AdaptiveHead, LMHead
from ..bilm.model import BiLMNetwork
from ..bilm.state import BiLMState
from ..errors import Errors
from ..inference.bilm import BiLM
from ..inference.products import quantizable_names, to_int8
from ..inference.runtime import isolated
from ..inference.words import make_lexicon_codec
from ..text.words import Lexicon, Vocabulary
from ..util import is_number, shorten
from .parts import (
    MAX_CUTOFFS,
    MAX_WORDS,
    Faults,
    as_float32,
    build_head,
    build_network,
    check_dtype_fits,
    check_vocabulary,
    find_excess,
    is_head_shared,
    network_shapes,
    read_vocabulary,
    refuse_misfits,
    table_rows,
    to_arrays,
    write_vocabulary,
)
from .sources import (
    MAX_JSON_BYTES,
    MIB,
    Source,
    check_size,
    decoding,
    is_zip,
    kind_of,
    list_sources,
    parse_json,
    read_json,
    unreadable,
)
from .tensor_map import Array, Shape, find_misfits

# Names of the arrays of a network in files. They do not change when modules of the code are renamed.

# Prefix of a name in files, and in the state dict.
STORED_NAMES: Tuple[Tuple[str, str], ...] = (
    ("lstm.", "encoder.layers."),
    ("between.", "encoder.highways."),
    ("transformer.", "encoder.blocks."),
    ("output_norm.", "encoder.norm."),
)


def stored_name(name: str) -> str:
    """name (str): Name of an entry of the state dict.
    RETURNS (str): Its name in files and checkpoints.
    """
    for stored, current in STORED_NAMES:
        if name.startswith(current):
            return stored + name.removeprefix(current)
    return name


def current_name(name: str) -> str:
    """RETURNS (str): The inverse of `stored_name`."""
    for stored, current in STORED_NAMES:
        if name.startswith(stored):
            return current + name.removeprefix(stored)
    return name


# Find the files of a biLM in native format.

CONFIG_NAME, WEIGHTS_NAME = "config.json", "weights.safetensors"
META_NAME, VOCAB_NAME = "meta.json", "vocab.txt"
LEXICON_NAME = "lexicon.json"  # symbols of a biLM with a token embedder
NETWORK_PREFIX = "bilm."  # of the arrays of the network
NATIVE_WANTED = f"a folder or .zip with {CONFIG_NAME} and {WEIGHTS_NAME}"


@dataclass(frozen=True)
class NativeFiles:
    """The files of a biLM in native format.

    folder (Path): Where they are: a folder, or a zip.
    weights (Source): The safetensors file.
    sources (Mapping[str, Source]): All files of the folder by name, config.json among them.
    """

    folder: Path
    weights: Source
    sources: Mapping[str, Source]


def detect_native(path: Path) -> Optional[NativeFiles]:
    """path (Path): A folder that exists, one of the two files in it, or a zip of the folder.
    RETURNS (Optional[NativeFiles]): The files if they are in native format, else None. The weights may have any name.
    RAISES (ValueError): For a zip with several biLMs.
    """
    given = Source(path)
    if path.is_file() and is_zip(path):
        return _in_zip(path)
    is_weights = not path.is_dir() and (given.name == WEIGHTS_NAME or has_network(given))
    if not path.is_dir() and given.name != CONFIG_NAME and not is_weights:
        return None
    folder = path if path.is_dir() else path.parent
    sources = list_sources(folder) if folder.is_dir() else {}
    if CONFIG_NAME not in sources:
        return None
    found = [given] if is_weights else [sources[WEIGHTS_NAME]] if WEIGHTS_NAME in sources else []
    if not found:
        found = [source for source in sources.values() if has_network(source)]
    return NativeFiles(folder, found[0], sources) if len(found) == 1 else None


def _in_zip(path: Path) -> Optional[NativeFiles]:
    """The only folder of a zip with a config and weights, which are read without unpacking."""
    sources = list_sources(path)
    found: Dict[str, NativeFiles] = {}
    for root in [name.removesuffix(CONFIG_NAME) for name in sources if PurePosixPath(name).name == CONFIG_NAME]:
        inside = {name.removeprefix(root): sources[name] for name in sources if name.startswith(root)}
        own = [name for name in inside if "/" not in name and name.endswith(".safetensors")]
        weights = [inside[name] for name in own if name == WEIGHTS_NAME or has_network(inside[name])]
        if len(weights) == 1:
            found[root.rstrip("/") or "the top"] = NativeFiles(path, weights[0], inside)
    if len(found) > 1:
        names = ", ".join(found)
        raise ValueError(
            f"'{path}' has {len(found)} biLMs ({names}), but should have one. Unpack it, and pass one of its folders."
        )
    return next(iter(found.values()), None)


def has_network(source: Source) -> bool:
    """RETURNS (bool): Whether this is a safetensors file with the arrays of a network."""
    head = source.read_head()
    if kind_of(head) != "safetensors":
        return False
    return f'"{NETWORK_PREFIX}'.encode() in source.read_head(8 + int.from_bytes(head[:8], "little"))


# The settings in config.json of the native format, or in the header of bytes, and their checks.

FORMAT_VERSION = 1
BYTES_KEY = "spacy_elmo"
METADATA_KEY = "__metadata__"


class Settings(NamedTuple):
    """The settings in config.json.

    config (BiLMConfig): Config of the network.
    is_shared (bool): Whether the softmax shares the word table.
    adaptive (Optional[AdaptiveHead]): An adaptive softmax without weights.
    """

    config: BiLMConfig
    is_shared: bool
    adaptive: Optional[AdaptiveHead]


def config_record(bilm: BiLM) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): The inverse of `read_config`, plain JSON types."""
    return {
        "format_version": FORMAT_VERSION,
        "bilm": bilm.config.to_dict(),
        "shares_softmax": is_head_shared(bilm.network, bilm.head),
        **head_record(bilm.head),
    }


def read_config(record: Any, where: str) -> Settings:
    """record (Any): The parsed JSON.
    where (str): Its source, for messages.
    RETURNS (Settings): The settings, all within the limits.
    RAISES (ValueError): EL023 with all problems.
    """
    settings = record.get("bilm") if isinstance(record, Mapping) else None
    if not isinstance(settings, Mapping):
        raise ValueError(Errors.EL023.format(path=where, problems="config.json has no block 'bilm'"))
    if record.get("format_version") != FORMAT_VERSION:
        found = shorten(repr(record.get("format_version")), 40)
        problem = f"format_version is {found}, but this package reads {FORMAT_VERSION}"
        raise ValueError(Errors.EL023.format(path=where, problems=problem))
    problems = _adaptive_problems(record.get("adaptive_softmax"))
    try:
        config = BiLMConfig.from_dict(settings)
        problems = [*find_excess(config), *_sharing_problems(record, config), *problems]
        adaptive = None if problems else empty_adaptive_head(record, config.projection_width)
    except (ValueError, TypeError) as error:
        problems.append(str(error).rstrip("."))
    if problems:
        raise ValueError(Errors.EL023.format(path=where, problems=shorten("; ".join(problems))))
    return Settings(config, bool(record.get("shares_softmax")), adaptive)


def read_header(content: bytes, where: str) -> Dict[str, Any]:
    """content (bytes): Valid safetensors: 8 bytes with the length of the header, then the header in JSON.
    RETURNS (Dict[str, Any]): `config`, `vocabulary` (a list of strings or None) and `meta`.
    RAISES (ValueError): EL022 if the header does not contain our settings, with all type errors.
    """
    length = int.from_bytes(content[:8], "little")
    metadata = parse_json(content[8 : 8 + length], where).get(METADATA_KEY) or {}
    if BYTES_KEY not in metadata:
        raise unreadable(where, "biLM", "no settings in the header")
    record = parse_json(metadata[BYTES_KEY], where)
    problems = _header_problems(record)
    if problems:
        listing = "; ".join(problems)
        raise ValueError(
            f"The header of '{where}' does not describe a biLM: {listing}. Pass bytes from `bilm_to_bytes` or a "
            "saved pipeline."
        )
    words, meta = record.get("vocabulary"), record.get("meta")
    found = {"config": record["config"], "vocabulary": words, "meta": {} if meta is None else meta}
    return {**found, "lexicon": record.get("lexicon")}


def _header_problems(record: Any) -> List[str]:
    if not isinstance(record, Mapping):
        return [f"it contains a {type(record).__name__} instead of an object"]
    words, meta = record.get("vocabulary"), record.get("meta")
    problems = [] if isinstance(record.get("config"), Mapping) else ["config is missing or is not an object"]
    if words is not None and not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
        problems.append("vocabulary is not a list of strings")
    if meta is not None and not isinstance(meta, Mapping):
        problems.append(f"meta is a {type(meta).__name__}, should be an object")
    return problems


def _sharing_problems(record: Mapping[str, Any], config: BiLMConfig) -> List[str]:
    is_shared = record.get("shares_softmax", False)
    if not isinstance(is_shared, bool):
        return [f"shares_softmax is {shorten(repr(is_shared), 40)}, should be true or false"]
    if is_shared and config.n_words is None:
        return ["shares_softmax is true, but a biLM that reads characters has no word table"]
    return []


def _adaptive_problems(settings: Any) -> List[str]:
    """Check types and limits; `AdaptiveHead` itself checks the cutoffs."""
    if settings is None:
        return []
    if not isinstance(settings, Mapping):
        return [f"adaptive_softmax is a {type(settings).__name__}, should be an object"]
    n_words, cutoffs, div_value = (settings.get(name) for name in ("n_words", "cutoffs", "div_value"))
    is_list = isinstance(cutoffs, list) and len(cutoffs) <= MAX_CUTOFFS and all(type(n) is int for n in cutoffs)
    checks = [
        (set(settings) == {"n_words", "cutoffs", "div_value"}, f"has {sorted(settings)}"),
        (type(n_words) is int and 1 <= n_words <= MAX_WORDS, f"has n_words {n_words!r}"),
        (is_list, f"has cutoffs {cutoffs!r}"),
        (is_number(div_value) and 1 <= div_value <= MAX_WORDS, f"has div_value {div_value!r}"),
    ]
    wanted = f"n_words (1 to {MAX_WORDS:,}), cutoffs (at most {MAX_CUTOFFS} integers) and div_value (1 or more)"
    return [f"adaptive_softmax {shorten(text, 80)}, should have {wanted}" for is_fine, text in checks if not is_fine]


# int8 on disk: large matrices as int8 values with their scales, the same as in int8 products.

SUFFIX = ".scale"
SUMMED = 1  # the dimension that products sum over, for all matrices


def encode_int8(arrays: Mapping[str, Array], quantized: Iterable[str]) -> Dict[str, Array]:
    """arrays (Mapping[str, Array]): float32 arrays.
    quantized (Iterable[str]): Names of the arrays to quantize.
    RETURNS (Dict[str, Array]): All arrays; a quantized one as `name` (int8) and `name.scale` (float32).
    """
    found = dict(arrays)
    for name in quantized:
        values, scale = to_int8(torch.from_numpy(np.ascontiguousarray(arrays[name])), SUMMED)
        found[name], found[name + SUFFIX] = values.numpy(), scale.numpy()
    return found


def decode_int8(arrays: Mapping[str, Array]) -> Tuple[Dict[str, Array], List[str]]:
    """The inverse of `encode_int8`; arrays of other dtypes do not change.

    RETURNS (Tuple[Dict[str, Array], List[str]]): The arrays by name, and all problems with scales.
    """
    found, problems = dict(arrays), []
    for name in [name for name, array in arrays.items() if array.dtype == np.int8]:
        scale = found.pop(name + SUFFIX, None)
        wanted = tuple(1 if k == SUMMED else n for k, n in enumerate(arrays[name].shape))
        if scale is None or scale.dtype != np.float32 or scale.shape != wanted:
            kind = "missing" if scale is None else f"{scale.dtype} {list(scale.shape)}"
            problems.append(f"{name}{SUFFIX} is {kind}, should be float32 {list(wanted)}")
        else:
            with np.errstate(over="ignore", invalid="ignore"):  # the caller reports values that are not finite
                found[name] = arrays[name].astype("float32") * scale
    return found, problems


# Conversion of the softmax (full, shared with the word table, or adaptive) to the arrays of a native file and back.

WEIGHT_KEY, BIAS_KEY = "softmax.weight", "softmax.bias"
ADAPTIVE_PREFIX = "adaptive."


def head_record(head: Optional[LMHead]) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Settings of the softmax in config.json, empty if the arrays suffice."""
    return {"adaptive_softmax": head.settings} if isinstance(head, AdaptiveHead) else {}


def head_to_arrays(network: BiLMNetwork, head: Optional[LMHead]) -> Dict[str, Array]:
    """RETURNS (Dict[str, Array]): By key of the file; without a shared weight, which belongs to the network."""
    if head is None:
        return {}
    if isinstance(head, AdaptiveHead):
        return {ADAPTIVE_PREFIX + key: array for key, array in to_arrays(head).items()}
    arrays = to_arrays(head)
    shared = is_head_shared(network, head)
    return {BIAS_KEY: arrays["bias"]} if shared else {WEIGHT_KEY: arrays["weight"], BIAS_KEY: arrays["bias"]}


def empty_adaptive_head(record: Mapping[str, Any], width: int) -> Optional[AdaptiveHead]:
    """record (Mapping[str, Any]): config.json.
    width (int): P.
    RETURNS (Optional[AdaptiveHead]): A head without weights; None if the model has another softmax.
    RAISES (ValueError, TypeError): For invalid settings.
    """
    settings = record.get("adaptive_softmax")
    if settings is None:
        return None
    with torch.device("meta"):
        return AdaptiveHead(width=width, **settings)


def head_shapes(
    config: BiLMConfig, adaptive: Optional[AdaptiveHead], arrays: Mapping[str, Array], is_shared: bool
) -> Dict[str, Shape]:
    """RETURNS (Dict[str, Shape]): Expected shapes; the softmax is optional, but must be complete."""
    if adaptive is not None:
        return {ADAPTIVE_PREFIX + key: tuple(tensor.shape) for key, tensor in adaptive.state_dict().items()}
    if WEIGHT_KEY not in arrays and BIAS_KEY not in arrays:
        return {}
    n_words = n_rows(arrays, (BIAS_KEY, WEIGHT_KEY)) if not is_shared else config.n_words or 0
    shapes: Dict[str, Shape] = {BIAS_KEY: (n_words,)}
    if not is_shared:
        shapes[WEIGHT_KEY] = (n_words, config.projection_width)
    return shapes


def head_from_arrays(
    network: BiLMNetwork, adaptive: Optional[AdaptiveHead], arrays: Mapping[str, Array], is_shared: bool
) -> Optional[LMHead]:
    """arrays (Mapping[str, Array]): float32, with the shapes of `head_shapes`.
    RETURNS (Optional[LMHead]): In evaluation mode.
    """
    if adaptive is not None:
        state = {key: from_numpy(arrays[ADAPTIVE_PREFIX + key]) for key in adaptive.state_dict()}
        adaptive.load_state_dict(state, assign=True)
        return adaptive.eval()
    if BIAS_KEY not in arrays:
        return None
    weight = network.word_embedding if is_shared else None
    return build_head(nn.Parameter(from_numpy(arrays[WEIGHT_KEY])) if weight is None else weight, arrays[BIAS_KEY])


def n_rows(arrays: Mapping[str, Array], keys: Sequence[str]) -> int:
    """RETURNS (int): Rows of the first of these arrays that exists, 0 if none does."""
    sizes = [len(arrays[key]) for key in keys if key in arrays and arrays[key].shape]
    return sizes[0] if sizes else 0


# lexicon.json of the native format: the symbols of a biLM with a token embedder, by id.

MAX_BYTES = 256 * MIB
LEXICON_TABLES = ("characters", "words")


def lexicon_record(lexicon: Lexicon) -> Dict[str, List[Optional[str]]]:
    """RETURNS (Dict[str, List[Optional[str]]]): The inverse of `parse_lexicon`, plain JSON types."""
    return {"characters": list(lexicon.characters), "words": list(lexicon.words)}


def read_lexicon(source: Source) -> Lexicon:
    """source (Source): lexicon.json.
    RETURNS (Lexicon): The symbols.
    RAISES (ValueError): EL022 if it is not a lexicon, EL036 if it is too large.
    """
    return parse_lexicon(read_json(source, MAX_BYTES), str(source))


def parse_lexicon(record: Any, where: str) -> Lexicon:
    """record (Any): The parsed JSON.
    where (str): Its source, for messages.
    RETURNS (Lexicon): The symbols.
    RAISES (ValueError): EL022 if it is not a lexicon.
    """
    tables: List[Any] = [record.get(name) for name in LEXICON_TABLES] if isinstance(record, Mapping) else []
    symbol = (str, type(None))
    are_lists = bool(tables) and all(isinstance(table, list) for table in tables)
    is_fine = are_lists and all(isinstance(value, symbol) for table in tables for value in table)
    if not is_fine:
        reason = f"it does not have the lists of strings {' and '.join(LEXICON_TABLES)}"
        raise unreadable(where, "lexicon", reason)
    return Lexicon(*tables)


def check_lexicon(config: BiLMConfig, lexicon: Optional[Lexicon]) -> None:
    """RAISES (ValueError): If a biLM with a token embedder has no lexicon that fits it."""
    if config.token_embedder is not None:
        make_lexicon_codec(config, lexicon)


# The native format: config.json, weights.safetensors, meta.json and vocab.txt in a folder, or the same as bytes.

EMBEDDINGS_KEY = "token_embeddings"
STEADY_KEYS = ("steady.h", "steady.c")
BYTES = "bytes"  # name in messages of a model that is not in a file


def read_native(files: NativeFiles, vocabulary: Optional[Vocabulary] = None) -> BiLM:
    """Read a folder in native format.

    files (NativeFiles): config.json and the weights, optionally meta.json and vocab.txt.
    vocabulary (Optional[Vocabulary]): Replaces vocab.txt.
    RETURNS (BiLM): float32, whatever the dtype in the file.
    RAISES (ValueError): With all problems of all files.
    """
    faults, sources, where = Faults(), files.sources, str(files.folder)
    settings = faults.attempt(lambda: read_config(read_json(sources[CONFIG_NAME]), where))
    arrays = faults.attempt(lambda: _load(files.weights.read_bytes(), str(files.weights)))
    meta = faults.attempt(_read_meta, sources[META_NAME]) if META_NAME in sources else {}
    if vocabulary is None and VOCAB_NAME in sources:
        vocabulary = faults.attempt(read_vocabulary, sources[VOCAB_NAME], True)
    lexicon = faults.attempt(read_lexicon, sources[LEXICON_NAME]) if LEXICON_NAME in sources else None
    return _build(faults, settings, arrays, vocabulary, meta or {}, where, lexicon)


def write_native(bilm: BiLM, folder: Path, dtype: str) -> None:
    """bilm (BiLM): The model.
    folder (Path): An empty folder.
    dtype (str): On disk, "float32", "float16", or "int8" for the large matrices.
    RAISES (ValueError): For values that are too large for the dtype, EL036 for meta data that could not be read.
    """
    arrays = _to_disk_arrays(bilm, dtype)
    meta = json.dumps(bilm.meta or {}, indent=2).encode("ascii")  # srsly rounds numbers
    check_size("meta.json", len(meta), MAX_JSON_BYTES)
    srsly.write_json(folder / "config.json", config_record(bilm))
    (folder / "meta.json").write_bytes(meta)
    (folder / "weights.safetensors").write_bytes(save(arrays))
    if bilm.vocabulary is not None:
        write_vocabulary(folder / "vocab.txt", bilm.vocabulary)
    if bilm.lexicon is not None:
        (folder / LEXICON_NAME).write_text(json.dumps(lexicon_record(bilm.lexicon)), encoding="ascii")


@isolated
def bilm_to_bytes(bilm: BiLM, dtype: str = "float32") -> bytes:
    """Serialize a model to bytes that contain no code: safetensors, with all other data as JSON in its header.

    bilm (BiLM): The model.
    dtype (str): "float32", "float16", or "int8" for the large matrices.
    RETURNS (bytes): Equal for equal models.
    """
    record = {
        "config": config_record(bilm),
        "dtype": dtype,
        "meta": bilm.meta or {},
        "vocabulary": None if bilm.vocabulary is None else bilm.vocabulary.words,
    }
    if bilm.lexicon is not None:
        record["lexicon"] = lexicon_record(bilm.lexicon)
    # One header entry, since safetensors writes several in any order, and bytes of equal models should be equal.
    return save(_to_disk_arrays(bilm, dtype), metadata={BYTES_KEY: json.dumps(record, sort_keys=True)})


@isolated
def bilm_from_bytes(content: bytes) -> BiLM:
    """content (bytes): From `bilm_to_bytes`.
    RETURNS (BiLM): The model, float32.
    RAISES (ValueError): For other or damaged bytes.
    """
    arrays = _load(content, BYTES)
    record = read_header(content, BYTES)
    faults = Faults()
    vocabulary = None if record["vocabulary"] is None else faults.attempt(Vocabulary, record["vocabulary"])
    settings = faults.attempt(read_config, record["config"], BYTES)
    lexicon = None if record["lexicon"] is None else faults.attempt(parse_lexicon, record["lexicon"], BYTES)
    return _build(faults, settings, arrays, vocabulary, record["meta"], BYTES, lexicon)


def _to_disk_arrays(bilm: BiLM, dtype: str) -> Dict[str, Array]:
    arrays = {NETWORK_PREFIX + stored_name(key): array for key, array in to_arrays(bilm.network).items()}
    head = head_to_arrays(bilm.network, bilm.head)
    arrays.update(head)
    if bilm.token_embeddings is not None:
        arrays[EMBEDDINGS_KEY] = bilm.token_embeddings.detach().cpu().numpy()
    if dtype == "int8":
        check_dtype_fits(arrays, "float32")
        quantized = [NETWORK_PREFIX + stored_name(name) for name in quantizable_names(bilm.network)]
        stored = encode_int8(arrays, [*quantized, *(key for key, array in head.items() if array.ndim == 2)])
        kept, _ = decode_int8(stored)
    else:
        check_dtype_fits(arrays, dtype)
        kept = stored = {key: np.ascontiguousarray(array, dtype=dtype) for key, array in arrays.items()}
    # The steady state is valid only for the weights it was computed with, in float32, and is not rounded.
    if not bilm.config.has_state:
        return stored
    if bilm.precision == "float32" and all(np.array_equal(arrays[key], kept[key]) for key in arrays):
        for key, tensor in zip(STEADY_KEYS, (bilm.steady_state.h, bilm.steady_state.c)):
            stored[key] = np.ascontiguousarray(tensor.detach().cpu().numpy(), dtype="float32")
    return stored


def _build(
    faults: Faults,
    settings: Optional[Settings],
    arrays: Optional[Dict[str, Array]],
    vocabulary: Optional[Vocabulary],
    meta: Dict[str, Any],
    where: str,
    lexicon: Optional[Lexicon],
) -> BiLM:
    """Create the model, or raise one error with all problems. A part that could not be read is None."""
    if arrays is not None:
        faults.attempt(_check_fit, settings, arrays, where)
        tables = (arrays.get(NETWORK_PREFIX + "word_embedding"), arrays.get(BIAS_KEY), arrays.get(EMBEDDINGS_KEY))
        rows = table_rows(*tables)
        if settings is not None and settings[2] is not None:
            rows["the softmax"] = settings[2].n_words
        faults.attempt(check_vocabulary, vocabulary, rows)
    if settings is not None:
        faults.attempt(check_lexicon, settings[0], lexicon)
    faults.raise_together(where)
    config, is_shared, adaptive = cast(Settings, settings)
    arrays = {key: as_float32(array) for key, array in (arrays or {}).items()}
    own = (key for key in arrays if key.startswith(NETWORK_PREFIX))
    state = {current_name(key.removeprefix(NETWORK_PREFIX)): arrays[key] for key in own}
    network = build_network(config, state)
    embeddings = arrays.get(EMBEDDINGS_KEY)
    return BiLM(
        network,
        vocabulary=vocabulary,
        head=head_from_arrays(network, adaptive, arrays, is_shared),
        token_embeddings=None if embeddings is None else from_numpy(embeddings),
        meta=meta,
        steady_state=_build_steady(arrays),
        lexicon=lexicon,
    )


def _check_fit(settings: Optional[Settings], arrays: Dict[str, Array], where: str) -> None:
    """Raise one error with all problems of the arrays. Without settings only values are checked."""
    wanted = {key: array.shape for key, array in arrays.items()}
    if settings is not None:
        config, is_shared, adaptive = settings
        wanted = {NETWORK_PREFIX + stored_name(key): shape for key, shape in network_shapes(config).items()}
        wanted.update(head_shapes(config, adaptive, arrays, is_shared))
        wanted.update(_optional_shapes(config, arrays))
    refuse_misfits(find_misfits(wanted, arrays), where, "config.json")


def _optional_shapes(config: BiLMConfig, arrays: Dict[str, Array]) -> Dict[str, Shape]:
    """Shapes of optional arrays; each optional part must be complete."""
    shapes: Dict[str, Shape] = {}
    if EMBEDDINGS_KEY in arrays:
        shapes[EMBEDDINGS_KEY] = (n_rows(arrays, [EMBEDDINGS_KEY]), config.projection_width)
    if any(key in arrays for key in STEADY_KEYS) and config.has_state:
        shapes[STEADY_KEYS[0]] = (config.n_layers, 1, config.output_width)
        shapes[STEADY_KEYS[1]] = (config.n_layers, 1, config.n_directions * config.cell_width)
    return shapes


def _build_steady(arrays: Dict[str, Array]) -> Optional[BiLMState]:
    h, c = (arrays.get(key) for key in STEADY_KEYS)
    return None if h is None or c is None else BiLMState(from_numpy(h), from_numpy(c))


def _read_meta(source: Source) -> Dict[str, Any]:
    meta = read_json(source)
    if not isinstance(meta, dict):
        raise unreadable(source, "meta data", f"it contains a {type(meta).__name__} instead of an object {{...}}")
    return meta


def _load(content: bytes, where: str) -> Dict[str, Array]:
    with decoding(where, "safetensors"):
        arrays, problems = decode_int8(load(content))
    if problems:
        raise unreadable(where, "int8 weights", shorten("; ".join(problems)))
    return arrays
