"""The texts of a file with their fields: lines of text, objects of JSON, rows of Parquet, Docs."""

import json
import re
import sys
from contextlib import closing
from itertools import chain
from numbers import Number
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
from spacy.vocab import Vocab

from ..util import is_number
from .lines import TOO_DEEP, Counts, check_nuls, parse_line, read_lines
from .parquet import read_parquet
from .signatures import REPLACEMENT, name_other_than_docbin
from .sources import EXAMINED_BYTES, Source
from .texts import Item

# All fields of a record of JSON or a row of a data set, its text included; empty for other texts.
Fields = Mapping[str, Any]
# An item, the number of invalid UTF-8 sequences in it, and its fields.
ParsedItem = Tuple[Item, int, Fields]
TOKEN_KEYS = frozenset(("start_char", "misc", "upos"))  # of Stanza
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
    source: Source,
    nlp: Language,
    counts: Counts,
    *,
    format: str = "auto",
    is_tokenized: bool = False,
    keep: Sequence[str] = (),
    on_open: Callable[[BinaryIO], object] = lambda file: None,
) -> Generator[TextRecord, None, None]:
    """Stream the texts of a file. One that cannot be read is a record with an error, so that records match lines.

    source (Source): From `find_sources`.
    nlp (Language): Gives the Docs their vocabulary.
    counts (Counts): The number of unpaired surrogates replaced by U+FFFD is added to it.
    format (str): "text", "jsonl", "docbin" or "parquet"; "auto" infers it, see `Source.format`.
    is_tokenized (bool): Whether tokens are separated by white space.
    keep (Sequence[str]): Fields of JSON objects, or columns of Parquet, that each of their records must have; they are
        None in other files, in which a text has its own "id".
    on_open (Callable[[BinaryIO], object]): Called with the open file, see `Source.open`.
    YIELDS (TextRecord): One per line, object, row or Doc; an empty line is an empty item.
    """
    file, raw = source.place, _read_raw(source, nlp, format, keep, on_open)
    nothing = dict.fromkeys(name for name in keep if name != "id")
    with closing(raw):  # an error keeps this frame, and the open file with it
        try:
            for n_records, (kind, place, content) in enumerate(raw, start=1):
                try:
                    item, n_replaced, fields = _parse(content, kind, place, keep, nlp.vocab)
                except (ValueError, RecursionError) as error:
                    problem = error if isinstance(error, ValueError) else ValueError(f"Line {place}: {TOO_DEEP}.")
                    yield TextRecord(place, "", error=problem)
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


def _read_raw(
    source: Source, nlp: Language, format: str, keep: Sequence[str], on_open: Callable[[BinaryIO], object]
) -> Generator[Tuple[str, str, Any], None, None]:
    """YIELDS (Tuple[str, str, Any]): The format of a source, the place of a record, and its content."""
    kind, name = format if format != "auto" else source.format, source.place
    if kind == "docbin":
        yield from ((kind, f"{name}, Doc {i}", doc) for i, doc in enumerate(read_docbin(source, nlp), start=1))
    elif kind == "parquet":
        yield from ((kind, place, content) for place, content in read_parquet(source, keep))
    else:
        with source.open_as_text(on_open) as content:
            if kind == "jsonl":
                yield from ((kind, place, line) for place, line in stream_json(content, name))
            else:  # a text of any length is one item
                lines = enumerate(read_lines(content, longest=sys.maxsize), start=1)
                yield from ((kind, f"{name}:{n_lines}", line) for n_lines, line in lines)


def _parse(content: Any, kind: str, place: str, keep: Sequence[str], vocab: Vocab) -> ParsedItem:
    """RETURNS (Tuple[Item, int, Fields]): The text, the number of replaced surrogates, the fields kept."""
    if isinstance(content, bytes):
        content = _decode(content, place).rstrip("\r\n")
    if kind == "parquet":
        value, row = content
        return to_item(value, place, row, vocab), 0, _select_fields(row, keep, place)
    if kind != "jsonl":
        return content, 0, {}
    item, n_replaced, record = parse_json_text(content, place, vocab)
    return item, n_replaced, _select_fields(record, keep, place) if keep else {}


def _decode(line: bytes, where: str) -> str:
    check_nuls(line, where)
    try:
        return line.decode("utf8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"Line {where} is not valid UTF-8: {error}. Convert the file to UTF-8, or set its format with "
            "`input_format`."
        ) from error


