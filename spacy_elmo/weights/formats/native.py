"""The native format: config.json, weights.safetensors, optionally meta.json, vocab.txt, lexicon.json; or bytes."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Dict, Iterable, List, Literal, Mapping, Optional, Tuple

import numpy as np
import srsly
import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from safetensors.numpy import load, save
from torch import from_numpy

from ...bilm.config import MAX_CUTOFFS, MAX_TABLE_WORDS, BiLMConfig
from ...bilm.network import AdaptiveHead, BiLMNetwork, LMHead
from ...bilm.state import BiLMState
from ...errors import Errors
from ...inference.bilm import BiLM
from ...inference.digest import EMBEDDINGS
from ...inference.kernel import to_int8
from ...inference.products import quantizable_names
from ...inference.runtime import isolated
from ...inference.word_encoder import make_lexicon_codec
from ...settings import KNOWN_NAMES, Count, Factor, Flag, Whole, check_record, list_problems, require
from ...text.words import Lexicon, Vocabulary
from ...util import shorten
from ..archive import (
    CONFIG_NAME,
    VOCAB_NAME,
    Array,
    File,
    Listing,
    ModelFiles,
    decoding,
    only_model,
    parse_json,
    read_json,
    read_object,
    unreadable,
    write_object,
)
from ..meta import META_NAME, make_file_meta, split_copy
from ..tensor_map import (
    Dataset,
    as_float32,
    check_dtype_fits,
    check_vocabulary,
    find_mismatches,
    is_head_shared,
    load_network,
    load_softmax,
    network_shapes,
    raise_mismatches,
    read_vocabulary,
    softmax_shapes,
    table_rows,
    to_arrays,
    whole,
    write_vocabulary,
)

MODELS_DIR = Path(__file__).parents[2] / "models"
PACKAGED_NAMES = ("en_elmo_sm",)  # of biLMs in this package
WEIGHTS_NAME = "weights.safetensors"
LEXICON_NAME = "lexicon.json"  # symbols of a biLM with a token embedder
NETWORK_PREFIX = "bilm."  # of the arrays of the network
FORMAT_VERSION = 1
BYTES_KEY = "spacy_elmo"
METADATA_KEY = "__metadata__"
SCALE_SUFFIX = ".scale"
SUMMED = 1  # the dimension that products sum over, for all matrices
SOFTMAX_KEYS = WEIGHT_KEY, BIAS_KEY = "softmax.weight", "softmax.bias"
ADAPTIVE_PREFIX = "adaptive."
LEXICON_TABLES = ("characters", "words")
EMBEDDINGS_KEY = "token_embeddings"
STEADY_KEYS = ("steady.h", "steady.c")
BYTES = "bytes"  # name in messages of a model that is not in a file
# Prefixes of names in files, which do not change when modules of the code are renamed, and in the state dict.
STORED_NAMES: Tuple[Tuple[str, str], ...] = (
    ("lstm.", "encoder.layers."),
    ("between.", "encoder.highways."),
    ("transformer.", "encoder.blocks."),
    ("output_norm.", "encoder.norm."),
)


def detect_native(listing: Listing) -> Optional[ModelFiles]:
    """Find a folder, one of the two files in it, or a zip of the folder. The weights may have any name.

    RAISES (ValueError): For a zip with several biLMs.
    """
    file = listing.file
    is_weights = file is not None and (file.name == WEIGHTS_NAME or has_network(file))
    if listing.kind == "tar" or (file is not None and file.name != CONFIG_NAME and not is_weights):
        return None
    models: Dict[str, ModelFiles] = {}
    for root, files in listing.find_model_folders(CONFIG_NAME.__eq__).items():
        weights = [files[WEIGHTS_NAME]] if WEIGHTS_NAME in files else []
        weights = weights or [files[name] for name in files if "/" not in name and has_network(files[name])]
        if file is not None and is_weights:
            weights = [file]
        if len(weights) == 1:
            where = str(listing.where)
            models[root] = ModelFiles(where, weights[0], files, files[CONFIG_NAME], files.get(VOCAB_NAME))
    return only_model(listing.path, models)


def find_packaged_files(name: str) -> ModelFiles:
    """The files of a packaged biLM. ValueError if it is not installed."""
    folder = MODELS_DIR / name
    files = detect_native(Listing(folder)) if folder.is_dir() else None
    if files is None:
        raise ValueError(
            f"The packaged biLM '{name}' is not installed (looked in '{folder}'). Install a release of spacy-elmo that "
            "includes it, or pass the path of other weights."
        )
    return files


def has_network(file: File) -> bool:
    """Whether this is a safetensors file with the arrays of a network."""
    return file.kind == "safetensors" and f'"{NETWORK_PREFIX}'.encode() in file.head


def stored_name(name: str) -> str:
    """The name in files and checkpoints of an entry of the state dict."""
    for stored, current in STORED_NAMES:
        if name.startswith(current):
            return stored + name.removeprefix(current)
    return name


def _native_datasets(config: BiLMConfig) -> List[Dataset]:
    shapes = network_shapes(config)
    return [whole(NETWORK_PREFIX + stored_name(key), shape, key) for key, shape in shapes.items()]


def current_name(name: str) -> str:
    """The inverse of `stored_name`."""
    for stored, current in STORED_NAMES:
        if name.startswith(stored):
            return current + name.removeprefix(stored)
    return name


@dataclass(frozen=True, config=KNOWN_NAMES)
class AdaptiveSettings:
    """Sizes of an adaptive softmax, see `AdaptiveHead`."""

    n_words: Annotated[Count, Field(le=MAX_TABLE_WORDS)]
    cutoffs: Annotated[List[Whole], Field(max_length=MAX_CUTOFFS)]
    div_value: Annotated[Factor, Field(le=MAX_TABLE_WORDS)]


@dataclass(frozen=True)
class NativeConfig:
    format_version: Literal[1]
    bilm: BiLMConfig
    shares_softmax: Flag = False
    adaptive_softmax: Optional[AdaptiveSettings] = None

    def __post_init__(self) -> None:
        has_table = self.bilm.n_words is not None or not self.shares_softmax
        require((has_table, "shares_softmax is true, but a biLM that reads characters has no word table"))
        self.make_head()  # which checks the cutoffs

    def make_head(self) -> Optional[AdaptiveHead]:
        """An adaptive softmax without weights; None for the full softmax, or without a softmax."""
        sizes = self.adaptive_softmax
        with torch.device("meta"):
            return None if sizes is None else AdaptiveHead(width=self.bilm.projection_width, **asdict(sizes))


def _config_record(bilm: BiLM) -> Dict[str, Any]:
    """The inverse of `read_native_config`, plain JSON types."""
    return {
        "format_version": FORMAT_VERSION,
        "bilm": bilm.config.to_dict(),
        "shares_softmax": is_head_shared(bilm.network, bilm.head),
        **({"adaptive_softmax": bilm.head.settings} if isinstance(bilm.head, AdaptiveHead) else {}),
    }


def read_native_config(record: Any, where: object) -> NativeConfig:
    """The settings of parsed JSON, all within the limits. ValueError EL023 with all problems."""
    config, problems = check_record(NativeConfig, record)
    if config is None:
        raise ValueError(Errors.EL023.format(path=where, problems=shorten(list_problems(problems))))
    return config


def _encode_int8(arrays: Mapping[str, Array], quantized: Iterable[str]) -> Dict[str, Array]:
    """All float32 arrays, those with a name in `quantized` as `name` (int8) and `name.scale` (float32)."""
    encoded = dict(arrays)
    for name in quantized:
        values, scale = to_int8(torch.from_numpy(np.ascontiguousarray(arrays[name])), SUMMED)
        encoded[name], encoded[name + SCALE_SUFFIX] = values.numpy(), scale.numpy()
    return encoded


def _decode_int8(arrays: Mapping[str, Array]) -> Tuple[Dict[str, Array], List[str]]:
    """The inverse of `_encode_int8`, with all problems of scales; arrays of other dtypes do not change."""
    decoded, problems = dict(arrays), []
    for name in [name for name, array in arrays.items() if array.dtype == np.int8]:
        scale = decoded.pop(name + SCALE_SUFFIX, None)
        expected = tuple(1 if k == SUMMED else n for k, n in enumerate(arrays[name].shape))
        if scale is None or scale.dtype != np.float32 or scale.shape != expected:
            kind = "missing" if scale is None else f"{scale.dtype} {list(scale.shape)}"
            problems.append(f"{name}{SCALE_SUFFIX} is {kind}, should be float32 {list(expected)}")
        else:
            with np.errstate(over="ignore", invalid="ignore"):  # the caller reports values that are not finite
                decoded[name] = arrays[name].astype("float32") * scale
    return decoded, problems


def _head_to_arrays(network: BiLMNetwork, head: Optional[LMHead]) -> Dict[str, Array]:
    """The softmax by key of the file; without a shared weight, which belongs to the network."""
    prefix = ADAPTIVE_PREFIX if isinstance(head, AdaptiveHead) else "softmax."
    arrays = {} if head is None else {prefix + key: array for key, array in to_arrays(head).items()}
    if is_head_shared(network, head):
        del arrays[WEIGHT_KEY]
    return arrays


def _load_head(network: BiLMNetwork, settings: NativeConfig, arrays: Mapping[str, Array]) -> Optional[LMHead]:
    """The softmax in evaluation mode, from arrays with the shapes of `_build_bilm`."""
    adaptive = settings.make_head()
    if adaptive is None:
        return load_softmax(SOFTMAX_KEYS, arrays, network, is_shared=settings.shares_softmax)
    state = {key: from_numpy(as_float32(arrays[ADAPTIVE_PREFIX + key])) for key in adaptive.state_dict()}
    adaptive.load_state_dict(state, assign=True)
    return adaptive.eval()


def _lexicon_record(lexicon: Lexicon) -> Dict[str, List[Optional[str]]]:
    return {"characters": list(lexicon.characters), "words": list(lexicon.words)}


def _parse_lexicon(record: Any, where: object) -> Lexicon:
    """The symbols in parsed JSON. ValueError EL022 if it is not a lexicon."""
    tables: List[Any] = [record.get(name) for name in LEXICON_TABLES] if isinstance(record, Mapping) else [None]
    symbol = (str, type(None))
    if not all(isinstance(table, list) and all(isinstance(value, symbol) for value in table) for table in tables):
        reason = f"it does not have the lists of strings {' and '.join(LEXICON_TABLES)}"
        raise unreadable(where, "lexicon", reason)
    return Lexicon(*tables)


def read_native(files: ModelFiles, vocab: Optional[File] = None) -> BiLM:
    """The biLM of a folder in native format, float32, whatever the dtype in the file. `vocab` replaces vocab.txt.
    ValueError with all problems of a file.
    """
    where = files.where
    settings = read_native_config(read_json(files.by_name[CONFIG_NAME]), where)
    arrays = _load_safetensors(files.weights.read_bytes(), files.weights)
    meta = read_object(files.by_name[META_NAME], "meta data") if META_NAME in files.by_name else {}
    words = vocab or files.vocab
    vocabulary = None if words is None else read_vocabulary(words, True)
    lexicon = files.by_name.get(LEXICON_NAME)
    symbols = None if lexicon is None else _parse_lexicon(read_json(lexicon), lexicon)
    return _build_bilm(settings, arrays, vocabulary, symbols, meta, where)


def write_native(bilm: BiLM, folder: Path, dtype: str) -> None:
    """Write a biLM to an empty folder, as "float32", "float16", or "int8" for the large matrices. ValueError for values
    that are too large for the dtype.
    """
    arrays, meta = _to_disk_arrays(bilm, dtype)
    srsly.write_json(folder / CONFIG_NAME, _config_record(bilm))
    write_object(folder / META_NAME, meta)
    (folder / WEIGHTS_NAME).write_bytes(save(arrays))
    if bilm.vocabulary is not None:
        write_vocabulary(folder / VOCAB_NAME, bilm.vocabulary)
    if bilm.lexicon is not None:
        (folder / LEXICON_NAME).write_text(json.dumps(_lexicon_record(bilm.lexicon)), encoding="ascii")


@isolated
def bilm_to_bytes(bilm: BiLM, dtype: str = "float32") -> bytes:
    """Serialize a model to bytes that contain no code: safetensors, with all other data as JSON in its header.

    bilm (BiLM): The model.
    dtype (str): "float32", "float16", or "int8" for the large matrices.
    RETURNS (bytes): Equal for equal models.
    """
    arrays, meta = _to_disk_arrays(bilm, dtype)
    record = {
        "config": _config_record(bilm),
        "dtype": dtype,
        "meta": meta,
        "vocabulary": None if bilm.vocabulary is None else bilm.vocabulary.words,
    }
    if bilm.lexicon is not None:
        record["lexicon"] = _lexicon_record(bilm.lexicon)
    # One header entry, since safetensors writes several in any order, and bytes of equal models should be equal.
    return save(arrays, metadata={BYTES_KEY: json.dumps(record, sort_keys=True)})


@isolated
def bilm_from_bytes(content: bytes, where: str = BYTES) -> BiLM:
    """content (bytes): From `bilm_to_bytes`.
    where (str): Its source, for messages.
    RETURNS (BiLM): The model, float32.
    RAISES (ValueError): For other or damaged bytes.
    """
    arrays = _load_safetensors(content, where)
    length = int.from_bytes(content[:8], "little")  # of the header, which is JSON
    metadata = parse_json(content[8 : 8 + length], where).get(METADATA_KEY) or {}
    record = parse_json(metadata.get(BYTES_KEY, "null"), where)
    record = record if isinstance(record, Mapping) else {}
    words, meta, lexicon = record.get("vocabulary"), record.get("meta"), record.get("lexicon")
    checks = [
        (isinstance(record.get("config"), Mapping), "config is missing or is not an object"),
        (
            words is None or (isinstance(words, list) and all(isinstance(word, str) for word in words)),
            "vocabulary is not a list of strings",
        ),
        (meta is None or isinstance(meta, Mapping), f"meta is a {type(meta).__name__}, should be an object"),
    ]
    problems = [text for is_fine, text in checks if not is_fine]
    if problems:
        listing = "; ".join(problems)
        raise ValueError(
            f"The header of '{where}' does not describe a biLM: {listing}. Pass bytes from `bilm_to_bytes` or a saved "
            "pipeline."
        )
    vocabulary = None if words is None else Vocabulary(words)
    symbols = None if lexicon is None else _parse_lexicon(lexicon, where)
    return _build_bilm(
        read_native_config(record["config"], where), arrays, vocabulary, symbols, dict(meta or {}), where
    )


def _to_disk_arrays(bilm: BiLM, dtype: str) -> Tuple[Dict[str, Array], Dict[str, Any]]:
    """The arrays and the meta data of a file."""
    weights = to_arrays(bilm.network)
    if bilm.token_embeddings is not None:
        weights[EMBEDDINGS] = bilm.token_embeddings.detach().cpu().numpy()
    head = _head_to_arrays(bilm.network, bilm.head)
    arrays = {**{_array_name(name): array for name, array in weights.items()}, **head}
    if dtype == "int8":
        check_dtype_fits(arrays, "float32")
        quantized = [_array_name(name) for name in quantizable_names(bilm.network)]
        stored = _encode_int8(arrays, [*quantized, *(key for key, array in head.items() if array.ndim == 2)])
        restored, _ = _decode_int8(stored)
    else:
        check_dtype_fits(arrays, dtype)
        restored = stored = {key: np.ascontiguousarray(array, dtype=dtype) for key, array in arrays.items()}
    meta = make_file_meta(bilm, dtype, {name: restored[_array_name(name)] for name in weights})
    # The steady state is valid only for the weights it was computed with, in float32, and is not rounded.
    if not bilm.config.has_state:
        return stored, meta
    if bilm.precision == "float32" and all(np.array_equal(arrays[key], restored[key]) for key in arrays):
        for key, tensor in zip(STEADY_KEYS, (bilm.steady_state.h, bilm.steady_state.c)):
            stored[key] = np.ascontiguousarray(tensor.detach().cpu().numpy(), dtype="float32")
    return stored, meta


def _array_name(name: str) -> str:
    """The name in files of a weight of `collect_weights`."""
    return EMBEDDINGS_KEY if name == EMBEDDINGS else NETWORK_PREFIX + stored_name(name)


def _build_bilm(
    settings: NativeConfig,
    arrays: Dict[str, Array],
    vocabulary: Optional[Vocabulary],
    lexicon: Optional[Lexicon],
    meta: Dict[str, Any],
    where: str,
) -> BiLM:
    config, adaptive = settings.bilm, settings.make_head()
    table = _native_datasets(config)
    expected = {dataset.name: dataset.shape for dataset in table}
    if adaptive is None:
        expected.update(softmax_shapes(SOFTMAX_KEYS, arrays, config, is_shared=settings.shares_softmax))
    else:
        state = adaptive.state_dict()
        expected.update({ADAPTIVE_PREFIX + key: tuple(tensor.shape) for key, tensor in state.items()})
    if EMBEDDINGS_KEY in arrays:
        expected[EMBEDDINGS_KEY] = (*arrays[EMBEDDINGS_KEY].shape[:1], config.projection_width)
    if any(key in arrays for key in STEADY_KEYS) and config.has_state:  # both, or none
        expected[STEADY_KEYS[0]] = (config.n_layers, 1, config.output_width)
        expected[STEADY_KEYS[1]] = (config.n_layers, 1, config.n_directions * config.cell_width)
    raise_mismatches(find_mismatches(expected, arrays), where, CONFIG_NAME)
    rows = table_rows(*(arrays.get(key) for key in (NETWORK_PREFIX + "word_embedding", BIAS_KEY, EMBEDDINGS_KEY)))
    if adaptive is not None:
        rows["the softmax"] = adaptive.n_words
    check_vocabulary(vocabulary, rows, where)
    if config.token_embedder is not None:
        make_lexicon_codec(config, lexicon)  # ValueError for a lexicon that does not fit
    network = load_network(config, table, arrays)
    own_meta, copied = split_copy(meta)
    names = [name for name in (*STEADY_KEYS, EMBEDDINGS_KEY) if name in expected]
    tensors = {name: from_numpy(as_float32(arrays[name])) for name in names}
    return BiLM(
        network,
        vocabulary=vocabulary,
        head=_load_head(network, settings, arrays),
        token_embeddings=tensors.get(EMBEDDINGS_KEY),
        meta=own_meta,
        rounded_copy=copied,
        steady_state=BiLMState(*(tensors[name] for name in STEADY_KEYS)) if STEADY_KEYS[0] in tensors else None,
        lexicon=lexicon,
    )


def _load_safetensors(content: bytes, where: object) -> Dict[str, Array]:
    with decoding(where, "safetensors"):
        arrays, problems = _decode_int8(load(content))
    if problems:
        raise unreadable(where, "int8 weights", shorten("; ".join(problems)))
    return arrays
