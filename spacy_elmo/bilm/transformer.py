"""The transformer biLM of Peters et al. (2018b, "Dissecting Contextual Word Embeddings", sec. 2.2).

Two stacks of masked self-attention, one for each direction, over the same word vectors plus sinusoidal positions
(Vaswani et al. 2017). As in AllenNLP's `bidirectional_language_model_transformer`, each sublayer is normalized at its
input (pre-norm), layers below the top are the sums of the residual connection, and the top layer is normalized. Both
directions count positions in text order, from the first boundary of the sequence.

Rows of all sequences are in one matrix, without padding. Only attention pads: sequences of similar length are attended
to in one bucket. Padding follows the tokens, and the causal mask hides it from them.
"""

import math
from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..errors import Errors
from .config import BiLMConfig, TransformerConfig
from .layers import LayerNorm, constant_, new_parameter, normalize, uniform_
from .state import State

LARGEST_PERIOD = 10000.0
MAX_PADDING = 1.25  # longest over shortest sequence of a bucket
BUCKET_ROWS = 4096  # maximum rows of a bucket, padding included, unless it is one sequence

RowNumbers = NDArray[np.int64]


@dataclass(frozen=True)
class SequenceBuckets:
    """Sequences in buckets of similar length; attention is computed once per bucket.

    rows (Sequence[Tensor]): For each bucket shape (B, T), the row of each step in reading order.
    unpadded (Sequence[Optional[Tensor]]): For each bucket the places of its rows without padding, None for all.
    order (Tensor): Shape (N,), for each row its place in the concatenated buckets without padding.
    """

    rows: Sequence[Tensor]
    unpadded: Sequence[Optional[Tensor]]
    order: Tensor


