"""Checkpoints of TensorFlow, format V2, as arrays by name: PREFIX.index and PREFIX.data-0000i-of-0000n.

Format: tensorflow/core/protobuf/tensor_bundle.proto. The index is a sorted table of LevelDB (doc/table_format.md): data
blocks with prefix-compressed keys, an index block with the position of each, a footer of 48 bytes. Its values are
protocol buffers: for each name the position of its bytes in the data files; the empty name has the header. Nothing is
read before its position and size are compared with the file.

`tf.train.load_checkpoint` would do the same. No release of TensorFlow installs beside h5py 3.16 and protobuf 7, and it
has 274 MB.
"""

import struct
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Tuple

import numpy as np
from numpy.typing import NDArray

from ..archive import Array, File, Shape, decoding

INDEX_SUFFIX = ".index"
CHECKPOINT_KIND = "TensorFlow checkpoint"
# DataType of tensorflow/core/framework/types.proto. Only floating point and integers are read.
TF_DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 19: "<f2"}
MAGIC = b"\x57\xfb\x80\x8b\x24\x75\x47\xdb"
FOOTER_BYTES = 48
TRAILER_BYTES = 5  # after each block: kind of compression, masked CRC of the block and the kind

MessageFields = Dict[int, List[Any]]  # of a message: integers, or the bytes of strings and messages


class Variable(NamedTuple):
    """A variable: a BundleEntryProto.

    dtype (int): Number of its DataType.
    shape (Shape): Its shape.
    shard (int), offset (int), n_bytes (int): Number of the data file, and the position of its bytes there.
    crc (int): Masked CRC-32C of the bytes.
    """

    dtype: int
    shape: Shape
    shard: int
    offset: int
    n_bytes: int
    crc: int


class Bundle:
    """A checkpoint in format V2.

    index (Path): PREFIX.index.
    variables (Dict[str, Variable]): Declared variables by name.
    RAISES (ValueError): EL022 if the index is damaged.
    """

    def __init__(self, index: Path) -> None:
        self.index = index
        content = memoryview(File(index).read_bytes())
        with decoding(index, CHECKPOINT_KIND):
            entries = dict(_read_table(content))
            header = _read_fields(entries.pop(b"", memoryview(b"")))
            if _read_integer(header, 2) != 0:
                raise ValueError("its numbers are big-endian; only little-endian checkpoints are read")
            self._n_shards = _read_integer(header, 1)
            named = {key.decode("utf8"): value for key, value in entries.items() if not key.startswith(b"\0")}
            self.variables = {name: _read_variable(value) for name, value in named.items()}

    def read(self, names: Iterable[str]) -> Dict[str, Array]:
        """The values of variables. ValueError EL022 if positions, sizes or checksums are wrong, and if a data file is
        missing.
        """
        variables = {name: self.variables[name] for name in names}
        arrays: Dict[str, Array] = {}
        for shard in sorted({variable.shard for variable in variables.values()}):
            prefix = self.index.name.removesuffix(INDEX_SUFFIX)
            path = self.index.with_name(f"{prefix}.data-{shard:05d}-of-{self._n_shards:05d}")
            if not path.is_file():
                raise ValueError(
                    f"The TensorFlow checkpoint '{self.index}' is incomplete: there is no '{path.name}' in the same "
                    "folder. Copy all files that begin with the name of the checkpoint into one folder."
                )
            in_shard = {name: variable for name, variable in variables.items() if variable.shard == shard}
            with decoding(self.index, CHECKPOINT_KIND):
                arrays.update(_read_data_file(path, in_shard))
        return arrays


def _read_data_file(path: Path, variables: Dict[str, Variable]) -> Dict[str, Array]:
    """The values of the variables in a data file. No memory is taken before all sizes are compared with the file."""
    n_declared, n_stored = sum(variable.n_bytes for variable in variables.values()), path.stat().st_size
    if n_declared > n_stored:  # otherwise a small file could fill the memory with copies of an array
        raise ValueError(f"it declares {n_declared:,} bytes in {path.name}, which has {n_stored:,}")
    arrays: Dict[str, Array] = {}
    with path.open("rb") as file:
        for name, variable in variables.items():
            dtype = np.dtype(TF_DTYPES.get(variable.dtype, "V0"))
            if prod(variable.shape) * dtype.itemsize != variable.n_bytes or not dtype.itemsize:
                raise ValueError(
                    f"{name} {list(variable.shape)}, of data type {variable.dtype}, has {variable.n_bytes:,} bytes, "
                    f"which do not fit it (data types {list(TF_DTYPES)} are read, partitioned variables are not: save "
                    "it whole)"
                )
            arrays[name] = np.empty(variable.shape, dtype=dtype)
            content = arrays[name].reshape(-1).view("u1").data
            file.seek(variable.offset)
            if file.readinto(content) != variable.n_bytes or masked_crc32c(content) != variable.crc:
                raise ValueError(f"the checksum of {name} differs, or its bytes are missing")
    return arrays


def _read_variable(message: memoryview) -> Variable:
    fields = _read_fields(message)
    dims = [
        _read_integer(_read_fields(dim), 1)
        for shape in fields.get(2, [])[-1:]
        for dim in _read_fields(shape).get(2, [])
    ]
    return Variable(_read_integer(fields, 1), tuple(dims), *(_read_integer(fields, field) for field in (3, 4, 5, 6)))


def _read_varint(buffer: memoryview, at: int) -> Tuple[int, int]:
    """The number at a position, 0 to 2^64 - 1, and the position after it; a negative number has 2^64 added."""
    value = 0
    for shift in range(0, 70, 7):
        value |= (buffer[at] & 0x7F) << shift
        at += 1
        if buffer[at - 1] < 0x80:
            break
    return value % 2**64, at


