"""Annotated sentences of Universal Dependencies, in CoNLL-U (https://universaldependencies.org/format.html).

Syntactic words are tokens: lines of multiword tokens (1-2) and of empty nodes (1.1) are not read.
"""

import os
import sys
from typing import Iterator, List, NamedTuple

from spacy.tokens import Doc
from spacy.vocab import Vocab

from .._choices import AnyPath
from ..errors import Errors
from .lines import decode, open_bytes, read_lines

N_COLUMNS = 10
NEW_DOCUMENT = "# newdoc"
NONE = "_"
UPOS = frozenset("ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X".split())


class Word(NamedTuple):
    """One syntactic word: its form, UPOS, XPOS, features and relation; "" where a column is empty."""

    form: str
    pos: str
    tag: str
    morph: str
    dep: str


def read_conllu(path: AnyPath, vocab: Vocab) -> Iterator[Doc]:
    """Stream the documents of a file, or its sentences if the file does not mark documents (`# newdoc`).

    path (AnyPath): CoNLL-U in UTF-8, plain or compressed (.gz, .xz, .zst).
    vocab (Vocab): Of the Docs.
    YIELDS (Doc): With sentence boundaries, `pos_`, `tag_`, `morph` and `dep_`; heads are not read.
    RAISES (ValueError): EL421 for a line in another format, EL106 or EL108 if the file cannot be decompressed.
    """
    document: List[List[Word]] = []
    has_documents, name = False, os.fsdecode(path)
    with open_bytes(path) as file:
        words: List[Word] = []
        for number, raw in enumerate(read_lines(file, longest=sys.maxsize), start=1):
            line = _decode(raw, f"{name}:{number}")
            if line.startswith("#"):
                if line.startswith(NEW_DOCUMENT):
                    yield from _make_docs(document, vocab, is_one=has_documents)
                    document, has_documents = [], True
            elif line.strip():
                words += _parse(line, f"{name}:{number}")
            elif words:
                document, words = [*document, words], []
                if not has_documents:
                    yield from _make_docs(document, vocab, is_one=False)
                    document = []
        document += [words] if words else []  # the last empty line is missing
        yield from _make_docs(document, vocab, is_one=has_documents)


def _decode(raw: bytes, where: str) -> str:
    line, n_undecodable = decode(raw)
    if n_undecodable:
        raise ValueError(Errors.EL421.format(where=where, problem="it is not UTF-8"))
    return line.rstrip("\r\n")


def _parse(line: str, where: str) -> List[Word]:
    """RETURNS (List[Word]): The word, nothing for a multiword token or an empty node."""
    columns = line.split("\t")
    if len(columns) != N_COLUMNS:
        problem = f"it has {len(columns)} columns, divided by tabs, not {N_COLUMNS}"
        raise ValueError(Errors.EL421.format(where=where, problem=problem))
    number, form, _, pos, tag, morph, _, dep = columns[:8]
    if "-" in number or "." in number:
        return []
    if not number.isdigit() or not form:
        raise ValueError(Errors.EL421.format(where=where, problem="it has no number or no form"))
    if pos != NONE and pos not in UPOS:
        raise ValueError(Errors.EL421.format(where=where, problem=f"'{pos}' is not a universal part of speech"))
    return [Word(form, *("" if value == NONE else value for value in (pos, tag, morph, dep)))]


def _make_docs(sentences: List[List[Word]], vocab: Vocab, *, is_one: bool) -> Iterator[Doc]:
    """YIELDS (Doc): One of all sentences, or one of each; none without sentences."""
    for group in [sentences] if is_one and sentences else [[sentence] for sentence in sentences]:
        words = [word for sentence in group for word in sentence]
        doc = Doc(
            vocab,
            words=[word.form for word in words],
            pos=[word.pos for word in words],
            tags=[word.tag for word in words],
            morphs=[word.morph for word in words],
            sent_starts=[i == 0 for sentence in group for i in range(len(sentence))],
        )
        for token, word in zip(doc, words):
            token.dep_ = word.dep
        yield doc
