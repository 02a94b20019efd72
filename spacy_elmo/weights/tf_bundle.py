"""Checkpoints of TensorFlow, format V2, as arrays by name: PREFIX.index and PREFIX.data-0000i-of-0000n.

Format: tensorflow/core/protobuf/tensor_bundle.proto. The index is a sorted table of LevelDB (doc/table_format.md): data
blocks with prefix-compressed keys, an index block with the position of each, a footer of 48 bytes. Its values are
protocol buffers: for each name the position of its bytes in the data files; the empty name has the header. Nothing is
read before its position and size are compared with the file.

`tf.train.load_checkpoint` would do the same. No release of TensorFlow installs beside h5py 3.16 and protobuf 7, and it
has 274 MB.
"""

import os
import struct
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from pathlib import Path
from typing import BinaryIO, Dict, Iterable, Iterator, List, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from ..errors import Errors
from ..util import shorten
from .sources import MIB, check_size
from .tensor_map import Array, Shape

INDEX_SUFFIX = ".index"
MAX_INDEX_BYTES = 64 * MIB
MAX_SHARDS = 10_000
MAX_RANK = 16
MAX_SLICES = 1000
# DataType of tensorflow/core/framework/types.proto. Only floating point and integers are read.
DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 19: "<f2"}
WHOLE = -1  # length of a slice that has all of a dimension

Extent = Tuple[int, int]  # first row, and number of rows or WHOLE, of one dimension
Extents = Tuple[Extent, ...]
Value = Union[int, memoryview]


class Damaged(Exception):
    """A file is not what its format says. The message is the reason."""


@contextmanager
def reading(path: object) -> Iterator[None]:
    """path (object): The file that is read.
    RAISES (ValueError): EL320 for `Damaged` inside.
    RAISES (OSError): EL037 if the operating system cannot read it.
    """
    try:
        yield
    except Damaged as error:
        raise ValueError(Errors.EL320.format(path=path, reason=shorten(str(error)))) from error
    except OSError as error:
        raise OSError(Errors.EL037.format(path=path, reason=error.strerror or error)) from error


def incomplete(path: object, missing: str) -> ValueError:
    """RETURNS (ValueError): A file of a checkpoint is missing."""
    return ValueError(
        f"The TensorFlow checkpoint '{path}' is incomplete: there is no '{missing}' in the same folder. Copy all "
        "files that begin with the name of the checkpoint into one folder."
    )


@dataclass(frozen=True)
class Variable:
    """A variable, or one slice of a partitioned variable: a BundleEntryProto.

    name (str): Its name.
    dtype (int): Number of its DataType.
    shape (Shape): Its shape.
    place (Tuple[int, int, int]): Number of the data file, offset and size in bytes.
    crc (int): Masked CRC-32C of the bytes.
    slices (Tuple[Extents, ...]): Of a partitioned variable, which has no bytes itself.
    """

    name: str
    dtype: int
    shape: Shape
    place: Tuple[int, int, int] = (0, 0, 0)
    crc: int = 0
    slices: Tuple[Extents, ...] = ()

    @property
    def numpy_dtype(self) -> str:
        """RETURNS (str): The name of its dtype in NumPy.
        RAISES (Damaged): If it is neither floating point nor an integer.
        """
        if self.dtype not in DTYPES:
            raise Damaged(f"{self.name} has the data type {self.dtype}, should have one of {list(DTYPES)}")
        return DTYPES[self.dtype]