def _read_fields(message: memoryview) -> MessageFields:
    fields: MessageFields = {}
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        field, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            value, at = _read_varint(message, at)
            fields.setdefault(field, []).append(value)
            continue
        n_bytes, at = _read_varint(message, at) if wire_type == 2 else ({1: 8, 5: 4}[wire_type], at)
        content, at = message[at : at + n_bytes], at + n_bytes
        fields.setdefault(field, []).append(struct.unpack("<I", content)[0] if wire_type == 5 else content)
    return fields


def _read_integer(fields: MessageFields, field: int) -> int:
    """The last value of a field that has an integer."""
    return int(fields.get(field, [0])[-1])


def _read_table(content: memoryview) -> Iterator[Tuple[bytes, memoryview]]:
    """YIELDS (Tuple[bytes, memoryview]): Key and value."""
    footer = content[-FOOTER_BYTES:]
    if bytes(footer[-len(MAGIC) :]) != MAGIC:
        raise ValueError("it does not end like a table of TensorFlow")
    at = 0
    for _ in range(2):  # offset and size of the block of meta data, which is empty
        _, at = _read_varint(footer, at)
    for _, handle in _block_entries(_read_block(content, footer[at:])):
        yield from _block_entries(_read_block(content, handle))


def _read_block(content: memoryview, handle: memoryview) -> memoryview:
    """A block, by a handle with its offset and its size."""
    offset, at = _read_varint(handle, 0)
    size, _ = _read_varint(handle, at)
    trailer = content[offset + size : offset + size + TRAILER_BYTES]
    if bytes(trailer) != struct.pack("<BI", 0, masked_crc32c(content[offset : offset + size + 1])):
        raise ValueError(f"the block of {size:,} bytes at {offset:,} is truncated, compressed or has another checksum")
    return content[offset : offset + size]


def _block_entries(block: memoryview) -> Iterator[Tuple[bytes, memoryview]]:
    """Keys and values of a block. Each key omits the bytes that it shares with the key before."""
    (n_restarts,) = struct.unpack("<I", block[-4:])
    end = len(block) - 4 - 4 * n_restarts
    at, key = 0, b""
    while at < end:
        n_shared, at = _read_varint(block, at)
        n_own, at = _read_varint(block, at)
        n_value, at = _read_varint(block, at)
        key = key[:n_shared] + bytes(block[at : at + n_own])
        at += n_own
        yield key, block[at : at + n_value]
        at += n_value


# CRC-32C (Castagnoli), vectorized over the words of a message. The CRC is linear over GF(2). A word of a message may
# therefore be replaced by zero, if its image k words later (the remainder that it has become there) is added to the
# word at that place. Folding does this with whole rows of k words, so that a message of any length shrinks to k words
# with the same CRC, at the cost of two table lookups per word.
POLYNOMIAL = 0x82F63B78  # reflected
ROWS = (8192, 64)  # words of a row, from long messages to short ones
MASK_DELTA = 0xA282EAD8

Words = NDArray[np.uint32]


def crc32c(message: "bytes | memoryview") -> int:
    view = memoryview(message).cast("B")
    words: Words = np.frombuffer(view, dtype="<u4", count=len(view) // 4)
    state = 0xFFFFFFFF
    for n_words in ROWS:
        if len(words) >= 2 * n_words:
            words, state = _fold(words, n_words, state), 0
    table = _byte_table().tolist()
    for byte in words.tobytes() + bytes(view[len(view) // 4 * 4 :]):
        state = table[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state ^ 0xFFFFFFFF


def masked_crc32c(message: "bytes | memoryview") -> int:
    """The CRC as LevelDB and TensorFlow store it: rotated, with a constant added."""
    crc = crc32c(message)
    return ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF


def _fold(words: Words, n_words: int, state: int) -> Words:
    """Shorten a message to one row and the words after the last whole row. `state` is added to its first word."""
    low, high = _skip_tables(4 * n_words)
    n_rows = len(words) // n_words
    folded = words[:n_words].copy()
    folded[0] ^= np.uint32(state)
    for row in words[n_words : n_rows * n_words].reshape(-1, n_words):
        halves = folded.view("<u2")
        folded = low.take(halves[0::2], mode="wrap")  # twice as fast as with a check of the indices
        folded ^= high.take(halves[1::2], mode="wrap")
        folded ^= row
    return np.concatenate([folded, words[n_rows * n_words :]])


@cache
def _byte_table() -> Words:
    table = np.arange(256, dtype="<u4")
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(POLYNOMIAL), table >> 1)
    return table


@cache
def _skip_tables(n_bytes: int) -> Tuple[Words, Words]:
    """What the low and the high half of a word become after `n_bytes` zero bytes."""
    columns = np.left_shift(np.uint32(1), np.arange(32, dtype="<u4"))
    step = _byte_table()[columns & 0xFF] ^ columns >> 8  # the images of the 32 bits after one byte
    while n_bytes:
        if n_bytes & 1:
            columns = _apply(step, columns)
        step, n_bytes = _apply(step, step), n_bytes >> 1
    return _span(columns[:16]), _span(columns[16:])


def _apply(matrix: Words, vectors: Words) -> Words:
    """Product over GF(2); a matrix is the array of its 32 columns."""
    bits = vectors[:, None] >> np.arange(32, dtype="<u4") & 1
    product: Words = np.bitwise_xor.reduce(np.where(bits == 1, matrix, np.uint32(0)), axis=1)
    return product


def _span(columns: Words) -> Words:
    """The images of all 2^16 half words."""
    table: Words = np.zeros(1, dtype="<u4")
    for column in columns:
        table = np.concatenate([table, table ^ column])
    return table