class TransformerLayer(nn.Module):
    """The weights of one layer. The first dimension is the direction.

    The columns of `input_weight` are queries, keys and values. The two rows of the norms belong to the attention and to
    the feed-forward network.
    """

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        sizes = transformer_of(config)
        d, width, hidden = config.n_directions, config.projection_width, sizes.feedforward_width
        self.n_heads = sizes.n_heads
        self.input_weight = new_parameter(d, width, 3 * width)
        self.input_bias = new_parameter(d, 3 * width)
        self.output_weight = new_parameter(d, width, width)
        self.output_bias = new_parameter(d, width)
        self.up_weight = new_parameter(d, width, hidden)
        self.up_bias = new_parameter(d, hidden)
        self.down_weight = new_parameter(d, hidden, width)
        self.down_bias = new_parameter(d, width)
        self.norm_weight = new_parameter(d, 2, width)
        self.norm_bias = new_parameter(d, 2, width)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize the weights as in Glorot & Bengio (2010), each of the three parts of `input_weight` by itself."""
        width, hidden = self.up_weight.shape[1:]
        uniform_(self.input_weight, *_glorot(width, width))
        uniform_(self.output_weight, *_glorot(width, width))
        uniform_(self.up_weight, *_glorot(width, hidden))
        uniform_(self.down_weight, *_glorot(width, hidden))
        for bias in (self.input_bias, self.output_bias, self.up_bias, self.down_bias, self.norm_bias):
            constant_(bias, 0.0)
        constant_(self.norm_weight, 1.0)

    def forward(
        self, rows: Tensor, buckets: SequenceBuckets, dropout: float = 0.0, weight_dropout: float = 0.0
    ) -> Tensor:
        """Rows (d, N, P) of all sequences, each direction in its reading order, to (d, N, P).

        dropout (float): Dropout of the outputs of both sublayers and of the hidden layer during training.
        weight_dropout (float): Dropout of the attention weights during training.
        """
        mixed = _linear(self._norm(rows, 0), self.input_weight, self.input_bias)  # (d, N, 3P)
        attended = attend(mixed, buckets, self.n_heads, weight_dropout if self.training else 0.0)
        rows = rows + self._drop(_linear(attended, self.output_weight, self.output_bias), dropout)
        hidden = torch.relu(_linear(self._norm(rows, 1), self.up_weight, self.up_bias))  # (d, N, hidden)
        return rows + self._drop(_linear(self._drop(hidden, dropout), self.down_weight, self.down_bias), dropout)

    def _norm(self, rows: Tensor, k: int) -> Tensor:
        return normalize(rows, self.norm_weight[:, k], self.norm_bias[:, k])

    def _drop(self, rows: Tensor, dropout: float) -> Tensor:
        return nn.functional.dropout(rows, dropout, self.training) if dropout else rows


class TransformerStack(nn.Module):
    """The layers of a transformer biLM, in both directions."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.config = config
        self.blocks = nn.ModuleList(TransformerLayer(config) for _ in range(config.n_layers))
        self.norm = LayerNorm(config.n_directions, config.projection_width)

    @property
    def device(self) -> torch.device:
        return self.norm.weight.device

    def zero_state(self, n_rows: int) -> State:
        return State(())

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
        """Run all layers over lanes, attached to the graph; see `BiLMNetwork.forward`. A sequence that is cut at the
        end of the lanes is read as if it ended there.

        input_dropout (float): Dropout of the input, of every sublayer and of the hidden layers during training.
        recurrent_dropout (float): Dropout of the attention weights during training.
        """
        d, n_steps, n_lanes = index.shape
        begins = np.zeros((n_steps, n_lanes), dtype=bool) if resets is None else resets.cpu().numpy()
        firsts, lengths = _find_sequences(begins)
        check_lengths(lengths.tolist(), self.config)
        buckets = bucket_sequences(firsts, lengths, stride=n_lanes, device=index.device)
        if positions is None:
            positions = torch.from_numpy(_positions(firsts, lengths, n_lanes, d)).to(index.device)
        table = sinusoids(int(positions.max()) + 1, vectors.shape[1]).to(vectors.device)
        rows = nn.functional.embedding(index.flatten(1), vectors) + table[positions.flatten(1)]  # (d, N, P)
        rows = nn.functional.dropout(rows, input_dropout, self.training)
        layers: List[Tensor] = []
        for block in self.blocks:
            rows = block(rows, buckets, input_dropout, recurrent_dropout)
            layers.append(rows)
        layers[-1] = self.norm(rows)
        return [layer.view(d, n_steps, n_lanes, -1) for layer in layers], state


def bucket_sequences(
    firsts: RowNumbers, lengths: RowNumbers, *, stride: int = 1, device: Optional[torch.device] = None
) -> SequenceBuckets:
    """Divide sequences into buckets of similar length; together they cover all rows once.

    firsts (RowNumbers), lengths (RowNumbers): Shape (R,), the first row and the number of rows of each sequence.
    stride (int): Distance of two rows of a sequence.
    """
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] > 0]
    rows: List[RowNumbers] = []
    unpadded: List[Optional[RowNumbers]] = []
    for start, stop in _bucket_edges(lengths[order].tolist()):
        bucket = order[start:stop]
        sizes = lengths[bucket, None]
        steps = np.arange(sizes.max())[None]
        rows.append(firsts[bucket, None] + stride * np.minimum(steps, sizes - 1))  # padding repeats the last row
        unpadded.append(None if sizes.min() == sizes.max() else np.flatnonzero(steps < sizes))
    places = [bucket.ravel() if filled is None else bucket.ravel()[filled] for bucket, filled in zip(rows, unpadded)]
    inverse = np.argsort(np.concatenate([np.zeros(0, dtype="int64"), *places]))
    return SequenceBuckets(
        [torch.from_numpy(bucket).to(device) for bucket in rows],
        [None if filled is None else torch.from_numpy(filled).to(device) for filled in unpadded],
        torch.from_numpy(inverse).to(device),
    )


