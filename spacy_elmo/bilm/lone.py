"""LSTM layers for a lane that is alone or has little company, where the time goes into reading the weights.

A step of one row needs every recurrent weight once, so that the memory decides, not the arithmetic: each weight is
read as it lies in memory, and whatever else a step does is kept small. Small layers have both directions in one
operation. Larger ones are run a direction at a time, so that half as many weights go through the caches.
"""

import math
from typing import List, Optional, Sequence

import torch
from torch import Tensor

from .lstm import LSTMLayer
from .stepper import PackedHighway, PackedLayer, Step

TOGETHER_WEIGHTS = 2**20  # recurrent ones of a direction, up to which both directions are best off in each operation
ROW_STEP = 8  # libraries prepare a product for each number of rows they meet: let there be few of them


class LoneLayer:
    """One layer with the weights of the model itself; only the projection is copied when first needed, columns first.

    tanh(x) = 2 sigmoid(2x) - 1 and the doubled memory cell are those of `stepper.PackedLayer`.

    layer (LSTMLayer): The parameters.
    packed (Sequence[PackedLayer]): The same layer, prepared for many lanes; its input products serve here, too.
    """

    joint_step: Optional[Step] = None

    @torch.no_grad()
    def __init__(self, layer: LSTMLayer, packed: Sequence[PackedLayer]) -> None:
        self._packed = packed
        self._recurrent = layer.recurrent_weight.detach()  # (d, P, 4H)
        self._projection = None if layer.projection_weight is None else layer.projection_weight.detach()
        self._columns: Optional[Tensor] = None
        self.cell_clip = None if layer.cell_clip is None else 2.0 * layer.cell_clip
        self.projection_clip = layer.projection_clip

    def input_gates(self, inputs: Tensor) -> Tensor:
        """inputs (Tensor): Shape (d, N, P), or (1, N, P) for all directions.
        RETURNS (Tensor): Shape (d, N, 4H).
        """
        n_rows = inputs.shape[1]
        padded = torch.nn.functional.pad(inputs, (0, 0, 0, -n_rows % ROW_STEP))  # (d, N', P)
        parts = padded.expand(len(self._recurrent), -1, -1).split([len(layer.bias) for layer in self._packed])
        gates = torch.cat([layer.input_gates(part)[:, :n_rows] for layer, part in zip(self._packed, parts)])
        gates.chunk(4, dim=2)[1].mul_(0.5)  # the candidate's, which come doubled
        return gates

    def step(self, gates: Tensor, h: Tensor, c2: Tensor) -> Tensor:
        """One step of a few lanes, as `stepper.PackedLayer.step`.

        gates (Tensor): Shape (d, b, 4H), their input side.
        h (Tensor): Shape (d, b, P), outputs of the step before.
        c2 (Tensor): Shape (d, b, H), twice the memory cell; updated in place.
        RETURNS (Tensor): Shape (d, b, P), the outputs.
        """
        acts = torch.baddbmm(gates, h, self._recurrent)
        i, j, f, o = acts.chunk(4, dim=2)  # 4 x (d, b, H)
        squashed = self._cell(acts, i, j, f, o, c2, torch.empty_like(c2))
        project = self._project()
        out = squashed.mul_(2.0) if project is None else torch.bmm(squashed, project)
        self._clip(out)
        return out

    def run(self, gates: Tensor, h: Tensor, c2: Tensor) -> Tensor:
        """All steps of one lane.

        gates (Tensor): Shape (d, S, 4H), from `input_gates`.
        h (Tensor): Shape (d, 1, P), outputs of the step before.
        c2 (Tensor): Shape (d, 1, H), twice the memory cell; updated in place.
        RETURNS (Tensor): Shape (S, d, 1, P), the outputs.
        """
        outputs = h.new_empty(gates.shape[1], *h.shape)
        if self._recurrent[0].numel() <= TOGETHER_WEIGHTS:
            self._run_together(gates, h, c2, outputs)
        else:
            for k in range(len(h)):
                self._run_direction(k, gates[k], h[k], c2[k], outputs[:, k])
        return outputs

    def _run_together(self, gates: Tensor, h: Tensor, c2: Tensor, outputs: Tensor) -> None:
        """outputs (Tensor): Shape (S, d, 1, P), to be written."""
        project = self._project()
        acts = gates.new_empty(len(gates), 1, gates.shape[2])
        squashed = torch.empty_like(c2)
        i, j, f, o = acts.chunk(4, dim=2)  # 4 x (d, 1, H)
        for from_input, out in zip(gates.unsqueeze(2).unbind(1), outputs.unbind()):
            torch.baddbmm(from_input, h, self._recurrent, out=acts)
            self._cell(acts, i, j, f, o, c2, squashed)
            if project is None:
                torch.mul(squashed, 2.0, out=out)
            else:
                torch.bmm(squashed, project, out=out)
            self._clip(out)
            h = out

    def _run_direction(self, k: int, gates: Tensor, h: Tensor, c2: Tensor, outputs: Tensor) -> None:
        """One direction, its products in pieces for several threads: a gate each, then up to four parts of the outputs.

        k (int): The direction.
        gates (Tensor): Shape (S, 4H).
        h (Tensor): Shape (1, P).
        c2 (Tensor): Shape (1, H), updated in place.
        outputs (Tensor): Shape (S, 1, P), to be written.
        """
        n_steps, (_, width) = len(gates), h.shape
        recurrent = self._recurrent[k].unflatten(1, (4, -1)).transpose(0, 1)  # (4, P, H)
        project = self._project()
        n_parts = math.gcd(4, width)
        parts = None if project is None else project[k].unflatten(1, (n_parts, -1)).transpose(0, 1)  # (n, H, P / n)
        acts = gates.new_empty(4, 1, gates.shape[1] // 4)
        squashed = torch.empty_like(c2)
        i, j, f, o = acts.unbind()  # 4 x (1, H)
        for from_input, out in zip(gates.view(n_steps, 4, 1, -1).unbind(), outputs.unbind()):
            torch.baddbmm(from_input, h.expand(4, 1, -1), recurrent, out=acts)
            self._cell(acts, i, j, f, o, c2, squashed)
            if parts is None:
                torch.mul(squashed, 2.0, out=out)
            else:
                torch.bmm(squashed.expand(n_parts, 1, -1), parts, out=out.view(n_parts, 1, -1))
            self._clip(out)
            h = out

    def _clip(self, out: Tensor) -> None:
        """Clip the outputs of a step in place."""
        if self.projection_clip is not None:
            out.clamp_(-self.projection_clip, self.projection_clip)

    def _cell(self, acts: Tensor, i: Tensor, j: Tensor, f: Tensor, o: Tensor, c2: Tensor, squashed: Tensor) -> Tensor:
        """acts (Tensor): All gates, (d, b, 4H), or (4, 1, H) of one direction; changed in place.
        i, j, f, o (Tensor): The gates, parts of `acts`.
        c2 (Tensor): Shape (d, b, H), or (1, H); updated in place.
        squashed (Tensor): The shape of `c2`; set to half of o * tanh(c).
        """
        j.mul_(2.0)
        acts.sigmoid_()
        c2.mul_(f).addcmul_(i, j.sub_(0.5), value=4.0)
        if self.cell_clip is not None:
            c2.clamp_(-self.cell_clip, self.cell_clip)
        return torch.sigmoid(c2, out=squashed).sub_(0.5).mul_(o)

    def _project(self) -> Optional[Tensor]:
        """RETURNS (Optional[Tensor]): Shape (d, H, P), doubled; a column lies together."""
        if self._columns is None and self._projection is not None:
            self._columns = (2.0 * self._projection).transpose(1, 2).contiguous()
        return None if self._columns is None else self._columns.transpose(1, 2)


class JoinedHighway:
    """Highways of single directions as one.

    parts (Sequence[PackedHighway]): In the order of the directions.
    """

    def __init__(self, parts: Sequence[PackedHighway]) -> None:
        self._parts: List[PackedHighway] = list(parts)

    def mix(self, inputs: Tensor, outputs: Tensor) -> None:
        """As `stepper.PackedHighway.mix`."""
        first = 0
        for part in self._parts:
            end = first + len(part.bias)
            part.mix(inputs[first:end], outputs[first:end])
            first = end
