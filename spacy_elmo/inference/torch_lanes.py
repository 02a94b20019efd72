"""Run an LSTM stack over lanes by torch's products: on GPUs, and without the native kernel (Sak et al. 2014, without
peepholes). Here d is the number of directions.

In lanes there is no padding. They are computed in chunks of steps, each in all layers before the next chunk: the input
products of a chunk are one product, and only the recurrent product is in a loop over time. The input side of layer 1
depends only on the word: it is computed once per distinct word of a chunk. On a GPU the steps of a chunk are launched
at once, as a CUDA graph.

tanh(x) = 2 sigmoid(2x) - 1, so one sigmoid over all gates is enough if the pre-activations of the candidate and the
memory cell are doubled. The factor is folded into the weights of the products; factors that are powers of two are
exact.
"""

import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from ..bilm.config import BiLMConfig
from ..bilm.layers import CudaGraph, GraphCache
from ..bilm.lstm import full_bias
from ..bilm.state import State
from ..text.lanes import LanePlan
from ..text.words import Ids
from .kernel import Product
from .limits import CHUNK_GATE_BYTES, GRAPH_GATE_BYTES, GRAPH_MIN_LANES, GRAPH_STEPS, MIN_CHUNK_STEPS
from .products import PROJECTION_SCALE, gate_scale, make_product
from .runtime import Workspace, stream_of, to_device

LayerStates = List[Tuple[Tensor, Tensor]]  # h (d, rows, P) and 2c, or c, (d, rows, H) of each layer
ALL = slice(None)  # directions


