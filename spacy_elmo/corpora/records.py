"""The texts of a file with their fields: lines of text, objects of JSON, rows of Parquet, Docs."""

import json
import re
import sys
from contextlib import closing
from itertools import chain
from numbers import Number
from pathlib import Path
from typing import (
    Any,
    BinaryIO,
    Callable,
    Generator,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    cast,
)

from spacy.language import Language
from spacy.tokens import Doc, DocBin

from ..util import is_number
from .files import REPLACEMENT, Counts, format_of, open_bytes, parse_line, read_lines
from .parquet import read_parquet
from .texts import Item

# All fields of a record of JSON or a row of a data set, its text included; empty for other texts.
Fields = Mapping[str, Any]
# An item, the number of invalid UTF-8 sequences in it, and its fields.
Read = Tuple[Item, int, Fields]
SURROGATE = re.compile("[\ud800-\udfff]")
SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
WITH_FIELDS = ("jsonl", "parquet")  # kinds of files whose texts have fields


class TextRecord(NamedTuple):
    """A text of a corpus: a line, an object of JSON, a row or a Doc.

    place (str): Where it is: "FILE:LINE".
    item (Item): The text; empty if it cannot be read.
    fields (Mapping[str, Any]): Fields of its object or row that are kept: texts, numbers, or None for null.
    error (Optional[ValueError]): Why it cannot be read. The rest of a damaged file is one record.
    id (str): Its name: FILE:LINE for a line of text, FILE#N for an object, a row or a Doc, as `elmo index` names it.
    """

    place: str
    item: Item
    fields: Mapping[str, Any] = {}
    error: Optional[ValueError] = None
    id: str = ""


def read_records(
    file: str,
    nlp: Language,
    counts: Counts,
    *,
    format: str = "auto",
    is_tokenized: bool = False,
    keep: Sequence[str] = (),
    opened: Callable[[BinaryIO], object] = lambda file: None,
) -> Generator[TextRecord, None, None]:
    """Stream the texts of a file. One that cannot be read is a record with an error, so that records match lines.

    file (str): From `find_files`.
    nlp (Language): Its vocabulary is that of the Docs.
    counts (Counts): The number of unpaired surrogates replaced by U+FFFD is added to it.
    format (str): "text", "jsonl", "docbin" or "parquet"; "auto" infers it from the suffix, "text" for stdin.
    is_tokenized (bool): Whether tokens are separated by white space.
    keep (Sequence[str]): Fields of JSON objects, or columns of Parquet, that each of their records must have; they are
        None in other files, in which a text has its own "id".
    opened (Callable[[BinaryIO], object]): Called with the open file, see `open_bytes`.
    YIELDS (TextRecord): One per line, object, row or Doc; an empty line is an empty item.
    """
    kind = format if format != "auto" else format_of(file)
    raw: Generator[Tuple[str, Any], None, None]
    if kind == "docbin":
        raw = ((f"{file}, Doc {i}", doc) for i, doc in enumerate(read_docbin(file, nlp), start=1))
    else:
        raw = read_parquet(file, keep) if kind == "parquet" else _read_lines(file, kind, opened)
    nothing = dict.fromkeys(name for name in keep if name != "id")
    with closing(raw):  # an error keeps this frame, and the open file with it
        try:
            for n_records, (place, content) in enumerate(raw, start=1):
                try:
                    item, n_replaced, fields = _parse(content, kind, place, keep)
                except ValueError as error:
                    yield TextRecord(place, "", error=error)
                    continue
                counts.n_undecodable += n_replaced
                yield TextRecord(
                    place,
                    item.split() if is_tokenized and isinstance(item, str) else item,
                    fields if kind in WITH_FIELDS else nothing,
                    id=place if kind == "text" else f"{file}#{n_records}",
                )
        except ValueError as error:  # of a file that is damaged from here
            yield TextRecord(file, "", error=error)


def _read_lines(file: str, kind: str, opened: Callable[[BinaryIO], object]) -> Generator[Tuple[str, bytes], None, None]:
    with open_bytes(file, opened) as content:
        if kind == "jsonl":
            yield from read_json(content, file)
        else:  # a text of any length is one item
            lines = enumerate(read_lines(content, longest=sys.maxsize), start=1)
            yield from ((f"{file}:{n_lines}", line) for n_lines, line in lines)


def _parse(content: Any, kind: str, place: str, keep: Sequence[str]) -> Tuple[Item, int, Fields]:
    """RETURNS (Tuple[Item, int, Fields]): The text, the number of replaced surrogates, the fields kept."""
    if isinstance(content, bytes):
        content = _decode(content, place).rstrip("\r\n")
    if kind == "parquet":
        check_words(content[0], place)
        return content[0], 0, _select(content[1], keep, place)
    if kind != "jsonl":
        return content, 0, {}
    item, n_replaced, record = parse_json(content, place)
    return item, n_replaced, _select(record, keep, place) if keep else {}


def _decode(line: bytes, where: str) -> str:
    try:
        return line.decode("utf8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"Line {where} is not valid UTF-8: {error}. Convert the file to UTF-8, or set its format with "
            "--input-format."
        ) from error


