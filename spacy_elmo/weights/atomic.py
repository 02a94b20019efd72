"""Write a folder so that nobody ever finds half of it."""

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Sequence

from ..errors import Errors


@contextmanager
def atomic_folder(path: Path, *, force: bool, own_names: Sequence[str]) -> Iterator[Path]:
    """Give a temporary folder beside the target to write into, then put it in place.

    A new folder appears by one rename. In an existing one each file is replaced by a rename, files of ours that
    were not written again are removed, and those of other people stay.

    path (Path): The target folder.
    force (bool): Replace what is there.
    own_names (Sequence[str]): Names of files that the writer owns.
    YIELDS (Path): An empty folder.
    RAISES (ValueError): EL025 if something is there and `force` is not set, or if it is a file.
    """
    if path.is_file() or (path.is_dir() and not force and any(path.iterdir())):
        raise ValueError(Errors.EL025.format(path=path, kind="file" if path.is_file() else "folder with files"))
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
    try:
        yield folder
        folder.chmod(0o777 & ~_umask())  # mkdtemp makes folders that only the owner reads
        _put_in_place(folder, path, own_names)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _put_in_place(folder: Path, path: Path, own_names: Sequence[str]) -> None:
    if not path.exists():
        os.rename(folder, path)
        return
    written = sorted(file.name for file in folder.iterdir())
    for name in written:
        os.replace(folder / name, path / name)
    for name in set(own_names) - set(written):
        (path / name).unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
