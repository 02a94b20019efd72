"""Checkpoints of TensorFlow as arrays by name."""

import os
import struct
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from ..errors import Errors
from .checks import MIB, expanded_limit, shorten
from .tensor_map import Array, Shape

# The exception of the readers in this folder, and its conversion to an error of this package.


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


# The wire format of protocol buffers: numbered fields of a message, without its schema.

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types
Value = Union[int, memoryview]


def read_varint(buffer: memoryview, at: int) -> Tuple[int, int]:
    """buffer (memoryview): Bytes.
    at (int): Where the number begins.
    RETURNS (Tuple[int, int]): The number, 0 to 2^64 - 1, and the position after it.
    RAISES (Damaged): If it is truncated or too long.
    """
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


def read_fields(message: memoryview) -> Iterator[Tuple[int, Value]]:
    """message (memoryview): An encoded message.
    YIELDS (Tuple[int, Value]): Number of a field, and its value: an integer, or the bytes of a string, a message or a
        packed array, not copied. Fields of eight bytes are yielded as bytes, too.
    RAISES (Damaged): If it is not a message.
    """
    at = 0
    while at < len(message):
        tag, at = read_varint(message, at)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == VARINT:
            value, at = read_varint(message, at)
            yield number, value
            continue
        if wire_type == BYTES:
            n_bytes, at = read_varint(message, at)
        elif wire_type in (FIXED32, FIXED64):
            n_bytes = 4 if wire_type == FIXED32 else 8
        else:
            raise Damaged(f"field {number} of a message has the unknown wire type {wire_type}")
        if at + n_bytes > len(message):
            raise Damaged(f"field {number} of a message is truncated")
        content = message[at : at + n_bytes]
        at += n_bytes
        yield number, struct.unpack("<I", content)[0] if wire_type == FIXED32 else content


def as_int(value: Value) -> int:
    """RETURNS (int): A value that should be an integer, as signed 64-bit number.
    RAISES (Damaged): If it is not.
    """
    if not isinstance(value, int):
        raise Damaged("a field of a message has bytes, should be an integer")
    return value - 2**64 if value >= 2**63 else value


def as_bytes(value: Value) -> memoryview:
    """RETURNS (memoryview): A value that should be bytes.
    RAISES (Damaged): If it is not.
    """
    if isinstance(value, int):
        raise Damaged("a field of a message has an integer, should be bytes")
    return value


def as_text(value: Value, max_bytes: int) -> str:
    """RETURNS (str): A value that should be text in UTF-8.
    RAISES (Damaged): If it is not, or longer than `max_bytes`.
    """
    content = as_bytes(value)
    if len(content) > max_bytes:
        raise Damaged(f"a name has {len(content):,} bytes, should be at most {max_bytes:,}")
    try:
        return bytes(content).decode("utf8")
    except UnicodeDecodeError as error:
        raise Damaged(f"a name is not valid UTF-8: {error.reason}") from error


# CRC-32C (Castagnoli), vectorized over the words of a message.
#
# The CRC is linear over GF(2). A word of a message may therefore be replaced by zero, if its image k words later (the
# remainder that it has become there) is added to the word at that place. Folding does this with whole rows of k words,
# so that a message of any length shrinks to k words with the same CRC, at the cost of two table lookups per word.

POLYNOMIAL = 0x82F63B78  # reflected
ROWS = (8192, 64)  # words of a row, from long messages to short ones
MASK_DELTA = 0xA282EAD8

Words = NDArray[np.uint32]


def crc32c(message: "bytes | bytearray | memoryview") -> int:
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


def masked_crc32c(message: "bytes | bytearray | memoryview") -> int:
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


# Decompression of Snappy blocks, from its format description (google/snappy, format_description.txt).


