"""Similarities of the tokens of two texts, for any mix of the layers.

A mix is gamma * sum_j s_j h_j (Peters et al. 2018, eq. 1). A dot product of two mixes is a weighted sum of the dot
products of their layers: gamma^2 * sum_jk s_j s_k <h_j, h'_k>. With the products of all pairs of layers, the page
computes similarities of any mix without asking again.
"""

from typing import Any, Dict

import numpy
from numpy.typing import NDArray

Vectors = NDArray[numpy.float32]
DIGITS = 6  # significant ones


def compare_layers(a: Vectors, b: Vectors) -> Dict[str, Any]:
    """a (Vectors): Shape (L+1, n, D).
    b (Vectors): Shape (L+1, m, D).
    RETURNS (Dict[str, Any]): "products" (L+1, L+1, n, m), between the texts; "own" has the products of the layers of
        each token with each other, (L+1, L+1, n) and (L+1, L+1, m), for the norms.
    """
    return {
        "products": _rounded(numpy.einsum("jnd,kmd->jknm", a, b)),
        "own": [_rounded(numpy.einsum("jnd,knd->jkn", one, one)) for one in (a, b)],
    }


def _rounded(products: Vectors) -> Any:
    values = [float(f"{value:.{DIGITS}g}") for value in products.ravel().tolist()]
    return numpy.reshape(values, products.shape).tolist()
