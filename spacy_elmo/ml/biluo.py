"""Entities as tags of their words, in the scheme BILUO: begin, inside, last, unit, outside.

Ratinov and Roth (2009) find it better than BIO. A chain has the words of a Doc; white space is left out, so that no
entity begins or ends with it.
"""

from typing import Iterable, List, Sequence, Tuple

import numpy
from numpy.typing import NDArray
from spacy.attrs import IS_SPACE
from spacy.tokens import Doc

MISSING, OUTSIDE = -1, 0
# Tags of label i are 1 + 4i and the three after it.
BEGIN, INSIDE, LAST, UNIT = range(4)
N_KINDS = 4

Rows = NDArray[numpy.int64]
Mask = NDArray[numpy.bool_]
Entity = Tuple[int, int, str]  # first token, token after the last one, label


def count_tags(n_labels: int) -> int:
    """RETURNS (int): K, the tags of so many labels."""
    return 1 + N_KINDS * n_labels


def find_words(doc: Doc) -> Rows:
    """RETURNS (Rows): The tokens that are not white space."""
    if len(doc) == 0:
        return numpy.zeros(0, dtype="int64")
    return numpy.flatnonzero(doc.to_array(IS_SPACE) == 0)


def allowed_transitions(n_tags: int) -> Mask:
    """n_tags (int): K.
    RETURNS (Mask): Shape (K+1, K+1), from row to column; the boundary comes last, and is like a word outside.
    """
    tags = numpy.arange(1, n_tags)
    kinds = numpy.concatenate([[UNIT], (tags - 1) % N_KINDS, [UNIT]])  # a word outside connects as a unit does
    labels = numpy.concatenate([[-1], (tags - 1) // N_KINDS, [-1]])
    opens, continues = numpy.isin(kinds, (BEGIN, INSIDE)), numpy.isin(kinds, (INSIDE, LAST))
    has_one_label = labels[:, None] == labels[None]
    fits = opens[:, None] == continues[None]
    allowed: Mask = fits & (has_one_label | ~opens[:, None])
    return allowed


def encode_entities(entities: Iterable[Entity], is_outside: Mask, words: Rows, labels: Sequence[str]) -> Rows:
    """Tag the words of a Doc.

    entities (Iterable[Entity]): Entities that do not overlap. Those of other labels count as outside.
    is_outside (Mask): Shape (n,), for each token of the Doc whether it is known to be outside of entities.
    words (Rows): See `find_words`.
    labels (Sequence[str]): The labels, in the order of their tags.
    RETURNS (Rows): One tag for each word, `MISSING` for those that are neither in an entity nor outside.
    """
    places = {label: i for i, label in enumerate(labels)}
    tags = numpy.where(is_outside[words], OUTSIDE, MISSING)
    for start, end, label in entities:
        first, last = numpy.searchsorted(words, (start, end))
        tags[first:last] = _tag_words(int(last - first), 1 + N_KINDS * places[label]) if label in places else OUTSIDE
    return tags


def decode_entities(tags: Rows, words: Rows, labels: Sequence[str]) -> List[Entity]:
    """tags (Rows): One tag for each word; they respect `allowed_transitions`.
    words (Rows): See `find_words`.
    labels (Sequence[str]): The labels, in the order of their tags.
    RETURNS (List[Entity]): The entities, in the order of the Doc.
    """
    found, start = [], 0
    for i in numpy.flatnonzero(tags).tolist():
        label, kind = divmod(int(tags[i]) - 1, N_KINDS)
        if kind in (BEGIN, UNIT):
            start = int(words[i])
        if kind in (LAST, UNIT):
            found.append((start, int(words[i]) + 1, labels[label]))
    return found


def admissible_tags(tags: Rows, n_tags: int) -> Mask:
    """tags (Rows): One tag for each word, or `MISSING`.
    n_tags (int): K.
    RETURNS (Mask): Shape (words, K): the tag, or all tags where it is missing.
    """
    mask: Mask = (tags[:, None] == MISSING) | (tags[:, None] == numpy.arange(n_tags))
    return mask


def _tag_words(n_words: int, begin: int) -> List[int]:
    if n_words < 2:
        return [begin + UNIT] * n_words
    return [begin + BEGIN, *[begin + INSIDE] * (n_words - 2), begin + LAST]