class Bundle:
    """A checkpoint in format V2.

    index (Path): PREFIX.index.
    variables (Dict[str, Variable]): Declared variables by name.
    RAISES (ValueError): EL320 if the index is damaged, EL036 if it is too large.
    """

    def __init__(self, index: Path) -> None:
        self.index = index
        self._slices: Dict[bytes, Variable] = {}
        self.variables: Dict[str, Variable] = {}
        n_shards = 0
        with reading(index), index.open("rb") as file:
            check_size(index, index.stat().st_size, MAX_INDEX_BYTES)
            for key, value in _read_table(file):
                if not key:
                    n_shards = _read_header(value)
                elif key.startswith(b"\0"):  # names do not
                    self._slices[key] = _read_entry(value, "a slice")
                else:
                    try:
                        name = key.decode("utf8")
                    except UnicodeDecodeError as error:
                        raise Damaged(f"a name is not valid UTF-8: {error.reason}") from error
                    self.variables[name] = _read_entry(value, name)
            if not n_shards:
                raise Damaged("it has no header")
        self._n_shards = n_shards

    def read(self, names: Iterable[str]) -> Dict[str, Array]:
        """names (Iterable[str]): Variables to read.
        RETURNS (Dict[str, Array]): Their values.
        RAISES (ValueError): EL320 if positions, sizes or checksums are wrong, if a data file is missing.
        """
        variables = [self.variables[name] for name in names]
        with reading(self.index):
            parts = {variable.name: self._parts(variable) for variable in variables}
            self._check_places(part for found in parts.values() for part in found)
        arrays: Dict[str, Array] = {}
        for variable in variables:
            # Memory for all of a partitioned variable is taken when its slices have been read.
            read = [self._read_part(part) for part in parts[variable.name]]
            if not variable.slices:
                (arrays[variable.name],) = read
                continue
            arrays[variable.name] = np.empty(variable.shape, dtype=variable.numpy_dtype)
            for extents, array in zip(variable.slices, read):
                arrays[variable.name][_box(variable, extents)] = array
        return arrays

    def _parts(self, variable: Variable) -> List[Variable]:
        """RETURNS (List[Variable]): What has the bytes of a variable: itself, or its slices, which cover its shape."""
        if not variable.slices:
            return [variable]
        if len(variable.slices) > MAX_SLICES:
            n = len(variable.slices)
            raise Damaged(f"{variable.name} has {n:,} slices, should have at most {MAX_SLICES:,}")
        boxes = [_box(variable, extents) for extents in variable.slices]
        shapes: List[Shape] = [tuple(rows.stop - rows.start for rows in box) for box in boxes]
        overlaps = any(_overlap(one, other) for i, one in enumerate(boxes) for other in boxes[:i])
        if overlaps or sum(map(prod, shapes)) != prod(variable.shape):
            raise Damaged(f"the slices of {variable.name} do not cover its shape {list(variable.shape)} exactly once")
        found = []
        for extents, shape in zip(variable.slices, shapes):
            part = self._slices.get(slice_key(variable.name, extents))
            if part is None or part.shape != shape or part.dtype != variable.dtype:
                raise Damaged(f"a slice of {variable.name} is missing, or has another shape than it should")
            found.append(replace(part, name=variable.name))
        return found

    def _check_places(self, parts: Iterable[Variable]) -> None:
        """Sizes fit shapes, and all arrays together are not larger than the data files."""
        used: Dict[int, int] = {}
        for part in parts:
            number, _, n_bytes = part.place
            if prod(part.shape) * np.dtype(part.numpy_dtype).itemsize != n_bytes:
                raise Damaged(f"{part.name} {list(part.shape)} has {n_bytes:,} bytes, which do not fit it")
            used[number] = used.get(number, 0) + n_bytes
        for number, n_bytes in used.items():
            n_stored = self._data_file(number).stat().st_size
            if n_bytes > n_stored:
                raise Damaged(f"it declares {n_bytes:,} bytes in data file {number}, which has {n_stored:,}")

    def _data_file(self, number: int) -> Path:
        if not 0 <= number < self._n_shards:
            raise Damaged(f"it refers to data file {number}, but there are {self._n_shards:,}")
        prefix = self.index.name.removesuffix(INDEX_SUFFIX)
        path = self.index.with_name(f"{prefix}.data-{number:05d}-of-{self._n_shards:05d}")
        if not path.is_file():
            raise incomplete(self.index, path.name)
        return path

    def _read_part(self, part: Variable) -> Array:
        number, offset, n_bytes = part.place
        path = self._data_file(number)
        with reading(path), path.open("rb") as file:
            n_stored = path.stat().st_size
            if offset + n_bytes > n_stored:
                raise Damaged(f"{part.name} is at {offset:,} to {offset + n_bytes:,} of {n_stored:,} bytes")
            array = np.empty(part.shape, dtype=part.numpy_dtype)
            file.seek(offset)
            content = array.reshape(-1).view("u1").data
            if file.readinto(content) != n_bytes:
                raise Damaged(f"{part.name} is truncated")
            if masked_crc32c(content) != part.crc:
                raise Damaged(f"the checksum of {part.name} differs")
        return array