def read_json(file: BinaryIO, path: object) -> Iterator[Tuple[str, bytes]]:
    """Stream JSON lines, or the elements of a JSON array, which is held in memory as a whole.

    YIELDS (Tuple[str, bytes]): Place of a record, for errors, and the record; blank lines are records of JSON lines.
    RAISES (ValueError): For an array that is not valid.
    """
    lines, start = read_lines(file, longest=sys.maxsize), []
    for line in lines:
        start.append(line)
        if line.strip():
            break
    if not start or not start[-1].lstrip().startswith(b"["):
        yield from ((f"{path}:{n_lines}", line) for n_lines, line in enumerate(chain(start, lines), start=1))
        return
    try:
        records = json.loads(b"".join(chain(start, lines)))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"Line {path}:{len(start)} is not valid JSON: {error}. Correct it: a .jsonl file has one JSON object "
            "per line, or is one JSON array of objects."
        ) from error
    for n_records, record in enumerate(records, start=1):
        yield f"{path}, element {n_records}", json.dumps(record).encode("ascii")


def parse_json(line: str, where: str) -> Read:
    """The text or the words of a line, the number of unpaired surrogates replaced by U+FFFD, and the object.

    line (str): A JSON object with `words` or `tokens`, or else with `text`; a blank line is an empty text.
    where (str): File and line number, for the error.
    RAISES (ValueError): For another line.
    """
    if not line.strip():
        return "", 0, {"text": ""}
    try:
        record = parse_line(line)
    except ValueError as error:
        raise ValueError(
            f"Line {where} is not valid JSON: {error}. Correct it: a .jsonl file has one JSON object per line, or "
            "is one JSON array of objects."
        ) from error
    record = record if isinstance(record, dict) else {}
    # A number is a count of words or tokens. Anything else is meant as words, in place of which no text is read.
    names = (name for name in ("words", "tokens") if name in record and not is_number(record[name]))
    name = next(names, "text")
    item = record.get(name)
    if isinstance(item, list):
        check_words(item, f"'{name}' of line {where}")
    elif name != "text" or not isinstance(item, str):
        raise ValueError(
            f"Line {where} is '{line[:60]}', but should be a JSON object with 'text' (a string) or 'words' (a "
            "list of strings). Correct the line."
        )
    return (*(replace_surrogates(item) if SURROGATE_ESCAPE.search(line) else (item, 0)), record)


def replace_surrogates(item: Item) -> Tuple[Item, int]:
    """Replace unpaired surrogates, which UTF-8 cannot encode and spaCy does not accept."""
    words = [item] if isinstance(item, str) else cast(List[str], item)
    replaced = [SURROGATE.subn(REPLACEMENT, word) for word in words]
    n_replaced = sum(n for _, n in replaced)
    return (replaced[0][0] if isinstance(item, str) else [word for word, _ in replaced]), n_replaced


def check_words(item: Any, where: str) -> None:
    """RAISES (ValueError): For a list of words that are not all strings; it names `where`."""
    for word in item if isinstance(item, list) else ():
        if not isinstance(word, str):
            actual = "a null" if is_missing(word) else f"{word!r} ({type(word).__name__})"
            raise ValueError(f"{where} has {actual} among its words, should have strings. Correct it, or leave it out.")


def is_missing(value: Any) -> bool:
    """RETURNS (bool): Whether a value is null: None, NaN, or what pandas or NumPy have in its place."""
    is_nan = isinstance(value, Number) and value != value
    return value is None or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant") or is_nan


def _select(record: Mapping[str, Any], keep: Sequence[str], place: str) -> Fields:
    """RETURNS (Fields): Texts, numbers and None; objects, lists, true and false as JSON."""
    fields = {name: find_field(record, name) for name in keep}
    if missing := [name for name in keep if fields[name] is None and name not in record]:
        raise ValueError(
            f"Line {place} does not have the field(s) {', '.join(missing)}; it has {', '.join(record) or 'none'}. Keep "
            "fields that every text has, or skip those without with --on-error skip."
        )
    as_they_are = (int, float, type(None))
    return {name: value if type(value) in as_they_are else to_text(value) for name, value in fields.items()}


def find_field(record: Mapping[str, Any], name: str) -> Any:
    """RETURNS (Any): A field, or for "meta.year" that of an object in one; None if there is none."""
    value: Any = record
    for key in [name] if name in record else name.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def to_text(value: Any) -> str:
    """RETURNS (str): A field as text: null is empty, numbers, objects and lists are JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    is_json = isinstance(value, (bool, int, float, list, tuple, Mapping))
    return json.dumps(value, ensure_ascii=False, default=str) if is_json else str(value)


def read_docbin(file: str, nlp: Language) -> Iterator[Doc]:
    """The Docs of a file of `DocBin.to_disk`, held in memory as a whole. ValueError for an invalid file."""
    try:
        with open_bytes(Path(file)) as content:
            docs = DocBin().from_bytes(content.read())
    # zlib, msgpack and spaCy raise different errors for invalid bytes.
    except Exception as error:
        raise ValueError(
            f"'{file}' cannot be read as a DocBin: {str(error).rstrip('.')}. Write .spacy files with `DocBin.to_disk`."
        ) from error
    yield from docs.get_docs(nlp.vocab)
