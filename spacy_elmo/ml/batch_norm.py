"""Sums over the layers of BOS and EOS, which AllenNLP's layer norm includes.

Its mean and variance are over all values of a batch, including those of `<S>` and `</S>` around each sequence. No other
part of the package needs these rows, so the layers are computed a second time, with them. The norm uses their sums, and
they get no gradient.
"""

from itertools import accumulate
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy
from numpy.typing import NDArray
from thinc.types import Floats3d

from ..inference.bilm import BiLM
from .contexts import DocRuns


class BoundarySums(NamedTuple):
    """Sums over the layers of the boundaries `<S>` and `</S>` around the sequences that the biLM reads.

    n_boundaries (int): Two per sequence.
    sums (NDArray[numpy.float64]): Shape (L+1,), sums over all values of all boundaries.
    squares (NDArray[numpy.float64]): Shape (L+1,), sums of the squared values.
    """

    n_boundaries: int
    sums: NDArray[numpy.float64]
    squares: NDArray[numpy.float64]


class LayersWithBoundaries(NamedTuple):
    """Layers of tokens, and the sums of the boundaries for the norm.

    layers (Floats3d): Shape (L+1, T, D).
    boundaries (BoundarySums): Sums of the boundaries of the sequences with these tokens.
    """

    layers: Floats3d
    boundaries: BoundarySums


def add_boundary_sums(parts: Sequence[BoundarySums], n_layers: int) -> BoundarySums:
    """parts (Sequence[BoundarySums]): Sums of some Docs.
    n_layers (int): L+1.
    RETURNS (BoundarySums): The total.
    """
    zeros = numpy.zeros(n_layers)
    return BoundarySums(
        sum(int(part.n_boundaries) for part in parts),
        sum((part.sums for part in parts), zeros),
        sum((part.squares for part in parts), zeros),
    )


def compute_boundary_sums(bilm: BiLM, found: DocRuns, *, state: str, batch_tokens: int) -> List[BoundarySums]:
    """Compute the layers of the boundaries, and sum them.

    bilm (BiLM): The biLM.
    found (DocRuns): The runs of the Docs.
    state (str): Initial state of runs.
    batch_tokens (int): Tokens computed at once.
    RETURNS (List[BoundarySums]): For each Doc the sums over all its runs.
    """
    bounds = [0, *accumulate(found.doc_runs)]
    runs_of_docs = [found.runs[start:end] for start, end in zip(bounds, bounds[1:])]
    together = runs_of_docs if state == "carry" else [found.runs]  # the state ends with the Doc
    boundaries: List[Any] = []  # (L+1, 2, D) for each run
    for runs in together:
        stacks = bilm.embed(runs, state=state, batch_tokens=batch_tokens, boundaries=True)
        boundaries.extend(stack[:, [0, -1]].astype("float64") for stack in stacks)
    return [_sum_boundaries(boundaries[start:end], bilm.config.n_layers + 1) for start, end in zip(bounds, bounds[1:])]


def boundary_columns(boundaries: Optional[BoundarySums], xp: Any) -> Tuple[int, Any, Any]:
    """boundaries (Optional[BoundarySums]): The sums, None if the norm does not include boundaries.
    xp (Any): NumPy or cupy.
    RETURNS (Tuple[int, Any, Any]): Number of boundaries, and their sums and squares with shape (L+1, 1, 1).
    """
    if boundaries is None:
        return 0, 0.0, 0.0
    columns = [xp.asarray(values, dtype="float64")[:, None, None] for values in (boundaries.sums, boundaries.squares)]
    return int(boundaries.n_boundaries), columns[0], columns[1]


def boundaries_without_gradient() -> ValueError:
    """RETURNS (ValueError): The error of AllenNLP's norm with a biLM that is trained."""
    return ValueError(
        'layer_norm is "allennlp", but the biLM is trained (frozen = false). This norm includes the vectors of BOS '
        'and EOS, which have no gradient. Set layer_norm = "bilm-tf" or "token", or frozen = true.'
    )


def _sum_boundaries(boundaries: Sequence[Any], n_layers: int) -> BoundarySums:
    zeros = numpy.zeros(n_layers)
    sums = sum((layers.sum(axis=(1, 2)) for layers in boundaries), zeros)
    return BoundarySums(2 * len(boundaries), sums, sum(((layers**2).sum(axis=(1, 2)) for layers in boundaries), zeros))
