"""An LSTM stack over a lane plan: no padding, input products in blocks of steps, a thin loop over time.

Block by block, so that gates of a few steps only are held: first all steps of the block in layer 1, then in layer 2,
and so on.
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
    """What happens at each step of a plan, its index arrays on the device; shared by the stacks.

    plan (LanePlan): Where the sequences are.
    device (torch.device): Of the weights.
    with_end (bool): The states after each sequence are wanted.
    """

    def __init__(self, plan: LanePlan, device: torch.device, with_end: bool) -> None:
        self.plan, self.device = plan, device
        self.n_active = round_up(plan.n_active, plan.n_lanes)
        self.begin_at = self._by_step(plan.begins())
        self.end_at = self._by_step(plan.ends()) if with_end else []

    def _by_step(self, pairs: Sequence[Tuple[Ids, Ids]]) -> Places:
        """Copy the small arrays of all steps to the device at once."""
        sizes = [len(lanes) for lanes, _ in pairs]
        if not sizes:
            return []
        joined = (np.concatenate([pair[k] for pair in pairs]) for k in (0, 1))
        lanes, sequences = (torch.from_numpy(part).to(self.device).split(sizes) for part in joined)
        return list(zip(lanes, sequences))


class LaneRun:
    """One stack over one plan, with its working memory. Here d counts the directions of the stack.

    stack (Stack): The layers.
    schedule (Schedule): The plan.
    vectors (Tensor): Shape (U, P), the distinct words.
    words (Sequence[Ids]): For each direction shape (N,), the word of each token in text order.
    slots (Sequence[Ids]): For each direction shape (N,), the slot of each token.
    start (Pairs): Of these directions; one row for all sequences, or one each.
    workspace (Workspace): Where large arrays are.
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
        """layers (Tensor): Shape (L+1, N, D), tokens in text order; the columns of these directions are set."""
        width = self.stack.config.projection_width
        for k in range(self.d):
            column = (self.stack.directions.start + k) * width
            columns = slice(column, column + width)
            words = torch.from_numpy(self.words[k]).to(self.schedule.device)
            torch.index_select(self.vectors, 0, words, out=layers[0, :, columns])
            for number, outputs in enumerate(self.outputs, start=1):
                torch.index_select(outputs[k].flatten(0, 1), 0, self.slots[k], out=layers[number, :, columns])

    def _block(self, first: int, end: int) -> None:
        """All layers of the steps from `first` to before `end`."""
        n_lanes = self.schedule.n_active[first]
        inputs: Optional[Tensor] = None  # (d, K, b, P), what the layer reads
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
        """One step of a layer.

        given (Any): What `step` takes besides the state.
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
    """n_active (Ids): Shape (S,), lanes with a sequence at each step.
    n_lanes (int): B.
    RETURNS (List[int]): Lanes to compute: in steps of `LANE_STEP` at the end of a plan; idle ones do no harm.
    """
    rounded = -(-n_active // LANE_STEP) * LANE_STEP
    counts: List[int] = np.where(n_active <= LANE_STEP, n_active, np.minimum(rounded, n_lanes)).tolist()
    return counts


def _repeat_rows(states: Pairs, n_rows: int) -> Pairs:
    """RETURNS (Pairs): For each layer copies with `n_rows` rows; a state of one row is repeated."""
    return [(h.expand(-1, n_rows, -1).clone(), c.expand(-1, n_rows, -1).clone()) for h, c in states]


def _put(target: Tensor, lanes: Tensor, source: Tensor, sequences: Tensor) -> None:
    """Set rows of lanes to the start of their sequences; a source of one row is used for all."""
    rows = source.expand(-1, len(lanes), -1) if source.shape[1] == 1 else source[:, sequences]
    target.index_copy_(1, lanes, rows)
