"""Pairs of uses, their cosines and the probability of the same sense."""

import numpy as np
import pytest
from nn.tiny import make_bilm

from spacy_elmo.analysis import vectors
from spacy_elmo.analysis.same_sense import (
    CALIBRATIONS,
    Calibration,
    Pair,
    calibrate,
    compare_uses,
    make_pairs,
    pair_cosines,
)
from spacy_elmo.corpora.labelled import SenseSentence, SenseUse
from spacy_elmo.weights.identity import digest_bilm

BILM = make_bilm()
FIRST, SECOND = "the bank of the river".split(), "a bank lends money".split()


def test_cosines_are_those_of_the_vectors():
    found = compare_uses(BILM, FIRST, 1, SECOND, 1)
    layers = [
        np.stack([BILM.embed([words], layers=layer)[0][1] for words in (FIRST, SECOND)]) for layer in (0, 1, 2, "mean")
    ]
    units = [pair / np.linalg.norm(pair, axis=1, keepdims=True) for pair in layers]
    assert list(found.cosines) == ["0", "1", "2", "mean"]
    assert list(found.cosines.values()) == pytest.approx([float(a @ b) for a, b in units], abs=1e-5)
    assert found.cosines["0"] == pytest.approx(1, abs=1e-5)  # the token layer knows no context
    assert found.probability is None and found.is_same is None
    for position in (-1, 5):
        with pytest.raises(ValueError, match="EL018"):
            compare_uses(BILM, FIRST, position, SECOND, 1)


def test_pairs_may_share_sentences_and_uses():
    sentences = [FIRST, ["unused"], SECOND, FIRST]
    pairs = [Pair((0, 1), (2, 1), True), Pair((2, 1), (3, 4), False), Pair((0, 1), (3, 1), True)]
    found = pair_cosines(BILM, sentences, pairs)
    assert found.shape == (4, 3)
    for column, pair in zip(found.T, pairs):
        (a, i), (b, j), _ = pair
        expected = compare_uses(BILM, sentences[a], i, sentences[b], j).cosines.values()
        assert column == pytest.approx(list(expected), abs=1e-5)


def test_calibration_separates():
    cosines, answers = np.asarray([0.1, 0.2, 0.3, 0.7, 0.8, 0.9]), [False] * 3 + [True] * 3
    found = calibrate(cosines, answers, 2)
    assert found.layer == 2 and 0.3 < found.threshold < 0.7
    assert found.probability(0.9) > 0.9 > 0.1 > found.probability(0.1)
    assert found.probability(found.threshold) == pytest.approx(0.5)
    is_same = [compare_uses(BILM, FIRST, 1, SECOND, 1, calibration=Calibration(2, 1, bias)) for bias in (-9, 9)]
    assert [one.is_same for one in is_same] == [False, True]


def test_calibration_needs_sklearn(monkeypatch):
    monkeypatch.setattr(vectors, "has_sklearn", False)
    with pytest.raises(ValueError, match="needs scikit-learn"):
        calibrate(np.zeros(2), [True, False], 0)


def test_the_packaged_bilm_has_a_calibration():
    assert digest_bilm("en_elmo_sm") in CALIBRATIONS


def test_pairs_are_balanced_within_each_lemma():
    senses = ["river", "money", "money", "river", "money", "river"]
    sentences = [SenseSentence("d", ["a", "bank"], [SenseUse(1, "bank", "noun", sense)]) for sense in senses]
    sentences.append(SenseSentence("d", ["play"], [SenseUse(0, "play", "verb", "only")]))
    pairs = make_pairs(sentences, per_lemma=2)
    assert [pair.is_same for pair in pairs] == [True, True, False, False]
    for pair in pairs:
        assert (senses[pair.first[0]] == senses[pair.second[0]]) is pair.is_same
        assert pair.first[0] != pair.second[0] and pair.first[1] == pair.second[1] == 1
    assert make_pairs(sentences, per_lemma=2) == pairs
    assert make_pairs(sentences[:1]) == []
