"""Run the encoder of a network with constant weights; for an LSTM `dispatch` selects the path for each plan."""

from typing import Any, Callable, Dict, Optional, Tuple

import numpy as np
import torch
from torch import Tensor

from ..bilm.layers import normalize, uses_graphs
from ..bilm.model import BiLMNetwork
from ..bilm.state import LSTMState, State
from ..bilm.transformer import SequenceGroups, attend, group_sequences, sinusoids
from ..text.lanes import LanePlan
from ..text.words import Ids
from .dispatch import GATE_BYTES, Path, can_join, choose_path
from .lanes import Batch, LaneGraphs, LaneRun, Schedule, run_single_sequence
from .lstm import LayerCombiner, PackedLayer, Pairs, Stack, UnpackedLayer, split_directions
from .products import has_packing, make_product, precision_of
from .runtime import Workspace, WorkspacePool, run_parallel, to_device

MIN_BLOCK_ROWS = 64


class Runner:
    """Runs one kind of encoder over word vectors. The weights must not change afterwards; they are in any precision."""

    def __init__(self, network: BiLMNetwork) -> None:
        self.config, self.device = network.config, network.device
        self.encoder: Any = network.encoder

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
        """Compute all layers of all tokens of a plan. `Batch` describes the arguments.

        slots (Optional[Tuple[Ids, ...]]): None for those of the plan, where the backward direction reads each sequence
            from its end.
        with_end (bool): Also return the states after each sequence.
        workspace (Optional[Workspace]): Memory for the layers; None for new memory.
        RETURNS (Tuple[Tensor, Optional[State]]): Layers (L+1, N, D), and states with one row per sequence.
        """
        slots = (plan.slots(), plan.slots(backward=True)) if slots is None else slots
        shape = self.config.n_layers + 1, len(words[0]), self.config.output_width
        layers = vectors.new_empty(shape) if workspace is None else workspace.take("layers", *shape)
        d = self.config.n_directions
        return layers, self._run(Batch(vectors, words[:d], plan, start, slots[:d]), layers, with_end)

    def _run(self, batch: Batch, layers: Tensor, with_end: bool) -> Optional[State]:
        """Set `layers`; return the states after each sequence if they are needed."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Derive now everything from the weights that the first call would derive, so that processes can share it."""


class LSTMRunner(Runner):
    """Runs an LSTM stack. The weights are prepared for each path on its first use."""

    def __init__(self, network: BiLMNetwork) -> None:
        super().__init__(network)
        config, layers = network.config, list(self.encoder.layers)
        combiner = LayerCombiner(config, list(self.encoder.highways))
        self.precision = precision_of(network)
        self._has_packing = has_packing(layers[0].bias)
        self._stacks = [
            Stack(config, part, [PackedLayer(one, part, can_join=can_join(config)) for one in layers], combiner)
            for part in split_directions(layers[0].bias)
        ]
        self._workspaces = WorkspacePool(self.device, len(self._stacks))
        self._graphs: Optional[LaneGraphs] = None
        if uses_graphs(self.device) and len(self._stacks) == 1 and not self._has_packing:
            self._graphs = LaneGraphs(self._stacks[0], self.device)
        self._unpacked: Optional[Stack] = None
        if self.device.type == "cpu" and self.precision == "float32":
            packed: Any = zip(*(stack.layers for stack in self._stacks))  # by layer
            unpacked = [UnpackedLayer(layer, parts) for layer, parts in zip(layers, packed)]
            self._unpacked = Stack(config, slice(0, config.n_directions), unpacked, combiner)

    def _run(self, batch: Batch, layers: Tensor, with_end: bool) -> Optional[State]:
        path = choose_path(batch.plan, self.device, self.precision, self.config, has_packing=self._has_packing)
        if self._unpacked is not None and path in (Path.SINGLE_TOGETHER, Path.SINGLE_IN_TURN):
            is_together = path is Path.SINGLE_TOGETHER
            return run_single_sequence(self._unpacked, batch, layers, is_together=is_together, with_end=with_end)
        if path is Path.BATCHED and self._graphs is not None and not with_end:
            with self._workspaces.borrow() as own:
                if self._graphs.run(batch, layers, own):
                    return None
        schedule = Schedule(batch.plan, self.device, with_end)

        def run_stack(stack: Stack) -> Pairs:
            with self._workspaces.borrow() as own:
                run = LaneRun(stack, schedule, batch.of(stack.directions), own)
                run.run()
                run.write(layers)
                return run.ends

        if path is Path.FEW_LANES and self._unpacked is not None:
            ends = [run_stack(self._unpacked)]
        elif path is Path.PARALLEL:
            ends = run_parallel(run_stack, self._stacks)
        else:
            ends = [run_stack(stack) for stack in self._stacks]
        if not with_end:
            return None
        joined = (map(torch.cat, zip(*pairs)) for pairs in zip(*ends))  # for each layer h and c of all directions
        return State(tuple(LSTMState(*layer) for layer in joined))

    def prepare(self) -> None:
        for stack in [*self._stacks, *([] if self._unpacked is None else [self._unpacked])]:
            stack.combiner.prepare()
            for layer in stack.layers:
                layer.prepare()


