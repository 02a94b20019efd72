"""What the biLM hands to the layers above it."""

from dataclasses import dataclass
from typing import List, Optional

from thinc.types import Floats3d

from .batch_norm import MarkSums


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