def decompress(block: memoryview, max_bytes: int) -> bytes:
    """block (memoryview): A block without framing.
    max_bytes (int): Maximum size of the result.
    RETURNS (bytes): The content.
    RAISES (Damaged): If it is not a Snappy block, or declares more bytes.
    """
    n_bytes, at = read_varint(block, 0)
    if n_bytes > max_bytes:
        raise Damaged(f"a compressed block declares {n_bytes:,} bytes, should be at most {max_bytes:,}")
    content = bytearray()
    while at < len(block):
        at = _add_element(content, block, at)
        if len(content) > n_bytes:
            raise Damaged(f"a compressed block has more than the {n_bytes:,} bytes that it declares")
    if len(content) != n_bytes:
        raise Damaged(f"a compressed block has {len(content):,} bytes, but declares {n_bytes:,}")
    return bytes(content)


def _add_element(content: bytearray, block: memoryview, at: int) -> int:
    """Append a literal, or a copy of earlier bytes. RETURNS (int): The position after the element."""
    tag = block[at]
    if tag & 3 == 0:
        length, at = _literal_length(tag, block, at + 1)
        if at + length > len(block):
            raise Damaged("a literal of a compressed block is truncated")
        content += block[at : at + length]
        return at + length
    length, offset, at = _copy(tag, block, at + 1)
    if not 1 <= offset <= len(content):
        raise Damaged(f"a compressed block refers {offset:,} bytes back, but has only {len(content):,} so far")
    source = bytes(content[len(content) - offset :][:length])
    content += (source * -(-length // len(source)))[:length]  # a copy may overlap itself
    return at


def _literal_length(tag: int, block: memoryview, at: int) -> Tuple[int, int]:
    n_more = max(0, (tag >> 2) - 59)  # lengths above 60 follow in 1 to 4 bytes
    return (tag >> 2) + 1 if not n_more else _number(block, at, n_more) + 1, at + n_more


def _copy(tag: int, block: memoryview, at: int) -> Tuple[int, int, int]:
    """RETURNS (Tuple[int, int, int]): Length, offset and the position after them."""
    if tag & 3 == 1:
        return (tag >> 2 & 7) + 4, tag >> 5 << 8 | _number(block, at, 1), at + 1
    n_bytes = 2 if tag & 3 == 2 else 4
    return (tag >> 2) + 1, _number(block, at, n_bytes), at + n_bytes


def _number(block: memoryview, at: int, n_bytes: int) -> int:
    if at + n_bytes > len(block):
        raise Damaged("an element of a compressed block is truncated")
    return int.from_bytes(block[at : at + n_bytes], "little")


# Sorted string tables of LevelDB, read block by block: prefix-compressed keys, CRC-32C, optional Snappy.
#
# Format: LevelDB, doc/table_format.md. A file has data blocks, an index block with the position of each of them, and a
# footer of 48 bytes with the position of the index block. TensorFlow stores checkpoints in such files.

MAGIC = b"\x57\xfb\x80\x8b\x24\x75\x47\xdb"
FOOTER_BYTES = 48
TRAILER_BYTES = 5  # after each block: kind of compression, masked CRC of the block and the kind
UNCOMPRESSED, SNAPPY = 0, 1
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


def read_table(file: BinaryIO) -> Iterator[Tuple[bytes, memoryview]]:
    """Read the entries of a table in their order. One block at a time is in memory.

    file (BinaryIO): A table, open for reading.
    YIELDS (Tuple[bytes, memoryview]): Key and value; keys ascend.
    RAISES (Damaged): For a file that is not a table, or damaged.
    """
    n_bytes = file.seek(0, os.SEEK_END)
    index = _index_handle(file, n_bytes)
    budget = expanded_limit(n_bytes)  # bytes of all blocks after decompression
    end, previous, n_entries = 0, None, 0
    for _, content in _entries(_read_block(file, index, n_bytes, budget)):
        offset, size = _handle(content, 0)[0]
        if offset < end:
            raise Damaged("its blocks overlap")
        end = offset + size + TRAILER_BYTES
        block = _read_block(file, (offset, size), n_bytes, budget)
        budget -= len(block)
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
    offset, at = read_varint(buffer, at)
    size, at = read_varint(buffer, at)
    return (offset, size), at


def _read_block(file: BinaryIO, handle: Handle, n_bytes: int, budget: int) -> memoryview:
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
    if kind == UNCOMPRESSED:
        return stored[:size]
    if kind == SNAPPY:
        return memoryview(decompress(stored[:size], budget))
    raise Damaged(f"the block at {offset:,} has the unknown compression {kind}")


def _entries(block: memoryview) -> Iterator[Tuple[bytes, memoryview]]:
    """Keys and values of a block. Each key omits the bytes that it shares with the one before."""
    n_restarts = struct.unpack("<I", block[-4:])[0] if len(block) >= 4 else len(block)
    end = len(block) - 4 - 4 * n_restarts
    if end < 0:
        raise Damaged("a block is shorter than its list of restarts")
    at, key = 0, b""
    while at < end:
        n_shared, at = read_varint(block, at)
        n_own, at = read_varint(block, at)
        n_value, at = read_varint(block, at)
        if n_shared > len(key) or at + n_own + n_value > end:
            raise Damaged("an entry of a block is truncated")
        if n_shared + n_own > MAX_KEY_BYTES:
            raise Damaged(f"a key has {n_shared + n_own:,} bytes, should have at most {MAX_KEY_BYTES:,}")
        key = key[:n_shared] + bytes(block[at : at + n_own])
        at += n_own
        yield key, block[at : at + n_value]
        at += n_value


# Shapes and slices of variables in a checkpoint, the keys of slices, and their assembly.

# DataType of tensorflow/core/framework/types.proto. Only floating point and integers are read.
DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 19: "<f2"}
MAX_RANK = 16
MAX_SLICES = 1000
WHOLE = -1  # length of a slice that has all of a dimension

Extent = Tuple[int, int]  # first row, and number of rows or WHOLE, of one dimension
Extents = Tuple[Extent, ...]


@dataclass(frozen=True)
class Variable:
    """A variable as a checkpoint declares it.

    name (str): Its name.
    dtype (int): Number of its DataType.
    shape (Shape): Its shape.
    slices (Tuple[Extents, ...]): Slices of a partitioned variable, each stored under a key of its own.
    """

    name: str
    dtype: int
    shape: Shape
    slices: Tuple[Extents, ...] = ()

    @property
    def n_bytes(self) -> int:
        """RETURNS (int): Size of its values.
        RAISES (Damaged): For a dtype that is not read.
        """
        return prod(self.shape) * np.dtype(numpy_dtype(self)).itemsize


def numpy_dtype(variable: Variable) -> str:
    """RETURNS (str): The name of its dtype in NumPy.
    RAISES (Damaged): If it is neither floating point nor an integer.
    """
    if variable.dtype not in DTYPES:
        raise Damaged(f"{variable.name} has the data type {variable.dtype}, should have one of {list(DTYPES)}")
    return DTYPES[variable.dtype]


def read_shape(message: memoryview) -> Shape:
    """message (memoryview): A TensorShapeProto.
    RETURNS (Shape): The shape.
    RAISES (Damaged): If it is unknown, negative or has too many dimensions.
    """
    shape: List[int] = []
    for number, value in read_fields(message):
        if number == 2:
            shape.append(next((as_int(size) for part, size in read_fields(as_bytes(value)) if part == 1), 0))
        if number == 3 and value:
            raise Damaged("the rank of a shape is unknown")
        if len(shape) > MAX_RANK:
            raise Damaged(f"a shape has more than {MAX_RANK} dimensions")
    if min(shape, default=0) < 0:
        raise Damaged(f"the shape {shape} has negative sizes")
    return tuple(shape)


def read_extents(message: memoryview) -> Extents:
    """message (memoryview): A TensorSliceProto.
    RETURNS (Extents): Start and length per dimension.
    """
    extents: List[Extent] = []
    for number, value in read_fields(message):
        if number == 1:
            fields = {part: as_int(inner) for part, inner in read_fields(as_bytes(value))}
            extents.append((fields.get(1, 0), fields.get(2, WHOLE)))
        if len(extents) > MAX_RANK:
            raise Damaged(f"a slice has more than {MAX_RANK} dimensions")
    return tuple(extents)


def slice_key(name: str, extents: Extents) -> bytes:
    """The key of a slice: TensorFlow's order-preserving encoding of its name, rank, starts and lengths.

    name (str): Name of the variable.
    extents (Extents): The slice.
    RETURNS (bytes): Its key.
    """
    escaped = name.encode("utf8").replace(b"\0", b"\0\xff").replace(b"\xff", b"\xff\0") + b"\0\1"
    numbers = b"".join(_signed(number) for extent in extents for number in extent)
    return _unsigned(0) + escaped + _unsigned(len(extents)) + numbers


def assemble(variable: Variable, read_slice: Callable[[Extents, Shape], Array]) -> Array:
    """Read a partitioned variable.

    variable (Variable): With slices.
    read_slice (Callable[[Extents, Shape], Array]): Reads the values of one slice, of a given shape.
    RETURNS (Array): The whole variable.
    RAISES (Damaged): If its slices overlap or do not cover it.
    """
    boxes = [_box(variable, extents) for extents in variable.slices]
    _check_cover(variable, boxes)
    # Memory for all of it is taken when its slices have been read, since a shape alone proves nothing.
    parts = [
        read_slice(extents, tuple(stop - start for start, stop in box)) for extents, box in zip(variable.slices, boxes)
    ]
    whole = np.empty(variable.shape, dtype=numpy_dtype(variable))
    for part, box in zip(parts, boxes):
        whole[tuple(slice(start, stop) for start, stop in box)] = part
    return whole


def _check_cover(variable: Variable, boxes: Sequence[Sequence[Extent]]) -> None:
    if len(boxes) > MAX_SLICES:
        raise Damaged(f"{variable.name} has {len(boxes):,} slices, should have at most {MAX_SLICES:,}")
    n_covered = sum(prod(stop - start for start, stop in box) for box in boxes)
    overlaps = any(_overlap(one, other) for i, one in enumerate(boxes) for other in boxes[:i])
    if overlaps or n_covered != prod(variable.shape):
        raise Damaged(f"the slices of {variable.name} do not cover its shape {list(variable.shape)} exactly once")


def _box(variable: Variable, extents: Extents) -> List[Extent]:
    """Start and end per dimension."""
    if len(extents) != len(variable.shape):
        raise Damaged(f"a slice of {variable.name} has {len(extents)} dimensions, should have {len(variable.shape)}")
    box = [(start, size if n == WHOLE else start + n) for (start, n), size in zip(extents, variable.shape)]
    if not all(0 <= start <= stop <= size for (start, stop), size in zip(box, variable.shape)):
        raise Damaged(f"a slice of {variable.name} is not inside its shape {list(variable.shape)}")
    return box


def _overlap(one: Iterable[Extent], other: Iterable[Extent]) -> bool:
    return all(max(a, b) < min(a_end, b_end) for (a, a_end), (b, b_end) in zip(one, other))


def _unsigned(number: int) -> bytes:
    n_bytes = (number.bit_length() + 7) // 8
    return bytes([n_bytes]) + number.to_bytes(n_bytes, "big")


def _signed(number: int) -> bytes:
    """Big-endian two's complement; as many leading bits as there are bytes are flipped."""
    n_bytes = next(n for n in range(1, 11) if -(1 << 7 * n - 1) <= number < 1 << 7 * n - 1)
    header = ((1 << 8 * n_bytes) - 1) ^ ((1 << 7 * n_bytes) - 1)  # n_bytes ones, then zeros
    return (number % (1 << 8 * n_bytes) ^ header).to_bytes(n_bytes, "big")


def only_whole(extents: Optional[Extents]) -> bool:
    """RETURNS (bool): Whether a slice is all of its variable."""
    return extents is None or all(extent == (0, WHOLE) for extent in extents)


# Old checkpoints of TensorFlow, format V1: sorted tables of SavedTensorSlices, in one file or several.
#
# Format: tensorflow/core/util/saved_tensor_slice.proto. The empty key has names and shapes, all others one slice each.

META_KEY = b""
# Fields of a TensorProto with packed values, which can be read without decoding.
PACKED = {1: 5, 2: 6}
CONTENT = 4


class SavedSlices:
    """A checkpoint in format V1.

    files (Sequence[Path]): Its files.
    variables (Dict[str, Variable]): Declared variables by name.
    RAISES (ValueError): EL320 if a file is damaged.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = files
        self.variables: Dict[str, Variable] = {}
        for path in files:
            with reading(path), path.open("rb") as file:
                _, meta = next(iter(read_table(file)), (b"", memoryview(b"")))
                self._add_meta(meta)

    def read(self, names: Iterable[str]) -> Dict[str, Array]:
        """names (Iterable[str]): Variables to read.
        RETURNS (Dict[str, Array]): Their values.
        RAISES (ValueError): EL320 if values are missing or do not fit their shapes.
        """
        wanted = set(names)
        found: Dict[Tuple[str, Extents], memoryview] = {}
        for path in self.files:
            with reading(path), path.open("rb") as file:
                for key, value in read_table(file):
                    part = None if key == META_KEY else _read_slice(value)
                    if part is not None and part[0] in wanted:
                        found[part[0], part[1]] = part[2]
        with reading(self.files[0]):
            return {name: _join(self.variables[name], found) for name in sorted(wanted)}

    def _add_meta(self, message: memoryview) -> None:
        for number, value in read_fields(message):
            if number == 1:
                for inner, content in read_fields(as_bytes(value)):
                    if inner == 1:
                        self._add_variable(as_bytes(content))

    def _add_variable(self, message: memoryview) -> None:
        """One SavedSliceMeta. Each file declares the slices that it has."""
        name, dtype = "", 0
        shape: Shape = ()
        slices: List[Extents] = []
        for number, value in read_fields(message):
            if number == 1:
                name = as_text(value, MAX_KEY_BYTES)
            elif number == 2:
                shape = read_shape(as_bytes(value))
            elif number == 3:
                dtype = as_int(value)
            elif number == 4:
                slices.append(read_extents(as_bytes(value)))
        before = self.variables.get(name)
        if before is not None and (before.shape, before.dtype) != (shape, dtype):
            raise Damaged(f"{name} has two shapes or data types")
        self.variables[name] = Variable(name, dtype, shape, (before.slices if before else ()) + tuple(slices))


def _read_slice(message: memoryview) -> Optional[Tuple[str, Extents, memoryview]]:
    """Name, slice and TensorProto of an entry."""
    data = next((as_bytes(value) for number, value in read_fields(message) if number == 2), None)
    if data is None:
        return None
    fields: Dict[int, Value] = dict(read_fields(data))
    if 1 not in fields or 3 not in fields:
        raise Damaged("an entry has no name or no values")
    extents = read_extents(as_bytes(fields.get(2, memoryview(b""))))
    return as_text(fields[1], MAX_KEY_BYTES), extents, as_bytes(fields[3])


def _join(variable: Variable, found: Dict[Tuple[str, Extents], memoryview]) -> Array:
    def read_slice(extents: Extents, shape: Shape) -> Array:
        if (variable.name, extents) not in found:
            raise Damaged(f"the values of {variable.name} are missing")
        return _values(variable, found[variable.name, extents], shape)

    if len(variable.slices) == 1 and only_whole(variable.slices[0]):
        return read_slice(variable.slices[0], variable.shape)
    return assemble(variable, read_slice)


def _values(variable: Variable, message: memoryview, shape: Shape) -> Array:
    """The values of a TensorProto, as many as the shape has."""
    dtype = numpy_dtype(variable)
    if variable.dtype not in PACKED:
        readable = ", ".join(DTYPES[number] for number in PACKED)
        raise Damaged(f"{variable.name} is {dtype}; in format V1 only {readable} are read")
    packed = [value for number, value in read_fields(message) if number in (PACKED[variable.dtype], CONTENT)]
    content = as_bytes(packed[0]) if len(packed) == 1 else memoryview(b"")
    if len(content) != prod(shape) * np.dtype(dtype).itemsize:
        raise Damaged(f"{variable.name} {list(shape)} has {len(content):,} bytes of values, which do not fit it")
    return np.frombuffer(content, dtype=dtype).reshape(shape)


# Checkpoints of TensorFlow, format V2: PREFIX.index and PREFIX.data-0000i-of-0000n.
#
# Format: tensorflow/core/protobuf/tensor_bundle.proto. The index is a sorted table from names to positions in the data
# files; the empty name has the header. Nothing is read before its position and size are compared with the file.

INDEX_SUFFIX = ".index"
MAX_INDEX_BYTES = 64 * MIB
MAX_SHARDS = 10_000
HEADER_KEY = b""


@dataclass(frozen=True)
class Entry:
    """A BundleEntryProto.

    dtype (int), shape (Shape): Of the variable, or of one slice.
    place (Tuple[int, int, int]): Number of the data file, offset and size in bytes.
    crc (int): Masked CRC-32C of the bytes.
    slices (Tuple[Extents, ...]): Of a partitioned variable, which has no bytes itself.
    """

    dtype: int
    shape: Shape
    place: Tuple[int, int, int]
    crc: int
    slices: Tuple[Extents, ...]


class Bundle:
    """A checkpoint in format V2.

    index (Path): PREFIX.index.
    variables (Dict[str, Variable]): Declared variables by name.
    RAISES (ValueError): EL320 if the index is damaged, EL036 if it is too large.
    """

    def __init__(self, index: Path) -> None:
        self.index = index
        self._entries: Dict[bytes, Entry] = {}
        with reading(index):
            n_bytes = index.stat().st_size
            if n_bytes > MAX_INDEX_BYTES:
                limits = {"n_bytes": f"{n_bytes:,}", "max_bytes": f"{MAX_INDEX_BYTES:,}"}
                raise ValueError(Errors.EL036.format(path=index, **limits))
            with index.open("rb") as file:
                self._read_index(file)
            self.variables = dict(self._variables())

    def read(self, names: Iterable[str]) -> Dict[str, Array]:
        """names (Iterable[str]): Variables to read.
        RETURNS (Dict[str, Array]): Their values.
        RAISES (ValueError): EL320 if positions, sizes or checksums are wrong, EL321 if a data file is missing.
        """
        variables = [self.variables[name] for name in names]
        with reading(self.index):
            self._check_places(variables)
        return {variable.name: self._read_variable(variable) for variable in variables}

    def _read_index(self, file: Any) -> None:
        for key, value in read_table(file):
            if key == HEADER_KEY:
                self.n_shards = _read_header(value)
            else:
                self._entries[key] = _read_entry(value)
        if not hasattr(self, "n_shards"):
            raise Damaged("it has no header")

    def _variables(self) -> Iterable[Tuple[str, Variable]]:
        """Keys of slices begin with a zero byte; names do not."""
        for key, entry in self._entries.items():
            if not key.startswith(b"\0"):
                name = as_text(memoryview(key), MAX_KEY_BYTES)
                yield name, Variable(name, entry.dtype, entry.shape, entry.slices)

    def _stored(self, variable: Variable) -> List[Entry]:
        """The entries with the bytes of a variable."""
        if not variable.slices:
            return [self._entries[variable.name.encode("utf8")]]
        found = [self._entries.get(slice_key(variable.name, extents)) for extents in variable.slices]
        if None in found:
            raise Damaged(f"a slice of {variable.name} is missing")
        return [entry for entry in found if entry is not None]

    def _check_places(self, variables: Iterable[Variable]) -> None:
        """Sizes fit shapes, and all arrays together are not larger than the data files."""
        used: Dict[int, int] = {}
        for variable in variables:
            itemsize = np.dtype(numpy_dtype(variable)).itemsize
            for entry in self._stored(variable):
                number, _, n_bytes = entry.place
                if prod(entry.shape) * itemsize != n_bytes or entry.dtype != variable.dtype:
                    raise Damaged(f"{variable.name} {list(entry.shape)} has {n_bytes:,} bytes, which do not fit it")
                used[number] = used.get(number, 0) + n_bytes
        for number, n_bytes in used.items():
            n_stored = self._data_file(number).stat().st_size
            if n_bytes > n_stored:
                raise Damaged(f"it declares {n_bytes:,} bytes in data file {number}, which has {n_stored:,}")

    def _data_file(self, number: int) -> Path:
        if not 0 <= number < self.n_shards:
            raise Damaged(f"it refers to data file {number}, but there are {self.n_shards:,}")
        prefix = self.index.name.removesuffix(INDEX_SUFFIX)
        path = self.index.with_name(f"{prefix}.data-{number:05d}-of-{self.n_shards:05d}")
        if not path.is_file():
            raise ValueError(Errors.EL321.format(path=self.index, missing=path.name))
        return path

    def _read_variable(self, variable: Variable) -> Array:
        if not variable.slices:
            return self._read_entry(variable, self._stored(variable)[0])
        entries = dict(zip(variable.slices, self._stored(variable)))

        def read_slice(extents: Extents, shape: Shape) -> Array:
            if entries[extents].shape != shape:
                raise Damaged(f"a slice of {variable.name} is {list(entries[extents].shape)}, should be {list(shape)}")
            return self._read_entry(variable, entries[extents])

        with reading(self.index):
            return assemble(variable, read_slice)

    def _read_entry(self, variable: Variable, entry: Entry) -> Array:
        number, offset, n_bytes = entry.place
        path = self._data_file(number)
        with reading(path), path.open("rb") as file:
            n_stored = path.stat().st_size
            if offset < 0 or offset + n_bytes > n_stored:
                raise Damaged(f"{variable.name} is at {offset:,} to {offset + n_bytes:,} of {n_stored:,} bytes")
            array = np.empty(entry.shape, dtype=numpy_dtype(variable))
            file.seek(offset)
            content = array.reshape(-1).view("u1").data
            if file.readinto(content) != n_bytes:
                raise Damaged(f"{variable.name} is truncated")
            if masked_crc32c(content) != entry.crc:
                raise Damaged(f"the checksum of {variable.name} differs")
        return array


def _read_header(message: memoryview) -> int:
    """RETURNS (int): Number of data files in a BundleHeaderProto."""
    fields = dict(read_fields(message))
    n_shards = as_int(fields.get(1, 0))
    if not 1 <= n_shards <= MAX_SHARDS:
        raise Damaged(f"it declares {n_shards:,} data files, should be 1 to {MAX_SHARDS:,}")
    if as_int(fields.get(2, 0)) != 0:
        raise Damaged("its numbers are big-endian; only little-endian checkpoints are read")
    return n_shards


def _read_entry(message: memoryview) -> Entry:
    numbers = {1: 0, 3: 0, 4: 0, 5: 0, 6: 0}
    shape: Shape = ()
    slices: List[Extents] = []
    for number, value in read_fields(message):
        if number == 2:
            shape = read_shape(as_bytes(value))
        elif number == 7:
            slices.append(read_extents(as_bytes(value)))
        elif number in numbers:
            numbers[number] = as_int(value)
    if min(numbers.values()) < 0:
        raise Damaged("an entry has a negative number")
    return Entry(numbers[1], shape, (numbers[3], numbers[4], numbers[5]), numbers[6], tuple(slices))
