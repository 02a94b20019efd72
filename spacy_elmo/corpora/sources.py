"""What a text is read from: whether it can be read again, how it is compressed, whether it is text, in which format.

Every command decides this here, once: first by the bytes, then by the suffix. Anything but a regular file is a stream,
which is read once: a pipe, a device, stdin. What a first look takes of a stream is read again.
"""

import bz2
import gzip
import io
import lzma
import os
import re
import stat
import sys
import zlib
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, Callable, Dict, Iterator, Optional, Tuple, Union, cast

from .. import util
from ..errors import Errors
from ..files import COMPRESSED_BYTES, AnyPath, CompressedStreams
from .signatures import COMPRESSIONS, compression_of, format_by_content, name_binary

# Suffixes searched for in folders. Files with other suffixes are read as text if they are named.
TEXT_SUFFIXES: Dict[str, str] = {
    ".txt": "text",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".spacy": "docbin",
    ".parquet": "parquet",
}
COMPRESSION_SUFFIXES = tuple(COMPRESSIONS)
STDIN = "-"
DESCRIPTOR = re.compile(r"/dev/stdin|/dev/fd/\d+|/proc/(self|\d+)/fd/\d+")
STDIN_NAMES = (STDIN, "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
READ_AHEAD = 1 << 18
EXAMINED_BYTES = 1 << 16  # that are looked at


@dataclass(frozen=True)
class Source:
    """A file, a stream or an address with texts, see `make_source`.

    name (str): Path, address, or "-" for stdin.
    stream (Optional[Stream]): None for a file that can be opened again.
    is_look (bool): Whether a stream keeps what is read, for the next reading.
    """

    name: str
    stream: Optional["Stream"] = field(default=None, compare=False, repr=False)
    is_look: bool = field(default=False, compare=False)

    def look(self) -> "Source":
        """RETURNS (Source): The same one, for a first look: what it reads of a stream is read again by this one."""
        return self if self.stream is None else replace(self, is_look=True)

    @property
    def label(self) -> str:
        """RETURNS (str): Its name in messages and in the record of a run: the file name, without folders."""
        return "stdin" if self.name == STDIN else Path(self.name).name

    @property
    def place(self) -> str:
        """RETURNS (str): Its name in ids and places of texts: the path, or "stdin" under all of its names."""
        return "stdin" if self.name in STDIN_NAMES else self.name

    @property
    def key(self) -> str:
        """RETURNS (str): The same for all names of a file, through links."""
        if is_address(self.name):
            return self.name
        return STDIN if self.name in STDIN_NAMES else str(Path(self.name).resolve())

    @property
    def size_bytes(self) -> int:
        """RETURNS (int): Size of a file on a disk or at an address; 0 for streams, and where it is unknown."""
        if is_address(self.name):
            files, path = filesystem_of(self.name)
            return int(files.info(path).get("size") or 0)
        return 0 if self.stream is not None else os.stat(self.name).st_size

    @cached_property
    def format(self) -> str:
        """RETURNS (str): "text", "jsonl", "docbin" or "parquet": by the first bytes, else by the suffix, else
        text. Of an address the suffix counts first, since each look is a request.
        """
        by_suffix = format_by_suffix(self.name)
        if by_suffix is not None and is_address(self.name):
            return by_suffix
        by_content = None
        with suppress(ValueError), self.look().open() as content:  # whoever reads a damaged file reports it
            by_content = format_by_content(content.peek(EXAMINED_BYTES))
        return by_content or by_suffix or "text"

    @contextmanager
    def open(self, on_open: Callable[[BinaryIO], object] = lambda file: None) -> Iterator[BufferedReader]:
        """Open it, decompressed according to its first bytes, or else its suffix.

        on_open (Callable[[BinaryIO], object]): Called with a file as it is on the disk, whose position is the progress;
            not for streams.
        YIELDS (BufferedReader): A peek returns the first `EXAMINED_BYTES` bytes, or all if there are fewer.
        RAISES (ValueError): If `zstandard` is missing, for a stream that was read before, if there is no stdin; EL108
            while reading a truncated or damaged file.
        """
        with self._open_file(on_open) as file:
            content = _decompress(file, self.name)
            yield file if content is None else _buffer(content, self.name)

    @contextmanager
    def open_as_text(self, on_open: Callable[[BinaryIO], object] = lambda file: None) -> Iterator[BufferedReader]:
        """Open it for reading lines, see `open`. RAISES (ValueError): If it is not text in UTF-8, with what it is."""
        with self.open(on_open) as content:
            if binary := name_binary(content.peek(EXAMINED_BYTES)):
                raise ValueError(f"'{self.name}' is {binary[0]}, should be text in UTF-8. {binary[1]}.")
            yield content

    @contextmanager
    def open_at_random(self) -> Iterator[BinaryIO]:
        """Open it for reading at any position: a stream or a compressed file is held in memory as a whole."""
        if self.stream is None:
            with open_address(self.name) as file:
                start = file.read(16)
                if compression_of(start) is None:
                    file.seek(0)
                    yield file
                    return
        with self.open() as content:
            yield io.BytesIO(content.read())

    @contextmanager
    def _open_file(self, on_open: Callable[[BinaryIO], object]) -> Iterator[BufferedReader]:
        if self.stream is not None:
            try:
                yield _buffer(self.stream.begin(is_look=self.is_look), self.name)
            finally:
                if not self.is_look:
                    self.stream.close()
            return
        with open_address(self.name) as file:
            on_open(file)
            yield file if isinstance(file, BufferedReader) else BufferedReader(cast(Any, file), READ_AHEAD)


@dataclass(eq=False)
class Stream:
    """What can be read only once, and the bytes that a first look has taken of it.

    name (str): Path, or "-".
    """

    name: str
    seen: bytearray = field(default_factory=bytearray)
    file: Optional[BinaryIO] = None
    is_at_end: bool = False
    is_read: bool = False

    def begin(self, *, is_look: bool) -> RawIOBase:
        """RETURNS (RawIOBase): The stream from its first byte. RAISES (ValueError): If it was read before."""
        if self.is_read:
            raise ValueError(
                f"'{self.name}' can be read only once: it is a pipe or a device, not a file, and was read before. "
                "Write it to a file, and give its name."
            )
        if self.file is None:
            self.file = open_stdin() if self.name in STDIN_NAMES else Path(self.name).open("rb", buffering=READ_AHEAD)
        self.is_read = not is_look
        return _Replay(self, self.file, is_kept=is_look)

    def close(self) -> None:
        if self.file is not None and self.name not in STDIN_NAMES:
            self.file.close()


class _Replay(RawIOBase):
    """The bytes of a stream from the first one on; new ones are kept for the next reading if `is_kept`."""

    def __init__(self, stream: Stream, file: BinaryIO, *, is_kept: bool) -> None:
        self._stream, self._file, self._is_kept, self._position = stream, file, is_kept, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = bytes(self._stream.seen[self._position : self._position + len(buffer)])
        if not content and not self._stream.is_at_end:
            content = cast(Any, self._file).read1(len(buffer)) or b""
            self._stream.is_at_end = not content  # a terminal would be asked again
            if self._is_kept:
                self._stream.seen += content
        self._position += len(content)
        buffer[: len(content)] = content
        return len(content)


def make_source(place: Union[AnyPath, Source]) -> Source:
    """place (Union[AnyPath, Source]): A path that exists, an address, or "-" for stdin; a source is returned as it is.
    RETURNS (Source): Not yet opened: a stream is opened when it is first read.
    """
    if isinstance(place, Source):
        return place
    name = os.fsdecode(place)
    if is_address(name):
        return Source(name)
    is_stream = name == STDIN or DESCRIPTOR.fullmatch(name) is not None or not stat.S_ISREG(os.stat(name).st_mode)
    return Source(name, Stream(name) if is_stream else None)


def open_stdin() -> BinaryIO:
    """RETURNS (BinaryIO): The bytes of stdin. RAISES (ValueError): If the process has none."""
    if sys.stdin is None or sys.stdin.closed:
        raise ValueError(
            "There is no standard input to read from: it is closed, as in some schedulers and without a console. Give "
            "a file, or send a text: `COMMAND < FILE`."
        )
    return sys.stdin.buffer


def is_address(place: str) -> bool:
    """RETURNS (bool): Whether a place is an address such as s3://BUCKET/FILE, not a path."""
    return ADDRESS.match(place) is not None


def filesystem_of(address: str) -> Tuple[Any, str]:
    """address (str): An address of `fsspec`: s3, gs, abfs, hdfs, http, memory and others.
    RETURNS (Tuple[AbstractFileSystem, str]): The file system, and the path in it.
    RAISES (ValueError): For an unknown kind, or if its package is not installed.
    """
    try:
        filesystem: Tuple[Any, str] = import_module("fsspec.core").url_to_fs(address)
    except (ImportError, ValueError) as error:
        remedy = "Correct it, or use a path on a local disk."
        raise ValueError(f"The address '{address}' cannot be opened: {error}. {remedy}") from error
    return filesystem


@contextmanager
def open_address(place: str) -> Iterator[BinaryIO]:
    """Open a file that is not decompressed.

    place (str): A path or an address.
    """
    if is_address(place):
        files, path = filesystem_of(place)
        with files.open(path, "rb", block_size=READ_AHEAD) as file:
            yield file
    else:
        with Path(place).open("rb", buffering=READ_AHEAD) as file:
            yield file


def split_suffix(file: AnyPath) -> Tuple[str, str]:
    """RETURNS (Tuple[str, str]): The suffixes of content and compression, in lower case; "" for none."""
    path = Path(os.fsdecode(file).lower())
    return (Path(path.stem).suffix, path.suffix) if path.suffix in COMPRESSION_SUFFIXES else (path.suffix, "")


def format_by_suffix(file: AnyPath) -> Optional[str]:
    """RETURNS (Optional[str]): The format of a file by its suffix; None for an unknown suffix. A `.json` file, which
    folders are not searched for, may have JSON lines or an array.
    """
    suffix, _ = split_suffix(file)
    return "jsonl" if suffix == ".json" else TEXT_SUFFIXES.get(suffix)


def import_arrow(module: str, name: object, other: str = "another format") -> Any:
    """module (str): A module of pyarrow.
    name (object): The file that requires it.
    other (str): What to use instead.
    RETURNS (Any): The module.
    RAISES (ValueError): If pyarrow is not installed.
    """
    remedy = f"`pip install pyarrow`, or use {other}"
    util.require_package(util.has_pyarrow, f"The Parquet file '{name}'", "pyarrow", remedy)
    return import_module(module)


def _decompress(file: BufferedReader, name: str) -> Optional[RawIOBase]:
    """RETURNS (Optional[RawIOBase]): The content of a compressed file; None if it is not compressed."""
    kind = compression_of(file.peek(16)) or split_suffix(name)[1]
    if kind == ".gz":
        return cast(RawIOBase, gzip.GzipFile(fileobj=file))
    if kind == ".zst":
        remedy = "`pip install zstandard`, or use plain or .gz text"
        util.require_package(util.has_zstandard, f"Reading '{name}'", "zstandard", remedy)
        return _ZstdFile(file)
    decompressors = {".bz2": bz2.BZ2Decompressor, ".xz": lzma.LZMADecompressor}
    return CompressedStreams(file, decompressors[kind]) if kind else None


def _buffer(file: RawIOBase, name: str) -> BufferedReader:
    """A buffer in C around a reader in Python; it holds the first bytes, for a peek."""
    content = BufferedReader(cast(Any, _Content(file, name)), READ_AHEAD)
    content.peek(1)
    return content


class _Content(RawIOBase):
    """The content of a stream or of a compressed file; damages are EL108. The first read has `EXAMINED_BYTES` bytes or
    the whole content, although a pipe or a decompressor may return fewer at once.
    """

    def __init__(self, file: RawIOBase, name: str) -> None:
        self._file, self._name, self._is_first = file, name, True
        self._problem: Optional[Exception] = None
        self._damages = (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, _zstd_error())

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._problem is not None:
            raise self._problem
        n_bytes = n_new = self._read(buffer)
        while self._is_first and n_new and n_bytes < EXAMINED_BYTES:
            try:
                n_new = self._read(buffer[n_bytes:])
            except (ValueError, OSError) as error:  # after what could be read
                self._problem, n_new = error, 0
            n_bytes += n_new
        self._is_first = False
        return n_bytes

    def _read(self, buffer: Any) -> int:
        try:
            if hasattr(self._file, "read1"):  # of a damaged file, it returns what comes before the damage
                content = self._file.read1(len(buffer))
                buffer[: len(content)] = content
                return len(content)
            return self._file.readinto(buffer) or 0
        except (*self._damages, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # of the disk; gzip and bz2 raise OSError without a number for damaged data
            raise ValueError(Errors.EL108.format(path=self._name, reason=error)) from error


class _ZstdFile(RawIOBase):
    """The text of a .zst file; the reader of zstandard takes the end of a truncated file for the end of the text."""

    def __init__(self, file: BufferedReader) -> None:
        self._file, self._text, self._rest = file, memoryview(b""), b""
        self._new_frame = import_module("zstandard").ZstdDecompressor().decompressobj
        self._frame: Any = None  # None between frames

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._text:
            compressed = self._rest or self._file.read(COMPRESSED_BYTES)
            if not compressed:
                if self._frame is not None:
                    raise EOFError("the file ends within a frame")
                return 0
            self._frame = self._frame or self._new_frame()
            self._text, self._rest = memoryview(self._frame.decompress(compressed)), b""
            if self._frame.eof:
                self._rest, self._frame = self._frame.unused_data, None
        n_bytes = min(len(buffer), len(self._text))
        buffer[:n_bytes], self._text = self._text[:n_bytes], self._text[n_bytes:]
        return n_bytes


def _zstd_error() -> Any:
    """The exception for damaged files; without the package, an exception that is never raised."""
    return import_module("zstandard").ZstdError if util.has_zstandard else EOFError