class LaneBatch(NamedTuple):
    """Sequences to compute.

    vectors (Tensor): Shape (U, P), vectors of the distinct words.
    words (Tuple[Ids, ...]): For each direction shape (N,), the word of each token in text order.
    plan (LanePlan): Positions of the sequences.
    start (State): Initial states, one row for all sequences, or one row each.
    slots (Tuple[Ids, ...]): For each direction shape (N,), the slot of each token.
    """

    vectors: Tensor
    words: Tuple[Ids, ...]
    plan: LanePlan
    start: State
    slots: Tuple[Ids, ...]

    def words_per_slot(self, n_steps: int, n_lanes: int) -> Tuple[Ids, List[Ids]]:
        """The word in each slot of a plan of at least this size, (d, S, B), 0 in empty slots; and the slots there."""
        words = np.zeros((len(self.words), n_steps, n_lanes), dtype="int64")
        n_plan_lanes = max(1, self.plan.n_lanes)
        slots = [slots // n_plan_lanes * n_lanes + slots % n_plan_lanes for slots in self.slots]
        for words_of_slots, slots_of_tokens, tokens in zip(words, slots, self.words):
            words_of_slots.reshape(-1)[slots_of_tokens] = tokens
        return words, slots


def update_cell(acts: Tensor, c2: Tensor, clip2: Optional[float]) -> Tensor:
    """One step: c = clip(i j + f c), and half of o tanh(c).

    acts (Tensor): Shape (d, b, 4H), pre-activations of i, j (candidate), f, o; overwritten.
    c2 (Tensor): Shape (d, b, H), twice the memory cell; updated in place.
    clip2 (Optional[float]): Bound of `c2`, None for no clip.
    RETURNS (Tensor): Shape (d, b, H), half of o * tanh(c).
    """
    i, j, f, o = acts.chunk(4, dim=2)
    acts.sigmoid_()
    c2.mul_(f).addcmul_(i, j.sub_(0.5), value=4.0)
    if clip2 is not None:
        c2.clamp_(-clip2, clip2)
    return torch.sigmoid(c2).sub_(0.5).mul_(o)


class ConstantLayer:
    """A layer, whose parameters may be quantized."""

    @torch.no_grad()
    def __init__(self, layer: Any) -> None:
        scale = gate_scale(layer.bias)
        self._from_input = make_product(layer.input_weight, ALL, scale)
        self._from_output = make_product(layer.recurrent_weight, ALL, scale)
        self._project: Optional[Product] = None  # from half of the cell's output to the outputs
        if layer.projection_weight is not None:
            self._project = make_product(layer.projection_weight, ALL, PROJECTION_SCALE)
        self._bias = (full_bias(layer.bias) * scale).unsqueeze(1)  # (d, 1, 4H)
        self._clip2 = None if layer.cell_clip is None else 2.0 * layer.cell_clip
        self._projection_clip = layer.projection_clip

    def input_gates(self, inputs: Tensor) -> Tensor:
        """From inputs (d, N, P), or (1, N, P) for all directions, to (d, N, 4H)."""
        return self._from_input(inputs.expand(len(self._bias), -1, -1), self._bias)

    def step(self, gates: Tensor, h: Tensor, c2: Tensor) -> Tensor:
        """Compute one step of b lanes.

        gates (Tensor): Shape (d, b, 4H), input side of the gates.
        h (Tensor): Shape (d, b, P), outputs of the previous step.
        c2 (Tensor): Shape (d, b, H), twice the memory cell; updated in place.
        RETURNS (Tensor): Shape (d, b, P), the outputs, new.
        """
        half = update_cell(self._from_output(h, gates), c2, self._clip2)
        if self._project is None:
            return half.mul_(2.0)
        outputs, clip = self._project(half), self._projection_clip
        return outputs if clip is None else outputs.clamp_(-clip, clip)


class ConstantStack:
    """The layers, lowest first; they may be quantized."""

    @torch.no_grad()
    def __init__(self, config: BiLMConfig, layers: Sequence[Any], highways: Sequence[Any]) -> None:
        self.config = config
        self.layers = [ConstantLayer(layer) for layer in layers]
        self._highways = [
            (make_product(highway.weight, ALL), highway.bias.detach().unsqueeze(1))  # bias (d, 1, P)
            for highway in highways
        ]

    def combine_(self, i: int, inputs: Tensor, outputs: Tensor) -> None:
        """Apply the skip connection or the highway of a layer above the first to outputs (d, K, b, P), in place."""
        if self.config.has_skip:
            outputs += inputs
        elif self._highways:
            product, bias = self._highways[i - 1]
            gate = product(inputs.flatten(1, 2), bias).sigmoid_()  # (d, K * b, P)
            outputs.sub_(inputs).mul_(gate.view(inputs.shape)).add_(inputs)


class LaneRun:
    """Computes one plan."""

    def __init__(self, stack: ConstantStack, batch: LaneBatch, workspace: Workspace, with_end: bool) -> None:
        self.stack, self.batch = stack, batch
        plan, vectors, start = batch.plan, batch.vectors, batch.start.layers
        self._device, d, n_lanes = vectors.device, len(batch.words), plan.n_lanes
        self._words, self._slots = batch.words_per_slot(plan.n_steps, n_lanes)
        self._begins = self._by_step(plan.begins())
        self._ends = self._by_step(plan.ends()) if with_end else []
        self._start: LayerStates = [(h, 2.0 * c) for h, c in start]
        self.ends: LayerStates = []
        if with_end:  # an empty sequence keeps its initial state
            n = len(plan.lengths)
            self.ends = [(h.expand(-1, n, -1).clone(), c.expand(-1, n, -1).clone()) for h, c in start]
        self._states: LayerStates = [
            (h.new_zeros(d, n_lanes, h.shape[2]), c.new_zeros(d, n_lanes, c.shape[2])) for h, c in start
        ]
        self._outputs = workspace.take("outputs", len(start), d, plan.n_steps, n_lanes, vectors.shape[1])

    def _by_step(self, pairs: Sequence[Tuple[Ids, Ids]]) -> List[Tuple[Tensor, Tensor]]:
        """Copy the arrays of all steps to the device in one transfer."""
        sizes = [len(lanes) for lanes, _ in pairs]
        joined = (np.concatenate([np.zeros(0, "int64"), *(pair[k] for pair in pairs)]) for k in (0, 1))
        lanes, sequences = (to_device(indices, self._device).split(sizes) for indices in joined)
        return list(zip(lanes, sequences))

    def run(self, layers: Tensor) -> None:
        """Set layers (L+1, N, D), tokens in text order."""
        first, n_steps, n_active = 0, self.batch.plan.n_steps, self.batch.plan.n_active.tolist()
        while first < n_steps:
            first = self._run_chunk(first, n_active[first])
        write_tokens(layers, self.batch, self._outputs.unbind(), self._slots)

    def _run_chunk(self, first: int, n_lanes: int) -> int:
        """Compute steps from `first` on; return the step after them. Lanes that end meanwhile give unused results."""
        d, _, width = self._states[0][1].shape
        n_steps = max(MIN_CHUNK_STEPS, CHUNK_GATE_BYTES // (16 * d * n_lanes * width))
        words, rows = np.unique(self._words[:, first : first + n_steps, :n_lanes], return_inverse=True)
        rows = rows.reshape(d, -1) + len(words) * np.arange(d)[:, None]
        vectors = self.batch.vectors.index_select(0, to_device(words, self._device))
        by_word = self.stack.layers[0].input_gates(vectors.unsqueeze(0)).flatten(0, 1)  # (d * U, 4H)
        gates = by_word.index_select(0, to_device(rows.reshape(-1), self._device)).view(d, -1, n_lanes, 4 * width)
        states = [(h[:, :n_lanes], c2[:, :n_lanes]) for h, c2 in self._states]
        outputs = [layer[:, first : first + n_steps, :n_lanes] for layer in self._outputs]

        def begin(i: int, step: int, h: Tensor, c2: Tensor) -> Tuple[Tensor, Tensor]:
            lanes, sequences = self._begins[first + step]
            if len(lanes):
                for state, start in zip((h, c2), self._start[i]):  # a single row is used for all
                    rows = start.expand(-1, len(lanes), -1) if start.shape[1] == 1 else start[:, sequences]
                    state.index_copy_(1, lanes, rows)
            return h, c2

        def end(i: int, step: int, h: Tensor, c2: Tensor) -> None:
            lanes, sequences = self._ends[first + step]
            if len(lanes):
                self.ends[i][0][:, sequences] = h[:, lanes]
                self.ends[i][1][:, sequences] = 0.5 * c2[:, lanes]

        self._states = compute_chunk(self.stack, gates, states, outputs, begin, end if self._ends else None)
        return first + gates.shape[1]


def compute_chunk(
    stack: ConstantStack,
    gates: Tensor,
    states: LayerStates,
    outputs: Sequence[Tensor],
    begin: Callable[[int, int, Tensor, Tensor], Tuple[Tensor, Tensor]],
    end: Optional[Callable[[int, int, Tensor, Tensor], None]] = None,
) -> LayerStates:
    """Compute some steps of all layers.

    gates (Tensor): Shape (d, K, b, 4H), input side of the gates of layer 1.
    states (LayerStates): h and 2c before the first step.
    outputs (Sequence[Tensor]): For each layer shape (d, K, b, P); they are set.
    begin (Callable[[int, int, Tensor, Tensor], Tuple[Tensor, Tensor]]): From layer, step, h and 2c to h and 2c with the
        initial states of sequences that begin at this step.
    end (Optional[Callable[[int, int, Tensor, Tensor], None]]): Reads layer, step, h and 2c after each step.
    RETURNS (LayerStates): h and 2c after the last step.
    """
    after: LayerStates = []
    for i, (layer, (h, c2), layer_outputs) in enumerate(zip(stack.layers, states, outputs)):
        if i:
            gates = layer.input_gates(outputs[i - 1].flatten(1, 2)).view(*layer_outputs.shape[:3], -1)
        for step in range(layer_outputs.shape[1]):
            h, c2 = begin(i, step, h, c2)
            h = layer.step(gates[:, step], h, c2)
            layer_outputs[:, step] = h
            if end is not None:
                end(i, step, h, c2)
        after.append((h, c2))
        if i:
            stack.combine_(i, outputs[i - 1], layer_outputs)
    return after


def write_tokens(layers: Tensor, batch: LaneBatch, outputs: Sequence[Tensor], slots: Sequence[Ids]) -> None:
    """Write the outputs of all tokens to layers (L+1, N, D), in text order.

    outputs (Sequence[Tensor]): For each layer shape (d, S, B, P).
    slots (Sequence[Ids]): For each direction shape (N,), the slot of each token in `outputs`.
    """
    width = batch.vectors.shape[1]
    for k, (words, slots_of_tokens) in enumerate(zip(batch.words, slots)):
        columns = slice(k * width, (k + 1) * width)
        rows, read = to_device(slots_of_tokens, layers.device), to_device(words, layers.device)
        torch.index_select(batch.vectors, 0, read, out=layers[0, :, columns])
        for i, layer in enumerate(outputs, start=1):
            torch.index_select(layer[k].reshape(-1, width), 0, rows, out=layers[i, :, columns])


class LaneGraphs:
    """CUDA graphs of a stack, one for each power of two of lanes. A number of lanes is captured when it comes again.

    All lanes are computed at all steps of a chunk, so that plans of similar size share a graph; results of padding are
    discarded. States and outputs lie in memory of fixed addresses.
    """

    def __init__(self, stack: ConstantStack, device: torch.device) -> None:
        self._stack, self._device = stack, device
        self._caches: Dict[int, GraphCache] = {}  # by stream: graphs that share memory must not run at the same time
        self._lock = threading.Lock()  # graphs have their own memory: one plan at a time

    def run(self, batch: LaneBatch, layers: Tensor, workspace: Workspace) -> bool:
        """Compute layers (L+1, N, D) of a plan. False if they are not computed: a new number of lanes, several initial
        states, or another thread that uses the graphs.
        """
        if batch.start.layers[0][0].shape[1] != 1 or not self._lock.acquire(blocking=False):
            return False
        try:
            chunk = self._find(batch.plan.n_lanes)
            if chunk is not None:
                self._run(chunk, batch, layers, workspace)
            return chunk is not None
        finally:
            self._lock.release()

    def _find(self, n_lanes: int) -> Optional["_ChunkGraph"]:
        size, stream = max(GRAPH_MIN_LANES, 1 << (n_lanes - 1).bit_length()), stream_of(self._device)
        if stream not in self._caches:
            self._caches[stream] = GraphCache(self._device, "Vectors are")
        chunk: Optional[_ChunkGraph] = self._caches[stream].find(
            size, lambda pool: _ChunkGraph(self._stack, size, self._device, pool)
        )
        return chunk

    def _run(self, chunk: "_ChunkGraph", batch: LaneBatch, layers: Tensor, workspace: Workspace) -> None:
        plan, vectors, n_lanes, n_steps = batch.plan, batch.vectors, chunk.n_lanes, chunk.n_steps
        n_chunks = -(-plan.n_steps // n_steps)
        words, slots = batch.words_per_slot(n_chunks * n_steps, n_lanes)
        begins = np.zeros((n_chunks * n_steps, n_lanes, 1), dtype=bool)
        begins[plan.offsets[plan.lengths > 0], plan.lanes[plan.lengths > 0]] = True
        rows = to_device(words.reshape(len(words), n_chunks, n_steps * n_lanes), self._device)
        resets = to_device(begins.reshape(n_chunks, n_steps, n_lanes, 1), self._device)
        shape = len(chunk.outputs), len(words), n_chunks * n_steps, n_lanes, vectors.shape[1]
        outputs = workspace.take("outputs", *shape)
        chunk.begin(batch.start)
        for k in range(n_chunks):
            steps = slice(k * n_steps, (k + 1) * n_steps)
            outputs[:, :, steps] = chunk.replay(vectors, rows[:, k], resets[k])
        write_tokens(layers, batch, outputs.unbind(), slots)


class _ChunkGraph:
    """A graph of some steps of all layers."""

    def __init__(self, stack: ConstantStack, n_lanes: int, device: torch.device, pool: Any) -> None:
        config = stack.config
        d, width, cell_width = config.n_directions, config.projection_width, config.cell_width
        step_bytes = 4 * d * n_lanes * 4 * cell_width
        self.n_lanes, self.n_steps = n_lanes, max(1, min(GRAPH_STEPS, GRAPH_GATE_BYTES // step_bytes))
        self._stack = stack

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(*shape, dtype=torch.float32, device=device)

        self._inputs = zeros(d, self.n_steps, n_lanes, width)
        self._resets = torch.zeros(self.n_steps, n_lanes, 1, dtype=torch.bool, device=device)
        self._start = [(zeros(d, 1, width), zeros(d, 1, cell_width)) for _ in stack.layers]
        self._states = [(zeros(d, n_lanes, width), zeros(d, n_lanes, cell_width)) for _ in stack.layers]
        self.outputs = zeros(len(stack.layers), d, self.n_steps, n_lanes, width)
        self._graph = CudaGraph(self._compute, device, pool)

    def begin(self, start: State) -> None:
        """Set the initial states, one row each."""
        for (h, c2), (start_h, start_c) in zip(self._start, start.layers):
            h.copy_(start_h)
            torch.mul(start_c, 2.0, out=c2)

    def replay(self, vectors: Tensor, words: Tensor, resets: Tensor) -> Tensor:
        """words (Tensor): Shape (d, K * B), the word of each slot.
        resets (Tensor): Shape (K, B, 1), where sequences begin.
        RETURNS (Tensor): Shape (L, d, K, B, P), outputs of all layers, valid until the next call.
        """
        for rows, inputs in zip(words, self._inputs):
            torch.index_select(vectors, 0, rows, out=inputs.view(-1, inputs.shape[-1]))
        self._resets.copy_(resets)
        self._graph.replay()
        return self.outputs

    def _compute(self) -> None:
        def begin(i: int, step: int, h: Tensor, c2: Tensor) -> Tuple[Tensor, Tensor]:
            start_h, start_c2 = self._start[i]
            return torch.where(self._resets[step], start_h, h), torch.where(self._resets[step], start_c2, c2)

        gates = self._stack.layers[0].input_gates(self._inputs.flatten(1, 2)).view(*self._inputs.shape[:3], -1)
        after = compute_chunk(self._stack, gates, self._states, self.outputs.unbind(), begin)
        for state, last in zip(self._states, after):
            for tensor, value in zip(state, last):
                tensor.copy_(value)
