"""Sentences with word senses, as JSON lines: SemCor and MASC with senses of a dictionary (Yuan et al. 2016).

A line is an object with `doc` (name of the document), `tokens` (list of strings) and `senses`: for each annotated token
a list that begins with its position, lemma, part of speech and sense. What follows in that list is not read.
"""

import os
from dataclasses import dataclass
from typing import Any, Iterator, List

from .._choices import AnyPath
from ..errors import Errors
from .items import read_json
from .lines import decode, open_bytes, parse_line

# Types of the first items of an annotation.
ANNOTATION = (int, str, str, str)


@dataclass(frozen=True)
class SenseUse:
    """One annotated token.

    position (int): Of the token in its sentence.
    lemma (str), pos (str): Entry of the dictionary.
    sense (str): Name of the sense.
    """

    position: int
    lemma: str
    pos: str
    sense: str


@dataclass(frozen=True)
class SenseSentence:
    """One sentence.

    document (str): Name of the document; sentences of a document follow each other.
    tokens (List[str]): All tokens.
    uses (List[SenseUse]): The annotated ones, which may be none.
    """

    document: str
    tokens: List[str]
    uses: List[SenseUse]


def read_senses(path: AnyPath) -> Iterator[SenseSentence]:
    """Stream the sentences of a file.

    path (AnyPath): JSON lines or an array, plain or compressed (.gz, .xz, .zst). Empty lines are skipped.
    YIELDS (SenseSentence): In the order of the file.
    RAISES (ValueError): EL240 for a line in another format, EL106 or EL108 if the file cannot be decompressed.
    """
    with open_bytes(path) as file:
        for where, line in read_json(file, os.fsdecode(path)):
            if line.strip():
                yield _parse(decode(line)[0], where)


def _parse(line: str, where: str) -> SenseSentence:
    try:
        record = parse_line(line)
    except ValueError as error:
        raise ValueError(Errors.EL240.format(where=where, problem=f"it is not valid JSON ({error})")) from error
    problem = _find_problem(record)
    if problem:
        raise ValueError(Errors.EL240.format(where=where, problem=problem))
    uses = [SenseUse(*annotation[: len(ANNOTATION)]) for annotation in record["senses"]]
    return SenseSentence(record["doc"], record["tokens"], sorted(uses, key=lambda use: use.position))


def _find_problem(record: Any) -> str:
    """What is wrong with a line, or ""."""
    if not isinstance(record, dict):
        return f"it is a {type(record).__name__}, not an object"
    tokens, senses = record.get("tokens"), record.get("senses")
    if not isinstance(record.get("doc"), str):
        return "'doc' is not a string"
    if not isinstance(tokens, list) or not all(isinstance(token, str) and token for token in tokens):
        return "'tokens' is not a list of strings that are not empty"
    if not isinstance(senses, list):
        return "'senses' is not a list"
    wrong = [item for item in senses if not _is_annotation(item, len(tokens))]
    return f"{wrong[0]!r} is not [position, lemma, part of speech, sense] of a token" if wrong else ""


def _is_annotation(item: Any, n_tokens: int) -> bool:
    if not isinstance(item, list) or len(item) < len(ANNOTATION):
        return False
    fits = all(isinstance(value, kind) and not isinstance(value, bool) for value, kind in zip(item, ANNOTATION))
    return fits and 0 <= item[0] < n_tokens