def stream_json(file: BinaryIO, path: object) -> Iterator[Tuple[str, bytes]]:
    """Stream JSON lines, or the elements of a JSON array, which is held in memory as a whole. A list of tokens or of
    sentences of Stanza is one record, alone in a file or in each line.

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
    lines_with_lists = [*start, *lines]  # the whole file
    try:
        records = json.loads(b"".join(lines_with_lists))
    except (ValueError, RecursionError) as error:
        if _is_line_of_tokens(start[-1]):
            yield from ((f"{path}:{n_lines}", line) for n_lines, line in enumerate(lines_with_lists, start=1))
            return
        problem = TOO_DEEP if isinstance(error, RecursionError) else error
        raise ValueError(
            f"Line {path}:{len(start)} is not valid JSON: {problem}. Correct it: a .jsonl file has one JSON object "
            "per line, or is one JSON array of objects."
        ) from error
    if _is_tokens(records):
        records = [records]
    for n_records, record in enumerate(records, start=1):
        yield f"{path}, element {n_records}", json.dumps(record).encode("ascii")


def _is_line_of_tokens(line: bytes) -> bool:
    try:
        return _is_tokens(parse_line(line.decode("utf8")))
    except ValueError:
        return False


def _is_tokens(value: Any) -> bool:
    """Whether a list is a sentence or a document of Stanza (`to_dict`): objects with `id`, `text` and more, or lists of
    objects.
    """
    if not isinstance(value, list) or not value:
        return False
    if all(isinstance(token, dict) for token in value):
        return all({"id", "text"} <= token.keys() and not TOKEN_KEYS.isdisjoint(token) for token in value)
    return all(isinstance(tokens, list) and all(isinstance(token, dict) for token in tokens) for tokens in value)


def parse_json_text(line: str, where: str, vocab: Optional[Vocab] = None) -> ParsedItem:
    """The text or the words of a line, the number of unpaired surrogates replaced by U+FFFD, and the object.

    line (str): A JSON object with `words` or `tokens`, or else with `text`, see `to_item`; a list of tokens or of
        sentences, as Stanza writes it; a blank line is an empty text.
    where (str): File and line number, for the error.
    vocab (Optional[Vocab]): Vocabulary of a Doc, for words with sentence boundaries.
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
    if _is_tokens(record):
        record = {"tokens": record}
    record = record if isinstance(record, dict) else {}
    # A number is a count of words or tokens. Anything else is meant as words, in place of which no text is read.
    names = (name for name in ("words", "tokens") if name in record and not is_number(record[name]))
    name = next(names, "text")
    value = record.get(name)
    if not isinstance(value, list) and (name != "text" or not isinstance(value, str)):
        raise ValueError(
            f"Line {where} is '{line[:60]}', but should be a JSON object with 'text' (a string) or 'words' (a "
            "list of strings). Correct the line."
        )
    n_replaced = 0
    if SURROGATE_ESCAPE.search(line):
        value, n_replaced = replace_surrogates(value)
        record = {**record, name: value}
    try:
        return to_item(value, f"'{name}' of line {where}", record, vocab), n_replaced, record
    except RecursionError as error:
        raise ValueError(f"Line {where} is not read: {TOO_DEEP}.") from error


def to_item(value: Any, where: str, record: Mapping[str, Any], vocab: Optional[Vocab] = None) -> Item:
    """The text or the words of a field.

    value (Any): A text or a list of words. Words may be objects with `text`, or with `start` and `end` in the field
        `text` of the record, as `Doc.to_json`, Prodigy and Stanza write them, also in a list per sentence.
    where (str): For the error.
    record (Mapping[str, Any]): The record of the field; `sents` of `Doc.to_json` has its sentences.
    vocab (Optional[Vocab]): Vocabulary of the Doc.
    RETURNS (Item): A Doc for words with sentence boundaries.
    RAISES (ValueError): For words that are no strings.
    """
    if isinstance(value, Mapping) and _is_list(value.get("text")):
        value = value["text"]  # a list of objects in `datasets`
    if isinstance(value, Mapping):
        raise ValueError(f"{where} is an object, should be a text or a list of words. Correct it, or leave it out.")
    if not _is_list(value):
        return cast(Item, value)
    has_objects = any(isinstance(token, dict) for token in value)
    sentences: List[List[Any]] = []
    if has_objects:
        value, sentences = _split_sentences(value, record)
    elif len(value) and all(_is_list(tokens) and all(isinstance(token, dict) for token in tokens) for tokens in value):
        sentences = [_spell(tokens, record) for tokens in value]
        value = [word for words in sentences for word in words]
    words = list(value)
    check_word_types(words, where)
    if len(sentences) < 2:
        return words
    starts: List[Any] = [i == 0 for sentence in sentences for i in range(len(sentence))]
    return Doc(vocab or Vocab(), words=[word or " " for word in words], sent_starts=starts)


