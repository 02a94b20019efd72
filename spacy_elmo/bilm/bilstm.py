"""A bidirectional LSTM with a projection: the encoder `lstm` of ELMoForManyLangs (Che et al. 2018).

Each of its layers reads both directions of the layer below, so it is not a language model, and has no state that a
next sequence could continue. Only the projection of its last layer is a layer of the biLM.
"""

from typing import List, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from ..errors import Errors
from .config import BiLMConfig
from .initialization import LSTM, Linear
from .state import State


class BiLSTM(nn.Module):
    """config (BiLMConfig): Sizes."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.config = config
        self.lstm = LSTM(
            config.projection_width, config.cell_width, num_layers=config.encoder_depth, bidirectional=True
        )
        self.projection = Linear(config.cell_width, config.projection_width)

    @property
    def device(self) -> torch.device:
        """RETURNS (torch.device): Device of the weights."""
        return self.projection.weight.device

    def zero_state(self, n_rows: int) -> State:
        """RETURNS (State): Without tensors."""
        return State(())

    def encode(self, vectors: Tensor, tokens: Tensor, lengths: Sequence[int]) -> Tensor:
        """Compute whole sequences.

        vectors (Tensor): Shape (U, P), vectors of the distinct words.
        tokens (Tensor): Shape (N,), the word of each token of the concatenated sequences, with boundaries.
        lengths (Sequence[int]): Tokens of each sequence, 1 or more.
        RETURNS (Tensor): Shape (2, N, 2P): the word vectors twice, and the projected last layer.
        """
        rows = vectors[tokens]  # (N, P)
        packed = nn.utils.rnn.pack_sequence(list(rows.split(list(lengths))), enforce_sorted=False)
        encoded, _ = self.lstm(packed)
        padded, _ = nn.utils.rnn.pad_packed_sequence(encoded, batch_first=True)  # (B, S, 2H)
        outputs = torch.cat([part[:n] for part, n in zip(padded, lengths)])  # (N, 2H)
        projected = self.projection(outputs.view(len(rows), 2, -1)).flatten(1)  # (N, 2P)
        return torch.stack([torch.cat([rows, rows], dim=1), projected])

    def forward(
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
        """RAISES (ValueError): EL302, since lanes of text with a carried state cannot be computed."""
        raise ValueError(Errors.EL302)
