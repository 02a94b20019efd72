"""LSTM layers for a single sequence or few lanes, whose speed is limited by memory bandwidth.

A step of one row reads every recurrent weight once. The weights are used as they are in the model, unpacked, and the
overhead of a step is kept small.
"""

import math
from typing import List, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from ..bilm.lstm import LSTMLayer
from ..bilm.state import LSTMState, State
from ..text.lanes import Ids, LanePlan
from .cell import PROJECTION_SCALE, GateRows, clip_output, is_one_pass, update_cell
from .dispatch import SINGLE_GATE_BYTES, SINGLE_ROW_STEP, block_steps
from .packed import PackedLayer, Stack, Step

CANDIDATE_SCALE = 2.0  # no factor is folded into the weights of the model


class UnpackedLayer:
    """One layer, all directions, with the weights of the model itself.

    Only the projection is copied, on first use, in column-major order.

    layer (LSTMLayer): The parameters.
    packed (Sequence[PackedLayer]): The same layer by direction; its input products are used here too.
    """

    joint_step: Optional[Step] = None

    @torch.no_grad()
    def __init__(self, layer: LSTMLayer, packed: Sequence[PackedLayer]) -> None:
        self._packed = packed
        self._recurrent = layer.recurrent_weight.detach()  # (d, P, 4H)
        self._projection = None if layer.projection_weight is None else layer.projection_weight.detach()
        self._columns: Optional[Tensor] = None
        self._clip2 = None if layer.cell_clip is None else 2.0 * layer.cell_clip
        self._projection_clip = layer.projection_clip

    def prepare(self) -> None:
        """Copy the projection now instead of at the first step; `packed` is prepared separately."""
        self._project()

    def input_gates(self, inputs: Tensor) -> Tensor:
        """inputs (Tensor): Shape (d, N, P), or (1, N, P) for all directions.
        RETURNS (Tensor): Shape (d, N, 4H).
        """
        n_rows = inputs.shape[1]
        padded = torch.nn.functional.pad(inputs, (0, 0, 0, -n_rows % SINGLE_ROW_STEP))  # (d, N', P)
        parts = padded.expand(len(self._recurrent), -1, -1).split([len(layer.bias) for layer in self._packed])
        gates = torch.cat([layer.input_gates(part)[:, :n_rows] for layer, part in zip(self._packed, parts)])
        gates.chunk(4, dim=2)[1].mul_(0.5)  # packed layers double those of the candidate
        return gates

    def step(self, gates: Tensor, h: Tensor, c2: Tensor) -> Tensor:
        """Compute one step of a few lanes, see `PackedLayer.step`."""
        return self._finish(torch.baddbmm(gates, h, self._recurrent), c2)

    def step_of_words(self, gates: GateRows, h: Tensor, c2: Tensor) -> Tensor:
        """Like `step`, with rows of a table as the input side of the gates."""
        if is_one_pass(gates.table, gates.indices.numel()):
            return self._finish(torch.bmm(h, self._recurrent), c2, gates)
        return self.step(gates.gather(), h, c2)

    def _finish(self, acts: Tensor, c2: Tensor, added: Optional[GateRows] = None) -> Tensor:
        """See `PackedLayer._finish`."""
        half = update_cell(acts, c2, self._clip2, candidate_scale=CANDIDATE_SCALE, added=added)  # (d, b, H)
        project = self._project()
        return clip_output(half.mul_(2.0) if project is None else torch.bmm(half, project), self._projection_clip)

    def run(self, gates: Tensor, h: Tensor, c2: Tensor, *, is_together: bool) -> Tensor:
        """Compute all steps of one sequence.

        gates (Tensor): Shape (d, S, 4H), from `input_gates`.
        h (Tensor): Shape (d, 1, P), output of the previous step.
        c2 (Tensor): Shape (d, 1, H), twice the memory cell; updated in place.
        is_together (bool): Both directions in each product. Otherwise directions in turn, with a product for each gate
            and for each quarter of the outputs, so that several threads can compute them.
        RETURNS (Tensor): Shape (S, d, 1, P), the outputs.
        """
        outputs = h.new_empty(gates.shape[1], *h.shape)
        project = self._project()
        if is_together:
            acts = gates.new_empty(len(gates), 1, gates.shape[2])  # (d, 1, 4H)
            columns = gates.unsqueeze(2).unbind(1)  # S x (d, 1, 4H)
            written = outputs.unbind()  # S x (d, 1, P)
            self._loop(columns, acts, self._recurrent, project, c2, [h, *written], written)
            return outputs
        for k in range(len(h)):
            acts = gates.new_empty(4, 1, gates.shape[2] // 4)  # (4, 1, H)
            columns = gates[k].unflatten(1, (4, 1, -1)).unbind()  # S x (4, 1, H)
            recurrent = self._recurrent[k].unflatten(1, (4, -1)).transpose(0, 1)  # (4, P, H)
            own, own_c2 = outputs[:, k], c2[k : k + 1]  # (S, 1, P), (1, 1, H)
            read = [h[k].expand(4, 1, -1), *own.unsqueeze(1).expand(-1, 4, -1, -1).unbind()]
            if project is None:
                self._loop(columns, acts, recurrent, None, own_c2, read, own.unsqueeze(1).unbind())
                continue
            n_parts = math.gcd(4, project.shape[2])
            parts = project[k].unflatten(1, (n_parts, -1)).transpose(0, 1)  # (n_parts, H, P / n_parts)
            written = own.unflatten(2, (n_parts, -1)).transpose(1, 2).unbind()  # S x (n_parts, 1, P / n_parts)
            self._loop(columns, acts, recurrent, parts, own_c2, read, written)
        return outputs

    def _loop(
        self,
        from_input: Sequence[Tensor],
        acts: Tensor,
        recurrent: Tensor,
        project: Optional[Tensor],
        c2: Tensor,
        read: Sequence[Tensor],
        written: Sequence[Tensor],
    ) -> None:
        """from_input (Sequence[Tensor]): For each step the input side of the gates, in the shape of `acts`.
        acts (Tensor): Shape (n, 1, W), buffer for the n products that compute the gates of all directions.
        recurrent (Tensor): Shape (n, P, W).
        project (Optional[Tensor]): Shape (m, H, P'), the m products that compute the outputs.
        c2 (Tensor): Shape (d, 1, H), updated in place.
        read (Sequence[Tensor]): For each step shape (n, 1, P), the output of the previous step.
        written (Sequence[Tensor]): For each step shape (m, 1, P'), its output.
        """
        half = torch.empty_like(c2)
        halves = half if project is None else half.expand(len(project), 1, -1)
        rows = acts.view(len(c2), 1, -1)  # (d, 1, 4H)
        for column, before, out in zip(from_input, read, written):
            torch.baddbmm(column, before, recurrent, out=acts)
            update_cell(rows, c2, self._clip2, candidate_scale=CANDIDATE_SCALE, out=half)
            if project is None:
                torch.mul(half, 2.0, out=out)
            else:
                clip_output(torch.bmm(halves, project, out=out), self._projection_clip)

    def _project(self) -> Optional[Tensor]:
        """RETURNS (Optional[Tensor]): Shape (d, H, P), doubled, with contiguous columns."""
        if self._columns is None and self._projection is not None:
            self._columns = (PROJECTION_SCALE * self._projection).transpose(1, 2).contiguous()
        return None if self._columns is None else self._columns.transpose(1, 2)


def run_single_sequence(
    stack: Stack,
    vectors: Tensor,
    words: Sequence[Ids],
    plan: LanePlan,
    start: State,
    slots: Sequence[Ids],
    layers: Tensor,
    *,
    is_together: bool,
    with_end: bool,
) -> Optional[State]:
    """Compute all layers of the only non-empty sequence of a plan, in blocks of steps.

    stack (Stack): Unpacked layers, all directions.
    vectors, words, plan, start, slots: See `Runner.run`.
    layers (Tensor): Output, shape (L+1, N, D).
    is_together (bool): See `UnpackedLayer.run`.
    with_end (bool): See `Runner.run`.
    RETURNS (Optional[State]): States after the sequences, one row each.
    """
    config, d = stack.config, stack.config.n_directions
    own = int(np.flatnonzero(plan.lengths)[0])
    width, n_steps = config.projection_width, plan.n_steps
    read = np.empty((d, n_steps), dtype="int64")  # the word at each step
    for k in range(d):
        read[k, slots[k]] = words[k]
        torch.index_select(vectors, 0, torch.from_numpy(words[k]), out=layers[0, :, k * width : (k + 1) * width])
    order = torch.from_numpy(np.stack(slots[:d]))
    inputs = vectors[torch.from_numpy(read)]  # (d, S, P)
    state = [(_row(h, own).clone(), 2.0 * _row(c, own)) for h, c in start.layers]
    for number, outputs in enumerate(_run_blocks(stack, inputs, state, is_together), start=1):
        for k in range(d):
            torch.index_select(outputs[k], 0, order[k], out=layers[number, :, k * width : (k + 1) * width])
    if not with_end:
        return None
    n_rows = len(plan.lengths)
    ends = [_with_row(before, own, after, n_rows) for before, after in zip(start.layers, state)]
    return State(tuple(LSTMState(*end) for end in ends))


def _run_blocks(stack: Stack, rows: Tensor, state: List[Tuple[Tensor, Tensor]], is_together: bool) -> List[Tensor]:
    """rows (Tensor): Shape (d, S, P).
    state (List[Tuple[Tensor, Tensor]]): For each layer h (d, 1, P) and twice c (d, 1, H); updated in place.
    RETURNS (List[Tensor]): For each layer shape (d, S, P).
    """
    outputs = [torch.empty_like(rows) for _ in stack.layers]
    n_block = block_steps(len(rows), 1, stack.config.cell_width, SINGLE_GATE_BYTES)
    for first in range(0, rows.shape[1], n_block):
        inputs = rows[:, first : first + n_block]
        for number, layer in enumerate(stack.layers):
            h, c2 = state[number]
            found = layer.run(layer.input_gates(inputs), h, c2, is_together=is_together)
            state[number] = (found[-1], c2)
            part = outputs[number][:, first : first + n_block]
            part.copy_(found.squeeze(2).transpose(0, 1))
            stack.combiner.combine_(number, inputs.unsqueeze(2), part.unsqueeze(2), stack.directions)
            inputs = part
    return outputs


def _row(state: Tensor, own: int) -> Tensor:
    """state (Tensor): Shape (d, 1 or rows, ...). RETURNS (Tensor): Shape (d, 1, ...), the row of a sequence."""
    return state if state.shape[1] == 1 else state[:, own : own + 1]


def _with_row(before: Tuple[Tensor, ...], own: int, after: Tuple[Tensor, Tensor], n_rows: int) -> Tuple[Tensor, Tensor]:
    """RETURNS (Tuple[Tensor, Tensor]): h (d, n_rows, P) and c (d, n_rows, H); other rows keep their initial state."""
    h, c = (part.expand(-1, n_rows, -1).clone() for part in before)
    h[:, own], c[:, own] = after[0][:, 0], 0.5 * after[1][:, 0]
    return h, c
