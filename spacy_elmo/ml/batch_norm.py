"""What AllenNLP's layer norm needs besides the layers of the tokens: it counts the sentence boundaries, too.

Mean and variance run over all values of a batch, those of `<S>` and `</S>` around each sequence included. No other
part of the package has a use for these rows, so the layers are computed once more, with them. They enter the norm as
sums, and get no gradient.
"""

from itertools import accumulate
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy
from numpy.typing import NDArray
from thinc.types import Floats3d

from ..encoding.facade import BiLM
from .contexts import DocRuns


class MarkSums(NamedTuple):
    """Sums over the layers of the boundaries `<S>` and `</S>` around the sequences that the biLM reads.

    n_marks (int): Two for each sequence.
    sums (NDArray[numpy.float64]): Shape (L+1,), over all values of all boundaries.
    squares (NDArray[numpy.float64]): Shape (L+1,), the same of the squared values.
    """

    n_marks: int
    sums: NDArray[numpy.float64]
    squares: NDArray[numpy.float64]


class MarkedLayers(NamedTuple):
    """Layers of tokens, and what the norm counts with them.

    layers (Floats3d): Shape (L+1, T, D).
    marks (MarkSums): Of the sequences that the tokens stood in.
    """

    layers: Floats3d
    marks: MarkSums


def add_marks(parts: Sequence[MarkSums], n_layers: int) -> MarkSums:
    """parts (Sequence[MarkSums]): Of some Docs.
    n_layers (int): L+1.
    RETURNS (MarkSums): Of all of them together.
    """
    zeros = numpy.zeros(n_layers)
    return MarkSums(
        sum(int(part.n_marks) for part in parts),
        sum((part.sums for part in parts), zeros),
        sum((part.squares for part in parts), zeros),
    )


def compute_marks(bilm: BiLM, found: DocRuns, *, state: str, batch_tokens: int) -> List[MarkSums]:
    """Compute the layers of the boundaries.

    bilm (BiLM): The biLM.
    found (DocRuns): What it reads of the Docs.
    state (str): The state that runs begin with.
    batch_tokens (int): Tokens computed at once.
    RETURNS (List[MarkSums]): For each Doc, of all its runs.
    """
    bounds = [0, *accumulate(found.doc_runs)]
    runs_of_docs = [found.runs[start:end] for start, end in zip(bounds, bounds[1:])]
    together = runs_of_docs if state == "carry" else [found.runs]  # the state ends with the Doc
    marks: List[Any] = []  # (L+1, 2, D) for each run
    for runs in together:
        stacks = bilm.embed(runs, state=state, batch_tokens=batch_tokens, boundaries=True)
        marks.extend(stack[:, [0, -1]].astype("float64") for stack in stacks)
    return [_sum_marks(marks[start:end], bilm.config.n_layers + 1) for start, end in zip(bounds, bounds[1:])]


def marks_as_columns(marks: Optional[MarkSums], xp: Any) -> Tuple[int, Any, Any]:
    """marks (Optional[MarkSums]): The sums, None where the norm counts no boundaries.
    xp (Any): NumPy or cupy.
    RETURNS (Tuple[int, Any, Any]): Number of boundaries, and their sums and squares with shape (L+1, 1, 1).
    """
    if marks is None:
        return 0, 0.0, 0.0
    columns = [xp.asarray(values, dtype="float64")[:, None, None] for values in (marks.sums, marks.squares)]
    return int(marks.n_marks), columns[0], columns[1]


def _sum_marks(marks: Sequence[Any], n_layers: int) -> MarkSums:
    zeros = numpy.zeros(n_layers)
    sums = sum((layers.sum(axis=(1, 2)) for layers in marks), zeros)
    return MarkSums(2 * len(marks), sums, sum(((layers**2).sum(axis=(1, 2)) for layers in marks), zeros))
