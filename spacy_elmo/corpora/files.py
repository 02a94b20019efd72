"""Find text files, open them plain or compressed, and stream their lines in bounded memory."""

import codecs
import gzip
import json
import lzma
import os
import re
import sys
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from glob import glob
from importlib import import_module
from io import BufferedReader, RawIOBase
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, TypeVar, cast

import srsly

from .. import util
from ..errors import Errors
from ..files import AnyPath, to_path

# Suffixes searched for in folders. Files with other suffixes are read as text if they are named.
SUFFIXES: Dict[str, str] = {
    ".txt": "text",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".spacy": "docbin",
    ".parquet": "parquet",
}
MANIFEST = "_embed.json"  # readers of Parquet pass over files whose names begin with "_"
SKIPPED = ".skipped.jsonl"  # ends the name of a list of texts that could not be read
# Files in output folders of `embed`, `index` and `pretrain`.
OUTPUT_MARKS = (MANIFEST, "tokens.sqlite", "checkpoints/vocab.txt")
VOCABULARY_START = b"<S>\n</S>\n<UNK>\n"  # of the output of `vocab`, and of the vocabulary of a biLM
ZSTD_BYTES = 8192  # that are decompressed at once
COMPRESSED = (".gz", ".xz", ".zst")
MAGIC = (b"\x1f\x8b\x08", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd")  # first bytes of these
STDIN = Path("-")
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
# Bytes. Files without line ends, such as text8, must not become one string.
LONGEST_LINE = 1 << 20
READ_AHEAD = 1 << 18
REPLACEMENT = "\ufffd"
CR = ord("\r")  # looking for a number in bytes is eight times as fast as for bytes
MAX_NAMED = 5  # file names in a message

OnMessage = Callable[[str], Any]
ItemT = TypeVar("ItemT")


@dataclass
class Counts:
    """Counts of the text that was read.

    n_sentences (int): Sentences; a split sentence counts once per segment.
    n_tokens (int): Tokens.
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


def say_nothing(text: str) -> None:
    """text (str): Ignored."""


def find_files(place: str, on_message: OnMessage = say_nothing, *, output: Optional[AnyPath] = None) -> List[str]:
    """The files of a place, sorted by name: a file, a folder, searched at any depth, a pattern with `*` or `**`, an
    address such as s3://BUCKET/FOLDER (each of these, by `fsspec`), or "-" for stdin. Outputs of this package in a
    folder are not texts: those of earlier commands, and that of this command.

    on_message (OnMessage): Called with a message on files of a folder that are not read.
    output (Optional[AnyPath]): The file or folder that is being written.
    RAISES (ValueError): If there are no files, or for an address of an unknown kind.
    """
    target = None
    if output is not None and is_address(place) == is_address(name := os.fsdecode(output)):
        target = Path(filesystem_of(name)[1]) if is_address(name) else to_path(name).resolve()
    if is_address(place):
        files, root = filesystem_of(place)
        if not files.isdir(root):
            names = _require_files([name for name in files.glob(root) if files.isfile(name)], place)
            return sorted(map(files.unstrip_protocol, names))
        remote = _select([Path(name) for name in files.find(root)], Path(root), place, on_message, target)
        return sorted(files.unstrip_protocol(str(file)) for file in _require_files(remote, place))
    path = to_path(place)
    if path == STDIN or (path.exists() and not path.is_dir()):
        return [str(path)]
    if path.is_dir():
        local = _select([file for file in path.rglob("*") if file.is_file()], path, place, on_message, target)
    else:
        local = [file for file in map(Path, glob(str(path), recursive=True)) if file.is_file()]
        local = _without_outputs(local, None, target)
    return list(map(str, sorted(_require_files(local, place), key=lambda file: file.parts)))


def _without_outputs(files: List[Path], folder: Optional[Path], target: Optional[Path]) -> List[Path]:
    """folder (Optional[Path]): The folder of the files, in which outputs of other commands are left out.
    target (Optional[Path]): The output that is being written, with all links resolved.
    """
    outputs = {
        Path(name[: -len(mark) - 1])
        for name in (file.as_posix() for file in (files if folder is not None else []))
        for mark in OUTPUT_MARKS
        if name.endswith(f"/{mark}")
    } - {folder}
    files = [file for file in files if not file.name.endswith(SKIPPED) and outputs.isdisjoint(file.parents)]
    files = [file for file in files if folder is None or not _is_vocabulary(file)]
    if target is None or target in (folder, folder and folder.resolve()):
        return files
    return [file for file in files if target not in ((real := file.resolve()), *real.parents)]


def _is_vocabulary(file: Path) -> bool:
    try:
        if file.suffix != ".txt":
            return False
        with file.open("rb") as content:
            return content.read(len(VOCABULARY_START)) == VOCABULARY_START
    except OSError:  # at an address, or its reader reports why
        return False


def _require_files(items: List[ItemT], place: str) -> List[ItemT]:
    if not items:
        suffixes = ", ".join([*SUFFIXES, *COMPRESSED])
        raise ValueError(
            f"There are no texts at '{place}'. Give a file, or a folder with files that end in {suffixes}."
        )
    return items


def is_address(place: str) -> bool:
    """RETURNS (bool): Whether a place is an address such as s3://BUCKET/FILE, not a path."""
    return ADDRESS.match(place) is not None


def filesystem_of(address: str) -> Tuple[Any, str]:
    """address (str): Of any kind of `fsspec`: s3, gs, abfs, hdfs, http, memory and others.
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


def import_arrow(module: str, name: object) -> Any:
    """module (str): A module of pyarrow.
    name (object): The file that requires it.
    RETURNS (Any): The module.
    RAISES (ValueError): If pyarrow is not installed.
    """
    if not util.has_pyarrow:
        raise ValueError(
            f"'{name}' is Parquet, which requires the package pyarrow. Install it with `pip install "
            "pyarrow`, or use another format (`embed --to docbin` for a folder)."
        )
    return import_module(module)


def _kind_of(file: Path) -> Optional[str]:
    """A value of `SUFFIXES`, None for other suffixes; a compressed file without another suffix is text."""
    if file.suffix not in COMPRESSED:
        return SUFFIXES.get(file.suffix)
    inner = file.with_suffix("").suffix
    return SUFFIXES.get(inner) if inner else "text"


def format_of(file: AnyPath) -> str:
    """The format of a file that was named or found. A `.json` file, which folders are not searched for, is read as
    `jsonl`; files with other suffixes are text.
    """
    file = Path(os.fsdecode(file))
    name = file.with_suffix("") if file.suffix in COMPRESSED else file
    return "jsonl" if name.suffix == ".json" else _kind_of(file) or "text"


def name_some(names: Sequence[str]) -> str:
    """RETURNS (str): The first names, and the number of further names."""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more


@contextmanager
def open_bytes(path: AnyPath, opened: Callable[[BinaryIO], object] = lambda file: None) -> Iterator[BinaryIO]:
    """Open a file, decompressed according to its suffix or first bytes: .gz, .xz, .zst (requires `zstandard`); "-" is
    stdin, which is not decompressed.

    path (AnyPath): A path or an address.
    opened (Callable[[BinaryIO], object]): Called with the file as it is on the disk, whose position is the progress.
    RAISES (ValueError): If `zstandard` is missing, EL108 while reading a truncated or damaged file; for text in UTF-16
        or UTF-32.
    """
    name = os.fsdecode(path)
    if name == str(STDIN):
        yield sys.stdin.buffer
        return
    damages = (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, _zstd_error())
    with open_address(name) as file:
        opened(file)
        buffered = file if isinstance(file, BufferedReader) else BufferedReader(cast(Any, file), READ_AHEAD)
        try:
            content = _decompress(buffered, name)
            _refuse_wide_text(content.peek(4)[:4], name)
            yield cast(BinaryIO, content)
        except damages as error:
            raise ValueError(Errors.EL108.format(path=name, reason=error)) from error


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


def decode(line: bytes) -> Tuple[str, int]:
    """The text of a line of UTF-8, with U+FFFD for invalid sequences, and their number."""
    try:
        return line.decode("utf8"), 0
    except UnicodeDecodeError:
        text = line.decode("utf8", "replace")
        return text, text.count(REPLACEMENT) - line.count(REPLACEMENT.encode("utf8"))


def parse_line(line: str) -> Any:
    """The value of a line of JSON. ValueError with the column if it is not JSON."""
    try:
        return srsly.json_loads(line)
    except ValueError:  # without a position
        pass
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"column {error.pos + 1}: {error.msg}") from error


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


def _select(files: List[Path], folder: Path, place: str, on_message: OnMessage, target: Optional[Path]) -> List[Path]:
    """The files of a folder that are read, without hidden files and outputs; other suffixes give a message."""
    texts = _without_outputs(files, folder, target)
    if n_outputs := sum(_kind_of(file) is not None for file in set(files) - set(texts)):
        on_message(f"Files in '{place}' that commands of this package wrote are not read as texts: {n_outputs:,}")
    names = {file: file.relative_to(folder) for file in texts}
    files = [file for file, name in names.items() if not any(folder_name.startswith(".") for folder_name in name.parts)]
    known = [file for file in files if _kind_of(file) is not None]
    left_out = sorted(str(names[file]) for file in set(files) - set(known))
    if known and left_out:
        named = name_some(left_out)
        on_message(f"Files in '{place}' with other suffixes are not read, unless they are named: {named}")
    return known


def _decompress(file: BufferedReader, path: str) -> BufferedReader:
    start = file.peek(6)
    suffix = next((known for known, magic in zip(COMPRESSED, MAGIC) if start.startswith(magic)), Path(path).suffix)
    # Both classes read lines in Python; the buffer around them does it in C.
    if suffix == ".gz":
        return BufferedReader(cast(Any, gzip.GzipFile(fileobj=file)), READ_AHEAD)
    if suffix == ".xz":
        return BufferedReader(cast(Any, lzma.LZMAFile(file)), READ_AHEAD)
    if suffix == ".zst":
        if not util.has_zstandard:
            raise ValueError(
                f"Reading '{path}' requires the package zstandard, which is not installed. Install it with `pip "
                "install zstandard`, or use plain or .gz text."
            )
        return BufferedReader(_ZstdFile(file), READ_AHEAD)
    return file


class _ZstdFile(RawIOBase):
    """The text of a .zst file; the reader of zstandard takes the end of a truncated file for that of the text."""

    def __init__(self, file: BufferedReader) -> None:
        self._file, self._text, self._rest = file, memoryview(b""), b""
        self._new_frame = import_module("zstandard").ZstdDecompressor().decompressobj
        self._frame: Any = None  # None between frames

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._text:
            compressed = self._rest or self._file.read(ZSTD_BYTES)
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


def _refuse_wide_text(start: bytes, path: str) -> None:
    """RAISES (ValueError): For a byte order mark of UTF-16 or UTF-32; that of UTF-8 is skipped by `read_lines`."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)):
        name = "UTF-32" if start in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE) else "UTF-16"
        remedy = f"Save it as UTF-8 (`iconv -f {name} -t UTF-8 OLD > NEW`)"
        raise ValueError(f"'{path}' is text in {name}, by its byte order mark, but should be UTF-8. {remedy}.")


def _zstd_error() -> Any:
    """The exception for damaged files; without the package, an exception that is never raised."""
    return import_module("zstandard").ZstdError if util.has_zstandard else EOFError


def _find_cut(chunk: bytes) -> int:
    """Position after the last space or tab; without one, before the last UTF-8 character."""
    after_space = max(chunk.rfind(b" "), chunk.rfind(b"\t")) + 1
    if after_space:
        return after_space
    cut = len(chunk) - 1
    while chunk[cut] & 0xC0 == 0x80 and len(chunk) - cut < 4:
        cut -= 1
    return cut
