"""Lines of text files, plain or compressed, in bounded memory."""

import codecs
import gzip
import lzma
import sys
import zlib
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from io import BufferedReader
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Iterator, Tuple, TypeVar, cast

from .. import _compat
from ..errors import Errors

COMPRESSED = (".gz", ".xz", ".zst")
STDIN = Path("-")
# Bytes. A file without line ends, text8 for one, must not become one string.
LONGEST_LINE = 1 << 20
READ_AHEAD = 1 << 18
REPLACEMENT = "\ufffd"

ItemT = TypeVar("ItemT")


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file, decompressed by what its suffix says: .gz, .xz, .zst (needs `zstandard`).

    path (Path): The file; "-" for stdin, plain.
    YIELDS (BinaryIO): Its content.
    RAISES (ValueError): EL106 if `zstandard` is missing, EL108 for a truncated or damaged file, when that is met.
    """
    if path == STDIN:
        yield sys.stdin.buffer
        return
    damages = (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, _zstd_error())
    with path.open("rb", buffering=READ_AHEAD) as file:
        try:
            yield _decompress(file, path)
        except damages as error:
            raise ValueError(Errors.EL108.format(path=path, reason=error)) from error


def read_lines(file: BinaryIO, *, longest: int = LONGEST_LINE) -> Iterator[bytes]:
    """Stream lines; longer ones come in pieces, cut at a space or a tab if there is one.

    file (BinaryIO): Its content from the start; a byte order mark of UTF-8 is passed over.
    longest (int): Bytes of a line.
    YIELDS (bytes): A line with its end, or a piece of one.
    """
    first = file.readline(longest)
    if first.startswith(codecs.BOM_UTF8):
        first = first.removeprefix(codecs.BOM_UTF8)
        # As long as the others, since a shorter piece is taken for a whole line.
        first += b"" if first.endswith(b"\n") else file.readline(longest - len(first))
    rest = b""
    for piece in chain([first] if first else [], iter(partial(file.readline, longest), b"")):
        if len(piece) < longest or piece.endswith(b"\n"):
            yield rest + piece if rest else piece
            rest = b""
        else:
            cut = _find_cut(piece)
            yield rest + piece[:cut]
            rest = piece[cut:]
    if rest:
        yield rest


def decode(line: bytes) -> Tuple[str, int]:
    """Bytes to text.

    line (bytes): UTF-8, mostly.
    RETURNS (Tuple[str, int]): The text with U+FFFD for what is not UTF-8, and how often that was put in.
    """
    try:
        return line.decode("utf8"), 0
    except UnicodeDecodeError:
        text = line.decode("utf8", "replace")
        return text, text.count(REPLACEMENT) - line.count(REPLACEMENT.encode("utf8"))


def pass_over(items: Iterator[ItemT], n_items: int, *, name: str) -> Iterator[ItemT]:
    """Leave out the first items, as fast as they come.

    items (Iterator[ItemT]): None of them is None.
    n_items (int): How many to leave out.
    name (str): Where they come from, for the error.
    RETURNS (Iterator[ItemT]): The rest.
    RAISES (ValueError): EL109 if there are not so many.
    """
    if n_items and next(islice(items, n_items - 1, n_items), None) is None:
        raise ValueError(Errors.EL109.format(name=name, n_items=n_items))
    return items


def _decompress(file: BinaryIO, path: Path) -> BinaryIO:
    # Both classes read line by line in Python, the buffer around them does it in C.
    if path.suffix == ".gz":
        return cast(BinaryIO, BufferedReader(cast(Any, gzip.GzipFile(fileobj=file)), READ_AHEAD))
    if path.suffix == ".xz":
        return cast(BinaryIO, BufferedReader(cast(Any, lzma.LZMAFile(file)), READ_AHEAD))
    if path.suffix == ".zst":
        if not _compat.has_zstandard:
            raise ValueError(Errors.EL106.format(path=path, package="zstandard"))
        reader = import_module("zstandard").ZstdDecompressor().stream_reader(file, read_across_frames=True)
        return cast(BinaryIO, BufferedReader(reader, READ_AHEAD))
    return file


def _zstd_error() -> Any:
    """The exception for damaged files; one that never comes where the package is missing."""
    return import_module("zstandard").ZstdError if _compat.has_zstandard else EOFError


def _find_cut(piece: bytes) -> int:
    """After the last space or tab; without one, before the last character of UTF-8."""
    after_space = max(piece.rfind(b" "), piece.rfind(b"\t")) + 1
    if after_space:
        return after_space
    cut = len(piece) - 1
    while piece[cut] & 0xC0 == 0x80 and len(piece) - cut < 4:
        cut -= 1
    return cut
