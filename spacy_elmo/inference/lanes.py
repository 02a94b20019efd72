"""Run an LSTM stack over a lane plan: no padding, input products in blocks of steps, a small loop over time.

Each block of steps is computed in all layers before the next block, so only the gates of a block are in memory.
"""

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from ..text.lanes import Ids, LanePlan
from .dispatch import LANE_STEP, block_steps
from .packed import Pairs, Stack, Step
from .word_gates import WordGates
from .workspace import Workspace

Places = List[Tuple[Tensor, Tensor]]


class Schedule:
    """Active lanes, begins and ends of sequences at each step of a plan, on the device; shared by the stacks.

    plan (LanePlan): Positions of the sequences.
    device (torch.device): Device of the weights.
    with_end (bool): Whether the states after each sequence are needed.
    """

    def __init__(self, plan: LanePlan, device: torch.device, with_end: bool) -> None:
        self.plan, self.device = plan, device
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
    """Computes one plan with one stack. Here d is the number of directions of the stack.

    stack (Stack): The layers.
    schedule (Schedule): The plan.
    vectors (Tensor): Shape (U, P), vectors of the distinct words.
    words (Sequence[Ids]): For each direction shape (N,), the word of each token in text order.
    slots (Sequence[Ids]): For each direction shape (N,), the slot of each token.
    start (Pairs): Initial states of these directions; one row for all sequences, or one row each.
    workspace (Workspace): Memory of large arrays.
    """

    def __init__(
        self,
        stack: Stack,
        schedule: Schedule,
        vectors: Tensor,
        words: Sequence[Ids],
        slots: Sequence[Ids],
        start: Pairs,
        workspace: Workspace,
    ) -> None:
        self.stack, self.schedule, self.vectors, self.words = stack, schedule, vectors, words
        self.d = d = len(words)
        plan, width, cell_width = schedule.plan, stack.config.projection_width, stack.config.cell_width
        shape = plan.n_steps, plan.n_lanes
        self.slots = [torch.from_numpy(part).to(schedule.device) for part in slots]
        self.start = [(h, 2.0 * c) for h, c in start]
        self.ends = _repeat_rows(start, len(plan.lengths)) if schedule.end_at else []
        self.h = [vectors.new_zeros(d, plan.n_lanes, width) for _ in stack.layers]
        self.c2 = [vectors.new_zeros(d, plan.n_lanes, cell_width) for _ in stack.layers]
        self.outputs = workspace.take("outputs", len(stack.layers), d, *shape, width).zero_().unbind()
        self.block_steps = block_steps(d, plan.n_lanes, cell_width)
        self.word_gates = WordGates(
            stack.layers[0], vectors, words, slots, shape, self.block_steps, 4 * cell_width, workspace
        )

    def run(self) -> None:
        """Compute all layers of all steps."""
        n_steps = self.schedule.plan.n_steps
        for number, first in enumerate(range(0, n_steps, self.block_steps)):
            self.word_gates.begin_block(number)
            self._block(first, min(first + self.block_steps, n_steps))

    def write(self, layers: Tensor) -> None:
        """layers (Tensor): Output, shape (L+1, N, D), tokens in text order; the columns of these directions are set."""
        width = self.stack.config.projection_width
        for k in range(self.d):
            column = (self.stack.directions.start + k) * width
            columns = slice(column, column + width)
            words = torch.from_numpy(self.words[k]).to(self.schedule.device)
            torch.index_select(self.vectors, 0, words, out=layers[0, :, columns])
            for number, outputs in enumerate(self.outputs, start=1):
                torch.index_select(outputs[k].flatten(0, 1), 0, self.slots[k], out=layers[number, :, columns])

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
                step, given = layer.joint_step, inputs
                if step is None:
                    gates = layer.input_gates(inputs.flatten(1, 2))
                    step, given = layer.step, gates.view(self.d, end - first, n_lanes, -1)
                for s in range(first, end):
                    self._step(number, step, s, given[:, s - first, : self.schedule.n_active[s]])
            outputs = self.outputs[number][:, first:end, :n_lanes]  # (d, K, b, P), a view
            if inputs is not None:
                self.stack.combiner.combine_(number, inputs, outputs, self.stack.directions)
            inputs = outputs

    def _step(self, number: int, step: Step, s: int, given: Any) -> None:
        """Compute one step of a layer.

        given (Any): First argument of `step`: gates or inputs.
        """
        b = self.schedule.n_active[s]
        h, c2 = self.h[number], self.c2[number]
        if b < h.shape[1]:  # lanes that have ended
            h = h[:, :b]
            c2 = self.c2[number] = c2[:, :b]
        lanes, sequences = self.schedule.begin_at[s]
        if len(lanes):
            start_h, start_c2 = self.start[number]
            _put(h, lanes, start_h, sequences)
            _put(c2, lanes, start_c2, sequences)
        out = self.h[number] = step(given, h, c2)
        self.outputs[number][:, s, :b] = out
        if self.ends and len(self.schedule.end_at[s][0]):
            lanes, sequences = self.schedule.end_at[s]
            self.ends[number][0][:, sequences] = out[:, lanes]
            self.ends[number][1][:, sequences] = 0.5 * c2[:, lanes]


def round_up(n_active: Ids, n_lanes: int) -> List[int]:
    """n_active (Ids): Shape (S,), active lanes at each step.
    n_lanes (int): B.
    RETURNS (List[int]): Lanes to compute: multiples of `LANE_STEP` at the end of a plan. Results of idle lanes are not
        used.
    """
    rounded = -(-n_active // LANE_STEP) * LANE_STEP
    counts: List[int] = np.where(n_active <= LANE_STEP, n_active, np.minimum(rounded, n_lanes)).tolist()
    return counts


def _repeat_rows(states: Pairs, n_rows: int) -> Pairs:
    """RETURNS (Pairs): A copy of each layer with `n_rows` rows; a single row is repeated."""
    return [(h.expand(-1, n_rows, -1).clone(), c.expand(-1, n_rows, -1).clone()) for h, c in states]


def _put(target: Tensor, lanes: Tensor, source: Tensor, sequences: Tensor) -> None:
    """Set rows of lanes to the initial states of their sequences; a single row is used for all."""
    rows = source.expand(-1, len(lanes), -1) if source.shape[1] == 1 else source[:, sequences]
    target.index_copy_(1, lanes, rows)
