"""Senses are the nearest means; unknown lemmas get the first sense or none."""

from typing import Any, Iterator, Sequence

import numpy as np
import pytest

from spacy_elmo.analysis.labelled import LabelledDocs, ProbeData, label_senses
from spacy_elmo.analysis.layer_vectors import iter_layers, make_reading
from spacy_elmo.analysis.probes import probe_data
from spacy_elmo.analysis.senses import SenseVectors, find_places, score_senses
from spacy_elmo.inference.bilm import BiLM

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


@pytest.mark.parametrize("batch_tokens", [1, 7, 100])
def test_nearest_mean_by_cosine(train: LabelledDocs, uses: LabelledDocs, batch_tokens: int) -> None:
    vectors = SenseVectors(make_bilm(), reading=make_reading(batch_tokens=batch_tokens)).fit(train)
    known, asked = _vectors(train), _vectors(uses)  # (L+2, N, D)
    for layer, answers in enumerate(vectors.predict(uses)):
        for i, answer in enumerate(answers[:2]):
            cosines = {}
            for sense in (MONEY, RIVER):
                centre = known[layer, [label == sense for label in train.labels]].mean(axis=0)
                use = asked[layer, i]
                cosines[sense] = centre @ use / np.linalg.norm(centre) / np.linalg.norm(use)
            assert cosines[answer] >= max(cosines.values()) - 1e-6  # layer 0 is the same in both senses
        assert answers[2] == PIECE


@pytest.mark.issue(42)
def test_nearest_use_by_cosine(train: LabelledDocs, uses: LabelledDocs) -> None:
    vectors = SenseVectors(make_bilm(), nearest="use").fit(train)
    known, asked = _vectors(train), _vectors(uses)
    banks = [i for i, key in enumerate(train.keys) if key == uses.keys[0]]
    for layer, answers in enumerate(vectors.predict(uses)):
        for i, answer in enumerate(answers[:2]):
            rows = known[layer, banks]
            cosines = rows @ asked[layer, i] / np.linalg.norm(rows, axis=1)
            assert answer in {train.labels[banks[j]] for j in np.flatnonzero(cosines >= cosines.max() - 1e-6)}
    money, river = ("bank", MONEY), ("bank", RIVER)
    assert find_places([money, river, money], [money, money, river]).tolist() == [0, 2, 1], "each use has its own place"
    means = SenseVectors(make_bilm()).fit(train)
    assert vectors.first_sense(uses) == means.first_sense(uses)
    assert vectors.to_means().predict(uses) == means.to_means().predict(uses) == means.predict(uses)
    first = means.first_sense(uses)
    by_use, by_mean = (score_senses(first, first, uses, found) for found in (vectors, means))
    assert by_use == by_mean, "the uses that have a choice are the same"


@pytest.mark.issue(42)
def test_a_probe_of_senses_reads_each_training_text_once(
    train: LabelledDocs, uses: LabelledDocs, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []

    def count(self: BiLM, runs: Sequence[Sequence[str]], **settings: Any) -> Iterator[Any]:
        read.extend(" ".join(words) for words in runs)
        return iter_encode(self, runs, **settings)

    iter_encode = BiLM.iter_encode
    monkeypatch.setattr(BiLM, "iter_encode", count)
    record = probe_data(make_bilm(), ProbeData("sense", train, uses, False, 0))
    assert [read.count(text) for text, _ in TRAIN] == [1] * len(TRAIN)
    means = SenseVectors(make_bilm()).fit(train)
    first = means.first_sense(uses)
    wanted = [score_senses(answers, first, uses, means).f1.value for answers in means.predict(uses)]
    assert [row["nearest"]["value"] for row in record["layers"]] == wanted


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
    only = label_senses(make_uses(("one piece", PIECE)), VOCAB)
    assert score_senses([PIECE], [PIECE], only, vectors).ambiguous is None
