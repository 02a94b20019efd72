"""The biLM of Peters et al. (2018), which maps words to the layers of both directions."""

from typing import List, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from .char_cnn import CharCNN
from .config import BiLMConfig
from .encoder import make_encoder
from .initialization import new_parameter, uniform_
from .state import State
from .token_embedder import TokenEmbedder


class BiLMNetwork(nn.Module):
    """The parameters of a biLM and its forward pass with gradients. `inference/` runs networks with constant weights.

    config (BiLMConfig): Sizes and options.
    sparse_words (bool): Attribute: whether gradients of the word embedding are sparse (only the rows used).
    """

    sparse_words: bool = False

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.config = config
        self.char_cnn: Optional[CharCNN] = None
        self.token_embedder: Optional[TokenEmbedder] = None
        self.word_embedding: Optional[nn.Parameter] = None
        if config.char_cnn is not None:
            self.char_cnn = CharCNN(config.char_cnn, config.projection_width)
        elif config.token_embedder is not None:
            self.token_embedder = TokenEmbedder(config.token_embedder, config.projection_width)
        elif config.n_words is not None:
            self.word_embedding = new_parameter(config.n_words, config.projection_width)
            uniform_(self.word_embedding, -1.0, 1.0)
        self.encoder = make_encoder(config)

    @property
    def device(self) -> torch.device:
        """RETURNS (torch.device): Device of the weights."""
        return self.encoder.device

    def word_vectors(self, ids: Tensor, lengths: Optional[Sequence[int]] = None) -> Tensor:
        """Encode distinct words.

        ids (Tensor): Shape (U, C) ids of the codec, or (U,) word ids for word input.
        lengths (Optional[Sequence[int]]): Number of character ids of each word without padding; see `CharCNN`.
        RETURNS (Tensor): Shape (U, P).
        """
        if self.word_embedding is not None:
            return nn.functional.embedding(ids, self.word_embedding, sparse=self.sparse_words)
        module = self.char_cnn if self.token_embedder is None else self.token_embedder
        return module(ids, lengths)  # type: ignore[misc, no-any-return]  # the config has one of the three

    def zero_state(self, n_rows: int) -> State:
        """RETURNS (State): Initial state of `n_rows` sequences."""
        return self.encoder.zero_state(n_rows)

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
        """Run all layers over lanes, attached to the graph.

        vectors (Tensor): Shape (U, P), vectors of the distinct words.
        index (Tensor): Shape (d, S, B), the word in each slot; each direction in its own reading order.
        state (State): State of the lanes, from `zero_state` or the previous call.
        resets (Optional[Tensor]): Shape (S, B) bool, true where a sequence begins and the state is zero.
        positions (Optional[Tensor]): Shape (d, S, B), the position of each slot in the text of its sequence, for an
            encoder that reads positions. None counts the slots from `resets`, those of the backward direction from the
            end.
        input_dropout (float): Dropout of the input of every layer during training.
        recurrent_dropout (float): Dropout of every recurrent input during training, with the same mask at all steps; of
            the attention weights of a transformer.
        RETURNS (Tuple[List[Tensor], State]): One (d, S, B, P) per layer, and the state after the last step.
        """
        layers, after = self.encoder(
            vectors,
            index,
            state,
            resets=resets,
            positions=positions,
            input_dropout=input_dropout,
            recurrent_dropout=recurrent_dropout,
        )
        return layers, after
