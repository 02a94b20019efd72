"""Run the encoder of a network with constant weights."""

from abc import ABC, abstractmethod
from typing import Any, Callable, Dict, Optional, Tuple

import numpy as np
import torch
from torch import Tensor

from ..bilm.layers import normalize, uses_graphs
from ..bilm.network import BiLMNetwork
from ..bilm.state import LSTMState, State
from ..bilm.transformer import SequenceBuckets, attend, bucket_sequences, sinusoids
from ..text.lanes import LanePlan
from ..text.words import Ids
from .kernel import has_kernel, warn_without_kernel
from .kernel_stack import KernelStack, pack_stack
from .products import make_product, split_directions
from .runtime import Workspace, WorkspacePool, to_device
from .torch_lanes import ConstantStack, LaneBatch, LaneGraphs, LaneRun

# Rows of the hidden layer of a transformer that are in memory at once: their bytes, and their minimum number.
HIDDEN_BYTES = 8 * 2**20
MIN_HIDDEN_ROWS = 64


class Runner(ABC):
    """Runs one kind of encoder over word vectors. The weights must not change afterwards; they are in any precision."""

    def __init__(self, network: BiLMNetwork) -> None:
        self.config, self.device = network.config, network.device
        self.encoder: Any = network.encoder
        warn_without_kernel(self.device)

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
    ) -> Tuple[Tensor, State]:
        """Compute all layers of all tokens of a plan. `LaneBatch` describes the arguments.

        slots (Optional[Tuple[Ids, ...]]): None for the plan's slots, where the backward direction reads each
            sequence from its end.
        with_end (bool): Also return the states after each sequence.
        workspace (Optional[Workspace]): Memory for the layers; None for new memory.
        RETURNS (Tuple[Tensor, State]): Layers (L+1, N, D), and states with one row per sequence; empty without
            `with_end`.
        """
        slots = (plan.slots(), plan.slots(backward=True)) if slots is None else slots
        shape = self.config.n_layers + 1, len(words[0]), self.config.output_width
        layers = vectors.new_empty(shape) if workspace is None else workspace.take("layers", *shape)
        d = self.config.n_directions
        return layers, self._run(LaneBatch(vectors, words[:d], plan, start, slots[:d]), layers, with_end)

    @abstractmethod
    def _run(self, batch: LaneBatch, layers: Tensor, with_end: bool) -> State:
        """Set `layers`; return the states after each sequence if they are needed, or an empty state."""


class LSTMRunner(Runner):
    """Runs an LSTM stack: by the native kernel on a CPU, otherwise by torch's products."""

    def __init__(self, network: BiLMNetwork) -> None:
        super().__init__(network)
        config, layers, highways = network.config, list(self.encoder.layers), list(self.encoder.highways)
        self._kernel: Optional[KernelStack] = None
        if has_kernel(layers[0].recurrent_weight):
            self._kernel = pack_stack(config, layers, highways)
            return
        self._stack = ConstantStack(config, layers, highways)
        self._workspaces = WorkspacePool(self.device, 1)
        self._graphs = LaneGraphs(self._stack, self.device) if uses_graphs(self.device) else None

    def _run(self, batch: LaneBatch, layers: Tensor, with_end: bool) -> State:
        if self._kernel is not None:
            return self._kernel.run(batch, layers[1:], layers[0], with_end=with_end)
        with self._workspaces.borrow() as workspace:
            if self._graphs is not None and not with_end and self._graphs.run(batch, layers, workspace):
                return State(())
            run = LaneRun(self._stack, batch, workspace, with_end)
            run.run(layers)
        return State(tuple(LSTMState(*layer) for layer in run.ends))


class BiLSTMRunner(Runner):
    """Runs a `BiLSTMStack` over whole sequences, which have their boundaries."""

    def _run(self, batch: LaneBatch, layers: Tensor, with_end: bool) -> State:
        tokens = torch.from_numpy(batch.words[0]).to(self.device)
        layers.copy_(self.encoder.encode(batch.vectors, tokens, batch.plan.lengths.tolist()))
        return batch.start


