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

    A new folder appears by one rename. An existing one is set aside, the new one takes its place, and the old one is
    removed: two renames, and `heal_folder` undoes the first if a process is killed before the second. Where a folder
    holds files of other people, or cannot be renamed, these stay and ours are replaced file by file. All is on
    the disk, not only in its cache, before the first rename.

    path (Path): The target folder.
    force (bool): Replace what is there.
    own_names (Sequence[str]): Names of files that the writer owns.
    YIELDS (Path): An empty folder.
    RAISES (ValueError): EL025 if something is there and `force` is not set, or if it is a file.
    """
    heal_folder(path)
    if path.is_file() or (path.is_dir() and not force and any(path.iterdir())):
        raise ValueError(Errors.EL025.format(path=path, kind="file" if path.is_file() else "folder with files"))
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
    try:
        yield folder
        folder.chmod(0o777 & ~_umask())  # mkdtemp makes folders that only the owner reads
        for written in (*folder.iterdir(), folder):
            _sync(written)
        _put_in_place(folder, path, own_names)
        _sync(path.parent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def aside_of(path: Path) -> Path:
    """RETURNS (Path): Where a folder waits while another takes its place. If `path` is missing, this one holds."""
    return path.with_name(f".{path.name}.old")


def heal_folder(path: Path) -> None:
    """Finish what a killed process began: a folder that was set aside comes back, or goes if it was replaced.

    path (Path): The target folder.
    """
    aside = aside_of(path)
    if not aside.is_dir():
        return
    if path.exists():
        shutil.rmtree(aside)
    else:
        os.rename(aside, path)


def _put_in_place(folder: Path, path: Path, own_names: Sequence[str]) -> None:
    if not path.exists():
        os.rename(folder, path)
    elif _is_all_ours(path, own_names) and _set_aside(path):
        try:
            os.rename(folder, path)
        finally:
            heal_folder(path)
    else:
        _replace_files(folder, path, own_names)


def _is_all_ours(path: Path, own_names: Sequence[str]) -> bool:
    return not path.is_symlink() and all(file.name in own_names for file in path.iterdir())


def _set_aside(path: Path) -> bool:
    """RETURNS (bool): False where a folder cannot be renamed: a mount point, or a lower layer of a container."""
    try:
        os.rename(path, aside_of(path))
    except OSError:
        return False
    return True


def _replace_files(folder: Path, path: Path, own_names: Sequence[str]) -> None:
    written = sorted(file.name for file in folder.iterdir())
    for name in written:
        os.replace(folder / name, path / name)
    for name in set(own_names) - set(written):
        (path / name).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    if os.name == "nt":  # there a folder cannot be opened, nor a file that is open for reading be synced
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
