"""Running the LSTM stack over a lane plan: no padding, input products in large blocks, a thin loop over time.

Block by block, so that the gates of a few steps only are held: first all steps of the block in layer 1, then in
layer 2, and so on. Layers with a `joint_step` have no such gates. The directions never meet. On a CPU they are computed
at the same time, a thread each, if a step is long enough; else they follow each other, and where a step is short they
go through each operation together, unless in fewer bits. On a GPU they go through each operation together.
"""

from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from torch import Tensor

from ..bilm.config import BiLMConfig
from ..bilm.highway import LayerHighway
from ..bilm.lone import JoinedHighway, LoneLayer
from ..bilm.lstm import LSTMLayer
from ..bilm.stepper import PackedHighway, PackedLayer, Step, split_directions
from ..text.lanes import Ids, LanePlan
from .lone import LoneRunner, is_lone
from .side_by_side import run_side_by_side
from .state import LayerStates
from .workspace import Workspace, WorkspacePool

GATE_BYTES = 8 * 2**20  # gates of a stack, held for one block: what a cache holds, and the C library keeps
WORD_GATE_BYTES = 64 * 2**20  # gates of the first layer in a stack, held for the most frequent words of a plan
LANE_STEP = 8
WORD_STEP = 128  # words whose gates are computed at a time: what is freed has one size then, which fits again
# Multiplications of a step, lanes by recurrent weights of a direction. With less than `FEW` both directions are best
# off in each operation; from `AT_ONCE` on in a thread each, which then do not get in each other's way; between, each
# after the other.
FEW = 4 * 2**20
AT_ONCE = 10 * 2**20
Places = List[Tuple[Tensor, Tensor]]


class LaneRunner:
    """The stack of LSTM layers, ready to run.

    config (BiLMConfig): Sizes and switches.
    layers (Sequence[LSTMLayer]): From the lowest up.
    highways (Sequence[LayerHighway]): Past the second layer and those above, if the config says so.
    """

    def __init__(self, config: BiLMConfig, layers: Sequence[LSTMLayer], highways: Sequence[LayerHighway] = ()) -> None:
        self.config = config
        self.device = layers[0].bias.device
        self._stacks = [
            _Stack(
                config,
                directions,
                [PackedLayer(layer, directions) for layer in layers],
                [PackedHighway(highway, directions) for highway in highways],
            )
            for directions in split_directions(layers[0])
        ]
        self._workspaces = WorkspacePool(self.device, len(self._stacks))
        self._n_weights = layers[0].recurrent_weight[0].numel()
        self._few: Optional[_Stack] = None
        self._lone: Optional[LoneRunner] = None
        # In fewer bits there is less to read, and the packed weights are faster, whatever the number of lanes.
        if self.device.type == "cpu" and not any(layer.low for layer in layers):
            packed = zip(*(stack.layers for stack in self._stacks))  # by layer
            joined = [LoneLayer(layer, parts) for layer, parts in zip(layers, packed)]
            joined_highways = [JoinedHighway(parts) for parts in zip(*(stack.highways for stack in self._stacks))]
            self._lone = LoneRunner(config, joined, joined_highways)
            self._few = _Stack(config, slice(0, config.n_directions), joined, joined_highways)

    @torch.no_grad()
    def run(
        self,
        vectors: Tensor,
        words: Tuple[Ids, ...],
        plan: LanePlan,
        start: LayerStates,
        *,
        slots: Optional[Tuple[Ids, ...]] = None,
        with_end: bool = False,
        workspace: Optional[Workspace] = None,
    ) -> Tuple[Tensor, Optional[LayerStates]]:
        """Compute all layers of all tokens of a plan.

        vectors (Tensor): Shape (U, P), the distinct words.
        words (Tuple[Ids, ...]): For each direction shape (N,), the word of each token in text order.
        plan (LanePlan): Where the sequences lie.
        start (LayerStates): For each layer h (d, rows, P) and c (d, rows, H); one row for all sequences, or one each.
        slots (Optional[Tuple[Ids, ...]]): For each direction shape (N,), the slot of each token; None for the
            backward direction reading each sequence from its end.
        with_end (bool): Also return the states after each sequence.
        workspace (Optional[Workspace]): Where the layers may lie; None for memory of their own.
        RETURNS (Tuple[Tensor, Optional[LayerStates]]): Layers (L+1, N, D), and states with one row per sequence.
        """
        slots = (plan.slots(), plan.slots(backward=True)) if slots is None else slots
        if self._lone is not None and is_lone(plan, self.device):
            return self._lone.run(vectors, words, plan, start, slots)
        n_layers, n_tokens, width = self.config.n_layers, len(words[0]), self.config.output_width
        shape = (n_layers + 1, n_tokens, width)
        layers = vectors.new_empty(shape) if workspace is None else workspace.take("layers", *shape)
        steps = _Steps(plan, self.device, with_end)

        def run_stack(stack: _Stack) -> LayerStates:
            part = stack.directions
            stack_start = [(h[part], 2.0 * c[part]) for h, c in start]
            with self._workspaces.borrow() as own:
                run = _Run(stack, steps, vectors, words[part], slots[part], stack_start, with_end, own)
                for first in range(0, plan.n_steps, run.block_steps):
                    run.block(first, min(first + run.block_steps, plan.n_steps))
                run.write(layers)
                return run.ends

        n_products = plan.n_lanes * self._n_weights
        if n_products >= AT_ONCE:
            ends = run_side_by_side(run_stack, self._stacks)
        elif self._few is not None and n_products < FEW:
            ends = [run_stack(self._few)]
        else:
            ends = [run_stack(stack) for stack in self._stacks]
        return layers, _join_directions(ends) if with_end else None


