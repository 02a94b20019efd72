"""Checkpoints of TensorFlow, format V2: PREFIX.index and PREFIX.data-0000i-of-0000n.

Format: tensorflow/core/protobuf/tensor_bundle.proto. The index is a sorted table from names to positions in the data
files; the empty name has the header. Nothing is read before its position and size are compared with the file.
"""

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Dict, Iterable, List, Tuple

import numpy as np

from ...errors import Errors
from ..limits import MIB
from ..tensor_map import Array, Shape
from .crc32c import masked_crc32c
from .damage import Damaged, reading
from .protobuf import as_bytes, as_int, as_text, read_fields
from .slices import Extents, Variable, assemble, numpy_dtype, read_extents, read_shape, slice_key
from .sorted_table import MAX_KEY_BYTES, read_table

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
