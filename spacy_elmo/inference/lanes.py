"""Run an LSTM stack over lanes by torch's products: on GPUs, in reduced precision, and without the native kernel.

In lanes there is no padding: input products are computed in blocks of steps, with a small loop over time. Each block is
computed in all layers before the next block, so only the gates of a block are in memory. The input side of layer 1
depends only on the word: it is computed per distinct word, and looked up per token.
"""

import logging
import threading
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from ..bilm.layers import Graph, make_pool
from ..bilm.state import State
from ..text.lanes import LanePlan
from ..text.words import Ids
from .dispatch import (
    BLOCK_BYTES,
    GRAPH_GATE_BYTES,
    GRAPH_MIN_LANES,
    GRAPH_STEPS,
    LANE_STEP,
    MIN_BLOCK_STEPS,
    WORD_GATE_BYTES,
    WORD_GATE_STEP,
)
from .lstm import GateRows, Pairs, Stack, Step
from .runtime import Workspace, stream_of, to_device

logger = logging.getLogger("spacy_elmo")

Places = List[Tuple[Tensor, Tensor]]


class Batch(NamedTuple):
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

    def of(self, part: slice) -> "Batch":
        """Words, slots and states of some directions; the states as pairs."""
        start = State(tuple((h[part], c[part]) for h, c in self.start.layers))
        return Batch(self.vectors, self.words[part], self.plan, start, self.slots[part])


class Schedule:
    """Active lanes, begins and ends of sequences at each step of a plan, on the device; shared by the stacks. Ends are
    there if the states after each sequence are needed.
    """

    def __init__(self, plan: LanePlan, device: torch.device, with_end: bool) -> None:
        self.device = device
        self.n_active = round_up(plan.n_active, plan.n_lanes)
        self.begin_at = self._by_step(plan.begins())
        self.end_at = self._by_step(plan.ends()) if with_end else []

    def _by_step(self, pairs: Sequence[Tuple[Ids, Ids]]) -> Places:
        """Copy the arrays of all steps to the device in one transfer."""
        sizes = [len(lanes) for lanes, _ in pairs]
        if not sizes:
            return []
        joined = (np.concatenate([pair[k] for pair in pairs]) for k in (0, 1))
        lanes, sequences = (torch.from_numpy(part).to(self.device).split(sizes) for part in joined)
        return list(zip(lanes, sequences))