def _split_sentences(tokens: Sequence[Any], record: Mapping[str, Any]) -> Tuple[List[Any], List[List[Any]]]:
    """RETURNS (Tuple[List, List[List]]): The words of objects, and by sentence if the record has `sents`."""
    sents = record.get("sents")
    if not _is_list(sents) or not all(isinstance(sent, dict) for sent in cast(List[Any], sents)):
        return _spell(tokens, record), []
    starts = {sent.get("start") for sent in cast(List[Any], sents)}
    sentences: List[List[Any]] = []
    for token in tokens:
        if not sentences or (isinstance(token, dict) and token.get("start") in starts):
            sentences.append([])
        sentences[-1].append(token)
    words = [_spell(sentence, record) for sentence in sentences]
    return [word for sentence in words for word in sentence], words


def _spell(tokens: Sequence[Any], record: Mapping[str, Any]) -> List[Any]:
    """RETURNS (List[Any]): The texts of objects; anything else as it is, for `check_word_types`."""
    words, text, n_covered = [], record.get("text"), 0
    for token in tokens:
        word = token
        if n_covered > 0:  # a part of a word such as "du", which is "de" and "le"
            n_covered -= 1
            continue
        if isinstance(token, dict):
            start, end, place = token.get("start"), token.get("end"), token.get("id")
            if isinstance(token.get("text"), str):
                word = token["text"]
            elif (
                isinstance(text, str)
                and isinstance(start, int)
                and isinstance(end, int)
                and 0 <= start <= end <= len(text)
            ):
                word = text[start:end]
            if isinstance(place, list) and len(place) == 2 and all(isinstance(number, int) for number in place):
                n_covered = place[1] - place[0] + 1
        words.append(word)
    return words


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or type(value).__name__ == "ndarray"


def replace_surrogates(value: Any) -> Tuple[Any, int]:
    """Replace unpaired surrogates, which UTF-8 cannot encode and spaCy does not accept, in texts, lists and objects."""
    if isinstance(value, str):
        return SURROGATE.subn(REPLACEMENT, value)
    if not isinstance(value, (list, dict)):
        return value, 0
    replaced = [replace_surrogates(inner) for inner in (value.values() if isinstance(value, dict) else value)]
    inner_values, n_replaced = [inner for inner, _ in replaced], sum(n for _, n in replaced)
    return (dict(zip(value, inner_values)) if isinstance(value, dict) else inner_values), n_replaced


def check_word_types(item: Any, where: str) -> None:
    """RAISES (ValueError): For a list of words that are not all strings; it names `where`."""
    for word in item if isinstance(item, list) else ():
        if not isinstance(word, str):
            actual = "a null" if is_missing(word) else f"{word!r} ({type(word).__name__})"
            raise ValueError(f"{where} has {actual} among its words, should have strings. Correct it, or leave it out.")


def is_missing(value: Any) -> bool:
    """RETURNS (bool): Whether a value is null: None, NaN, or what pandas or NumPy have in its place."""
    is_nan = isinstance(value, Number) and value != value
    return value is None or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant") or is_nan


def _select_fields(record: Mapping[str, Any], keep: Sequence[str], place: str) -> Fields:
    """RETURNS (Fields): Texts, numbers and None; objects, lists, true and false as JSON."""
    fields = {name: find_field(record, name) for name in keep}
    if missing := [name for name in keep if fields[name] is None and name not in record]:
        raise ValueError(
            f"Line {place} does not have the field(s) {', '.join(missing)}; it has {', '.join(record) or 'none'}. Keep "
            'fields that every text has, or skip those without with `on_error="skip"`.'
        )
    as_they_are = (int, float, type(None))
    return {name: value if type(value) in as_they_are else to_text(value) for name, value in fields.items()}


def find_field(record: Mapping[str, Any], name: str) -> Any:
    """RETURNS (Any): A field, for "meta.year" the field of an object; None if there is none."""
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


def read_docbin(source: Source, nlp: Language) -> Iterator[Doc]:
    """The Docs of a file of `DocBin.to_disk`, held in memory as a whole. ValueError for an invalid file."""
    with source.open() as content:
        packed = content.read()
    try:
        docs = DocBin().from_bytes(packed)
    # zlib, msgpack and spaCy raise different errors for invalid bytes.
    except Exception as error:
        reason = name_other_than_docbin(packed[:EXAMINED_BYTES]) or str(error).rstrip(".")
        raise ValueError(
            f"'{source.name}' cannot be read as a DocBin: {reason}. Write .spacy files with `DocBin.to_disk`."
        ) from error
    del packed
    yield from docs.get_docs(nlp.vocab)
