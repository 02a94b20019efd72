"""Stream the texts for `elmo embed` from plain text, JSONL, DocBin or stdin."""

import json
import os
import re
import sys
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Dict, Iterator, List, Optional, Tuple, Union, cast

from spacy.language import Language
from spacy.tokens import Doc, DocBin

from .._choices import AnyPath
from ..errors import Errors
from .files import Tell, find_files, format_of, say_nothing
from .lines import REPLACEMENT, open_bytes, parse_line, read_lines
from .shards import Counts

# A text to tokenize, a list of words, or a Doc.
Item = Union[str, List[str], Doc]
SURROGATE = re.compile("[\ud800-\udfff]")
SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def read_items(
    path: AnyPath,
    nlp: Language,
    counts: Counts,
    *,
    format: str = "auto",
    is_tokenized: bool = False,
    tell: Tell = say_nothing,
) -> Iterator[Item]:
    """Stream the texts of a file, of all files of a folder or a pattern, or of stdin.

    path (AnyPath): See `find_files`.
    nlp (Language): Its vocabulary is that of the Docs.
    counts (Counts): The number of unpaired surrogates replaced by U+FFFD is added to it.
    format (str): "text", "jsonl" or "docbin"; "auto" infers it from the suffix, stdin and others are text.
    is_tokenized (bool): Whether tokens are separated by white space.
    tell (Tell): Called with a message on files of a folder that are not read.
    YIELDS (Item): One item per line or Doc; an empty line is an empty item, so that items match line numbers.
    RAISES (ValueError): EL106 or EL108 for a file that cannot be decompressed, EL130 or EL131 for an invalid line
        of JSON, EL132 for an invalid DocBin, EL133 for a path without texts, EL138 for a line that is not UTF-8.
    """
    for file in map(str, find_files(os.fsdecode(path), tell)):
        kind = format if format != "auto" else format_of(Path(file))
        if kind == "docbin":
            yield from read_docbin(file, nlp)
        else:
            yield from _read_lines(file, kind, is_tokenized, counts)


def to_doc(item: Item, nlp: Language) -> Doc:
    """RETURNS (Doc): The item, tokenized by the pipeline's tokenizer if it is a text. Empty words, which spaCy does not
    allow, become spaces, whose vectors are zero, so that each word has its row.
    """
    if isinstance(item, Doc):
        return item
    return nlp.make_doc(item) if isinstance(item, str) else Doc(nlp.vocab, words=[word or " " for word in item])


def read_json(file: BinaryIO, path: object) -> Iterator[Tuple[str, bytes]]:
    """Stream JSON lines, or the elements of a JSON array, which is held in memory as a whole.

    file (BinaryIO): At its start.
    path (object): Its name.
    YIELDS (Tuple[str, bytes]): Place of a record, for errors, and the record; blank lines are records of JSON lines.
    RAISES (ValueError): EL130 for an array that is not valid.
    """
    lines, start = read_lines(file, longest=sys.maxsize), []
    for line in lines:
        start.append(line)
        if line.strip():
            break
    if not start or not start[-1].lstrip().startswith(b"["):
        yield from ((f"{path}:{number}", line) for number, line in enumerate(chain(start, lines), start=1))
        return
    try:
        records = json.loads(b"".join(chain(start, lines)))
    except (ValueError, RecursionError) as error:
        raise ValueError(Errors.EL130.format(where=f"{path}:{len(start)}", reason=error)) from error
    for number, record in enumerate(records, start=1):
        yield f"{path}, element {number}", json.dumps(record).encode("ascii")


def parse_json(line: str, where: str) -> Tuple[Item, int]:
    """line (str): A JSON object with `text`, or with `words` or `tokens`; a blank line is an empty text.
    where (str): File and line number, for the error.
    RETURNS (Tuple[Item, int]): The text or the words, and the number of unpaired surrogates replaced by U+FFFD.
    RAISES (ValueError): EL130 or EL131 for another line.
    """
    if not line.strip():
        return "", 0
    try:
        record = parse_line(line)
    except ValueError as error:
        raise ValueError(Errors.EL130.format(where=where, reason=error)) from error
    item = _item_of(record) if isinstance(record, dict) else None
    if item is None:
        raise ValueError(Errors.EL131.format(where=where, found=line[:60]))
    return _replace_surrogates(item) if SURROGATE_ESCAPE.search(line) else (item, 0)


def read_docbin(file: str, nlp: Language) -> Iterator[Doc]:
    """file (str): Written by `DocBin.to_disk`; held in memory as a whole.
    nlp (Language): Its vocabulary is that of the Docs.
    YIELDS (Doc): The Docs.
    RAISES (ValueError): EL132 for an invalid file.
    """
    try:
        with open_bytes(Path(file)) as content:
            docs = DocBin().from_bytes(content.read())
    # zlib, msgpack and spaCy raise different errors for invalid bytes.
    except Exception as error:
        raise ValueError(Errors.EL132.format(path=file, reason=str(error).rstrip("."))) from error
    yield from docs.get_docs(nlp.vocab)


def _read_lines(file: str, kind: str, is_tokenized: bool, counts: Counts) -> Iterator[Item]:
    with open_bytes(Path(file)) as content:
        # A text of any length is one item.
        lines = enumerate(read_lines(content, longest=sys.maxsize), start=1)
        for where, line in (
            read_json(content, file) if kind == "jsonl" else ((f"{file}:{number}", line) for number, line in lines)
        ):
            text = _decode(line, where).rstrip("\r\n")
            item, n_replaced = parse_json(text, where) if kind == "jsonl" else (text, 0)
            counts.n_undecodable += n_replaced
            yield item.split() if is_tokenized and isinstance(item, str) else item


def _decode(line: bytes, where: str) -> str:
    try:
        return line.decode("utf8")
    except UnicodeDecodeError as error:
        raise ValueError(Errors.EL138.format(where=where, reason=error)) from error


def _item_of(record: Dict[str, Any]) -> Optional[Item]:
    words = record.get("words", record.get("tokens"))
    if isinstance(words, list) and all(isinstance(word, str) for word in words):
        return words
    text = record.get("text")
    return text if isinstance(text, str) else None


def _replace_surrogates(item: Item) -> Tuple[Item, int]:
    """Replace unpaired surrogates, which UTF-8 cannot encode and spaCy does not accept."""
    words = [item] if isinstance(item, str) else cast(List[str], item)
    replaced = [SURROGATE.subn(REPLACEMENT, word) for word in words]
    n_replaced = sum(n for _, n in replaced)
    return (replaced[0][0] if isinstance(item, str) else [word for word, _ in replaced]), n_replaced
