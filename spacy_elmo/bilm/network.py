"""The biLM of Peters et al. (2018), from words to the layers of both directions; its softmax, with the same weights for
both directions (sec. 3.1); the rates of its layers in fine-tuning (Howard & Ruder 2018).
"""

import math
import re
from abc import ABC, abstractmethod
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from .char_cnn import CharCNN, TokenEmbedder
from .config import BiLMConfig
from .layers import LSTM, Linear, new_parameter, normal_, uniform_
from .lstm import HALF_PRECISION, LSTMStack
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

    def forward(self, vectors: Tensor, index: Tensor, state: State, **settings: Any) -> Tuple[List[Tensor], State]:
        """Run all layers over lanes, attached to the graph.

        vectors (Tensor): Shape (U, P), vectors of the distinct words.
        index (Tensor): Shape (d, S, B), the word in each slot; each direction in its own reading order.
        state (State): State of the lanes, from `zero_state` or the previous call.
        resets (Optional[Tensor]): Shape (S, B) bool, true where a sequence begins and the state is zero.
        positions (Optional[Tensor]): Shape (d, S, B), the position of each slot in the text of its sequence, for an
            encoder that reads positions. None counts the slots from `resets`, in the backward direction from the end.
        input_dropout (float): Dropout of the input of every layer during training.
        recurrent_dropout (float): Dropout of every recurrent input during training, with the same mask at all steps; of
            the attention weights of a transformer.
        RETURNS (Tuple[List[Tensor], State]): One (d, S, B, P) per layer, and the state after the last step.
        """
        layers, after = self.encoder(vectors, index, state, **settings)
        return layers, after


class BiLSTMStack(nn.Module):
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
        outputs = torch.cat([sequence_rows[:n] for sequence_rows, n in zip(padded, lengths)])  # (N, 2H)
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
    "bilstm": BiLSTMStack,
    "transformer": TransformerStack,
}


# The softmax

# A tile is the scores in memory at once on a CPU without gradients: rows by words. It fits in the cache, and one array
# is reused. With 30,000 words, all scores of a row at once take 2.2 times the CPU time, half of it for new pages.
TILE_ROWS, TILE_WORDS = 512, 2048


class LMHead(nn.Module, ABC):
    """Base class of all kinds of softmax, over V words for directions of width P."""

    def __init__(self, n_words: int, width: int) -> None:
        super().__init__()
        self.n_words = n_words
        self.width = width

    @property
    def n_scores(self) -> int:
        """Number of scores that one row of `row_losses` needs."""
        return self.n_words

    @abstractmethod
    def forward(self, outputs: Tensor) -> Tensor:
        """Logits of all words: from (N, P) to (N, V)."""

    @abstractmethod
    def row_losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The same as `token_losses`, for all rows at once."""

    def token_losses(self, outputs: Tensor, targets: Tensor, *, max_scores: int = 2**25) -> Tensor:
        """Negative log likelihood (N,) of each target (N,), in nats, from outputs (N, P); computed some rows at a time.

        max_scores (int): Maximum number of scores in memory at once; on a CPU without gradients it is 2^20.
        """
        n_rows = max(1, len(outputs) if _uses_tiles(outputs) else max_scores // self.n_scores)
        losses = [
            self.row_losses(rows, row_targets)
            for rows, row_targets in zip(outputs.split(n_rows), targets.split(n_rows))
        ]
        return torch.cat(losses) if losses else outputs.new_zeros(0)


class SoftmaxHead(LMHead):
    """The full softmax."""

    def __init__(self, n_words: int, width: int) -> None:
        super().__init__(n_words, width)
        self.weight = new_parameter(n_words, width)
        self.bias = nn.Parameter(torch.zeros(n_words, dtype=torch.float32))
        normal_(self.weight, width**-0.5)

    @classmethod
    def tied(cls, word_table: Optional[nn.Parameter]) -> "SoftmaxHead":
        """Share the weight (V, P) with the word embedding (Press & Wolf 2017); the bias is its own.

        RAISES (ValueError): For character input, which has no word embedding.
        """
        if word_table is None:
            raise ValueError(
                "tie_weights is true, but this biLM has character input and no word embedding that the softmax could "
                "share. Set tie_weights = false, or use word input (n_words in place of char_cnn)."
            )
        n_words, width = word_table.shape
        with torch.device("meta"):
            head = cls(n_words, width)
        head.weight = word_table
        head.bias = nn.Parameter(torch.zeros(n_words, dtype=word_table.dtype, device=word_table.device))
        return head

    def copy_rows(self, other: "SoftmaxHead", rows: Sequence[int], other_rows: Sequence[int]) -> None:
        """Overwrite weights and biases of `rows` by `other_rows` of another softmax: the words that both have."""
        with torch.no_grad():
            self.weight[list(rows)] = other.weight[list(other_rows)].to(self.weight)
            self.bias[list(rows)] = other.bias[list(other_rows)].to(self.bias)

    def forward(self, outputs: Tensor) -> Tensor:
        return nn.functional.linear(outputs, self.weight, self.bias)

    def row_losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return _cross_entropy(outputs, self.weight, self.bias, targets)


class AdaptiveTail(nn.Module):
    """A cluster of rarer words. Outputs are first projected to a smaller width, so that a word costs less."""

    def __init__(self, n_words: int, width: int, tail_width: int) -> None:
        super().__init__()
        self.narrow = new_parameter(tail_width, width)
        self.weight = new_parameter(n_words, tail_width)
        self.bias = nn.Parameter(torch.zeros(n_words, dtype=torch.float32))
        normal_(self.narrow, width**-0.5)
        normal_(self.weight, tail_width**-0.5)

    def forward(self, outputs: Tensor) -> Tensor:
        """From (N, P) to (N, words of the cluster), before the softmax."""
        return nn.functional.linear(nn.functional.linear(outputs, self.narrow), self.weight, self.bias)

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Losses (N,) in nats, given the cluster; targets are numbers within it."""
        return _cross_entropy(nn.functional.linear(outputs, self.narrow), self.weight, self.bias, targets)


