"""The biLM of Peters et al. (2018): words in, the layers of both directions out."""

from typing import List, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from .char_cnn import CharCNN
from .config import BiLMConfig
from .highway import LayerHighway
from .lstm import LSTMLayer

State = List[Tuple[Tensor, Tensor]]


class BiLMNetwork(nn.Module):
    """The parameters of a biLM and its forward pass with gradients; inference runs in `encoding/`.

    config (BiLMConfig): Sizes and switches.
    sparse_words (bool): Attribute: gradients of the word embedding hold the rows that were met, and nothing else.
    precision (str): Attribute: of the heavy weights, "float32" unless `low_precision.lower` changed it.
    """

    sparse_words: bool = False
    precision: str = "float32"

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.config = config
        self.char_cnn: Optional[CharCNN] = None
        self.word_embedding: Optional[nn.Parameter] = None
        if config.char_cnn is not None:
            self.char_cnn = CharCNN(config.char_cnn, config.projection_width)
        elif config.n_words is not None:
            self.word_embedding = nn.Parameter(torch.empty(config.n_words, config.projection_width))
            nn.init.uniform_(self.word_embedding, -1.0, 1.0)
        self.lstm = nn.ModuleList(LSTMLayer(config) for _ in range(config.n_layers))
        n_highways = config.n_layers - 1 if config.highway_between else 0
        self.between = nn.ModuleList(
            LayerHighway(config.n_directions, config.projection_width) for _ in range(n_highways)
        )

    def word_vectors(self, ids: Tensor, lengths: Optional[Sequence[int]] = None) -> Tensor:
        """Encode distinct words.

        ids (Tensor): Shape (U, C) character ids, or (U,) word ids for word input.
        lengths (Optional[Sequence[int]]): Character ids of each word without padding; see `CharCNN`.
        RETURNS (Tensor): Shape (U, P).
        """
        if self.word_embedding is not None:
            return nn.functional.embedding(ids, self.word_embedding, sparse=self.sparse_words)
        return self.char_cnn(ids, lengths)  # type: ignore[misc, no-any-return]

    def zero_state(self, n_lanes: int) -> State:
        """RETURNS (State): For each layer h (d, B, P) and c (d, B, H), all zero."""
        config, like = self.config, self.lstm[0].bias
        h = like.new_zeros(config.n_directions, n_lanes, config.projection_width)  # type: ignore[operator]
        c = like.new_zeros(config.n_directions, n_lanes, config.cell_width)  # type: ignore[operator]
        return [(h, c)] * config.n_layers

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
        index (Tensor): Shape (d, S, B), which word stands where; each direction in its own reading order.
        state (State): Where the lanes stand, from `zero_state` or the call before.
        resets (Optional[Tensor]): Shape (S, B) bool, where a sequence begins and the state is zero.
        input_dropout (float): Dropped share of every LSTM input while training.
        recurrent_dropout (float): Dropped share of every recurrent input while training, the same places at all steps.
        RETURNS (Tuple[List[Tensor], State]): One (d, S, B, P) per layer, and the state after the last step.
        """
        d, n_steps, n_lanes = index.shape
        layers: List[Tensor] = []
        new_state: State = []
        inputs: Optional[Tensor] = None
        for layer, (h, c) in zip(self.lstm, state):
            if inputs is None:
                gates = self._first_gates(vectors, index, input_dropout)
            else:
                dropped = nn.functional.dropout(inputs, input_dropout, self.training)
                gates = layer.input_gates(dropped.flatten(1, 2)).view(d, n_steps, n_lanes, -1)  # type: ignore[operator]
            outputs, h, c = layer(gates, h, c, resets, recurrent_dropout)  # (d, S, B, P)
            new_state.append((h, c))
            inputs = outputs if inputs is None else self._past(len(layers) - 1, inputs, outputs)
            layers.append(inputs)
        return layers, new_state

    def _past(self, k: int, inputs: Tensor, outputs: Tensor) -> Tensor:
        """What goes on from a layer above the first; `k` counts from 0."""
        if self.config.highway_between:
            return self.between[k](inputs, outputs)  # type: ignore[no-any-return]
        return outputs + inputs if self.config.has_skip else outputs

    def _first_gates(self, vectors: Tensor, index: Tensor, input_dropout: float) -> Tensor:
        """Input product of the first layer: once per distinct word, unless dropout makes every token its own."""
        d, n_steps, n_lanes = index.shape
        layer = self.lstm[0]
        if input_dropout and self.training:
            inputs = nn.functional.embedding(index.flatten(1), vectors)  # (d, S * B, P)
            inputs = nn.functional.dropout(inputs, input_dropout)
            return layer.input_gates(inputs).view(d, n_steps, n_lanes, -1)  # type: ignore[operator, no-any-return]
        by_word = layer.input_gates(vectors.unsqueeze(0))  # type: ignore[operator]  # (d, U, 4H)
        n_words = len(vectors)
        firsts = torch.arange(0, d * n_words, n_words, device=index.device).view(d, 1, 1)
        return nn.functional.embedding(index + firsts, by_word.flatten(0, 1))  # (d, S, B, 4H)
