"""The output of the ELMo model."""

from dataclasses import dataclass
from typing import List, Optional

from thinc.types import Floats3d

from .batch_norm import BoundarySums


@dataclass(frozen=True)
class ElmoBatch:
    """The layers of a batch of Docs, concatenated.

    layers (Floats3d): Shape (L+1, T, D), with T tokens in all Docs. Space tokens have rows of zeros.
    lengths (List[int]): Tokens of each Doc; they sum to T.
    boundaries (Optional[BoundarySums]): Sums of the boundaries of all Docs, if a listener needs them.
    """

    layers: Floats3d
    lengths: List[int]
    boundaries: Optional[BoundarySums] = None

    @property
    def width(self) -> int:
        """RETURNS (int): D, the width of a vector."""
        return int(self.layers.shape[2])
