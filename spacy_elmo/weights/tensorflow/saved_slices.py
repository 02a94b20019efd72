"""Old checkpoints of TensorFlow, format V1: sorted tables of SavedTensorSlices, in one file or several.

Format: tensorflow/core/util/saved_tensor_slice.proto. The empty key has names and shapes, all others one slice each.
"""

from math import prod
from pathlib import Path
from typing import Dict, Iterable, List, Optional, Sequence, Tuple

import numpy as np

from ..tensor_map import Array, Shape
from .damage import Damaged, reading
from .protobuf import Value, as_bytes, as_int, as_text, read_fields
from .slices import DTYPES, Extents, Variable, assemble, numpy_dtype, only_whole, read_extents, read_shape
from .sorted_table import MAX_KEY_BYTES, read_table

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
