"""The context encoder of a biLM, selected by its config."""

from typing import Callable, Dict, List, Optional, Protocol, Tuple

import torch
from torch import Tensor

from .bilstm import BiLSTM
from .config import BiLMConfig
from .lstm import LSTMStack
from .state import State
from .transformer import TransformerStack


class ContextEncoder(Protocol):
    """A module that computes layers from word vectors. `BiLMConfig.has_state` says whether it has a recurrent state."""

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
        positions: Optional[Tensor] = None,
        input_dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
    ) -> Tuple[List[Tensor], State]:
        """See `BiLMNetwork.forward`."""


# By the value of `BiLMConfig.encoder`. `inference.runner.RUNNERS` has the runner of each for inference.
ENCODERS: Dict[str, Callable[[BiLMConfig], ContextEncoder]] = {
    "lstm": LSTMStack,
    "bilstm": BiLSTM,
    "transformer": TransformerStack,
}


def make_encoder(config: BiLMConfig) -> ContextEncoder:
    """config (BiLMConfig): Selects the encoder and its sizes.
    RETURNS (ContextEncoder): A module with random weights.
    """
    return ENCODERS[config.encoder](config)
