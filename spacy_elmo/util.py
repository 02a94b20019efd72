"""What every package may need: flags of optional packages, hashes, atomic writing, small checks of values."""

import glob
import hashlib
import math
import os
import platform
import re
import shutil
import tempfile
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any, Iterator, Optional, Sequence, TypeGuard

from .errors import Errors

has_cupy: bool = find_spec("cupy") is not None
has_datasets: bool = find_spec("datasets") is not None
has_faiss: bool = find_spec("faiss") is not None
has_matplotlib: bool = find_spec("matplotlib") is not None
has_onnx: bool = find_spec("onnx") is not None
has_pyarrow: bool = find_spec("pyarrow") is not None
has_ray: bool = find_spec("ray") is not None
has_sklearn: bool = find_spec("sklearn") is not None
has_starlette: bool = find_spec("starlette") is not None
has_tensorboard: bool = find_spec("tensorboard") is not None
has_uvicorn: bool = find_spec("uvicorn") is not None
has_zstandard: bool = find_spec("zstandard") is not None

CHUNK_BYTES = 2**20
RESOURCE_FORKS = "__MACOSX"  # folder of zips made on macOS


def is_number(value: Any) -> TypeGuard[float]:
    """RETURNS (bool): Whether a value from a file or config is a finite number; true and false are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < math.inf


def is_hidden(name: str) -> bool:
    """name (str): Name of a file, with slashes.
    RETURNS (bool): Whether it is not data: `._NAME` and the folder `__MACOSX` of macOS, `.DS_Store` and the like.
    """
    parts = PurePosixPath(name).parts
    return RESOURCE_FORKS in parts or any(part.startswith(".") for part in parts[-1:])


def hash_file(path: Path, algorithm: str = "sha256") -> str:
    """Hash a file of any size, like `hashlib.file_digest` of Python 3.11.

    path (Path): The file.
    algorithm (str): A name that `hashlib` knows.
    RETURNS (str): The digest in hexadecimal digits.
    """
    digest = hashlib.new(algorithm)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def temporary_folder(name: str, place: Optional[Path]) -> Iterator[Path]:
    """Provide a folder that is removed at the end, and remove those that killed processes of this computer have left.

    name (str): Start of its name, which also has that of the computer and the number of the process.
    place (Optional[Path]): Where it is created; None for that of temporary files.
    YIELDS (Path): The folder.
    """
    host = re.sub(r"\W", "-", platform.node())
    for old in [] if place is None else place.glob(f"{glob.escape(name)}.{host}.*.part"):
        number = old.name.split(".")[-3]
        if number.isdigit() and not _is_running(int(number)):
            shutil.rmtree(old, ignore_errors=True)
    prefix = f"{name}.{host}.{os.getpid()}."
    with tempfile.TemporaryDirectory(prefix=prefix, suffix=".part", dir=place) as folder:
        yield Path(folder)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Provide a temporary path of the same name next to the target, and rename it to the target at the end.

    path (Path): The file, which is complete or as before; its folder is created.
    YIELDS (Path): Where to write it, in a hidden folder that is removed in any case.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(f".{path.name}", path.parent) as folder:
        yield (part := folder / path.name)
        _sync(part)
        os.replace(part, path)


def write_text(path: Path, text: str, errors: str = "strict") -> None:
    """Write a text file in UTF-8 atomically.

    path (Path): The file; its folder is created.
    text (str): The content.
    errors (str): What to do with unpaired surrogates, see `str.encode`.
    """
    with atomic_file(path) as part:
        part.write_bytes(text.encode("utf8", errors))


@contextmanager
def atomic_folder(path: Path, *, force: bool, own_names: Sequence[str]) -> Iterator[Path]:
    """Provide a temporary folder next to the target, and rename it to the target at the end.

    A new folder is created by one rename. To replace an existing folder takes two: the old one is renamed to a hidden
    name, the new one to the target; then the old one is deleted. `heal_folder` undoes the first rename if a process is
    killed before the second. If the folder contains other files or cannot be renamed, files are replaced one by one.
    All files are synced to the disk before the first rename.

    path (Path): The target folder.
    force (bool): Replace existing files.
    own_names (Sequence[str]): Names of files that the writer may replace.
    YIELDS (Path): An empty folder.
    RAISES (ValueError): EL025 if the folder is not empty and `force` is not set, or if the path is a file.
    """
    heal_folder(path)
    if path.is_file() or (path.is_dir() and not force and not _is_empty(path)):
        raise ValueError(Errors.EL025.format(path=path, kind="file" if path.is_file() else "folder with files"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(f".{path.name}", path.parent) as place:
        folder = place / path.name
        folder.mkdir()
        yield folder
        for written in (*folder.iterdir(), folder):
            _sync(written)
        _put_in_place(folder, path, own_names)
        _sync(path.parent)


def aside_of(path: Path) -> Path:
    """RETURNS (Path): Hidden name of a folder while it is replaced. If `path` does not exist, this folder is valid."""
    return path.with_name(f".{path.name}.old")


def heal_folder(path: Path) -> None:
    """Clean up after a killed process: restore a renamed folder, or delete it if it was replaced.

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
    """RETURNS (bool): False if the folder cannot be renamed: a mount point, or in a lower layer of a container."""
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
    """Sync a file, or the entries of a folder, to the disk."""
    if os.name == "nt":  # Windows can neither open a folder nor sync a file opened for reading
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_running(process: int) -> bool:
    """Whether a process of this computer runs; on Windows, which cannot be asked without ending it, it is assumed."""
    if os.name == "nt":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it belongs to another user
        pass
    return True


def _is_empty(path: Path) -> bool:
    """Whether a folder has no files but hidden ones, which macOS writes into each folder that is opened."""
    return all(is_hidden(file.name) for file in path.iterdir())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
