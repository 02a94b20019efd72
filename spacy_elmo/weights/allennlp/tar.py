"""Members of a tar archive, plain or gzip, in memory: every header is checked first, nothing is unpacked to disk."""

import gzip
import io
import tarfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Union

from ...errors import Errors
from ..limits import MIB, expanded_limit, listed, shorten
from ..sources import GZIP_MAGIC, Source, check_size, decoding

SUFFIXES = (".tar", ".tar.gz", ".tgz")
BLOCK = 512
MAX_MEMBERS = 1000
MAX_HEADER_BYTES = MIB  # long names and attributes of a member
MAX_KEPT_BYTES = 16 * MIB  # a text that is kept in memory; larger ones are read when they are needed
MAX_SMALL_BYTES = 4 * MAX_KEPT_BYTES  # all texts that are kept together
PLAIN_TYPES = (tarfile.REGTYPE, tarfile.AREGTYPE)
HEADER_TYPES = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)

IsSmall = Callable[[str], bool]


class TarScan(NamedTuple):
    """The result of one pass over an archive whose headers are all valid.

    names (List[str]): Names of the files, without "./".
    contents (Dict[str, bytes]): Contents of the small ones.
    """

    names: List[str]
    contents: Dict[str, bytes]


@dataclass(frozen=True)
class TarMember(Source):
    """A file in an archive that `scan_tar` accepted, so that its size was checked against that of the archive.

    content (Optional[bytes]): Its content, if it was kept.
    """

    content: Optional[bytes] = None

    def _read_stored(self, max_bytes: Optional[int]) -> bytes:
        if self.content is None:
            return read_member(self.path, self.member or "", max_bytes)
        check_size(self, len(self.content), max_bytes)
        return self.content


def is_tar(path: Path) -> bool:
    """RETURNS (bool): Whether a file is meant as a tar archive, plain or gzip, by its first bytes or its name. A gzip
    that cannot be decompressed is.
    """
    if Source(path).kind() == "tar" or path.name.endswith(SUFFIXES):
        return True
    return Source(path).is_gzip() and not Source(path).read_head()


def scan_tar(path: Path, is_small: IsSmall) -> TarScan:
    """Check all headers of an archive, and keep its small files.

    path (Path): The archive.
    is_small (Callable[[str], bool]): Whether a file of this name is a text to keep.
    RETURNS (TarScan): Names and contents.
    RAISES (ValueError): EL022 if it is damaged, EL036 if it expands too much, EL310 with all members that are refused.
    """
    problems: List[str] = []
    contents: Dict[str, bytes] = {}
    names: List[str] = []
    seen: Set[str] = set()
    n_declared, n_small, limit = 0, 0, expanded_limit(path.stat().st_size)
    with _open_tar(path) as archive:
        for number, member in enumerate(archive):
            name = _plain_name(member.name)
            found = list(_problems(member, name in seen))
            seen.add(name)
            n_declared += member.size
            if number >= MAX_MEMBERS or n_declared > limit:
                problems += [*found, _excess(n_declared, limit)]
                break
            problems += found
            if found or member.isdir():
                continue
            names.append(name)
            if is_small(name) and member.size <= MAX_KEPT_BYTES and n_small + member.size <= MAX_SMALL_BYTES:
                n_small += member.size
                contents[name] = _content(archive, member)
    if problems:
        raise ValueError(Errors.EL310.format(path=path, n_problems=len(problems), problems=listed(problems)))
    return TarScan(names, contents)


def read_member(path: Path, wanted: str, max_bytes: Optional[int] = None) -> bytes:
    """path (Path): An archive that `scan_tar` accepted.
    wanted (str): Name of a file in it.
    max_bytes (Optional[int]): Maximum size of the file; None limits only that of the archive.
    RETURNS (bytes): Its content.
    RAISES (ValueError): EL020 if there is no such file any more, EL036 if it is too large, EL022 as `scan_tar`.
    """
    n_bytes: Optional[int] = None
    with _open_tar(path) as archive:
        for member in archive:
            if _plain_name(member.name) == wanted and member.type in PLAIN_TYPES:
                n_bytes = member.size
                if max_bytes is None or n_bytes <= max_bytes:
                    return _content(archive, member)
                break
    if n_bytes is not None:
        check_size(f"{path}:{wanted}", n_bytes, max_bytes)
    reason = f"it has no member {wanted}"
    raise ValueError(Errors.EL020.format(path=path, reason=reason, wanted="an archive that does not change"))


class _Header(tarfile.TarInfo):
    """A header of 512 bytes. `tarfile` ends quietly at a damaged one; here it is an error."""

    @classmethod
    def frombuf(cls, buf: Union[bytes, bytearray], encoding: str, errors: str) -> "_Header":
        if 0 < len(buf) < BLOCK:
            raise ValueError("the last header is truncated")
        try:
            header = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if buf.count(0) == len(buf):
                raise  # the end of the archive
            raise ValueError(f"a header is damaged: {error}") from error
        if header.size < 0 or (header.type in HEADER_TYPES and header.size > MAX_HEADER_BYTES):
            raise ValueError(f"a header declares {header.size:,} bytes")
        return header


class _Limited(io.RawIOBase):
    """A stream that ends at a limit, and remembers that it did."""

    def __init__(self, file: io.BufferedIOBase, max_bytes: int) -> None:
        self.file, self.n_left = file, max_bytes

    @property
    def is_exhausted(self) -> bool:
        return self.n_left < 0

    def read(self, size: int = -1) -> bytes:
        content = self.file.read(size) if not self.is_exhausted else b""
        self.n_left -= len(content)
        return b"" if self.is_exhausted else content


@contextmanager
def _open_tar(path: Path) -> Iterator[tarfile.TarFile]:
    """Open an archive as a stream with a limit on what it expands to."""
    limit = expanded_limit(path.stat().st_size)
    stream: Optional[_Limited] = None
    try:
        with decoding(path, "tar archive"), path.open("rb") as raw:
            is_gzip = raw.read(len(GZIP_MAGIC)) == GZIP_MAGIC
            raw.seek(0)
            stream = _Limited(gzip.GzipFile(fileobj=raw) if is_gzip else raw, limit)
            with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Header) as archive:
                yield archive
    except ValueError as error:
        if stream is not None and stream.is_exhausted:
            n_bytes, max_bytes = f"more than {limit:,}", f"{limit:,}"
            raise ValueError(Errors.EL036.format(path=path, n_bytes=n_bytes, max_bytes=max_bytes)) from error
        raise


def _plain_name(name: str) -> str:
    return str(PurePosixPath(name))


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    content = b"" if file is None else file.read()
    if len(content) != member.size:
        raise ValueError(f"{member.name} is truncated")
    return content


def _problems(member: tarfile.TarInfo, is_repeated: bool) -> Iterator[str]:
    name = shorten(repr(member.name), 80)
    path = PurePosixPath(member.name)
    has_drive = path.parts[:1] and ":" in path.parts[0]
    if path.is_absolute() or ".." in path.parts or "\\" in member.name or has_drive:
        yield f"{name} has a path that leads out of the archive"
    if member.type not in (*PLAIN_TYPES, tarfile.DIRTYPE) or getattr(member, "sparse", None) is not None:
        yield f"{name} is a link, a device or a sparse file, should be a plain file or a folder"
    if is_repeated and not member.isdir():
        yield f"{name} occurs twice"


def _excess(n_declared: int, limit: int) -> str:
    if n_declared > limit:
        return f"its members declare {n_declared:,} bytes or more, should be at most {limit:,}"
    return f"it has more than {MAX_MEMBERS:,} members"
