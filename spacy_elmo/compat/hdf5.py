"""Write an HDF5 file under a temporary name, and rename it at the end."""

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

import h5py

from .._settings import to_path
from .arguments import PathLike, check_no_url


@contextmanager
def new_hdf5(path: PathLike) -> Iterator[h5py.File]:
    """A file at `path` is replaced, as in the original programs, once the new one is complete.

    path (PathLike): The file.
    YIELDS (h5py.File): An empty file, open for writing.
    RAISES (ValueError): EL330 for a URL.
    """
    check_no_url("output file", path)
    target = to_path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    os.close(number)
    try:
        with h5py.File(name, "w") as file:
            yield file
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)  # a file from mkstemp is readable by its owner only
        os.replace(name, target)
    finally:
        Path(name).unlink(missing_ok=True)
