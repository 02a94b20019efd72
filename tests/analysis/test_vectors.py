"""Vectors of any kind become arrays and unit vectors."""

import numpy as np
import pytest
import torch

from spacy_elmo.analysis import vectors
from spacy_elmo.analysis.vectors import require_sklearn, to_array, to_units

VALUES = [[3.0, 4.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    "values",
    [
        VALUES,
        np.array(VALUES),
        torch.tensor(VALUES, requires_grad=True),
        torch.tensor(VALUES).bfloat16(),
        [torch.tensor(row) for row in VALUES],
        [np.array(row, dtype="float16") for row in VALUES],
    ],
)
def test_vectors_of_any_kind_are_float32_on_the_cpu_and_zeros_stay(values):
    array = to_array(values)
    assert array.dtype == np.float32 and array.tolist() == VALUES
    np.testing.assert_allclose(to_units(array), [[0.6, 0.8], [0.0, 0.0]], rtol=1e-6)


def test_scikit_learn_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setattr(vectors, "has_sklearn", False)
    with pytest.raises(ValueError, match="A linear probe needs scikit-learn.*spacy-elmo.analysis"):
        require_sklearn("A linear probe")
