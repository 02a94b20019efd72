"""What the biLM hands to the layers above it."""

from dataclasses import dataclass
from typing import List

from thinc.types import Floats3d


@dataclass(frozen=True)
class ElmoBatch:
    """The layers of a batch of Docs, token after token, Doc after Doc.

    layers (Floats3d): Shape (L+1, T, D), T the tokens of all Docs together. Space tokens have rows of zeros.
    lengths (List[int]): Tokens of each Doc; they sum to T.
    """

    layers: Floats3d
    lengths: List[int]

    @property
    def width(self) -> int:
        """RETURNS (int): D, the width of a vector."""
        return int(self.layers.shape[2])