@dataclass(frozen=True)
class _Stack:
    """Layers of directions that are computed together."""

    config: BiLMConfig
    directions: slice
    layers: Sequence[Union[PackedLayer, LoneLayer]]
    highways: Sequence[Union[PackedHighway, JoinedHighway]]


class _Steps:
    """What happens at each step of a plan, its index arrays on the device."""

    def __init__(self, plan: LanePlan, device: torch.device, with_end: bool) -> None:
        self.plan, self.device = plan, device
        self.n_active = _round_up(plan.n_active, plan.n_lanes)
        self.begin_at = self._by_step(plan.begins())
        self.end_at = self._by_step(plan.ends()) if with_end else []

    def _by_step(self, pairs: Sequence[Tuple[Ids, Ids]]) -> Places:
        """Put the small arrays of all steps on the device at once."""
        sizes = [len(lanes) for lanes, _ in pairs]
        if not sizes:
            return []
        joined = (np.concatenate([pair[k] for pair in pairs]) for k in (0, 1))
        lanes, sequences = (_tensor(part, self.device).split(sizes) for part in joined)
        return list(zip(lanes, sequences))


class _Run:
    """The working memory of one stack in one call. Here d counts the directions of the stack."""

    def __init__(
        self,
        stack: _Stack,
        steps: _Steps,
        vectors: Tensor,
        words: Sequence[Ids],
        slots: Sequence[Ids],
        start: LayerStates,
        with_end: bool,
        workspace: Workspace,
    ) -> None:
        self.stack, self.layers, self.steps, self.plan = stack, stack.layers, steps, steps.plan
        self.vectors, self.start = vectors, start
        self.d = d = len(words)
        self.device = steps.device
        n_lanes, n_steps, width = self.plan.n_lanes, self.plan.n_steps, stack.config.projection_width
        cell_width = stack.config.cell_width
        self.slots = [_tensor(part, self.device) for part in slots]
        self.words = [_tensor(part, self.device) for part in words]
        self.ends: LayerStates = []
        if with_end:
            n_rows = len(self.plan.lengths)
            self.ends = [(h.expand(d, n_rows, -1).clone(), 0.5 * c2.expand(d, n_rows, -1)) for h, c2 in start]
        self.h = [vectors.new_zeros(d, n_lanes, width) for _ in self.layers]
        self.c2 = [vectors.new_zeros(d, n_lanes, cell_width) for _ in self.layers]
        n_layers = len(self.layers)
        self.outputs = workspace.take("outputs", n_layers, d, n_steps, n_lanes, width).zero_().unbind()
        step_bytes = 4 * d * n_lanes * 4 * cell_width
        self.block_steps = max(4, GATE_BYTES // max(1, step_bytes))
        self._gates = workspace.take("gates", d * n_lanes * 4 * cell_width)
        most = max(1, WORD_GATE_BYTES // (4 * d * 4 * cell_width))
        shared, places, others = _assign_rows(words, slots, (n_steps, n_lanes), self.block_steps, most)
        self.places = _tensor(places, self.device)
        self.others = _tensor(np.concatenate([shared[:0], *others]), self.device).split([len(part) for part in others])
        self.n_shared = len(shared)
        n_rows = self.n_shared + max(map(len, others), default=0)
        self.word_gates = workspace.take("word gates", d, n_rows, 4 * cell_width)
        self._fill(0, vectors if len(shared) == len(vectors) else vectors[_tensor(shared, self.device)])

    def block(self, first: int, end: int) -> None:
        """All layers of the steps from `first` to before `end`."""
        n_lanes = self.steps.n_active[first]
        self._fill(self.n_shared, self.vectors[self.others[first // self.block_steps]])
        inputs: Optional[Tensor] = None
        for number, layer in enumerate(self.layers):
            joint_step = layer.joint_step if number else None  # layer 1 has gates of words
            step = joint_step or layer.step
            given = inputs  # (d, K, b, P)
            if inputs is not None and joint_step is None:
                given = layer.input_gates(inputs.flatten(1, 2)).view(self.d, end - first, n_lanes, -1)
            for s in range(first, end):
                b = self.steps.n_active[s]
                part = self._look_up(self.places[:, s, :b]) if given is None else given[:, s - first, :b]
                self._step(number, step, s, part)
            outputs = self.outputs[number][:, first:end, :n_lanes]  # (d, K, b, P), a view
            if inputs is not None and self.stack.config.has_skip:
                outputs += inputs
            elif inputs is not None and self.stack.config.highway_between:
                self.stack.highways[number - 1].mix(inputs, outputs)
            inputs = outputs

    def write(self, layers: Tensor) -> None:
        """layers (Tensor): Shape (L+1, N, D), tokens in text order; the columns of these directions are set."""
        width = self.stack.config.projection_width
        for k in range(self.d):
            column = (self.stack.directions.start + k) * width
            columns = slice(column, column + width)
            layers[0, :, columns] = self.vectors[self.words[k]]
            for number, outputs in enumerate(self.outputs, start=1):
                layers[number, :, columns] = outputs[k].flatten(0, 1)[self.slots[k]]

    def _fill(self, start: int, vectors: Tensor) -> None:
        """vectors (Tensor): Shape (U, P), words whose gates become the rows from `start`."""
        rows = self.word_gates[:, start : start + len(vectors)]
        for part, some in zip(rows.split(WORD_STEP, dim=1), vectors.split(WORD_STEP)):
            if len(some):
                part.copy_(self.layers[0].input_gates(some.unsqueeze(0)))

    def _look_up(self, places: Tensor) -> Tensor:
        """places (Tensor): Shape (d, b).
        RETURNS (Tensor): Shape (d, b, 4H), the gates of words.
        """
        gates = self._gates[: places.numel() * 4 * self.stack.config.cell_width].view(*places.shape, -1)
        for k in range(self.d):
            torch.index_select(self.word_gates[k], 0, places[k], out=gates[k])
        return gates

    def _step(self, number: int, step: Step, s: int, given: Tensor) -> None:
        """One step of a layer.

        given (Tensor): Shape (d, b, ...), what `step` wants besides the state.
        """
        b = given.shape[1]
        h, c2 = self.h[number], self.c2[number]
        if b < h.shape[1]:  # lanes that have ended
            h = h[:, :b]
            c2 = self.c2[number] = c2[:, :b]
        lanes, sequences = self.steps.begin_at[s]
        if len(lanes):
            start_h, start_c2 = self.start[number]
            _put(h, lanes, start_h, sequences)
            _put(c2, lanes, start_c2, sequences)
        out = self.h[number] = step(given, h, c2)
        self.outputs[number][:, s, :b] = out
        if self.ends and len(self.steps.end_at[s][0]):
            lanes, sequences = self.steps.end_at[s]
            self.ends[number][0][:, sequences] = out[:, lanes]
            self.ends[number][1][:, sequences] = 0.5 * c2[:, lanes]


def _assign_rows(
    words: Sequence[Ids], slots: Sequence[Ids], shape: Tuple[int, int], block_steps: int, most: int
) -> Tuple[Ids, Ids, List[Ids]]:
    """Rows for the gates of words: the most frequent ones keep theirs, each block has its own for the others.

    words (Sequence[Ids]): For each direction shape (N,), the word of each token.
    slots (Sequence[Ids]): For each direction shape (N,), the slot of each token.
    shape (Tuple[int, int]): Steps and lanes.
    most (int): Words that keep their rows.
    RETURNS (Tuple[Ids, Ids, List[Ids]]): Words of the first rows; the row of each slot, shape (d, S, lanes); and for
        each block the words of the rows that follow.
    """
    counts = np.bincount(words[0])
    shared = np.arange(len(counts), dtype="int64")
    if len(counts) > most:
        shared = np.sort(np.argsort(-counts, kind="stable")[:most])
    row_of = np.full(len(counts), -1, dtype="int64")
    row_of[shared] = np.arange(len(shared))
    found = np.zeros((len(words), *shape), dtype="int64")  # of slots without a token no more than that they exist
    tokens = np.zeros_like(found)
    for k, (part, places) in enumerate(zip(words, slots)):
        found[k].reshape(-1)[places] = row_of[part]
        tokens[k].reshape(-1)[places] = part
    others = []
    for first in range(0, shape[0], block_steps):
        block = found[:, first : first + block_steps]
        lacks_row = block < 0
        some, numbers = np.unique(tokens[:, first : first + block_steps][lacks_row], return_inverse=True)
        block[lacks_row] = len(shared) + numbers
        others.append(some)
    return shared, found, others


def _round_up(n_active: Ids, n_lanes: int) -> List[int]:
    """A few idle lanes more, which do no harm: libraries prepare a product for each number of rows they meet."""
    rounded = -(-n_active // LANE_STEP) * LANE_STEP
    counts: List[int] = np.where(n_active <= LANE_STEP, n_active, np.minimum(rounded, n_lanes)).tolist()
    return counts


def _tensor(numbers: Ids, device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(numbers)).to(device)


def _join_directions(parts: Sequence[LayerStates]) -> LayerStates:
    return [(torch.cat([h for h, _ in layer]), torch.cat([c for _, c in layer])) for layer in zip(*parts)]


def _put(target: Tensor, lanes: Tensor, source: Tensor, sequences: Tensor) -> None:
    """Set rows of lanes to the start of their sequences; a source of one row serves all."""
    rows = source.expand(-1, len(lanes), -1) if source.shape[1] == 1 else source[:, sequences]
    target.index_copy_(1, lanes, rows)
