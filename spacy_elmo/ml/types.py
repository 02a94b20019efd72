"""What the biLM hands to the layers above it."""

from dataclasses import dataclass
from typing import List, NamedTuple, Optional, Sequence

import numpy
from numpy.typing import NDArray
from thinc.types import Floats3d


class MarkSums(NamedTuple):
    """What the layers say of the sentence marks `<S>` and `</S>` around the sequences that the biLM read.

    n_marks (int): Two for each sequence.
    sums (NDArray[numpy.float64]): Shape (L+1,), over all values of all marks.
    squares (NDArray[numpy.float64]): Shape (L+1,), the same of the squared values.
    """

    n_marks: int
    sums: NDArray[numpy.float64]
    squares: NDArray[numpy.float64]


class MarkedLayers(NamedTuple):
    """Layers of tokens, beside what AllenNLP's layer norm counts with them.

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


@dataclass(frozen=True)
class ElmoBatch:
    """The layers of a batch of Docs, token after token, Doc after Doc.

    layers (Floats3d): Shape (L+1, T, D), T the tokens of all Docs together. Space tokens have rows of zeros.
    lengths (List[int]): Tokens of each Doc; they sum to T.
    marks (Optional[MarkSums]): Of all Docs together, where a listener asks for them.
    """

    layers: Floats3d
    lengths: List[int]
    marks: Optional[MarkSums] = None

    @property
    def width(self) -> int:
        """RETURNS (int): D, the width of a vector."""
        return int(self.layers.shape[2])
