"""Nearest neighbours in blocks equal those of one product."""

import numpy as np
import pytest

from spacy_elmo.analysis.layer_vectors import find_nearest, predict_nearest, to_units


@pytest.mark.issue(18)
@pytest.mark.parametrize("block", [1, 3, 7, 100])
def test_blocks_change_nothing(block: int) -> None:
    rng = np.random.default_rng(0)
    known, asked = (rng.normal(size=(n, 5)).astype("float32") for n in (23, 11))
    cosines = np.asarray([[a @ k / np.linalg.norm(a) / np.linalg.norm(k) for k in known] for a in asked])
    assert find_nearest(known, asked, block=block).tolist() == cosines.argmax(axis=1).tolist()


@pytest.mark.issue(18)
@pytest.mark.parametrize("block", [1, 2, 100])
def test_first_of_equals_is_taken(block: int) -> None:
    known = np.asarray([[0, 1], [1, 0], [2, 0], [1, 0]], dtype="float32")
    assert find_nearest(known, known, block=block).tolist() == [0, 1, 1, 1]


@pytest.mark.issue(18)
def test_label_is_that_of_the_nearest() -> None:
    known = np.asarray([[1, 0], [0, 2], [0, 0]], dtype="float32")
    asked = np.asarray([[5, 1], [-1, 1]], dtype="float32")
    assert predict_nearest(known, ["a", "b", "c"], asked) == ["a", "b"]
    assert to_units(known).tolist() == [[1, 0], [0, 1], [0, 0]]