def _read_header(message: memoryview) -> int:
    """RETURNS (int): Number of data files in a BundleHeaderProto."""
    fields = dict(_read_fields(message))
    n_shards = _as_int(fields.get(1, 0))
    if not 1 <= n_shards <= MAX_SHARDS:
        raise Damaged(f"it declares {n_shards:,} data files, should be 1 to {MAX_SHARDS:,}")
    if _as_int(fields.get(2, 0)) != 0:
        raise Damaged("its numbers are big-endian; only little-endian checkpoints are read")
    return n_shards


def _read_entry(message: memoryview, name: str) -> Variable:
    numbers = {1: 0, 3: 0, 4: 0, 5: 0, 6: 0}
    shape: Shape = ()
    slices: List[Extents] = []
    for number, value in _read_fields(message):
        if number == 2:
            shape = _read_shape(_as_bytes(value))
        elif number == 7:
            slices.append(_read_extents(_as_bytes(value)))
        elif number in numbers:
            numbers[number] = _as_int(value)
    if min(numbers.values()) < 0:
        raise Damaged("an entry has a negative number")
    place = (numbers[3], numbers[4], numbers[5])
    return Variable(name, numbers[1], shape, place, numbers[6], tuple(slices))


def _read_shape(message: memoryview) -> Shape:
    """RETURNS (Shape): The shape in a TensorShapeProto."""
    shape: List[int] = []
    for number, value in _read_fields(message):
        if number == 2:
            shape.append(next((_as_int(size) for part, size in _read_fields(_as_bytes(value)) if part == 1), 0))
        if number == 3 and value:
            raise Damaged("the rank of a shape is unknown")
    if len(shape) > MAX_RANK:
        raise Damaged(f"a shape has more than {MAX_RANK} dimensions")
    if min(shape, default=0) < 0:
        raise Damaged(f"the shape {shape} has negative sizes")
    return tuple(shape)


def _read_extents(message: memoryview) -> Extents:
    """RETURNS (Extents): Start and length per dimension in a TensorSliceProto."""
    extents: List[Extent] = []
    for number, value in _read_fields(message):
        if number == 1:
            fields = {part: _as_int(inner) for part, inner in _read_fields(_as_bytes(value))}
            extents.append((fields.get(1, 0), fields.get(2, WHOLE)))
    return tuple(extents)


def _box(variable: Variable, extents: Extents) -> Tuple[slice, ...]:
    """RETURNS (Tuple[slice, ...]): The index of a slice in its variable."""
    if len(extents) != len(variable.shape):
        raise Damaged(f"a slice of {variable.name} has {len(extents)} dimensions, should have {len(variable.shape)}")
    box = [(start, size if n == WHOLE else start + n) for (start, n), size in zip(extents, variable.shape)]
    if not all(0 <= start <= stop <= size for (start, stop), size in zip(box, variable.shape)):
        raise Damaged(f"a slice of {variable.name} is not inside its shape {list(variable.shape)}")
    return tuple(slice(start, stop) for start, stop in box)


def _overlap(one: Iterable[slice], other: Iterable[slice]) -> bool:
    return all(max(a.start, b.start) < min(a.stop, b.stop) for a, b in zip(one, other))


def slice_key(name: str, extents: Extents) -> bytes:
    """The key of a slice: TensorFlow's order-preserving encoding of its name, rank, starts and lengths.

    name (str): Name of the variable.
    extents (Extents): The slice.
    RETURNS (bytes): Its key.
    """
    escaped = name.encode("utf8").replace(b"\0", b"\0\xff").replace(b"\xff", b"\xff\0") + b"\0\1"
    numbers = b"".join(_signed(number) for extent in extents for number in extent)
    return b"\0" + escaped + (bytes([1, len(extents)]) if extents else b"\0") + numbers


