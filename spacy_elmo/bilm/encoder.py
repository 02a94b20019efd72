"""The encoder above the words of a biLM, chosen by its config: one protocol, one table."""

from typing import Callable, Dict, List, Optional, Protocol, Tuple

import torch
from torch import Tensor

from .config import BiLMConfig
from .lstm import LSTMStack
from .state import State


class ContextEncoder(Protocol):
    """A module that computes layers from word vectors; the directions are independent."""

    @property
    def device(self) -> torch.device:
        """RETURNS (torch.device): Where the weights are."""

    def zero_state(self, n_rows: int) -> State:
        """RETURNS (State): Of sequences that begin, one row each."""

    def __call__(
        self,
        vectors: Tensor,
        index: Tensor,
        state: State,
        *,
        resets: Optional[Tensor] = None,
        input_dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
    ) -> Tuple[List[Tensor], State]:
        """See `BiLMNetwork.forward`."""


# By the name that `BiLMConfig.encoder` gives; `engine.runner.RUNNERS` has how each is run for inference.
ENCODERS: Dict[str, Callable[[BiLMConfig], ContextEncoder]] = {"lstm": LSTMStack}


def make_encoder(config: BiLMConfig) -> ContextEncoder:
    """config (BiLMConfig): Says which encoder, and its sizes.
    RETURNS (ContextEncoder): A module, with random weights.
    """
    return ENCODERS[config.encoder](config)
