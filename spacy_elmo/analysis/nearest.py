"""Nearest neighbours by cosine: exact, in blocks of bounded memory."""

from typing import Any, List, Sequence

import numpy as np
from numpy.typing import NDArray

from .layer_vectors import Vectors

Rows = NDArray[np.int64]
BLOCK = 4096  # vectors; the cosines of two blocks take 64 MB


def find_nearest(known: Vectors, asked: Vectors, *, block: int = BLOCK) -> Rows:
    """Find the known vector with the highest cosine, the first one of equals.

    known (Vectors): Shape (N, D), N at least 1.
    asked (Vectors): Shape (M, D).
    block (int): Vectors compared at once; the memory is that of block * block cosines.
    RETURNS (Rows): Shape (M,), numbers of known vectors. The cosine of a zero vector is 0.
    """
    found = np.zeros(len(asked), dtype="int64")
    for start in range(0, len(asked), block):
        wanted = to_units(asked[start : start + block])  # (m, D)
        best = np.full(len(wanted), -np.inf, dtype="float32")
        for first in range(0, len(known), block):
            cosines = wanted @ to_units(known[first : first + block]).T  # (m, n)
            places = cosines.argmax(axis=1)
            highest = cosines[np.arange(len(wanted)), places]
            is_better = highest > best
            best[is_better] = highest[is_better]
            found[start : start + block][is_better] = first + places[is_better]
    return found


def predict_nearest(known: Vectors, labels: Sequence[str], asked: Vectors) -> List[str]:
    """RETURNS (List[str]): For each vector asked for the label of the nearest known one."""
    return [labels[i] for i in find_nearest(known, asked).tolist()]


def to_units(vectors: "NDArray[np.floating[Any]]") -> Vectors:
    """vectors (NDArray): Shape (..., D).
    RETURNS (Vectors): Of length 1; zeros stay.
    """
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(norms == 0, 1, norms), dtype="float32")
