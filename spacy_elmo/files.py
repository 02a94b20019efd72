"""Paths of users, and files that are complete or as before."""

import errno
import glob
import hashlib
import os
import platform
import re
import secrets
import shutil
import stat
import sys
import tempfile
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from io import RawIOBase
from pathlib import Path, PurePosixPath
from typing import IO, Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple, Union

from .errors import Errors

fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None  # not on Windows

CHUNK_BYTES = 2**20
COMPRESSED_BYTES = 8192  # that are decompressed at once
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
SPARE_BYTES = 2**20  # for what HDF5 holds back, and its index
RESOURCE_FORKS = "__MACOSX"  # folder of zips made on macOS
# Suffixes of pictures, pages and tables: a file of them in a folder of weights or of a pipeline is never read.
RESULTS = (".png", ".svg", ".pdf", ".html", ".csv")
# A path as Python programs have it: text, bytes (`os.fsencode`), `pathlib.Path`. `os.fsdecode` makes it text.
AnyPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


def to_path(path: Union[str, bytes, "os.PathLike[str]"]) -> Path:
    """Every path of a user is read by this function.

    path (Union[str, bytes, os.PathLike[str]]): A path; `~` and `~USER` at its start are home folders, as in a shell.
    RETURNS (Path): The path; unchanged for a user that does not exist.
    """
    return Path(os.path.expanduser(os.fsdecode(path)))


def find_configs() -> Path:
    """RETURNS (Path): The folder with the configs: in an installed package, or in the root of a checkout."""
    package = Path(__file__).parent
    packaged = package / "configs"
    return packaged if packaged.is_dir() else package.parent / "configs"


def check_output_folder(path: Path) -> None:
    """path (Path): A folder that exists or can be created.
    RAISES (ValueError): EL178 if it or one of its parents is a file.
    """
    existing = next((parent for parent in (path, *path.parents) if parent.exists()), path)
    if existing.exists() and not existing.is_dir():
        raise ValueError(Errors.EL178.format(path=path, taken=existing))


def check_output_file(path: Path, *, force: bool, sources: Iterable[AnyPath] = ()) -> None:
    """path (Path): A file that will be written under a temporary name, then renamed.
    force (bool): Replace an existing file.
    sources (Iterable[AnyPath]): What the command reads, see `check_not_read`.
    RAISES (ValueError): If the command reads the file, EL134 if it exists, EL178 if its parent cannot be a folder; for
        anything but a regular file, since renaming would replace a device or a pipe.
    """
    if path.exists() and not path.is_file():
        raise ValueError(
            f"'{path}' is not a regular file but a device, a pipe or a folder, and cannot be replaced. Choose another "
            "path, or write to a file first."
        )
    check_not_read(path, sources)
    if path.exists() and not force:
        raise ValueError(Errors.EL134.format(path=path, remedy="Choose another path, or replace it with `force=True`."))
    check_output_folder(follow_links(path).parent)


def check_not_read(output: Path, sources: Iterable[AnyPath]) -> None:
    """Keep a command from replacing what it reads, whatever the names: other spellings, links, hard links, stdin that
    is redirected from a file.

    output (Path): A file or folder that will be written.
    sources (Iterable[AnyPath]): Files and folders that are read, "-" for stdin; names that are not paths are ignored,
        and so are files of `RESULTS` in a folder that is read.
    RAISES (ValueError): If a source is the output, is in it, or has it. A folder may have an output folder.
    """
    if not output.exists():
        return
    written = {_identity_of(path) for path in ([output, *output.iterdir()] if output.is_dir() else [output])}
    place = _identity_of(output) if output.is_dir() else None
    parents: Dict[Path, bool] = {}  # whether they are in the output
    for source in sources:
        for path, identity in _list_identities(source, output):
            folder = Path(os.path.realpath(path)).parent
            if folder not in parents:
                parents[folder] = any(_identity_of(parent) == place for parent in (folder, *folder.parents))
            if identity in written or (place is not None and parents[folder]):
                raise ValueError(
                    f"The output '{output}' would replace a file that is read: '{path}'. Choose another path for the "
                    "output."
                )


Identity = Tuple[int, int]  # device and number of a file, the same for all of its names


def _identity_of(path: Path) -> Optional[Identity]:
    try:
        status = os.stat(path)
    except OSError:  # a dangling link, or a folder without permission
        return None
    return status.st_dev, status.st_ino


def _list_identities(source: AnyPath, output: Path) -> Iterator[Tuple[Path, Identity]]:
    """YIELDS (Tuple[Path, Identity]): A file, or a folder and the files in it, but for the output folder."""
    path = to_path(os.fsdecode(source))
    if str(path) == "-":
        status = _status_of_stdin()
        if status is not None and stat.S_ISREG(status.st_mode):
            yield path, (status.st_dev, status.st_ino)
        return
    if (identity := _identity_of(path)) is not None:
        yield path, identity
    for folder, subfolders, names in os.walk(path) if path.is_dir() else ():
        subfolders[:] = [name for name in subfolders if _identity_of(Path(folder, name)) != _identity_of(output)]
        for name in names:
            if not name.lower().endswith(RESULTS) and (identity := _identity_of(Path(folder, name))) is not None:
                yield Path(folder, name), identity


def _status_of_stdin() -> Optional[os.stat_result]:
    try:
        return None if sys.stdin is None else os.fstat(sys.stdin.fileno())
    except (OSError, ValueError):  # a stream without a file, or closed
        return None