class AdaptiveHead(LMHead):
    """Adaptive softmax over frequent words and clusters of rarer words, each with its own softmax (Grave et al. 2017).

    P(word) = P(word) for a frequent word, P(cluster) * P(word | cluster) for a word of a cluster. It is exact: nothing
    is sampled. Words are sorted by frequency.

    cutoffs (Sequence[int]): First word of each cluster, ascending, below V.
    div_value (float): Cluster k has width P / div_value^(k + 1), k from 0.
    RAISES (ValueError): For cutoffs that are not ascending between 0 and V, or a divisor below 1.
    """

    def __init__(self, n_words: int, width: int, cutoffs: Sequence[int], div_value: float = 4.0) -> None:
        super().__init__(n_words, width)
        self.cutoffs = [int(cutoff) for cutoff in cutoffs]
        self.div_value = float(div_value)
        bounds = [0, *self.cutoffs, n_words]
        if not self.cutoffs or sorted(set(bounds)) != bounds or self.div_value < 1:
            raise ValueError(
                f"An adaptive softmax over {n_words} words cannot have cutoffs {list(cutoffs)} with div_value "
                f"{div_value}. Set cutoffs to one or more ascending integers from 1 to below the vocabulary size, and "
                "div_value to 1 or more."
            )
        n_first = self.cutoffs[0] + len(self.cutoffs)
        self.weight = new_parameter(n_first, width)
        self.bias = nn.Parameter(torch.zeros(n_first, dtype=torch.float32))
        normal_(self.weight, width**-0.5)
        self.tails = nn.ModuleList(
            AdaptiveTail(stop - start, width, max(1, int(width / self.div_value ** (k + 1))))
            for k, (start, stop) in enumerate(zip(bounds[1:], bounds[2:]))
        )

    @property
    def settings(self) -> Dict[str, Any]:
        """Arguments of the constructor without the width, plain JSON types."""
        return {"n_words": self.n_words, "cutoffs": list(self.cutoffs), "div_value": self.div_value}

    @property
    def n_scores(self) -> int:
        bounds = [*self.cutoffs, self.n_words]
        return self.cutoffs[0] + len(self.cutoffs) + max(stop - start for start, stop in zip(bounds, bounds[1:]))

    def forward(self, outputs: Tensor) -> Tensor:
        """Log probabilities, which are also logits: from (N, P) to (N, V)."""
        first = _log_softmax(nn.functional.linear(outputs, self.weight, self.bias))
        n_frequent = self.cutoffs[0]
        log_probs: List[Tensor] = [first[:, :n_frequent]]
        for k, tail in enumerate(self.tails):
            log_probs.append(first[:, n_frequent + k, None] + _log_softmax(tail(outputs)))
        return torch.cat(log_probs, dim=1)

    def row_losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The same as `token_losses`; each cluster is computed for its own targets only.

        Clusters without targets are computed with zero rows, so that all parameters have a gradient in every update.
        """
        n_frequent = self.cutoffs[0]
        cuts = torch.as_tensor(self.cutoffs, device=targets.device)
        cluster = torch.bucketize(targets, cuts, right=True)  # 0: a frequent word
        first_targets = torch.where(cluster == 0, targets, n_frequent - 1 + cluster)
        losses = _cross_entropy(outputs, self.weight, self.bias, first_targets)
        for k, tail in enumerate(self.tails):
            rows = (cluster == k + 1).nonzero().squeeze(1)
            within = tail.losses(outputs[rows], targets[rows] - self.cutoffs[k])  # type: ignore[operator]  # an AdaptiveTail
            losses = losses.index_add(0, rows, within)
        return losses


def _uses_tiles(outputs: Tensor) -> bool:
    return outputs.device.type == "cpu" and outputs.dtype not in HALF_PRECISION and not torch.is_grad_enabled()


def _cross_entropy(outputs: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """-log softmax(x W + b) of the targets, shape (N,)."""
    if not _uses_tiles(outputs):
        scores = nn.functional.linear(outputs, weight, bias)
        return nn.functional.cross_entropy(_exact(scores), targets, reduction="none")
    losses = outputs.new_empty(len(outputs))
    buffer = outputs.new_empty(min(TILE_ROWS, len(outputs)) * min(TILE_WORDS, len(weight)))
    for rows, row_targets, out in zip(outputs.split(TILE_ROWS), targets.split(TILE_ROWS), losses.split(TILE_ROWS)):
        _tile_losses(rows, row_targets, weight, bias, buffer, out)
    return losses


def _tile_losses(rows: Tensor, targets: Tensor, weight: Tensor, bias: Tensor, buffer: Tensor, out: Tensor) -> None:
    """Keep the largest score and the sum of exponentials relative to it, from tile to tile of words (Milakov &
    Gimelshein 2018). These sums are more exact than in `torch.log_softmax`, which adds 30,000 terms of different
    size in a few accumulators and loses 3e-6 of the mean loss.
    """
    largest = rows.new_full((len(rows), 1), torch.finfo(rows.dtype).min)  # finite: all words of a tile may have -inf
    total, target_scores, columns = torch.zeros_like(largest), largest * math.nan, targets.unsqueeze(1)  # (n, 1)
    for first in range(0, len(weight), TILE_WORDS):
        tile_weight = weight[first : first + TILE_WORDS]
        n_words = len(tile_weight)
        scores = buffer[: len(rows) * n_words].view(len(rows), n_words)
        torch.addmm(bias[first : first + TILE_WORDS], rows, tile_weight.t(), out=scores)
        place = (columns - first).clamp_(0, n_words - 1)
        target_scores = torch.where(place == columns - first, scores.gather(1, place), target_scores)
        before, largest = largest, torch.maximum(largest, scores.amax(dim=1, keepdim=True))
        total.mul_(before.sub_(largest).exp_()).add_(scores.sub_(largest).exp_().sum(dim=1, keepdim=True))
    torch.sub(total.log_(), target_scores.sub_(largest), out=out.unsqueeze(1))


def _log_softmax(scores: Tensor) -> Tensor:
    return torch.log_softmax(_exact(scores), dim=1)


def _exact(scores: Tensor) -> Tensor:
    """Convert to float32, since sums over many words need it and products under autocast may be in half precision."""
    return scores.float() if scores.dtype in HALF_PRECISION else scores


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
    if name.startswith(("encoder.lstm.", "encoder.projection.")):  # a `BiLSTMStack` is one layer
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
