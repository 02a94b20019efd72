"""The biLM of Peters et al. (2018), which maps words to the layers of both directions, and the rates of its layers in
fine-tuning (Howard and Ruder 2018)."""

import re
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from .char_cnn import CharCNN, TokenEmbedder
from .config import BiLMConfig
from .layers import LSTM, Linear, new_parameter, uniform_
from .lstm import LSTMStack
from .state import State
from .transformer import TransformerStack


class BiLMNetwork(nn.Module):
    """The parameters of a biLM and its forward pass with gradients. `inference/` runs networks with constant weights.
    The attribute `sparse_words` says whether gradients of the word embedding are sparse (only the rows used),
    `precision` in which precision `inference.products` has quantized the matrices.
    """

    sparse_words: bool = False
    precision: str = "float32"

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
        self.encoder: Any = ENCODERS[config.encoder](config)

    @property
    def device(self) -> torch.device:
        device: torch.device = self.encoder.device
        return device

    def word_vectors(self, ids: Tensor, lengths: Optional[Sequence[int]] = None) -> Tensor:
        """Encode distinct words: ids (U, C) of the codec, or word ids (U,) for word input, to (U, P).

        lengths (Optional[Sequence[int]]): Number of character ids of each word without padding; see `CharCNN`.
        """
        if self.word_embedding is not None:
            return nn.functional.embedding(ids, self.word_embedding, sparse=self.sparse_words)
        module = self.char_cnn if self.token_embedder is None else self.token_embedder
        return module(ids, lengths)  # type: ignore[misc, no-any-return]  # the config has one of the three

    def zero_state(self, n_rows: int) -> State:
        """Initial state of `n_rows` sequences; without tensors if the encoder has no state."""
        state: State = self.encoder.zero_state(n_rows)
        return state

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


class BiLSTM(nn.Module):
    """A bidirectional LSTM with a projection: the encoder `lstm` of ELMoForManyLangs (Che et al. 2018).

    Each of its layers reads both directions of the layer below, so it is not a language model, and has no state that a
    next sequence could continue. Only the projection of its last layer is a layer of the biLM.
    """

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.config = config
        self.lstm = LSTM(
            config.projection_width, config.cell_width, num_layers=config.encoder_depth, bidirectional=True
        )
        self.projection = Linear(config.cell_width, config.projection_width)

    @property
    def device(self) -> torch.device:
        return self.projection.weight.device

    def zero_state(self, n_rows: int) -> State:
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
        outputs = torch.cat([rows_of[:n] for rows_of, n in zip(padded, lengths)])  # (N, 2H)
        projected = self.projection(outputs.view(len(rows), 2, -1)).flatten(1)  # (N, 2P)
        return torch.stack([torch.cat([rows, rows], dim=1), projected])

    def forward(self, *lanes: Any, **settings: Any) -> Tuple[List[Tensor], State]:
        """RAISES (ValueError): Always, since lanes of text with a carried state cannot be computed."""
        raise ValueError(
            'A biLM with encoder = "bilstm" cannot be pretrained and has no perplexity: each of its layers reads both '
            'directions, so it sees the words that a language model predicts. Set encoder = "lstm".'
        )


# By the value of `BiLMConfig.encoder`. `inference.runner.RUNNERS` has the runner of each for inference.
ENCODERS: Dict[str, Callable[[BiLMConfig], nn.Module]] = {
    "lstm": LSTMStack,
    "bilstm": BiLSTM,
    "transformer": TransformerStack,
}


# Training layer by layer (Howard & Ruder 2018), for pretraining and for the component


def layer_parameters(network: BiLMNetwork) -> List[Dict[str, nn.Parameter]]:
    """The parameters by name for each layer, numbered like the layers of a Doc: from 0 (the character CNN or word
    embedding) to L (the top layer of the encoder).
    """
    n_layers = network.config.n_layers
    layers: List[Dict[str, nn.Parameter]] = [{} for _ in range(n_layers + 1)]
    for name, parameter in network.named_parameters():
        layers[_layer_of(name, n_layers)][name] = parameter
    return layers


def _layer_of(name: str, n_layers: int) -> int:
    if name.startswith(("encoder.lstm.", "encoder.projection.")):  # a `BiLSTM` is one layer
        return 1
    if name.startswith("encoder.norm."):  # the norm of a transformer's output
        return n_layers
    match = re.match(r"encoder\.(layers|highways|blocks)\.(\d+)\.", name)
    if match is None:
        return 0
    return int(match.group(2)) + 1 + (match.group(1) == "highways")  # the first highway is around the second layer


def n_unfrozen(n_layers: int, *, done: int, every: int, at_start: int) -> int:
    """Gradual unfreezing, sec. 3.3: layers to train now. One more is trained, from the top, at regular intervals.

    done (int), every (int): Updates or tokens so far, and those between two layers; 0 trains all from the start.
    """
    return min(n_layers, at_start + done // every) if every else n_layers


def slanted_triangle(t: float, *, total: float, cut: float, ratio: float) -> float:
    """Slanted triangular learning rates, sec. 3.2, eq. 3: a linear rise for a short time, then a linear fall.

    The paper has cut (1 / cut_frac - 1) for total - cut, which is the same number unless `cut` was rounded.

    t (float), total (float), cut (float): Updates or tokens so far, of the training, and at the peak; t <= total.
    ratio (float): The highest rate divided by the lowest one.
    RETURNS (float): The rate as a factor of the highest one.
    """
    height = t / cut if t < cut else (total - t) / (total - cut)
    return (1.0 + height * (ratio - 1.0)) / ratio