def follow_links(path: Path) -> Path:
    """RETURNS (Path): The file that a linked output stands for: it is replaced, and the links to it stay."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def walk_files(folder: Path) -> List[Path]:
    """RETURNS (List[Path]): All files below a folder, sorted. Links to folders are followed, each folder once."""
    seen: Set[Optional[Identity]] = set()
    files: List[Path] = []
    for place, subfolders, names in os.walk(folder, followlinks=True):
        if (identity := _identity_of(Path(place))) in seen:
            subfolders.clear()
            continue
        seen.add(identity)
        subfolders.sort(key=lambda name: (os.path.islink(os.path.join(place, name)), name))
        files += [path for name in names if (path := Path(place, name)).is_file()]
    return sorted(files)


def is_hidden(name: str) -> bool:
    """name (str): Name of a file, with slashes.
    RETURNS (bool): Whether it is not data: `._NAME` and the folder `__MACOSX` of macOS, `.DS_Store` and the like.
    """
    names = PurePosixPath(name).parts
    return RESOURCE_FORKS in names or any(name_part.startswith(".") for name_part in names[-1:])


def hash_file(path: Path, algorithm: str = "sha256") -> str:
    """Hash a file of any size, like `hashlib.file_digest` of Python 3.11.

    path (Path): The file.
    algorithm (str): A name of `hashlib`.
    RETURNS (str): The digest in hexadecimal digits.
    """
    digest = hashlib.new(algorithm)
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


class CompressedStreams(RawIOBase):
    """The content of a .bz2 or .xz file: one compressed stream or several, with zeros between them. Python's readers
    take damage at the beginning of a further stream for the end of the content.

    file (IO[bytes]): At its beginning.
    make (Callable[[], Any]): `bz2.BZ2Decompressor` or `lzma.LZMADecompressor`.
    RAISES (EOFError): While reading, if the file ends within a stream; errors of the decompressor for damages.
    """

    def __init__(self, file: IO[bytes], make: Callable[[], Any]) -> None:
        self._file, self._make, self._rest = file, make, b""
        self._stream: Any = None  # None between streams

    def readable(self) -> bool:
        """RETURNS (bool): True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the beginning of a buffer. RETURNS (int): The number of bytes, 0 at the end."""
        content = b""
        while not content:
            compressed = b""
            if self._stream is None or self._stream.needs_input:
                compressed, self._rest = self._rest or self._file.read(COMPRESSED_BYTES), b""
                if not compressed:
                    if self._stream is not None:
                        raise EOFError("the file ends within a stream")
                    return 0
            if self._stream is None:
                compressed = compressed.lstrip(b"\0")
                if not compressed:
                    continue
                self._stream = self._make()
            content = self._stream.decompress(compressed, len(buffer))
            if self._stream.eof:
                self._rest, self._stream = self._stream.unused_data, None
        buffer[: len(content)] = content
        return len(content)


@contextmanager
def temporary_folder(name: str, place: Optional[Path]) -> Iterator[Path]:
    """Provide a folder that is removed at the end, and remove those that killed processes of this computer have left.

    name (str): Start of its name, which also has the names of the computer and the process.
    place (Optional[Path]): Where it is created; None for the folder of temporary files.
    YIELDS (Path): The folder.
    """
    host = re.sub(r"\W", "-", platform.node())
    for old in [] if place is None else place.glob(f"{glob.escape(name)}.{host}.*.part"):
        process = old.name.split(".")[-3]
        if process.isdigit() and not _is_running(int(process)):
            shutil.rmtree(old, ignore_errors=True)
    # Named before it exists, so that a signal at any moment leaves none.
    parent = Path(tempfile.gettempdir()) if place is None else place
    folder = parent / f"{name}.{host}.{os.getpid()}.{secrets.token_hex(4)}.part"
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_space(path: Path, n_bytes: int) -> None:
    """Before HDF5 is written, whose library ends the process when the disk is full.

    path (Path): A file that is being written.
    n_bytes (int): What will be added to it.
    RAISES (OSError): If the disk has no space for it and for `SPARE_BYTES`.
    """
    if shutil.disk_usage(path.parent).free < n_bytes + SPARE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """path (Path): What is written. Errors of a full disk, which do not name a file, get its name."""
    try:
        yield
    except OSError as error:
        if error.errno in DISK_ERRORS and error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Keep other processes from writing into a folder at the same time. The lock ends with the process, however that
    ends, even if processes forked from it go on. Windows, and some network disks, cannot lock a folder.

    folder (Path): It exists.
    RAISES (ValueError): If another process writes into it.
    """
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    _locks.add(descriptor)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(
                f"Another process writes into the folder '{folder}'. Wait until it has ended and run the command "
                "again, or choose another folder."
            ) from error
        except OSError:  # a disk without locks
            pass
        yield
    finally:
        if descriptor in _locks:
            _locks.remove(descriptor)
            os.close(descriptor)


def _close_locks() -> None:
    while _locks:
        os.close(_locks.pop())


_locks: Set[int] = set()  # descriptors, which a forked process must not keep open
if fcntl is not None:
    os.register_at_fork(after_in_child=_close_locks)


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Provide a temporary path of the same name next to the target, and rename it to the target at the end.

    path (Path): The file, which is complete or as before; its folder is created. A link to a file stays, and the file
        is replaced.
    YIELDS (Path): Where to write it, in a hidden folder that is removed in any case.
    """
    path = follow_links(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with naming(path), temporary_folder(f".{path.name}", path.parent) as folder:
        yield (temporary := folder / path.name)
        _sync(temporary)
        os.replace(temporary, path)


def write_text(path: Path, text: str, errors: str = "strict") -> None:
    """Write a text file in UTF-8 atomically.

    path (Path): The file; its folder is created.
    text (str): The content.
    errors (str): What to do with unpaired surrogates, see `str.encode`.
    """
    with atomic_file(path) as temporary:
        temporary.write_bytes(text.encode("utf8", errors))


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
    with naming(path), temporary_folder(f".{path.name}", path.parent) as place:
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
