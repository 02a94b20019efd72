"""Places, verdicts, scores and intervals of two pipelines on the same Docs."""

from typing import Any, Set

import numpy as np
import pytest

from spacy_elmo.analysis.answers import NOTHING, Answer, Changes, DocAnswers, compare_answers

WORDS = tuple("Ada Lovelace met Acme in New York .".split())


def _doc(gold: Set[Answer], predicted: Set[Answer], starts: Any = (0,)) -> DocAnswers:
    return DocAnswers(WORDS, starts, {"ents": gold}, {"ents": predicted})


def _compare(gold: Set[Answer], ours: Set[Answer], theirs: Set[Answer]) -> Changes:
    (change,) = compare_answers([_doc(gold, ours)], [_doc(gold, theirs)])
    return change


def test_overlapping_answers_are_one_place() -> None:
    change = _compare({(0, 2, "PER")}, {(0, 2, "PER")}, {(1, 3, "PER")})
    (place,) = change.fixed
    assert (place.start, place.end, place.gold, place.theirs) == (0, 3, ((0, 2, "PER"),), ((1, 3, "PER"),))
    assert not change.made and (change.n_both_right, change.n_both_wrong) == (0, 0)


def test_adjacent_answers_are_two_places() -> None:
    change = _compare({(0, 1, "PER"), (1, 2, "PER")}, {(0, 1, "PER"), (1, 2, "ORG")}, {(0, 1, "PER")})
    assert (change.n_both_right, change.n_both_wrong) == (1, 1) and not change.fixed and not change.made


def test_every_verdict_is_counted() -> None:
    gold: Set[Answer] = {(0, 2, "PER"), (3, 4, "ORG"), (5, 7, "LOC")}
    change = _compare(gold, {(0, 2, "PER"), (3, 4, "ORG"), (7, 8, "LOC")}, {(0, 2, "PER"), (5, 7, "LOC")})
    assert (change.n_both_right, change.n_both_wrong) == (1, 0)
    assert [place.label for place in change.fixed] == ["ORG"]
    assert [place.label for place in change.made] == ["LOC", NOTHING]
    assert change.by_label() == [(NOTHING, 0, 1), ("LOC", 0, 1), ("ORG", 1, 0)]
    assert (change.ours, change.theirs) == (pytest.approx(2 * 2 / 6), pytest.approx(2 * 2 / 5))


def test_interval_covers_the_difference_and_is_reproducible() -> None:
    rng = np.random.default_rng(1)
    gold: Set[Answer] = {(3, 4, "ORG")}
    found = [[gold if rng.random() < share else set() for _ in range(60)] for share in (0.9, 0.4)]
    ours, theirs = ([_doc(gold, answers) for answers in answers_of_docs] for answers_of_docs in found)
    (change,) = compare_answers(ours, theirs)
    assert 0 < change.difference.low < change.difference.value < change.difference.high < 1
    assert change.difference.value == pytest.approx(change.ours - change.theirs) and change.difference.n == 60
    assert compare_answers(ours, theirs)[0].difference == change.difference
    (same,) = compare_answers(ours, ours)
    assert (same.difference.low, same.difference.value, same.difference.high) == (0, 0, 0)


def test_sentences_are_drawn_where_there_are_boundaries() -> None:
    gold: Set[Answer] = {(0, 2, "PER"), (5, 7, "LOC")}
    docs = [_doc(gold, gold, starts=(0, 4))]
    (change,) = compare_answers(docs, [_doc(gold, {(0, 2, "PER")}, starts=(0, 4))])
    assert change.difference.n == 2 and change.difference.low == 0.0 and change.difference.high == 1.0


def test_questions_that_one_pipeline_does_not_answer_are_left_out() -> None:
    gold: Set[Answer] = {(0, 2, "PER")}
    silent = [DocAnswers(WORDS, (0,), {"ents": gold}, {})]
    assert compare_answers([_doc(gold, gold)], silent) == []
    assert [change.theirs for change in compare_answers([_doc(gold, gold)], [_doc(gold, set())])] == [0.0]


def test_doc_without_annotation_counts_for_nobody() -> None:
    unknown = DocAnswers(WORDS, (0,), {}, {"ents": {(0, 1, "PER")}})
    gold: Set[Answer] = {(0, 2, "PER")}
    (change,) = compare_answers([_doc(gold, gold), unknown], [_doc(gold, gold), unknown])
    assert (change.ours, change.n_both_right, change.n_both_wrong) == (1.0, 1, 0)
