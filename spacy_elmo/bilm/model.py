"""The biLM of Peters et al. (2018): words in, the layers of both directions out."""

from typing import List, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from .char_cnn import CharCNN
from .config import BiLMConfig
from .encoder import make_encoder
from .initialization import uniform_
from .state import State


class BiLMNetwork(nn.Module):
    """The parameters of a biLM and its forward pass with gradients; constant networks are run by `engine/`.

    config (BiLMConfig): Sizes and switches.
    sparse_words (bool): Attribute: gradients of the word embedding are sparse, the rows that were used.
    """

    sparse_words: bool = False

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.config = config
        self.char_cnn: Optional[CharCNN] = None
        self.word_embedding: Optional[nn.Parameter] = None
        if config.char_cnn is not None:
            self.char_cnn = CharCNN(config.char_cnn, config.projection_width)
        elif config.n_words is not None:
            self.word_embedding = nn.Parameter(torch.empty(config.n_words, config.projection_width))
            uniform_(self.word_embedding, -1.0, 1.0)
        self.encoder = make_encoder(config)

    @property
    def device(self) -> torch.device:
        """RETURNS (torch.device): Where the weights are."""
        return self.encoder.device

    def word_vectors(self, ids: Tensor, lengths: Optional[Sequence[int]] = None) -> Tensor:
        """Encode distinct words.

        ids (Tensor): Shape (U, C) character ids, or (U,) word ids for word input.
        lengths (Optional[Sequence[int]]): Character ids of each word without padding; see `CharCNN`.
        RETURNS (Tensor): Shape (U, P).
        """
        if self.word_embedding is not None:
            return nn.functional.embedding(ids, self.word_embedding, sparse=self.sparse_words)
        return self.char_cnn(ids, lengths)  # type: ignore[misc, no-any-return]  # the config has one of the two

    def zero_state(self, n_rows: int) -> State:
        """RETURNS (State): Of sequences that begin, one row each."""
        return self.encoder.zero_state(n_rows)

    def forward(
        self,
        vectors: Tensor,
        index: Tensor,
        state: State,
        *,
        resets: Optional[Tensor] = None,
        input_dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
    ) -> Tuple[List[Tensor], State]:
        """Run all layers over lanes, attached to the graph.

        vectors (Tensor): Shape (U, P), the distinct words.
        index (Tensor): Shape (d, S, B), the word in each slot; each direction in its own reading order.
        state (State): Of the lanes, from `zero_state` or the call before.
        resets (Optional[Tensor]): Shape (S, B) bool, where a sequence begins and the state is zero.
        input_dropout (float): Dropped share of every layer's input while training.
        recurrent_dropout (float): Dropped share of every recurrent input while training, the same mask at all steps.
        RETURNS (Tuple[List[Tensor], State]): One (d, S, B, P) per layer, and the state after the last step.
        """
        layers, after = self.encoder(
            vectors, index, state, resets=resets, input_dropout=input_dropout, recurrent_dropout=recurrent_dropout
        )
        return layers, after