def _signed(number: int) -> bytes:
    """Big-endian two's complement; as many leading bits as there are bytes are flipped."""
    n_bytes = next((n for n in range(1, 10) if -(1 << 7 * n - 1) <= number < 1 << 7 * n - 1), 10)
    header = ((1 << 8 * n_bytes) - 1) ^ ((1 << 7 * n_bytes) - 1)  # n_bytes ones, then zeros
    return (number % (1 << 8 * n_bytes) ^ header).to_bytes(n_bytes, "big")


# Protocol buffers: numbered fields of a message, without its schema.


def _read_varint(buffer: memoryview, at: int) -> Tuple[int, int]:
    """RETURNS (Tuple[int, int]): The number at a position, 0 to 2^64 - 1, and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(buffer):
            raise Damaged("a number is truncated")
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >= 2**64:
                break
            return value, at
    raise Damaged("a number has more than 64 bits")


def _read_fields(message: memoryview) -> Iterator[Tuple[int, Value]]:
    """YIELDS (Tuple[int, Value]): Number of a field, and its value: an integer, or the bytes of a string, a message or
    eight bytes of a number, not copied.
    """
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            value, at = _read_varint(message, at)
            yield number, value
            continue
        if wire_type == 2:
            n_bytes, at = _read_varint(message, at)
        elif wire_type in (1, 5):
            n_bytes = 4 if wire_type == 5 else 8
        else:
            raise Damaged(f"field {number} of a message has the unknown wire type {wire_type}")
        if at + n_bytes > len(message):
            raise Damaged(f"field {number} of a message is truncated")
        content = message[at : at + n_bytes]
        at += n_bytes
        yield number, struct.unpack("<I", content)[0] if wire_type == 5 else content


def _as_int(value: Value) -> int:
    """RETURNS (int): A value that should be an integer, as signed 64-bit number."""
    if not isinstance(value, int):
        raise Damaged("a field of a message has bytes, should be an integer")
    return value - 2**64 if value >= 2**63 else value


def _as_bytes(value: Value) -> memoryview:
    if isinstance(value, int):
        raise Damaged("a field of a message has an integer, should be bytes")
    return value


# Sorted tables: keys and values, read block by block.

MAGIC = b"\x57\xfb\x80\x8b\x24\x75\x47\xdb"
FOOTER_BYTES = 48
TRAILER_BYTES = 5  # after each block: kind of compression, masked CRC of the block and the kind
MAX_KEY_BYTES = 4096
MAX_ENTRIES = 100_000

Handle = Tuple[int, int]  # offset and size of a block, without its trailer


def is_sorted_table(path: Path) -> bool:
    """path (Path): A file.
    RETURNS (bool): Whether it ends like a sorted table.
    """
    try:
        with path.open("rb") as file:
            if file.seek(0, os.SEEK_END) < FOOTER_BYTES:
                return False
            file.seek(-len(MAGIC), os.SEEK_END)
            return file.read() == MAGIC
    except OSError:  # no file, a folder, or no permission: the reader of its format tells
        return False


def _read_table(file: BinaryIO) -> Iterator[Tuple[bytes, memoryview]]:
    """Read the entries of a table in their order. One block at a time is in memory.

    file (BinaryIO): A table, open for reading.
    YIELDS (Tuple[bytes, memoryview]): Key and value; keys ascend.
    RAISES (Damaged): For a file that is not a table, or damaged.
    """
    n_bytes = file.seek(0, os.SEEK_END)
    index = _index_handle(file, n_bytes)
    end, previous, n_entries = 0, None, 0
    for _, content in _entries(_read_block(file, index, n_bytes)):
        offset, size = _handle(content, 0)[0]
        if offset < end:
            raise Damaged("its blocks overlap")
        end = offset + size + TRAILER_BYTES
        block = _read_block(file, (offset, size), n_bytes)
        for key, value in _entries(block):
            n_entries += 1
            if previous is not None and key <= previous:
                raise Damaged("its keys are not in ascending order")
            if n_entries > MAX_ENTRIES:
                raise Damaged(f"it has more than {MAX_ENTRIES:,} entries")
            previous = key
            yield key, value


def _index_handle(file: BinaryIO, n_bytes: int) -> Handle:
    if n_bytes < FOOTER_BYTES:
        raise Damaged(f"it has {n_bytes:,} bytes, should have at least {FOOTER_BYTES}")
    file.seek(n_bytes - FOOTER_BYTES)
    footer = memoryview(file.read(FOOTER_BYTES))
    if len(footer) != FOOTER_BYTES or bytes(footer[-len(MAGIC) :]) != MAGIC:
        raise Damaged("it does not end like a table of TensorFlow")
    _, at = _handle(footer, 0)  # of the block of meta data, which is empty
    return _handle(footer, at)[0]


def _handle(buffer: memoryview, at: int) -> Tuple[Handle, int]:
    offset, at = _read_varint(buffer, at)
    size, at = _read_varint(buffer, at)
    return (offset, size), at


def _read_block(file: BinaryIO, handle: Handle, n_bytes: int) -> memoryview:
    offset, size = handle
    if offset + size + TRAILER_BYTES > n_bytes - FOOTER_BYTES:
        raise Damaged(f"a block of {size:,} bytes at {offset:,} is not inside the file of {n_bytes:,} bytes")
    file.seek(offset)
    stored = memoryview(file.read(size + TRAILER_BYTES))
    if len(stored) != size + TRAILER_BYTES:
        raise Damaged(f"the block at {offset:,} is truncated")
    kind, crc = struct.unpack("<BI", stored[size:])
    if masked_crc32c(stored[: size + 1]) != crc:
        raise Damaged(f"the checksum of the block at {offset:,} differs")
    if kind:
        raise Damaged(f"the block at {offset:,} is compressed, which TensorFlow does not do in checkpoints")
    return stored[:size]


def _entries(block: memoryview) -> Iterator[Tuple[bytes, memoryview]]:
    """Keys and values of a block. Each key omits the bytes that it shares with the one before."""
    n_restarts = struct.unpack("<I", block[-4:])[0] if len(block) >= 4 else len(block)
    end = len(block) - 4 - 4 * n_restarts
    if end < 0:
        raise Damaged("a block is shorter than its list of restarts")
    at, key = 0, b""
    while at < end:
        n_shared, at = _read_varint(block, at)
        n_own, at = _read_varint(block, at)
        n_value, at = _read_varint(block, at)
        if n_shared > len(key) or at + n_own + n_value > end:
            raise Damaged("an entry of a block is truncated")
        if n_shared + n_own > MAX_KEY_BYTES:
            raise Damaged(f"a key has {n_shared + n_own:,} bytes, should have at most {MAX_KEY_BYTES:,}")
        key = key[:n_shared] + bytes(block[at : at + n_own])
        at += n_own
        yield key, block[at : at + n_value]
        at += n_value


# CRC-32C (Castagnoli), vectorized over the words of a message.
#
# The CRC is linear over GF(2). A word of a message may therefore be replaced by zero, if its image k words later (the
# remainder that it has become there) is added to the word at that place. Folding does this with whole rows of k words,
# so that a message of any length shrinks to k words with the same CRC, at the cost of two table lookups per word.

POLYNOMIAL = 0x82F63B78  # reflected
ROWS = (8192, 64)  # words of a row, from long messages to short ones
MASK_DELTA = 0xA282EAD8

Words = NDArray[np.uint32]


def crc32c(message: "bytes | memoryview") -> int:
    """message (bytes | bytearray | memoryview): Any bytes.
    RETURNS (int): Their CRC-32C.
    """
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
    """RETURNS (int): The CRC as LevelDB and TensorFlow store it: rotated, with a constant added."""
    crc = crc32c(message)
    return ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF


def _fold(words: Words, n_words: int, state: int) -> Words:
    """Shorten a message to one row and a rest. `state` is added to its first word."""
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
