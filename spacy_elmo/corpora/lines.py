"""Lines of text files, plain or compressed, in bounded memory."""

import codecs
import gzip
import json
import lzma
import os
import sys
import zlib
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from io import BufferedReader
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Iterator, Tuple, TypeVar, cast

import srsly

from .. import _compat
from .._choices import AnyPath
from ..errors import Errors

COMPRESSED = (".gz", ".xz", ".zst")
MAGIC = (b"\x1f\x8b\x08", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd")  # first bytes of these
STDIN = Path("-")
# Bytes. Files without line ends, such as text8, must not become one string.
LONGEST_LINE = 1 << 20
READ_AHEAD = 1 << 18
REPLACEMENT = "\ufffd"
CR = ord("\r")  # looking for a number in bytes is eight times as fast as for bytes

ItemT = TypeVar("ItemT")


@contextmanager
def open_bytes(path: AnyPath) -> Iterator[BinaryIO]:
    """Open a file, decompressed according to its suffix or first bytes: .gz, .xz, .zst (requires `zstandard`).

    path (AnyPath): The file; "-" for stdin, which is not decompressed.
    YIELDS (BinaryIO): Its content.
    RAISES (ValueError): EL106 if `zstandard` is missing, EL108 while reading a truncated or damaged file; for text in
        UTF-16 or UTF-32.
    """
    path = Path(os.fsdecode(path))
    if path == STDIN:
        yield sys.stdin.buffer
        return
    damages = (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, _zstd_error())
    with path.open("rb", buffering=READ_AHEAD) as file:
        try:
            content = _decompress(cast(BufferedReader, file), path)
            _refuse_wide_text(content.peek(4)[:4], path)
            yield cast(BinaryIO, content)
        except damages as error:
            raise ValueError(Errors.EL108.format(path=path, reason=error)) from error


def read_lines(file: BinaryIO, *, longest: int = LONGEST_LINE) -> Iterator[bytes]:
    """Stream lines, which end in LF, CRLF or CR; long ones are split, at a space or a tab if there is one.

    file (BinaryIO): At its start; a UTF-8 byte order mark is skipped.
    longest (int): Maximum length of a line in bytes.
    YIELDS (bytes): A line with its end, or a chunk of a long line.
    """
    first = file.readline(longest)
    if first.startswith(codecs.BOM_UTF8):
        first = first.removeprefix(codecs.BOM_UTF8)
        # Fill up to `longest`, since a shorter chunk counts as a complete line.
        first += b"" if first.endswith(b"\n") else file.readline(longest - len(first))
    rest = b""
    for chunk in chain([first] if first else [], iter(partial(file.readline, longest), b"")):
        is_line = len(chunk) < longest or chunk.endswith(b"\n")
        chunk, rest = rest + chunk if rest else chunk, b""
        if CR in chunk and chunk[chunk.index(CR) :] not in (b"\r", b"\r\n"):
            *lines, chunk = chunk.splitlines(keepends=True)
            yield from lines
        if is_line:
            yield chunk
        elif chunk.endswith(b"\r") or len(chunk) < longest:
            rest = chunk  # the LF of a CRLF, or the rest of the line, may follow
        else:
            cut = _find_cut(chunk)
            yield chunk[:cut]
            rest = chunk[cut:]
    if rest:
        yield rest


def decode(line: bytes) -> Tuple[str, int]:
    """Decode UTF-8, with replacement.

    line (bytes): UTF-8, possibly with invalid sequences.
    RETURNS (Tuple[str, int]): The text with U+FFFD for invalid sequences, and their number.
    """
    try:
        return line.decode("utf8"), 0
    except UnicodeDecodeError:
        text = line.decode("utf8", "replace")
        return text, text.count(REPLACEMENT) - line.count(REPLACEMENT.encode("utf8"))


def parse_line(line: str) -> Any:
    """line (str): JSON.
    RETURNS (Any): Its value.
    RAISES (ValueError): With the column if it is not JSON.
    """
    try:
        return srsly.json_loads(line)
    except ValueError:  # it says no position
        pass
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"column {error.pos + 1}: {error.msg}") from error


def skip_items(items: Iterator[ItemT], n_items: int, *, name: str) -> Iterator[ItemT]:
    """Skip the first items.

    items (Iterator[ItemT]): None of them is None.
    n_items (int): Number of items to skip.
    name (str): Name of the source, for the error.
    RETURNS (Iterator[ItemT]): The other items.
    RAISES (ValueError): EL109 if there are fewer items.
    """
    if n_items and next(islice(items, n_items - 1, n_items), None) is None:
        raise ValueError(Errors.EL109.format(name=name, n_items=n_items))
    return items


def _decompress(file: BufferedReader, path: Path) -> BufferedReader:
    start = file.peek(6)
    suffix = next((known for known, magic in zip(COMPRESSED, MAGIC) if start.startswith(magic)), path.suffix)
    # Both classes read lines in Python; the buffer around them does it in C.
    if suffix == ".gz":
        return BufferedReader(cast(Any, gzip.GzipFile(fileobj=file)), READ_AHEAD)
    if suffix == ".xz":
        return BufferedReader(cast(Any, lzma.LZMAFile(file)), READ_AHEAD)
    if suffix == ".zst":
        if not _compat.has_zstandard:
            raise ValueError(Errors.EL106.format(path=path, package="zstandard"))
        reader = import_module("zstandard").ZstdDecompressor().stream_reader(file, read_across_frames=True)
        return BufferedReader(reader, READ_AHEAD)
    return file


def _refuse_wide_text(start: bytes, path: Path) -> None:
    """RAISES (ValueError): For a byte order mark of UTF-16 or UTF-32; that of UTF-8 is skipped by `read_lines`."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)):
        name = "UTF-32" if start in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE) else "UTF-16"
        remedy = f"Save it as UTF-8 (`iconv -f {name} -t UTF-8 OLD > NEW`)"
        raise ValueError(f"'{path}' is text in {name}, by its byte order mark, but should be UTF-8. {remedy}.")


def _zstd_error() -> Any:
    """The exception for damaged files; without the package, one that is never raised."""
    return import_module("zstandard").ZstdError if _compat.has_zstandard else EOFError


def _find_cut(chunk: bytes) -> int:
    """Position after the last space or tab; without one, before the last UTF-8 character."""
    after_space = max(chunk.rfind(b" "), chunk.rfind(b"\t")) + 1
    if after_space:
        return after_space
    cut = len(chunk) - 1
    while chunk[cut] & 0xC0 == 0x80 and len(chunk) - cut < 4:
        cut -= 1
    return cut