class LaneRun:
    """Computes one plan with one stack. Here d is the number of directions of the stack, and of the batch."""

    def __init__(self, stack: Stack, schedule: Schedule, batch: Batch, workspace: Workspace) -> None:
        self.stack, self.schedule, self.batch = stack, schedule, batch
        plan, vectors, start = batch.plan, batch.vectors, batch.start.layers
        self.d = d = len(batch.words)
        width, cell_width = stack.config.projection_width, stack.config.cell_width
        self.start = [(h, 2.0 * c) for h, c in start]
        self.ends: Pairs = []
        if schedule.end_at:
            n = len(plan.lengths)
            self.ends = [(h.expand(-1, n, -1).clone(), c.expand(-1, n, -1).clone()) for h, c in start]
        self.h = [vectors.new_zeros(d, plan.n_lanes, width) for _ in stack.layers]
        self.c2 = [vectors.new_zeros(d, plan.n_lanes, cell_width) for _ in stack.layers]
        shape = len(stack.layers), d, plan.n_steps, plan.n_lanes, width
        self.outputs = workspace.take("outputs", *shape).zero_().unbind()
        self.block_steps = max(MIN_BLOCK_STEPS, BLOCK_BYTES // (16 * d * max(1, plan.n_lanes) * cell_width))
        self.word_gates = WordGates(stack.layers[0], batch, self.block_steps, 4 * cell_width, workspace)

    def run(self) -> None:
        n_steps = self.batch.plan.n_steps
        for number, first in enumerate(range(0, n_steps, self.block_steps)):
            self.word_gates.begin_block(number)
            self._block(first, min(first + self.block_steps, n_steps))

    def write(self, layers: Tensor) -> None:
        """Set the columns of these directions in layers (L+1, N, D), tokens in text order."""
        write_tokens(layers, self.stack.directions.start, self.batch, self.outputs, self.batch.slots)

    def _block(self, first: int, end: int) -> None:
        """Compute all layers of the steps from `first` to before `end`."""
        n_lanes = self.schedule.n_active[first]
        inputs: Optional[Tensor] = None  # (d, K, b, P), input of the layer
        for number, layer in enumerate(self.stack.layers):
            if inputs is None:
                for s in range(first, end):
                    b = self.schedule.n_active[s]
                    self._step(number, layer.step_of_words, s, self.word_gates.look_up(s, b))
            else:
                gates = layer.input_gates(inputs.flatten(1, 2)).view(self.d, end - first, n_lanes, -1)
                for s in range(first, end):
                    self._step(number, layer.step, s, gates[:, s - first, : self.schedule.n_active[s]])
            outputs = self.outputs[number][:, first:end, :n_lanes]  # (d, K, b, P), a view
            if inputs is not None:
                self.stack.combiner.combine_(number, inputs, outputs, self.stack.directions)
            inputs = outputs

    def _step(self, number: int, step: Step, s: int, given: Any) -> None:
        """Compute one step of a layer. `given` is the first argument of `step`."""
        b = self.schedule.n_active[s]
        h, c2 = self.h[number], self.c2[number]
        if b < h.shape[1]:  # lanes that have ended
            h = h[:, :b]
            c2 = self.c2[number] = c2[:, :b]
        lanes, sequences = self.schedule.begin_at[s]
        if len(lanes):
            for state, start in zip((h, c2), self.start[number]):  # a single row is used for all
                rows = start.expand(-1, len(lanes), -1) if start.shape[1] == 1 else start[:, sequences]
                state.index_copy_(1, lanes, rows)
        out = self.h[number] = step(given, h, c2)
        self.outputs[number][:, s, :b] = out
        if self.ends and len(self.schedule.end_at[s][0]):
            lanes, sequences = self.schedule.end_at[s]
            self.ends[number][0][:, sequences] = out[:, lanes]
            self.ends[number][1][:, sequences] = 0.5 * c2[:, lanes]


def round_up(n_active: Ids, n_lanes: int) -> List[int]:
    """Lanes to compute at each step: at the end of a plan multiples of `LANE_STEP`. Idle lanes give unused results."""
    rounded = -(-n_active // LANE_STEP) * LANE_STEP
    counts: List[int] = np.where(n_active <= LANE_STEP, n_active, np.minimum(rounded, n_lanes)).tolist()
    return counts


def write_tokens(layers: Tensor, first: int, batch: Batch, outputs: Sequence[Tensor], places: Sequence[Ids]) -> None:
    """Write the outputs of all tokens to layers (L+1, N, D), in text order.

    first (int): The first direction of the batch.
    outputs (Sequence[Tensor]): For each layer shape (d, ..., P).
    places (Sequence[Ids]): For each direction shape (N,), the row of each token in `outputs`.
    """
    width = batch.vectors.shape[1]
    for k, (words, place) in enumerate(zip(batch.words, places)):
        columns = slice((first + k) * width, (first + k + 1) * width)
        rows, read = to_device(place, layers.device), to_device(words, layers.device)
        torch.index_select(batch.vectors, 0, read, out=layers[0, :, columns])
        for number, part in enumerate(outputs, start=1):
            torch.index_select(part[k].reshape(-1, width), 0, rows, out=layers[number, :, columns])


class RowPlan(NamedTuple):
    """Rows of a table of gates. The most frequent words of a plan have fixed rows; each block adds its other words.

    shared (Ids): Shape (n,), words of the first rows.
    indices (Ids): Shape (d, S, B), the row of each slot.
    others (List[Ids]): For each block the words of the rows after the shared ones.
    """

    shared: Ids
    indices: Ids
    others: List[Ids]


class WordGates:
    """The input side of the gates of layer 1 for distinct words: a table (d, rows, 4H), filled block by block."""

    def __init__(self, layer: Any, batch: Batch, n_block: int, gates_width: int, workspace: Workspace) -> None:
        d, vectors, device = len(batch.words), batch.vectors, batch.vectors.device
        shape = batch.plan.n_steps, batch.plan.n_lanes
        max_shared = max(1, WORD_GATE_BYTES // (4 * d * gates_width))
        rows = assign_rows(batch.words, batch.slots, shape, n_block, max_shared)
        self._layer, self._vectors, self._width = layer, vectors, gates_width
        self._indices = torch.from_numpy(rows.indices).to(device)  # (d, S, B)
        others = torch.from_numpy(np.concatenate([rows.shared[:0], *rows.others])).to(device)
        self._others = others.split([len(part) for part in rows.others])
        self._n_shared = len(rows.shared)
        n_rows = self._n_shared + max(map(len, rows.others), default=0)
        self._table = workspace.take("word gates", d, n_rows, gates_width, dtype=layer.gates_dtype)
        self._step = workspace.take("gates", d * shape[1] * gates_width, dtype=layer.gates_dtype)
        is_all = self._n_shared == len(vectors)
        self._fill(0, vectors if is_all else vectors[torch.from_numpy(rows.shared).to(device)])

    def begin_block(self, number: int) -> None:
        self._fill(self._n_shared, self._vectors[self._others[number]])

    def look_up(self, step: int, n_lanes: int) -> GateRows:
        """The gates of `n_lanes` lanes at a step."""
        indices = self._indices[:, step, :n_lanes]
        buffer = self._step[: indices.numel() * self._width].view(*indices.shape, self._width)
        return GateRows(self._table, indices, buffer)

    def _fill(self, first: int, vectors: Tensor) -> None:
        """Write the gates of words (n, P) to the rows from `first`."""
        rows = self._table[:, first : first + len(vectors)]
        for part, some in zip(rows.split(WORD_GATE_STEP, dim=1), vectors.split(WORD_GATE_STEP)):
            if len(some):
                part.copy_(self._layer.input_gates(some.unsqueeze(0)))


def assign_rows(
    words: Sequence[Ids], slots: Sequence[Ids], shape: Tuple[int, int], n_block: int, max_shared: int
) -> RowPlan:
    """Assign rows to words and slots; slots without a token have an arbitrary row.

    shape (Tuple[int, int]): Steps and lanes; `n_block` are the steps of a block.
    max_shared (int): Maximum number of words with fixed rows.
    """
    counts = np.bincount(np.concatenate(words))
    shared = np.arange(len(counts), dtype="int64")
    if len(counts) > max_shared:
        shared = np.sort(np.argsort(-counts, kind="stable")[:max_shared])
    row_of = np.full(len(counts), -1, dtype="int64")
    row_of[shared] = np.arange(len(shared))
    indices = np.zeros((len(words), *shape), dtype="int64")
    tokens = np.zeros_like(indices)
    for k, (part, own) in enumerate(zip(words, slots)):
        indices[k].reshape(-1)[own] = row_of[part]
        tokens[k].reshape(-1)[own] = part
    others = []
    for first in range(0, shape[0], n_block):
        block = indices[:, first : first + n_block]
        lacks_row = block < 0
        some, numbers = np.unique(tokens[:, first : first + n_block][lacks_row], return_inverse=True)
        block[lacks_row] = len(shared) + numbers
        others.append(some)
    return RowPlan(shared, indices, others)


class LaneGraphs:
    """CUDA graphs of a stack, one for each power of two of lanes: one launch for a block of steps of all layers. A
    number of lanes is captured when it comes again.

    All lanes are computed at all steps of a block, so that plans of similar size share a graph; what idle lanes and
    steps give is not used. States and outputs lie in memory of fixed addresses.
    """

    def __init__(self, stack: Stack, device: torch.device) -> None:
        self._stack, self._device = stack, device
        self._pools: Dict[Any, Any] = {}  # of each stream: graphs of a pool must not run at the same time
        self._blocks: Dict[Any, Optional[_Block]] = {}
        self._lock = threading.Lock()  # graphs have their own memory: one plan at a time
        self._is_off = False

    def run(self, batch: Batch, layers: Tensor, workspace: Workspace) -> bool:
        """Compute layers (L+1, N, D) of a plan. False if they are not computed: a new number of lanes, several initial
        states, or another thread that uses the graphs.
        """
        if self._is_off or batch.start.layers[0][0].shape[1] != 1 or not self._lock.acquire(blocking=False):
            return False
        try:
            block = self._find(batch.plan.n_lanes)
            if block is not None:
                self._run(block, batch, layers, workspace)
            return block is not None
        finally:
            self._lock.release()

    def _find(self, n_lanes: int) -> Optional["_Block"]:
        size = max(GRAPH_MIN_LANES, 1 << (n_lanes - 1).bit_length())
        stream = stream_of(self._device)
        key = size, stream
        if key not in self._blocks:
            self._blocks[key] = None
        elif self._blocks[key] is None:
            if stream not in self._pools:
                self._pools[stream] = make_pool(self._device)
            try:
                with torch.inference_mode(False), torch.no_grad():
                    self._blocks[key] = _Block(self._stack, size, self._device, self._pools[stream])
            except RuntimeError as error:  # mostly too little memory
                logger.warning("Vectors are computed without CUDA graphs: %s", error)
                self._is_off = True
                self._blocks.clear()
        return self._blocks.get(key)

    def _run(self, block: "_Block", batch: Batch, layers: Tensor, workspace: Workspace) -> None:
        plan, vectors, words = batch.plan, batch.vectors, batch.words
        d, n_lanes, n_steps = len(words), block.n_lanes, block.n_steps
        n_blocks = -(-plan.n_steps // n_steps)
        index = np.zeros((d, n_blocks * n_steps, n_lanes), dtype="int64")
        places = [slot // plan.n_lanes * n_lanes + slot % plan.n_lanes for slot in batch.slots]
        for own, place, word in zip(index, places, words):
            own.reshape(-1)[place] = word
        begins = np.zeros((n_blocks * n_steps, n_lanes, 1), dtype=bool)
        begins[plan.offsets[plan.lengths > 0], plan.lanes[plan.lengths > 0]] = True
        rows = to_device(index.reshape(d, n_blocks, n_steps * n_lanes), self._device)
        resets = to_device(begins.reshape(n_blocks, n_steps, n_lanes, 1), self._device)
        outputs = workspace.take("outputs", len(block.outputs), d, n_blocks * n_steps, n_lanes, vectors.shape[1])
        block.begin(batch.start)
        for number in range(n_blocks):
            steps = slice(number * n_steps, (number + 1) * n_steps)
            outputs[:, :, steps] = block.replay(vectors, rows[:, number], resets[number])
        write_tokens(layers, 0, batch, outputs.unbind(), places)


class _Block:
    """A graph of some steps of all layers."""

    def __init__(self, stack: Stack, n_lanes: int, device: torch.device, pool: Any) -> None:
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
        self._graph = Graph(self._compute, device, pool)

    def begin(self, start: State) -> None:
        """Set the initial states, one row each."""
        for (h, c2), (given_h, given_c) in zip(self._start, start.layers):
            h.copy_(given_h)
            torch.mul(given_c, 2.0, out=c2)

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
        inputs = self._inputs  # (d, K, B, P)
        resets: List[Tensor] = list(self._resets.unbind(0))
        for number, (layer, (h, c2), (start_h, start_c2)) in enumerate(
            zip(self._stack.layers, self._states, self._start)
        ):
            gates = layer.input_gates(inputs.flatten(1, 2)).view(*inputs.shape[:3], -1)
            outputs = self.outputs[number]
            now: Tuple[Tensor, Tensor] = (h, c2)
            for s, is_begin in enumerate(resets):
                own_c2 = torch.where(is_begin, start_c2, now[1])
                out = layer.step(gates[:, s], torch.where(is_begin, start_h, now[0]), own_c2)
                outputs[:, s] = out
                now = (out, own_c2)
            h.copy_(now[0])
            c2.copy_(now[1])
            self._stack.combiner.combine_(number, inputs, outputs, self._stack.directions)
            inputs = outputs
