"""Answers are counted as spaCy's scorers count them; places, verdicts and intervals of two pipelines on equal Docs."""

from pathlib import Path
from typing import Any, Dict, List, Set

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.scorer import Scorer, get_ner_prf
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Corpus

from spacy_elmo.analysis.answers import NOTHING, Answer, Changes, DocAnswers, compare_answers, read_answers

ENTITIES: List[Any] = [
    {"label": "ORG", "pattern": "Acme"},
    {"label": "PER", "pattern": "Ada Lovelace"},
    {"label": "LOC", "pattern": "today"},
]
WORDS = {"Acme": ("PROPN", "Number=Sing"), "hired": ("VERB", "Tense=Past"), "today": ("NOUN", ""), "Ada": ("X", "")}


@pytest.fixture
def nlp() -> Language:
    """Rules in place of trained components: right on some words, wrong on others."""
    nlp = spacy.blank("en")
    tags: Any = nlp.add_pipe("attribute_ruler")
    for word, (tag, morph) in WORDS.items():
        tags.add([[{"ORTH": word}]], {"TAG": tag, "POS": tag, "MORPH": morph})
    entities: Any = nlp.add_pipe("entity_ruler")
    entities.add_patterns(ENTITIES)
    return nlp


@pytest.fixture
def path(nlp: Language, tmp_path: Path) -> Path:
    """Docs that spaCy tokenizes as they are, in another way ("don't"), and without any entity annotation."""
    docs = [
        _make(nlp, "Acme hired Ada Lovelace today", [True] * 5, [(0, 1, "ORG"), (2, 4, "PER")]),
        _make(nlp, "I don't like Acme today", [True] * 5, [(2, 4, "ORG")]),
        _make(nlp, "Acme-hired Ada Lovelace", [True] * 3, [(0, 1, "ORG"), (1, 3, "PER")]),
        _make(nlp, "Acme hired", [True, False], None),
    ]
    DocBin(docs=docs, store_user_data=True).to_disk(tmp_path / "test.spacy")
    return tmp_path / "test.spacy"


def _make(nlp: Language, text: str, spaces: List[bool], ents: Any) -> Doc:
    words = text.split()
    tags = ["PROPN" if word[0].isupper() else "" for word in words]
    doc = Doc(nlp.vocab, words=words, spaces=spaces, tags=tags, pos=tags, morphs=["" for _ in words])
    if ents is not None:
        doc.set_ents([Span(doc, start, end, label=label) for start, end, label in ents])
    return doc


def test_scores_are_those_of_spacy(nlp: Language, path: Path) -> None:
    answers = read_answers(nlp, path)
    found = {change.name: change.ours for change in compare_answers(answers, answers)}
    assert found == {name: pytest.approx(score) for name, score in _score(nlp, path).items()}
    assert 0 < found["ents"] < 1 and 0 < found["tag"] < 1


def _score(nlp: Language, path: Path) -> Dict[str, float]:
    examples = list(Corpus(path)(nlp))
    for example in examples:
        example.predicted = nlp(example.predicted)
    scores = {"ents": get_ner_prf(examples)["ents_f"]}
    for name in ("tag", "pos"):
        scores[name] = Scorer.score_token_attr(examples, name)[f"{name}_acc"]
    morph = Scorer.score_token_attr(examples, "morph", getter=lambda token, attr: token.morph.key)
    return {**scores, "morph": morph["morph_acc"]}


def test_only_what_is_annotated_and_predicted_is_asked(nlp: Language, path: Path) -> None:
    answers = read_answers(nlp, path)
    assert "ents" in answers[0].gold and "ents" not in answers[3].gold
    assert all(set(doc.predicted) <= set(doc.gold) for doc in answers)
    assert [doc.predicted for doc in read_answers(spacy.blank("en"), path)] == [{}] * 4


def test_sentences_begin_where_the_data_say(tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    doc = Doc(nlp.vocab, words=["Hi", ".", "Bye", "."], tags=["X"] * 4, sent_starts=[True, False, True, False])
    DocBin(docs=[doc, Doc(nlp.vocab)]).to_disk(tmp_path / "test.spacy")
    (answers,) = read_answers(nlp, tmp_path / "test.spacy")
    assert answers.starts == (0, 2) and answers.words == ("Hi", ".", "Bye", ".")


@pytest.mark.parametrize("content", [b"", b"no docs", b"x\x9cK"])
def test_other_files_are_refused(nlp: Language, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "test.spacy").write_bytes(content)
    with pytest.raises(ValueError, match="cannot be read as annotated Docs"):
        read_answers(nlp, tmp_path / "test.spacy")
    DocBin(docs=[Doc(nlp.vocab)]).to_disk(tmp_path / "test.spacy")
    with pytest.raises(ValueError, match="no Doc with tokens"):
        read_answers(nlp, tmp_path / "test.spacy")


NAMES = tuple("Ada Lovelace met Acme in New York .".split())


def _answer(gold: Set[Answer], predicted: Set[Answer], starts: Any = (0,)) -> DocAnswers:
    return DocAnswers(NAMES, starts, {"ents": gold}, {"ents": predicted})


def _compare(gold: Set[Answer], ours: Set[Answer], theirs: Set[Answer]) -> Changes:
    (change,) = compare_answers([_answer(gold, ours)], [_answer(gold, theirs)])
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
    ours, theirs = ([_answer(gold, answers) for answers in answers_of_docs] for answers_of_docs in found)
    (change,) = compare_answers(ours, theirs)
    assert 0 < change.difference.low < change.difference.value < change.difference.high < 1
    assert change.difference.value == pytest.approx(change.ours - change.theirs) and change.difference.n == 60
    assert compare_answers(ours, theirs)[0].difference == change.difference
    (same,) = compare_answers(ours, ours)
    assert (same.difference.low, same.difference.value, same.difference.high) == (0, 0, 0)


def test_sentences_are_drawn_where_there_are_boundaries() -> None:
    gold: Set[Answer] = {(0, 2, "PER"), (5, 7, "LOC")}
    docs = [_answer(gold, gold, starts=(0, 4))]
    (change,) = compare_answers(docs, [_answer(gold, {(0, 2, "PER")}, starts=(0, 4))])
    assert change.difference.n == 2 and change.difference.low == 0.0 and change.difference.high == 1.0


def test_questions_that_one_pipeline_does_not_answer_are_left_out() -> None:
    gold: Set[Answer] = {(0, 2, "PER")}
    silent = [DocAnswers(NAMES, (0,), {"ents": gold}, {})]
    assert compare_answers([_answer(gold, gold)], silent) == []
    assert [change.theirs for change in compare_answers([_answer(gold, gold)], [_answer(gold, set())])] == [0.0]


def test_doc_without_annotation_counts_for_nobody() -> None:
    unknown = DocAnswers(NAMES, (0,), {}, {"ents": {(0, 1, "PER")}})
    gold: Set[Answer] = {(0, 2, "PER")}
    (change,) = compare_answers([_answer(gold, gold), unknown], [_answer(gold, gold), unknown])
    assert (change.ours, change.n_both_right, change.n_both_wrong) == (1.0, 1, 0)
