"""Lines of a file in bounded memory, as text and as JSON, and the counts of what was read."""

import codecs
import json
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any, BinaryIO, Iterator, Tuple, TypeVar

import srsly

from .signatures import REPLACEMENT

# Bytes. Files without line ends, such as text8, must not become one string.
LONGEST_LINE = 1 << 20
TOO_DEEP = "its lists and objects are nested too deeply"
CR = ord("\r")  # looking for a number in bytes is eight times as fast as for bytes

ItemT = TypeVar("ItemT")


@dataclass
class Counts:
    """Counts of the text that was read.

    n_sentences (int), n_tokens (int): A split sentence counts once per segment.
    n_empty (int): Records without a token: lines, texts or Docs that were skipped.
    n_long (int): Long sentences that were split.
    n_undecodable (int): Invalid UTF-8 sequences that were replaced by U+FFFD.
    """

    n_sentences: int = 0
    n_tokens: int = 0
    n_empty: int = 0
    n_long: int = 0
    n_undecodable: int = 0

    def describe(self) -> str:
        """RETURNS (str): A summary of the text, with empty records, long sentences and undecodable bytes."""
        exceptions = [
            (self.n_empty, "empty lines or texts skipped"),
            (self.n_long, "long sentences split"),
            (self.n_undecodable, "invalid UTF-8 sequences replaced by U+FFFD"),
        ]
        sentences = [f"Read {self.n_tokens:,} tokens in {self.n_sentences:,} sentences"]
        return "; ".join(sentences + [f"{n:,} {what}" for n, what in exceptions if n])


def read_lines(file: BinaryIO, *, longest: int = LONGEST_LINE) -> Iterator[bytes]:
    """Stream lines, which end in LF, CRLF or CR; those longer than `longest` bytes are split, at a space or a tab if
    there is one. Lines keep their ends; a UTF-8 byte order mark at the start is skipped.
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


def decode_line(line: bytes, source: str = "The text") -> Tuple[str, int]:
    """The text of a line of UTF-8, with U+FFFD for invalid sequences, and their number.

    source (str): Name of the file, for the error.
    RAISES (ValueError): For a line with NUL bytes.
    """
    check_nuls(line, source)
    try:
        return line.decode("utf8"), 0
    except UnicodeDecodeError:
        text = line.decode("utf8", "replace")
        return text, text.count(REPLACEMENT) - line.count(REPLACEMENT.encode("utf8"))


def check_nuls(line: bytes, place: str) -> None:
    """RAISES (ValueError): For a line with NUL bytes, which text in UTF-8 does not have."""
    if 0 in line:
        start = max(0, line.index(0) - 20)
        raise ValueError(
            f"{place} has a line with NUL bytes, at {line[start : start + 40]!r}, so it is not text in UTF-8. Remove "
            "the bytes (`tr -d '\\000' < OLD > NEW`), or give a file with text."
        )


def parse_line(line: str) -> Any:
    """The value of a line of JSON. ValueError with the column if it is not JSON, and if it is nested too deeply."""
    with suppress(ValueError, RecursionError):  # without a position
        return srsly.json_loads(line)
    try:
        return json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        problem = TOO_DEEP if isinstance(error, RecursionError) else f"column {error.pos + 1}: {error.msg}"
        raise ValueError(problem) from error


def skip_items(items: Iterator[ItemT], n_items: int, *, name: str, n_before: int = 0) -> Iterator[ItemT]:
    """Skip the first items, none of which is None.

    name (str), n_before (int): Name of the source, and items skipped before, for the error.
    RAISES (ValueError): If there are fewer items.
    """
    if n_items and next(islice(items, n_items - 1, n_items), None) is None:
        raise ValueError(
            f"'{name}' ends before record {n_before + n_items}, the position in it at which the run stopped. The file "
            "has changed since then. Restore the file the run was started with, or start a new run."
        )
    return items


def _find_cut(chunk: bytes) -> int:
    """Position after the last space or tab; without one, before the last UTF-8 character."""
    after_space = max(chunk.rfind(b" "), chunk.rfind(b"\t")) + 1
    if after_space:
        return after_space
    cut = len(chunk) - 1
    while chunk[cut] & 0xC0 == 0x80 and len(chunk) - cut < 4:
        cut -= 1
    return cut