def attend(mixed: Tensor, buckets: SequenceBuckets, n_heads: int, dropout: float = 0.0) -> Tensor:
    """Attend to all earlier rows of the same sequence: softmax(q k / sqrt(P / heads)) v.

    mixed (Tensor): Shape (d, N, 3P), queries, keys and values.
    dropout (float): Dropout of the attention weights.
    RETURNS (Tensor): Shape (d, N, P), the concatenated heads.
    """
    d, _, width = mixed.shape
    attended_rows: List[Tensor] = []
    for rows, unpadded in zip(buckets.rows, buckets.unpadded):
        n_sequences, n_steps = rows.shape
        chosen = mixed.index_select(1, rows.reshape(-1))
        heads = chosen.view(d * n_sequences, n_steps, 3, n_heads, width // 3 // n_heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)  # 3 x (d * B, heads, T, P / heads)
        attended = nn.functional.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=True)
        flat = attended.transpose(1, 2).reshape(d, n_sequences * n_steps, width // 3)  # (d, G * T, P)
        attended_rows.append(flat if unpadded is None else flat.index_select(1, unpadded))
    return torch.cat([mixed[:, :0, : width // 3], *attended_rows], dim=1).index_select(1, buckets.order)


def _bucket_edges(lengths: Sequence[int]) -> List[Tuple[int, int]]:
    """First sequence of each bucket and the one after its last, of sequences by ascending length."""
    edges: List[Tuple[int, int]] = []
    start = 0
    for i, length in enumerate(lengths):
        is_long = length > MAX_PADDING * lengths[start] + 1
        if i > start and (is_long or (i + 1 - start) * length > BUCKET_ROWS):
            edges.append((start, i))
            start = i
    return [*edges, (start, len(lengths))] if lengths else edges


def transformer_of(config: BiLMConfig) -> TransformerConfig:
    """The block of a config with this encoder, which always has one."""
    return config.transformer or TransformerConfig()


def sinusoids(n_positions: int, width: int) -> Tensor:
    """Shape (n_positions, width): sines in the even columns and cosines in the odd ones (Vaswani et al. 2017, sec.
    3.5), in float32 as in AllenNLP.
    """
    rates = torch.exp(torch.arange(0, width, 2).float() * -(math.log(LARGEST_PERIOD) / width))
    angles = torch.arange(n_positions).float().unsqueeze(1) * rates  # (n, width / 2)
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)


def check_lengths(lengths: Sequence[int], config: BiLMConfig) -> None:
    """RAISES (ValueError): EL341 for a sequence that is too long. Lengths are in tokens, BOS and EOS included."""
    most = transformer_of(config).max_positions
    longest = max(lengths, default=0)
    if longest > most:
        raise ValueError(Errors.EL341.format(n_tokens=longest, max_positions=most))


def _linear(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.baddbmm(bias.unsqueeze(1), rows, weight)


def _glorot(n_in: int, n_out: int) -> Tuple[float, float]:
    limit: float = (6.0 / (n_in + n_out)) ** 0.5
    return -limit, limit


def _find_sequences(begins: NDArray[np.bool_]) -> Tuple[RowNumbers, RowNumbers]:
    """First row (step * B + lane) and length of each sequence, lane by lane. `begins` (S, B) is true where one begins;
    one begins at the first step in any case.
    """
    n_steps, n_lanes = begins.shape
    begins = begins.copy()
    begins[:1] = True
    lanes, steps = np.nonzero(begins.T)
    stops = np.append(steps[1:], n_steps)
    stops[np.append(lanes[1:] != lanes[:-1], True)] = n_steps  # the last one of each lane
    return steps * n_lanes + lanes, stops - steps


def _positions(firsts: RowNumbers, lengths: RowNumbers, n_lanes: int, d: int) -> RowNumbers:
    """The position of each row in the text of its sequence, shape (d, N)."""
    steps = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    rows = np.repeat(firsts, lengths) + n_lanes * steps
    positions = np.zeros((2, len(rows)), dtype="int64")
    positions[0, rows] = steps
    positions[1, rows] = np.repeat(lengths, lengths) - 1 - steps
    return positions[:d]
