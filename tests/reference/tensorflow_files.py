"""A small writer of TensorFlow's checkpoint formats, so that tests need no TensorFlow.

Formats: LevelDB's table_format.md, tensor_bundle.proto (V2). The reader was compared with files that TensorFlow
itself wrote; see docs/formats.md.
"""

import json
import re
import struct
from pathlib import Path
from types import MappingProxyType
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

Fields = Sequence[Tuple[int, Union[int, bytes]]]
MAGIC = 0xDB4775248B80FB57
DTYPES = {"float32": 1, "float64": 2, "int32": 3, "int64": 9, "float16": 19}
NOTHING: Mapping[str, Any] = MappingProxyType({})


def varint(number: int) -> bytes:
    number %= 2**64
    parts = []
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def message(fields: Fields) -> bytes:
    """Integers are varints, bytes have a length."""
    parts = []
    for number, value in fields:
        is_bytes = isinstance(value, bytes)
        parts.append(varint(number << 3 | (2 if is_bytes else 0)))
        parts.append(varint(len(value)) + value if isinstance(value, bytes) else varint(value))
    return b"".join(parts)


def fixed32(number: int, value: int) -> bytes:
    return varint(number << 3 | 5) + struct.pack("<I", value)


def slow_crc32c(content: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in content:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


_TABLE = [slow_crc32c(bytes([255 ^ byte])) ^ 0xFF000000 for byte in range(256)]


def masked_crc(content: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in content:
        state = _TABLE[(state ^ byte) & 0xFF] ^ state >> 8
    crc = state ^ 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32


def table(entries: Mapping[bytes, bytes], *, block_bytes: int = 256) -> bytes:
    """A sorted table. Small blocks, so that small tables have several."""
    content, handles, waiting = b"", {}, {}
    keys = sorted(entries)
    for key in keys:
        waiting[key] = entries[key]
        if sum(map(len, waiting.values())) >= block_bytes or key == keys[-1]:
            stored = _stored(_block(waiting))
            handles[key] = varint(len(content)) + varint(len(stored) - 5)
            content, waiting = content + stored, {}
    handle_of_meta = varint(len(content)) + varint(8)
    content += _stored(_block({}))
    index = _stored(_block(handles))
    footer = handle_of_meta + varint(len(content)) + varint(len(index) - 5)
    return content + index + footer.ljust(40, b"\0") + struct.pack("<Q", MAGIC)


def _block(entries: Mapping[bytes, bytes], restart_interval: int = 3) -> bytes:
    content, restarts, previous = b"", [], b""
    for i, (key, value) in enumerate(entries.items()):
        n_shared = 0
        if i % restart_interval == 0:
            restarts.append(len(content))
        else:
            while n_shared < min(len(key), len(previous)) and key[n_shared] == previous[n_shared]:
                n_shared += 1
        content += varint(n_shared) + varint(len(key) - n_shared) + varint(len(value)) + key[n_shared:] + value
        previous = key
    restarts = restarts or [0]
    return content + b"".join(struct.pack("<I", at) for at in (*restarts, len(restarts)))


def _stored(block: bytes) -> bytes:
    content = block + b"\0"
    return content + struct.pack("<I", masked_crc(content))


def shape_message(shape: Sequence[int]) -> bytes:
    return message([(2, message([(1, size)])) for size in shape])


def write_bundle(
    prefix: Path,
    arrays: Mapping[str, np.ndarray],
    *,
    n_shards: int = 1,
    change: Mapping[str, bytes] = NOTHING,
) -> Path:
    """Format V2. change: other entries by name. RETURNS (Path): The index."""
    shards = [b""] * n_shards
    entries = {b"": message([(1, n_shards), (3, message([(1, 1)]))])}

    def store(array: np.ndarray) -> bytes:
        content, number = np.ascontiguousarray(array).tobytes(), len(entries) % n_shards
        place = [(3, number), (4, len(shards[number])), (5, len(content))]
        shards[number] += content
        fields = [(1, DTYPES[str(array.dtype)]), (2, shape_message(array.shape)), *place]
        return message(fields) + fixed32(6, masked_crc(content))

    for name, array in arrays.items():
        entries[name.encode()] = store(array)
    entries.update({name.encode(): entry for name, entry in change.items()})
    prefix.parent.mkdir(parents=True, exist_ok=True)
    for number, content in enumerate(shards):
        prefix.with_name(f"{prefix.name}.data-{number:05d}-of-{n_shards:05d}").write_bytes(content)
    index = prefix.with_name(f"{prefix.name}.index")
    index.write_bytes(table(entries))
    return index


def training_names(arrays: Mapping[str, np.ndarray], n_layers: int, scope: str = "lm/") -> Dict[str, np.ndarray]:
    """Arrays of an HDF5 file under the names of the variables of bilm-tf, TensorFlow 1.2 to 1.15."""
    return {scope + _variable_name(name, n_layers): array for name, array in arrays.items()}


def hub_names(arrays: Mapping[str, np.ndarray], scope: str = "bilm/") -> Dict[str, np.ndarray]:
    """Arrays of an HDF5 file under the names of the variables of google/elmo."""
    return {scope + _kinds(re.sub("LSTMCell", "rnn/lstm_cell", name)): array for name, array in arrays.items()}


def _variable_name(name: str, n_layers: int) -> str:
    name = re.sub(r"RNN/MultiRNNCell/Cell(\d+)/LSTMCell", r"rnn/multi_rnn_cell/cell_\1/lstm_cell", name)
    name = name.replace("multi_rnn_cell/cell_0/", "") if n_layers == 1 else name
    return _kinds(name)


def _kinds(name: str) -> str:
    for theirs, ours in (("/W_P_0", "/projection/kernel"), ("/W_0", "/kernel"), ("/B", "/bias")):
        name = name.removesuffix(theirs) + ours if name.endswith(theirs) else name
    return name


def write_checkpoint(
    folder: Path,
    options: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    words: Optional[Sequence[str]] = None,
    *,
    accumulators: Optional[Mapping[str, np.ndarray]] = None,
    n_updates: int = 7,
    **settings: Any,
) -> Path:
    """A folder as bilm-tf leaves it. arrays, accumulators: By the names of HDF5 files. RETURNS (Path): The folder."""
    n_layers = options["lstm"].get("n_layers", 1)
    variables = training_names(arrays, n_layers)
    for name, array in training_names(accumulators or {}, n_layers).items():
        variables[f"{name}/Adagrad"] = array
    if not options.get("bidirectional", True):
        variables = {name.replace("lm/RNN_0/", "lm/"): array for name, array in variables.items()}
    variables["global_step"] = np.array(n_updates, dtype="float32")
    variables["train_perplexity"] = np.array(40.0, dtype="float32")
    name = f"model.ckpt-{n_updates}"
    write_bundle(folder / name, variables, **settings)
    state = f'model_checkpoint_path: "/elsewhere/{name}"\nall_model_checkpoint_paths: "/elsewhere/{name}"\n'
    (folder / "checkpoint").write_text(state, encoding="utf8")
    (folder / "options.json").write_text(json.dumps(options), encoding="utf8")
    if words is not None:
        (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf8")
    return folder


def write_module(
    folder: Path, arrays: Mapping[str, np.ndarray], mix: Mapping[str, np.ndarray], scope: str = ""
) -> Path:
    """A module of TF-Hub, without a graph. RETURNS (Path): The folder."""
    variables = {**hub_names(arrays, f"{scope}bilm/"), **{f"{scope}aggregation/{key}": mix[key] for key in mix}}
    write_bundle(folder / "variables" / "variables", variables)
    (folder / "saved_model.pb").write_bytes(b"\x08\x01")
    (folder / "tfhub_module.pb").write_bytes(b"\x08\x03")
    return folder
