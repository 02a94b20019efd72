"""Vectors of merged tokens: the mean of the rows of the original tokens."""

from typing import Any, Dict, List, Optional

import numpy
from numpy.typing import NDArray
from spacy.attrs import IDX
from spacy.tokens import Doc
from thinc.util import get_array_module


def average_merged(doc: Doc, first_char: int, record: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """Average the rows of a record, so that each token of a Doc with merged tokens has one row.

    Space tokens are excluded, unless a token consists of nothing else.
    doc (Doc): The Doc.
    first_char (int): The character of the Doc at which the record begins.
    record (Dict[str, Any]): Vectors of the original tokens: `starts`, `orths`, `mixed`, `layers`.
    RETURNS (Optional[Dict[str, Any]]): The new arrays, None if a token does not consist of whole original tokens.
    """
    words = [doc.vocab.strings[orth] for orth in record["orths"].tolist()]
    starts = doc.to_array(IDX).astype("int64") - first_char
    ends = starts + [len(token) for token in doc]
    bounds = numpy.searchsorted(record["starts"], numpy.append(starts, ends[-1:])).tolist()
    for token, start, end, a, b in zip(doc, starts.tolist(), ends.tolist(), bounds, bounds[1:]):
        if not _is_made_of(token.text, start, end, words[a:b], record["starts"][a:b].tolist()):
            return None
    is_word = numpy.asarray([not word.isspace() for word in words])
    shares = _mean_matrix(bounds, is_word)
    names = [name for name in ("mixed", "layers") if name in record]
    return {name: _multiply(shares, record[name]) for name in names}


def _is_made_of(text: str, start: int, end: int, words: List[str], starts: List[int]) -> bool:
    """RETURNS (bool): Whether the text contains each word at its position, and no other text at its start and end."""
    if not words or starts[0] != start or starts[-1] + len(words[-1]) != end:
        return False
    return all(text[place - start :].startswith(word) for word, place in zip(words, starts))


def _mean_matrix(bounds: List[int], is_word: NDArray[numpy.bool_]) -> NDArray[numpy.float32]:
    """RETURNS (NDArray): Shape (tokens, original tokens); each row sums to one."""
    shares = numpy.zeros((len(bounds) - 1, len(is_word)), dtype="float32")
    for row, (a, b) in enumerate(zip(bounds, bounds[1:])):
        counted = is_word[a:b] if is_word[a:b].any() else numpy.ones(b - a, dtype=bool)
        shares[row, a:b] = counted / counted.sum()
    return shares


def _multiply(shares: NDArray[numpy.float32], rows: Any) -> Any:
    return (get_array_module(rows).asarray(shares) @ rows.astype("float32", copy=False)).astype(rows.dtype, copy=False)
