"""The native format: config.json, weights.safetensors, meta.json and vocab.txt in a folder, or the same as bytes."""

import json
from pathlib import Path
from typing import Any, Dict, Optional, cast

import numpy as np
import srsly
from safetensors.numpy import load, save
from torch import from_numpy

from ...bilm.config import BiLMConfig
from ...bilm.state import BiLMState
from ...encoding.facade import BiLM
from ...engine.isolation import isolated
from ...engine.quantization import quantizable_names
from ...errors import Errors
from ...text.lexicon import Lexicon
from ...text.vocabulary import Vocabulary
from ..bilm_tf.layout import state_shapes
from ..limits import MAX_JSON_BYTES, listed, shorten
from ..parts import (
    as_float32,
    build_network,
    check_dtype_fits,
    check_vocabulary,
    read_vocabulary,
    table_rows,
    to_arrays,
    write_vocabulary,
)
from ..problems import Faults
from ..sources import Source, check_size, decoding, read_json, unreadable
from ..tensor_map import Array, Shape, find_misfits
from .files import CONFIG_NAME, LEXICON_NAME, META_NAME, NETWORK_PREFIX, VOCAB_NAME, NativeFiles
from .int8 import decode_int8, encode_int8
from .lexicon import check_lexicon, lexicon_record, parse_lexicon, read_lexicon
from .names import current_name, stored_name
from .settings import BYTES_KEY, Settings, config_record, read_config, read_header
from .softmax_head import (
    BIAS_KEY,
    head_from_arrays,
    head_shapes,
    head_to_arrays,
    n_rows,
)

EMBEDDINGS_KEY = "token_embeddings"
STEADY_KEYS = ("steady.h", "steady.c")
BYTES = "bytes"  # name in messages of a model that is not in a file


def read_native(files: NativeFiles, vocabulary: Optional[Vocabulary] = None) -> BiLM:
    """Read a folder in native format.

    files (NativeFiles): config.json and the weights, optionally meta.json and vocab.txt.
    vocabulary (Optional[Vocabulary]): Replaces vocab.txt.
    RETURNS (BiLM): float32, whatever the dtype in the file.
    RAISES (ValueError): EL020, EL022, EL023, EL026 to EL028, or EL034 with all problems of several files.
    """
    faults, sources, where = Faults(), files.sources, str(files.folder)
    settings = faults.attempt(_read_settings, sources[CONFIG_NAME], where)
    arrays = faults.attempt(_read_weights, files.weights)
    meta = faults.attempt(_read_meta, sources[META_NAME]) if META_NAME in sources else {}
    if vocabulary is None and VOCAB_NAME in sources:
        vocabulary = faults.attempt(read_vocabulary, sources[VOCAB_NAME], True)
    lexicon = faults.attempt(read_lexicon, sources[LEXICON_NAME]) if LEXICON_NAME in sources else None
    return _build(faults, settings, arrays, vocabulary, meta or {}, where, lexicon)


def write_native(bilm: BiLM, folder: Path, dtype: str) -> None:
    """bilm (BiLM): The model.
    folder (Path): An empty folder.
    dtype (str): On disk, "float32", "float16", or "int8" for the large matrices.
    RAISES (ValueError): EL030 for values that are too large for the dtype, EL036 for meta data that could not be read.
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
    RAISES (ValueError): EL003, EL022, EL023, EL026, EL028, EL034 or EL039 for other or damaged bytes.
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


def _read_settings(source: Source, where: str) -> Settings:
    return read_config(read_json(source), where)


def _read_weights(source: Source) -> Dict[str, Array]:
    return _load(source.read_bytes(), str(source))


def _check_fit(settings: Optional[Settings], arrays: Dict[str, Array], where: str) -> None:
    """Raise one error with all problems of the arrays. Without settings only values are checked."""
    wanted = {key: array.shape for key, array in arrays.items()}
    if settings is not None:
        config, is_shared, adaptive = settings
        wanted = {NETWORK_PREFIX + stored_name(key): shape for key, shape in state_shapes(config).items()}
        wanted.update(head_shapes(config, adaptive, arrays, is_shared))
        wanted.update(_optional_shapes(config, arrays))
    problems = find_misfits(wanted, arrays)
    if problems:
        listing = {"n_problems": len(problems), "problems": listed(problems)}
        raise ValueError(Errors.EL026.format(path=where, options="config.json", **listing))


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
