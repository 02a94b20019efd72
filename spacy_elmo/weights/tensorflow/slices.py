"""Shapes and slices of variables in a checkpoint, the keys of slices, and their assembly."""

from dataclasses import dataclass
from math import prod
from typing import Callable, Iterable, List, Optional, Sequence, Tuple

import numpy as np

from ..tensor_map import Array, Shape
from .damage import Damaged
from .protobuf import as_bytes, as_int, read_fields

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
    RAISES (Damaged): If its slices overlap or do not cover it. This is checked before memory is taken.
    """
    boxes = [_box(variable, extents) for extents in variable.slices]
    _check_cover(variable, boxes)
    whole = np.empty(variable.shape, dtype=numpy_dtype(variable))
    for extents, box in zip(variable.slices, boxes):
        index = tuple(slice(start, stop) for start, stop in box)
        whole[index] = read_slice(extents, tuple(stop - start for start, stop in box))
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
