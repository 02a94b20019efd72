"""The context encoder of a biLM, selected by its config."""

from typing import Callable, Dict, List, Optional, Protocol, Tuple

import torch
from torch import Tensor

from .bilstm import BiLSTM
from .config import BiLMConfig
from .lstm import LSTMStack
from .state import State


class ContextEncoder(Protocol):
    """A module that computes layers from word vectors.

    has_state (bool): Whether there is a recurrent state and the directions are independent. Otherwise whole sequences
        are computed by `BiLSTM.encode`.
    """

    has_state: bool

    @property
    def device(self) -> torch.device:
        """RETURNS (torch.device): Device of the weights."""

    def zero_state(self, n_rows: int) -> State:
        """RETURNS (State): Initial state of `n_rows` sequences."""

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


# By the value of `BiLMConfig.encoder`. `engine.runner.RUNNERS` has the runner of each for inference.
ENCODERS: Dict[str, Callable[[BiLMConfig], ContextEncoder]] = {"lstm": LSTMStack, "bilstm": BiLSTM}


def make_encoder(config: BiLMConfig) -> ContextEncoder:
    """config (BiLMConfig): Selects the encoder and its sizes.
    RETURNS (ContextEncoder): A module with random weights.
    """
    return ENCODERS[config.encoder](config)