class PackedTransformerLayer:
    """Prepacked products of some directions of a layer, whose parameters may be quantized."""

    @torch.no_grad()
    def __init__(self, layer: Any, directions: slice) -> None:
        self._n_heads = layer.n_heads
        self._norms = [(layer.norm_weight[directions, k], layer.norm_bias[directions, k]) for k in range(2)]
        weights = (layer.input_weight, layer.output_weight, layer.up_weight, layer.down_weight)
        biases = (layer.input_bias, layer.output_bias, layer.up_bias, layer.down_bias)
        self.products = [make_product(weight, directions) for weight in weights]
        self._biases = [bias.detach()[directions].unsqueeze(1) for bias in biases]  # (d, 1, n_out)
        self._n_hidden_rows = max(MIN_HIDDEN_ROWS, HIDDEN_BYTES // (4 * layer.up_bias.shape[1]))

    def run(self, rows: Tensor, buckets: SequenceBuckets) -> Tensor:
        """From rows (d, N, P) of all sequences to (d, N, P), new."""
        mixed = self._multiply(0, normalize(rows, *self._norms[0]))  # (d, N, 3P)
        rows = self._multiply(1, attend(mixed, buckets, self._n_heads)).add_(rows)
        for some_rows in rows.split(self._n_hidden_rows, dim=1):
            hidden = self._multiply(2, normalize(some_rows, *self._norms[1])).relu_()  # (d, n, hidden)
            some_rows.add_(self._multiply(3, hidden))
        return rows

    def _multiply(self, k: int, rows: Tensor) -> Tensor:
        return self.products[k](rows, self._biases[k])


class TransformerRunner(Runner):
    """Runs a transformer over whole sequences: it has no state, and needs no lanes. Only attention pads, see
    `bilm.transformer`.
    """

    def __init__(self, network: BiLMNetwork) -> None:
        super().__init__(network)
        norm = self.encoder.norm
        self._directions = split_directions(self.encoder.blocks[0].input_weight, len(norm.bias))
        self._layers = [
            [PackedTransformerLayer(block, directions) for block in self.encoder.blocks]
            for directions in self._directions
        ]
        self._norm = (norm.weight.detach(), norm.bias.detach())

    def _run(self, batch: LaneBatch, layers: Tensor, with_end: bool) -> State:
        lengths, n_tokens = batch.plan.lengths, len(batch.words[0])
        firsts = np.cumsum(lengths) - lengths
        buckets = bucket_sequences(firsts, lengths, device=self.device)
        steps = to_device(np.arange(n_tokens) - np.repeat(firsts, lengths), self.device)
        width = batch.vectors.shape[1]
        positions = sinusoids(int(lengths.max(initial=0)), width).to(self.device)[steps]  # (N, P)
        # The row of the text that each direction reads at each place; both orders are their own inverses.
        ends = np.repeat(2 * firsts + lengths - 1, lengths)
        orders = [to_device(order, self.device) for order in (np.arange(n_tokens), ends - np.arange(n_tokens))]
        for directions, stack in zip(self._directions, self._layers):
            columns = slice(directions.start * width, directions.stop * width)
            words = [to_device(ids, self.device) for ids in batch.words[directions]]
            inputs = [batch.vectors.index_select(0, ids) for ids in words]  # (N, P), in text order
            layers[0, :, columns] = torch.cat(inputs, dim=1)
            reading_orders = orders[directions]
            in_order = [(row + positions).index_select(0, order) for row, order in zip(inputs, reading_orders)]
            rows = torch.stack(in_order)  # (d, N, P)
            for i, layer in enumerate(stack, start=1):
                rows = layer.run(rows, buckets)
                is_top = i == len(stack)
                outputs = normalize(rows, self._norm[0][directions], self._norm[1][directions]) if is_top else rows
                in_text_order = [row.index_select(0, order) for row, order in zip(outputs, reading_orders)]
                layers[i, :, columns] = torch.cat(in_text_order, dim=1)
        return State(())


# By the value of `BiLMConfig.encoder`, as in `bilm.network.ENCODERS`.
RUNNERS: Dict[str, Callable[[BiLMNetwork], Runner]] = {
    "lstm": LSTMRunner,
    "bilstm": BiLSTMRunner,
    "transformer": TransformerRunner,
}


def make_runner(network: BiLMNetwork) -> Runner:
    """The runner of a network's encoder; its weights must not change afterwards."""
    return RUNNERS[network.config.encoder](network)
