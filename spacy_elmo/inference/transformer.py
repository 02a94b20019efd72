"""Runs a transformer with constant weights, over whole sequences: it has no state, and needs no lanes."""

from typing import Any, List, Optional, Tuple

import numpy as np
import torch
from torch import Tensor

from ..bilm.layers import normalize
from ..bilm.model import BiLMNetwork
from ..bilm.state import State
from ..bilm.transformer import SequenceGroups, attend, group_sequences, sinusoids
from ..text.lanes import Ids, LanePlan
from .dispatch import GATE_BYTES
from .packed import split_directions
from .products import Product, make_product
from .workspace import Workspace

MIN_BLOCK_ROWS = 64


class PackedTransformerLayer:
    """Prepacked products of d directions of a layer.

    layer (TransformerLayer): The parameters; may be quantized.
    directions (slice): The directions.
    """

    @torch.no_grad()
    def __init__(self, layer: Any, directions: slice) -> None:
        self._n_heads = layer.n_heads
        self._norms = [(layer.norm_weight[directions, k], layer.norm_bias[directions, k]) for k in range(2)]
        weights = (layer.input_weight, layer.output_weight, layer.up_weight, layer.down_weight)
        biases = (layer.input_bias, layer.output_bias, layer.up_bias, layer.down_bias)
        self._products: List[Product] = [make_product(weight, directions) for weight in weights]
        self._biases = [bias.detach()[directions].unsqueeze(1) for bias in biases]  # (d, 1, n_out)
        # Rows of the hidden layer that are in memory at once.
        self._block = max(MIN_BLOCK_ROWS, GATE_BYTES // (4 * layer.up_bias.shape[1]))

    def prepare(self) -> None:
        """Pack the weights now instead of at the first product."""
        for product in self._products:
            product.prepare()

    def run(self, rows: Tensor, groups: SequenceGroups) -> Tensor:
        """rows (Tensor): Shape (d, N, P).
        groups (SequenceGroups): The sequences.
        RETURNS (Tensor): Shape (d, N, P), new.
        """
        mixed = self._multiply(0, normalize(rows, *self._norms[0]))  # (d, N, 3P)
        rows = self._multiply(1, attend(mixed, groups, self._n_heads)).add_(rows)
        for part in rows.split(self._block, dim=1):
            hidden = self._multiply(2, normalize(part, *self._norms[1])).relu_()  # (d, n, hidden)
            part.add_(self._multiply(3, hidden))
        return rows

    def _multiply(self, k: int, rows: Tensor) -> Tensor:
        return self._products[k](rows, self._biases[k])


class TransformerRunner:
    """Runs a transformer. Padding is added for attention only, see `bilm.attention`.

    network (BiLMNetwork): With constant weights, in any precision.
    """

    def __init__(self, network: BiLMNetwork) -> None:
        self.config, self.device = network.config, network.device
        encoder: Any = network.encoder
        self._directions = split_directions(_WithBias(encoder.norm.bias))
        self._layers = [[PackedTransformerLayer(block, part) for block in encoder.blocks] for part in self._directions]
        self._norm = (encoder.norm.weight.detach(), encoder.norm.bias.detach())

    @torch.no_grad()
    def run(
        self,
        vectors: Tensor,
        words: Tuple[Ids, ...],
        plan: LanePlan,
        start: State,
        *,
        slots: Optional[Tuple[Ids, ...]] = None,
        with_end: bool = False,
        workspace: Optional[Workspace] = None,
    ) -> Tuple[Tensor, Optional[State]]:
        """See `Runner.run`. Each sequence is read by itself: lanes, `start` and `slots` are not used."""
        shape = (self.config.n_layers + 1, len(words[0]), self.config.output_width)
        layers = vectors.new_empty(shape) if workspace is None else workspace.take("layers", *shape)
        lengths, n_tokens = plan.lengths, len(words[0])
        firsts = np.cumsum(lengths) - lengths
        groups = group_sequences(firsts, lengths, device=self.device)
        steps = self._to_device(np.arange(n_tokens) - np.repeat(firsts, lengths))
        positions = sinusoids(int(lengths.max(initial=0)), vectors.shape[1]).to(self.device)[steps]  # (N, P)
        # The row of the text that each direction reads at each place; both are their own inverses.
        ends = np.repeat(2 * firsts + lengths - 1, lengths)
        readings = [self._to_device(np.arange(n_tokens)), self._to_device(ends - np.arange(n_tokens))]
        for part, stack in zip(self._directions, self._layers):
            numbers = range(self.config.n_directions)[part]
            reading = readings[part]
            inputs = [vectors.index_select(0, self._to_device(words[k])) for k in numbers]  # (N, P), in text order
            self._write(layers[0], inputs, numbers)
            rows = torch.stack([(row + positions).index_select(0, by) for row, by in zip(inputs, reading)])  # (d, N, P)
            for number, layer in enumerate(stack, start=1):
                rows = layer.run(rows, groups)
                is_top = number == len(stack)
                found = normalize(rows, self._norm[0][part], self._norm[1][part]) if is_top else rows
                self._write(layers[number], [row.index_select(0, by) for row, by in zip(found, reading)], numbers)
        return layers, State(()) if with_end else None

    def prepare(self) -> None:
        """See `Runner.prepare`."""
        for stack in self._layers:
            for layer in stack:
                layer.prepare()

    def _to_device(self, ids: Ids) -> Tensor:
        return torch.from_numpy(ids).to(self.device)

    def _write(self, output: Tensor, rows: List[Tensor], numbers: range) -> None:
        """Write each direction to its columns of a layer (N, D)."""
        width = self.config.projection_width
        for k, own in zip(numbers, rows):
            output[:, k * width : (k + 1) * width] = own


class _WithBias:
    """What `split_directions` reads of a layer."""

    def __init__(self, bias: Tensor) -> None:
        self.bias = bias
