"""Read files on disk and members of a zip, with limits on their size; errors of decoders; JSON."""

import gzip
import io
import json
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, List, Optional, Union

from ..errors import Errors
from .limits import MAX_JSON_BYTES, MAX_JSON_DEPTH, expanded_limit

GZIP_SUFFIX = ".gz"

PathLike = Union[str, Path]


@contextmanager
def decoding(path: object, kind: str) -> Iterator[None]:
    """Convert all exceptions of a decoder to one error of this package.

    zipfile alone raises BadZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error, LZMAError and more.

    path (object): The file that is decoded.
    kind (str): Its expected format.
    RAISES (ValueError): EL022 for any exception inside.
    """
    try:
        yield
    except Exception as error:  # all of them: see above
        reason = str(error) or type(error).__name__
        raise ValueError(Errors.EL022.format(path=path, kind=kind, reason=reason)) from error


@dataclass(frozen=True)
class Source:
    """A file on disk, or a member of a zip.

    path (Path): The file, or the zip.
    member (Optional[str]): Name inside the zip.
    """

    path: Path
    member: Optional[str] = None

    @property
    def name(self) -> str:
        """RETURNS (str): The last part of the name."""
        return Path(self.member or self.path).name

    def __str__(self) -> str:
        return f"{self.path}:{self.member}" if self.member else str(self.path)

    def read_bytes(self, max_bytes: Optional[int] = None) -> bytes:
        """Read the content, without unpacking a zip. The size is checked before anything is read.

        max_bytes (Optional[int]): Maximum size; None limits only the expansion of a member of a zip.
        RETURNS (bytes): The content.
        RAISES (ValueError): EL020 if there is no such file, EL022 if the zip is damaged, EL036 if it is too large.
        RAISES (OSError): EL037 if the operating system cannot read it.
        """
        if self.member is not None:
            return self._read_member(max_bytes)
        require_file(self.path)
        try:
            check_size(self, self.path.stat().st_size, max_bytes)
            return self.path.read_bytes()
        except OSError as error:
            raise OSError(Errors.EL037.format(path=self, reason=error.strerror or error)) from error

    def read_text_bytes(self) -> bytes:
        """RETURNS (bytes): The content, decompressed if the name ends in `.gz`.
        RAISES (ValueError, OSError): See `read_bytes`; EL022 if the compressed data are damaged.
        """
        content = self.read_bytes()
        if not self.name.endswith(GZIP_SUFFIX):
            return content
        limit = expanded_limit(len(content))
        with decoding(self, "gzip"), gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            content = file.read(limit + 1)
        check_size(self, len(content), limit)
        return content

    def _read_member(self, max_bytes: Optional[int]) -> bytes:
        with decoding(self, "zip"), zipfile.ZipFile(self.path) as archive:
            member = archive.getinfo(self.member or "")
        limit = expanded_limit(min(member.compress_size, self.path.stat().st_size))
        check_size(self, member.file_size, limit if max_bytes is None else min(limit, max_bytes))
        with decoding(self, "zip"), zipfile.ZipFile(self.path) as archive:
            return archive.read(member)


def check_size(path: object, n_bytes: int, max_bytes: Optional[int]) -> None:
    """path (object): A file, for the message.
    n_bytes (int): Its size.
    max_bytes (Optional[int]): Its maximum size, None for any.
    RAISES (ValueError): EL036 if it is too large.
    """
    if max_bytes is not None and n_bytes > max_bytes:
        raise ValueError(Errors.EL036.format(path=path, n_bytes=f"{n_bytes:,}", max_bytes=f"{max_bytes:,}"))


def is_zip(path: Path) -> bool:
    """RETURNS (bool): Whether a file is a zip. `zipfile.is_zipfile` raises for some that only end like one."""
    try:
        return zipfile.is_zipfile(path)
    except zipfile.BadZipFile:
        return False


def require_file(path: Path) -> None:
    """RAISES (ValueError): EL020 if there is no file at `path`."""
    if not path.is_file():
        raise ValueError(Errors.EL020.format(path=path, reason="there is no such file", wanted="a file with this name"))


def read_json(source: Source) -> Any:
    """source (Source): A JSON file, UTF-8.
    RETURNS (Any): Its value.
    RAISES (ValueError): EL020, EL022 or EL036.
    """
    return parse_json(source.read_bytes(MAX_JSON_BYTES), source)


def parse_json(content: Union[bytes, str], path: object) -> Any:
    """content (Union[bytes, str]): JSON, UTF-8.
    path (object): Its source, for messages.
    RETURNS (Any): Its value.
    RAISES (ValueError): EL022 if it is not JSON, or nested deeper than `MAX_JSON_DEPTH` levels.
    """
    with decoding(path, "JSON"):
        value = json.loads(content.decode("utf8") if isinstance(content, bytes) else content)
    if _is_deeper(value, MAX_JSON_DEPTH):
        reason = f"it is nested deeper than {MAX_JSON_DEPTH} levels"
        raise ValueError(Errors.EL022.format(path=path, kind="JSON", reason=reason))
    return value


def _is_deeper(value: Any, n_levels: int) -> bool:
    """Check level by level, since a recursive walk could exceed Python's recursion limit."""
    level: List[Any] = [value]
    for _ in range(n_levels + 1):
        level = [inner for node in level for inner in _inner(node)]
        if not level:
            return False
    return True


def _inner(node: Any) -> List[Any]:
    values = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [value for value in values if isinstance(value, (dict, list))]