class BiLSTMRunner(Runner):
    """Runs a `BiLSTM` over whole sequences, which have their boundaries."""

    def _run(self, batch: Batch, layers: Tensor, with_end: bool) -> Optional[State]:
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
        # Rows of the hidden layer that are in memory at once.
        self._block = max(MIN_BLOCK_ROWS, GATE_BYTES // (4 * layer.up_bias.shape[1]))

    def run(self, rows: Tensor, groups: SequenceGroups) -> Tensor:
        """From rows (d, N, P) of all sequences to (d, N, P), new."""
        mixed = self._multiply(0, normalize(rows, *self._norms[0]))  # (d, N, 3P)
        rows = self._multiply(1, attend(mixed, groups, self._n_heads)).add_(rows)
        for part in rows.split(self._block, dim=1):
            hidden = self._multiply(2, normalize(part, *self._norms[1])).relu_()  # (d, n, hidden)
            part.add_(self._multiply(3, hidden))
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
        self._directions = split_directions(norm.bias)
        self._layers = [
            [PackedTransformerLayer(block, part) for block in self.encoder.blocks] for part in self._directions
        ]
        self._norm = (norm.weight.detach(), norm.bias.detach())

    def _run(self, batch: Batch, layers: Tensor, with_end: bool) -> Optional[State]:
        lengths, n_tokens = batch.plan.lengths, len(batch.words[0])
        firsts = np.cumsum(lengths) - lengths
        groups = group_sequences(firsts, lengths, device=self.device)
        steps = to_device(np.arange(n_tokens) - np.repeat(firsts, lengths), self.device)
        width = batch.vectors.shape[1]
        positions = sinusoids(int(lengths.max(initial=0)), width).to(self.device)[steps]  # (N, P)
        # The row of the text that each direction reads at each place; both are their own inverses.
        ends = np.repeat(2 * firsts + lengths - 1, lengths)
        readings = [to_device(reading, self.device) for reading in (np.arange(n_tokens), ends - np.arange(n_tokens))]
        for part, stack in zip(self._directions, self._layers):
            columns = slice(part.start * width, part.stop * width)
            words = [to_device(own, self.device) for own in batch.words[part]]
            inputs = [batch.vectors.index_select(0, own) for own in words]  # (N, P), in text order
            layers[0, :, columns] = torch.cat(inputs, dim=1)
            reading = readings[part]
            rows = torch.stack([(row + positions).index_select(0, by) for row, by in zip(inputs, reading)])  # (d, N, P)
            for number, layer in enumerate(stack, start=1):
                rows = layer.run(rows, groups)
                is_top = number == len(stack)
                found = normalize(rows, self._norm[0][part], self._norm[1][part]) if is_top else rows
                in_text_order = [row.index_select(0, by) for row, by in zip(found, reading)]
                layers[number, :, columns] = torch.cat(in_text_order, dim=1)
        return State(()) if with_end else None

    def prepare(self) -> None:
        for stack in self._layers:
            for layer in stack:
                for product in layer.products:
                    product.prepare()


# By the value of `BiLMConfig.encoder`, as in `bilm.model.ENCODERS`.
RUNNERS: Dict[str, Callable[[BiLMNetwork], Runner]] = {
    "lstm": LSTMRunner,
    "bilstm": BiLSTMRunner,
    "transformer": TransformerRunner,
}


def make_runner(network: BiLMNetwork) -> Runner:
    """The runner of a network's encoder; its weights must not change afterwards."""
    return RUNNERS[network.config.encoder](network)
