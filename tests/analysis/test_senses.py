"""Senses are the nearest means; unknown lemmas get the first sense or none."""

from typing import Any

import numpy as np
import pytest

from spacy_elmo.analysis.labelled_docs import LabelledDocs, ProbeData, label_senses
from spacy_elmo.analysis.layer_vectors import iter_layers
from spacy_elmo.analysis.probes import probe_data
from spacy_elmo.analysis.senses import SenseVectors, score_senses
from spacy_elmo.pipeline.model import ElmoSettings

from .labelled_texts import MONEY, PIECE, RIVER, VOCAB, make_bilm, make_uses

TRAIN = [
    ("the bank lends money", MONEY),
    ("he sat on the bank", RIVER),
    ("her bank is closed", MONEY),
    ("mud on the bank of it", RIVER),
    ("a bank with a roof", MONEY),
    ("one piece", PIECE),
]


@pytest.fixture(scope="module")
def train() -> LabelledDocs:
    return label_senses(make_uses(*TRAIN), VOCAB)


@pytest.fixture(scope="module")
def uses() -> LabelledDocs:
    tests = [("we sat on a bank", RIVER), ("that bank lends to us", MONEY), ("my piece", PIECE)]
    return label_senses(make_uses(*tests), VOCAB)


def _vectors(labelled: LabelledDocs) -> np.ndarray:
    return np.concatenate([layers for _, _, layers in iter_layers(make_bilm(), labelled)], axis=1)


@pytest.mark.parametrize("nearest, batch_tokens", [("mean", 1), ("mean", 100), ("use", 7)])
def test_senses_are_the_nearest_by_cosine(
    train: LabelledDocs, uses: LabelledDocs, nearest: Any, batch_tokens: int
) -> None:
    vectors = SenseVectors(make_bilm(), nearest=nearest, reading=ElmoSettings(batch_tokens=batch_tokens)).fit(train)
    known, asked = _vectors(train), _vectors(uses)  # (L+2, N, D)
    for layer, answers in enumerate(vectors.predict(uses)):
        for i, answer in enumerate(answers[:2]):
            cosines = {}
            for sense in (MONEY, RIVER):
                rows = known[layer, [label == sense for label in train.labels]]
                rows = rows.mean(axis=0, keepdims=True) if nearest == "mean" else rows
                cosines[sense] = (rows @ asked[layer, i] / np.linalg.norm(rows, axis=1)).max()
            assert cosines[answer] >= max(cosines.values()) - 1e-6  # layer 0 is the same in both senses
        assert answers[2] == PIECE
    means = SenseVectors(make_bilm()).fit(train)
    first = means.first_sense(uses)
    assert vectors.first_sense(uses) == first and vectors.to_means().predict(uses) == means.predict(uses)
    by_use, by_mean = (score_senses(first, first, uses, found) for found in (vectors, means))
    assert by_use == by_mean, "the uses that have a choice are the same"


def test_uses_of_training_find_their_sense_if_each_is_alone(train: LabelledDocs) -> None:
    alone = label_senses(make_uses(("the bank lends money", MONEY), ("he sat on the bank", RIVER)), VOCAB)
    vectors = SenseVectors(make_bilm()).fit(alone)
    token_layer, *others = vectors.predict(alone)
    assert all(answers == [MONEY, RIVER] for answers in others)
    assert token_layer == [MONEY, MONEY], "the token layer does not see the sentence: the first sense of equals"


def test_unknown_lemma_gets_the_first_sense_of_the_dictionary_or_none(train: LabelledDocs) -> None:
    known = label_senses(make_uses(("the bank lends", MONEY)), VOCAB)
    asked = label_senses(make_uses(("one piece", PIECE), ("a bank", MONEY)), VOCAB)
    without = SenseVectors(make_bilm()).fit(known)
    assert without.predict(asked) == [[None, MONEY]] * 4
    given = SenseVectors(make_bilm(), first_senses={"piece NOUN": "piece.first", "bank NOUN": "x"}).fit(known)
    assert given.predict(asked) == [["piece.first", MONEY]] * 4
    assert given.first_sense(asked) == ["piece.first", MONEY]


def test_scores_count_choices_and_answers(train: LabelledDocs, uses: LabelledDocs) -> None:
    vectors = SenseVectors(make_bilm()).fit(train)
    first = vectors.first_sense(uses)
    scores = score_senses([RIVER, MONEY, None], first, uses, vectors)
    assert scores.f1.value == pytest.approx(2 * 1.0 * (2 / 3) / (1.0 + 2 / 3))
    assert scores.ambiguous is not None and scores.ambiguous.value == 1.0 and scores.ambiguous.n == 2
    assert scores.gain.value == 0.0 and scores.n_answered == 2
    record = probe_data(make_bilm(), ProbeData("sense", train, uses, False, 0))  # of all layers
    wanted = [score_senses(answers, first, uses, vectors).f1.value for answers in vectors.predict(uses)]
    assert [row["nearest"]["value"] for row in record["layers"]] == wanted and record["metric"] == "F1"
    assert record["baselines"]["first sense"]["value"] == score_senses(first, first, uses, vectors).f1.value
    only = label_senses(make_uses(("one piece", PIECE)), VOCAB)
    assert score_senses([PIECE], [PIECE], only, vectors).ambiguous is None
