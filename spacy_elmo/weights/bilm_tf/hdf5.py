"""HDF5 files to dictionaries of arrays and back."""

import io
from pathlib import Path
from typing import Any, Dict, Mapping

import h5py
import numpy as np

from ...errors import Errors
from ..locate import Source, require_file
from ..tensor_map import Array


def read_hdf5(source: Source) -> Dict[str, Array]:
    """Read every dataset of a file, whatever its type.

    source (Source): A file, or a member of a zip.
    RETURNS (Dict[str, Array]): Arrays by their path in the file.
    RAISES (ValueError): EL020 if there is no file, EL022 if it is truncated or no HDF5.
    """
    place: Any = io.BytesIO(source.read_bytes()) if source.member is not None else source.path
    if source.member is None:
        require_file(source.path)
    try:
        with h5py.File(place, "r") as file:
            return _read_group(file)
    # h5py raises whatever its C library meets: OSError at the header, RuntimeError or KeyError deeper inside.
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        raise ValueError(Errors.EL022.format(path=source, kind="HDF5", reason=error)) from error


def write_hdf5(path: Path, arrays: Mapping[str, Array], dtype: str) -> None:
    """path (Path): A file that does not exist yet.
    arrays (Mapping[str, Array]): float32 arrays by their path in the file.
    dtype (str): "float32" or "float16", on disk.
    """
    with h5py.File(path, "w") as file:
        for name in sorted(arrays):
            file.create_dataset(name, data=np.ascontiguousarray(arrays[name], dtype=dtype))


def _read_group(file: h5py.File) -> Dict[str, Array]:
    arrays: Dict[str, Array] = {}

    def visit(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset):
            arrays[name] = np.asarray(node[()])

    file.visititems(visit)
    return arrays
