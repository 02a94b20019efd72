"""Runs an encoder that computes whole sequences, without recurrent state."""

from typing import Any, Optional, Tuple

import torch
from torch import Tensor

from ..bilm.model import BiLMNetwork
from ..bilm.state import State
from ..text.lanes import Ids, LanePlan
from .workspace import Workspace


class WholeSequenceRunner:
    """See `Runner`. The sequences of a plan have their boundaries.

    network (BiLMNetwork): With constant weights.
    """

    def __init__(self, network: BiLMNetwork) -> None:
        self._encoder: Any = network.encoder

    @torch.no_grad()
    def run(
        self,
        vectors: Tensor,
        words: Tuple[Ids, ...],
        plan: LanePlan,
        start: State,
        *,
        slots: Optional[Tuple[Ids, ...]] = None,
        with_end: bool = False,
        workspace: Optional[Workspace] = None,
    ) -> Tuple[Tensor, Optional[State]]:
        """See `Runner.run`."""
        tokens = torch.from_numpy(words[0]).to(vectors.device)
        return self._encoder.encode(vectors, tokens, plan.lengths.tolist()), start

    def prepare(self) -> None:
        """Do nothing: nothing is derived from the weights."""
