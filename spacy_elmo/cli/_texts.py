"""Read texts for `elmo embed`, one after the other: plain text, JSONL, DocBin, or what comes in from a pipe."""

import sys
from pathlib import Path
from typing import Iterator, List, Union, cast

import srsly
from spacy.language import Language
from spacy.tokens import Doc, DocBin

from ..errors import Errors
from ..pretraining.lines import open_bytes, read_lines
from ._files import Tell, find_files, kind_of, say_nothing

# A text to be tokenized, a list of words that is tokenized already, or a Doc.
Item = Union[str, List[str], Doc]


def read_items(
    path: str, nlp: Language, *, format: str = "auto", is_tokenized: bool = False, tell: Tell = say_nothing
) -> Iterator[Item]:
    """Stream the texts of a file, of all files of a folder or a pattern, or of stdin.

    path (str): See `_files.find_files`.
    nlp (Language): Owner of the vocabulary of Docs.
    format (str): "text", "jsonl" or "docbin"; "auto" goes by the suffix and takes stdin and others as text.
    is_tokenized (bool): Tokens are separated by spaces already.
    tell (Tell): Is told which files of a folder are left out.
    YIELDS (Item): One item per line or Doc; an empty line is an empty item, so that line numbers and Docs agree.
    RAISES (ValueError): EL106 or EL108 for a file that cannot be decompressed, EL130 or EL131 for a line that is no
        such JSON, EL132 for a file that is no DocBin, EL133 for a path with nothing to read, EL138 for a line that is
        no text.
    """
    for file in map(str, find_files(path, tell)):
        kind = format if format != "auto" else kind_of(Path(file)) or "text"
        if kind == "docbin":
            yield from _read_docbin(file, nlp)
        else:
            yield from _read_lines(file, kind, is_tokenized)


def to_doc(item: Item, nlp: Language) -> Doc:
    """RETURNS (Doc): The item, tokenized by the pipeline's tokenizer if it is a plain text."""
    if isinstance(item, Doc):
        return item
    return nlp.make_doc(item) if isinstance(item, str) else Doc(nlp.vocab, words=item)


def _read_docbin(file: str, nlp: Language) -> Iterator[Doc]:
    try:
        with open_bytes(Path(file)) as content:
            docs = DocBin().from_bytes(content.read())
    # zlib, msgpack and spaCy each have errors of their own for bytes that are something else.
    except Exception as error:
        raise ValueError(Errors.EL132.format(path=file, reason=error)) from error
    yield from docs.get_docs(nlp.vocab)


def _read_lines(file: str, kind: str, is_tokenized: bool) -> Iterator[Item]:
    with open_bytes(Path(file)) as content:
        # A text is one item, however long it is.
        for number, line in enumerate(read_lines(content, longest=sys.maxsize), start=1):
            where = f"{file}:{number}"
            text = _decode(line, where).rstrip("\r\n")
            item = _parse_json(text, where) if kind == "jsonl" else text
            yield item.split() if is_tokenized and isinstance(item, str) else item


def _decode(line: bytes, where: str) -> str:
    try:
        return line.decode("utf8")
    except UnicodeDecodeError as error:
        raise ValueError(Errors.EL138.format(where=where, reason=error)) from error


def _parse_json(line: str, where: str) -> Item:
    try:
        record = srsly.json_loads(line)
    except ValueError as error:
        raise ValueError(Errors.EL130.format(where=where, reason=error)) from error
    words = record.get("words", record.get("tokens")) if isinstance(record, dict) else None
    if isinstance(words, list) and all(isinstance(word, str) for word in words):
        return words
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        raise ValueError(Errors.EL131.format(where=where, found=line[:60]))
    return cast(str, record["text"])

