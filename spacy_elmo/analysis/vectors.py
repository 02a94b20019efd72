"""Vectors of unit length, and what several modules ask of scikit-learn."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..util import has_sklearn

Vectors = NDArray[np.float32]


def to_units(vectors: "NDArray[np.floating[Any]]") -> Vectors:
    """vectors (NDArray): Shape (..., D).
    RETURNS (Vectors): Divided by their lengths; zeros stay.
    """
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths == 0, 1, lengths), dtype="float32")


def require_sklearn(what: str) -> None:
    """RAISES (ValueError): If scikit-learn is not installed."""
    if not has_sklearn:
        raise ValueError(
            f"{what} needs scikit-learn, which is not installed. Install it: `pip install "
            '"spacy-elmo[analysis]"`, or `pip install scikit-learn`.'
        )
