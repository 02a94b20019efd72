"""Entities as BILUO tags of words, and back."""

from typing import List, Tuple

import numpy
import pytest
import spacy
from spacy.tokens import Doc

from spacy_elmo.pipeline.crf import (
    MISSING,
    Entity,
    admissible_tags,
    allowed_transitions,
    count_tags,
    decode_entities,
    encode_entities,
    find_words,
)

LABELS = ("LOC", "PER")
NAMES = ["O", "B-LOC", "I-LOC", "L-LOC", "U-LOC", "B-PER", "I-PER", "L-PER", "U-PER", "boundary"]


def _encode(entities: List[Entity], n_tokens: int, words: List[int], missing: Tuple[int, ...] = ()) -> List[str]:
    is_outside = numpy.array([i not in missing for i in range(n_tokens)])
    tags = encode_entities(entities, is_outside, numpy.array(words), LABELS)
    return ["-" if tag == MISSING else NAMES[tag] for tag in tags]


@pytest.mark.parametrize(
    "entities, wanted",
    [
        ([], ["O", "O", "O", "O"]),
        ([(0, 1, "PER")], ["U-PER", "O", "O", "O"]),
        ([(0, 2, "PER"), (2, 4, "LOC")], ["B-PER", "L-PER", "B-LOC", "L-LOC"]),
        ([(0, 4, "LOC")], ["B-LOC", "I-LOC", "I-LOC", "L-LOC"]),
        ([(1, 3, "DATE")], ["O", "O", "O", "O"]),
    ],
)
def test_entities_become_tags(entities: List[Entity], wanted: List[str]) -> None:
    assert _encode(entities, 4, [0, 1, 2, 3]) == wanted


def test_missing_tokens_have_no_tag() -> None:
    assert _encode([(2, 3, "LOC")], 4, [0, 1, 2, 3], missing=(0, 2)) == ["-", "O", "U-LOC", "O"]


@pytest.mark.parametrize(
    "entity, wanted",
    [
        ((0, 3, "PER"), ["B-PER", "L-PER", "O"]),  # white space inside
        ((0, 2, "PER"), ["U-PER", "O", "O"]),  # at the end
        ((1, 4, "PER"), ["O", "B-PER", "L-PER"]),  # at the beginning
        ((1, 2, "PER"), ["O", "O", "O"]),  # nothing else
    ],
)
def test_white_space_has_no_tag(entity: Entity, wanted: List[str]) -> None:
    assert _encode([entity], 4, [0, 2, 3]) == wanted


def test_tags_become_the_same_entities() -> None:
    entities = [(0, 1, "PER"), (1, 3, "LOC"), (3, 4, "LOC"), (6, 9, "PER")]
    words = numpy.array([0, 1, 2, 3, 4, 6, 7, 8])
    tags = encode_entities(entities, numpy.ones(9, dtype=bool), words, LABELS)
    assert decode_entities(tags, words, LABELS) == entities
    assert decode_entities(tags[:0], words[:0], LABELS) == []


def test_allowed_transitions_are_those_of_the_scheme() -> None:
    allowed = allowed_transitions(count_tags(len(LABELS)))
    for before, row in zip(NAMES, allowed):
        for after, is_allowed in zip(NAMES, row):
            continues = after[0] in "IL"
            wanted = before[0] in "BI" and before[1:] == after[1:] if continues else before[0] not in "BI"
            assert is_allowed == wanted, (before, after)


def test_missing_tags_admit_all() -> None:
    admissible = admissible_tags(numpy.array([2, MISSING, 0]), 5)
    assert admissible.sum(axis=1).tolist() == [1, 5, 1] and admissible[0, 2] and admissible[2, 0]


def test_words_are_the_tokens_that_are_not_white_space() -> None:
    vocab = spacy.blank("en").vocab
    assert find_words(Doc(vocab, words=["a", " \n", "b", "\t"])).tolist() == [0, 2]
    assert find_words(Doc(vocab)).tolist() == []
