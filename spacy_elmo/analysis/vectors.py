"""Vectors of unit length, and the check for scikit-learn."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..util import has_sklearn, require_package

Vectors = NDArray[np.float32]


def to_array(vectors: Any) -> Vectors:
    """vectors (Any): An array of NumPy or CuPy, a tensor on any device, of any type, with gradients or without; or
        lists of these or of numbers.
    RETURNS (Vectors): On the CPU, without gradients.
    """
    if isinstance(vectors, (list, tuple)) and any(hasattr(row, "shape") for row in vectors):
        vectors = [to_array(row) for row in vectors]
    elif hasattr(vectors, "detach"):
        vectors = vectors.detach().cpu().float().numpy()
    elif hasattr(vectors, "__cuda_array_interface__"):
        vectors = vectors.get()
    return np.asarray(vectors, dtype="float32")


def to_units(vectors: "NDArray[np.floating[Any]]") -> Vectors:
    """vectors (NDArray): Shape (..., D).
    RETURNS (Vectors): Divided by their lengths; zeros stay.
    """
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths == 0, 1, lengths), dtype="float32")


def require_sklearn(what: str) -> None:
    """RAISES (ValueError): If scikit-learn is not installed."""
    remedy = '`pip install "spacy-elmo[analysis]"`, or `pip install scikit-learn`'
    require_package(has_sklearn, what, "scikit-learn", remedy)
