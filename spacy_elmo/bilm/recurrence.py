"""The recurrent part of an LSTM layer (Sak et al. 2014) with a hand-written backward pass.

Autograd through a loop over time would record about twenty operations per step and compute the weight gradients step by
step. Here the forward pass stores the gates, and the backward pass computes the weight gradients in two large products
after its loop.

tanh(x) is computed as 2 sigmoid(2x) - 1, which is several times faster in torch on CPUs and exact to 1e-7.
"""

from typing import Any, List, NamedTuple, Optional, Tuple

import numpy as np
import torch
from torch import Tensor

HALF = (torch.bfloat16, torch.float16)
Keeps = List[Optional[Tensor]]


def run_recurrence(
    gates: Tensor,
    recurrent_weight: Tensor,
    projection_weight: Optional[Tensor],
    h: Tensor,
    c: Tensor,
    *,
    resets: Optional[Tensor] = None,
    mask: Optional[Tensor] = None,
    cell_clip: Optional[float] = None,
    projection_clip: Optional[float] = None,
) -> Tuple[Tensor, Tensor, Tensor]:
    """Run over time: i, j, f, o = gates + h W; c = clip(i j + f c); h = clip(W_P (o tanh(c))).

    The gradient of a clip is zero beyond the bound and one exactly at the bound, as in TensorFlow (`tf.clip_by_value`),
    with which the original models were trained, and whatever `torch.clamp` does: zero at the bound from torch 2.14 on.

    gates (Tensor): Shape (d, S, B, 4H), input side and bias of the gates, order i, j, f, o. Products have its dtype,
        states and sums are float32 or float64.
    recurrent_weight (Tensor): Shape (d, R, 4H).
    projection_weight (Optional[Tensor]): Shape (d, H, R), or None if R == H.
    h (Tensor): Shape (d, B, R). It gets no gradient: backpropagation is truncated here.
    c (Tensor): Shape (d, B, H). It gets no gradient either.
    resets (Optional[Tensor]): Shape (S, B) bool, true where the state is set to zero before the step.
    mask (Optional[Tensor]): Shape (d, B, R), factor of h as input of the gates, the same at all steps: variational
        dropout (Gal & Ghahramani 2016). Outputs and states are not masked.
    cell_clip (Optional[float]): Bound of c.
    projection_clip (Optional[float]): Bound of h.
    RETURNS (Tuple[Tensor, Tensor, Tensor]): Outputs (d, S, B, R) float32, last h, last c (both detached).
    """
    outputs, last_c = _Recurrence.apply(  # type: ignore[no-untyped-call]  # torch gives apply no types
        gates, recurrent_weight, projection_weight, h, c, resets, mask, cell_clip, projection_clip
    )
    return outputs, outputs[:, -1].detach(), last_c


class _Kept(NamedTuple):
    """Values of each step that the backward pass needs.

    acts (Tensor): Shape (S, 4, d, B, H), activations of i, j (candidate), f, o.
    cells (Tensor): Shape (S, d, B, H), memory cells after the clip.
    tanhs (Tensor): Shape (S, d, B, H), tanh of the cells.
    outputs (Tensor): Shape (d, S, B, R), outputs after the clip.
    raw_cells (Tensor): Cells before the clip; the same tensor as `cells` without a clip.
    raw_outputs (Tensor): Outputs before the clip; the same tensor as `outputs` without a clip.
    """

    acts: Tensor
    cells: Tensor
    tanhs: Tensor
    outputs: Tensor
    raw_cells: Tensor
    raw_outputs: Tensor

    def by_step(self) -> List["_Kept"]:
        """RETURNS (List[_Kept]): Views of each step, without the axis S."""
        columns = [tensor.unbind(0) for tensor in (self.acts, self.cells, self.tanhs)]
        columns += [self.outputs.unbind(1), self.raw_cells.unbind(0), self.raw_outputs.unbind(1)]
        return [_Kept(*row) for row in zip(*columns)]


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        recurrent_weight: Tensor,
        projection_weight: Optional[Tensor],
        h: Tensor,
        c: Tensor,
        resets: Optional[Tensor],
        mask: Optional[Tensor],
        cell_clip: Optional[float],
        projection_clip: Optional[float],
    ) -> Tuple[Tensor, Tensor]:
        exact = torch.float32 if gates.dtype in HALF else gates.dtype
        recurrent = recurrent_weight.to(gates.dtype)
        projection = None if projection_weight is None else projection_weight.to(gates.dtype)
        output_clip = None if projection is None else projection_clip
        kept = _allocate(gates, recurrent.shape[1], exact, cell_clip is not None, output_clip is not None)
        layer = _Layer(recurrent, projection, _keeps(resets, gates.shape[1], exact), mask, cell_clip, output_clip)
        start_h, start_c = h.to(exact), c.to(exact)
        _run_forward(layer, kept, gates, start_h, start_c)
        ctx.save_for_backward(*kept, recurrent, projection, start_h, start_c, mask)
        ctx.keeps, ctx.clips, ctx.gates_shape = layer.keeps, (cell_clip, output_clip), gates.shape
        last_c = kept.cells[-1].clone()
        ctx.mark_non_differentiable(last_c)
        ctx.set_materialize_grads(False)
        return kept.outputs, last_c

    @staticmethod
    def backward(ctx: Any, d_outputs: Optional[Tensor], _: Any) -> Tuple[Optional[Tensor], ...]:
        if d_outputs is None:
            return (None,) * 9
        *tensors, recurrent, projection, h, c, mask = ctx.saved_tensors
        kept = _Kept(*tensors)
        layer = _Layer(recurrent, projection, ctx.keeps, mask, *ctx.clips)
        gradients = _gradients(layer, kept, d_outputs, h, c, recurrent.new_empty(ctx.gates_shape))
        return (*gradients, None, None, None, None, None, None)


class _Layer(NamedTuple):
    """The weights in the dtype of the products, and the settings."""

    recurrent: Tensor
    projection: Optional[Tensor]
    keeps: Keeps
    mask: Optional[Tensor]
    cell_clip: Optional[float]
    output_clip: Optional[float]


def _run_forward(layer: _Layer, kept: _Kept, gates: Tensor, h: Tensor, c: Tensor) -> None:
    """Fill `kept`. gates (d, S, B, 4H), h (d, B, R), c (d, B, H)."""
    d, _, n_lanes, width = gates.shape
    pre = torch.empty(d, n_lanes, width, dtype=gates.dtype, device=gates.device)
    by_gate = pre.view(d, n_lanes, 4, -1).permute(2, 0, 1, 3)  # (4, d, B, H)
    for at, gate, keep in zip(kept.by_step(), gates.unbind(1), layer.keeps):
        if keep is not None:
            h, c = h * keep, c * keep
        read = h if layer.mask is None else h * layer.mask
        torch.baddbmm(gate, read.to(gate.dtype), layer.recurrent, out=pre)
        by_gate[1].mul_(2)
        torch.sigmoid(by_gate.to(c.dtype), out=at.acts)
        _update_cells(at, c, layer.cell_clip)
        _project(at, layer)
        h, c = at.outputs, at.cells


def _update_cells(at: _Kept, c: Tensor, clip: Optional[float]) -> None:
    i, j, f, _ = at.acts.unbind(0)  # 4 x (d, B, H)
    j.mul_(2).sub_(1)
    torch.mul(f, c, out=at.raw_cells).addcmul_(i, j)
    if clip is not None:
        torch.clamp(at.raw_cells, -clip, clip, out=at.cells)
    torch.mul(at.cells, 2, out=at.tanhs).sigmoid_().mul_(2).sub_(1)


def _project(at: _Kept, layer: _Layer) -> None:
    squashed = at.acts[3] * at.tanhs  # (d, B, H)
    if layer.projection is not None:
        squashed = torch.bmm(squashed.to(layer.projection.dtype), layer.projection)  # (d, B, R)
    at.raw_outputs.copy_(squashed)
    if layer.output_clip is not None:
        torch.clamp(at.raw_outputs, -layer.output_clip, layer.output_clip, out=at.outputs)


def _gradients(
    layer: _Layer, kept: _Kept, d_outputs: Tensor, h: Tensor, c: Tensor, d_gates: Tensor
) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
    """d_gates (Tensor): Shape (d, S, B, 4H), overwritten.
    RETURNS (Tuple[Tensor, Tensor, Optional[Tensor]]): Gradients of the gates and of both weights.
    """
    dtype = layer.recurrent.dtype
    d_projected = _run_backward(layer, kept, d_outputs, c, d_gates)
    read = _read_outputs(kept.outputs, h, layer.mask, layer.keeps).to(dtype)  # (d, S * B, R)
    d_recurrent = torch.bmm(read.transpose(1, 2), d_gates.flatten(1, 2)).to(h.dtype)
    d_projection: Optional[Tensor] = None
    if layer.projection is not None:
        squashed = (kept.acts[:, 3] * kept.tanhs).to(dtype).transpose(0, 1)  # (d, S, B, H)
        d_projection = torch.bmm(squashed.flatten(1, 2).transpose(1, 2), d_projected.flatten(1, 2)).to(h.dtype)
    return d_gates, d_recurrent, d_projection


def _run_backward(layer: _Layer, kept: _Kept, d_outputs: Tensor, c: Tensor, d_gates: Tensor) -> Tensor:
    """Set `d_gates`, the gradients of the gates (d, S, B, 4H).

    RETURNS (Tensor): Gradients of the projections (d, S, B, R).
    """
    recurrent = layer.recurrent
    d_projected = recurrent.new_empty(kept.outputs.shape)
    d_act = torch.empty_like(kept.acts[0])  # (4, d, B, H)
    steps, d_steps, d_pre = kept.by_step(), d_outputs.unbind(1), d_gates.unbind(1)
    d_h: Optional[Tensor] = None
    d_c: Optional[Tensor] = None
    for s in reversed(range(len(steps))):
        at, keep = steps[s], layer.keeps[s]
        d_h = d_steps[s] if d_h is None else d_h.to(d_act.dtype).add_(d_steps[s])
        before = c if s == 0 else steps[s - 1].cells
        d_squashed = _unproject(at, layer, d_h, d_projected[:, s])
        by_gate = d_pre[s].view(*d_act.shape[1:3], 4, -1).permute(2, 0, 1, 3)  # (4, d, B, H)
        d_c = _cell_backward(at, d_act, d_squashed, d_c, before if keep is None else before * keep, layer.cell_clip)
        _gates_backward(at, d_act, d_act if by_gate.dtype != d_act.dtype else by_gate)
        if by_gate.dtype != d_act.dtype:
            by_gate.copy_(d_act)
        if s > 0:
            d_h = torch.bmm(d_pre[s], recurrent.transpose(1, 2))  # (d, B, R)
            d_h = d_h if layer.mask is None else d_h * layer.mask
            if keep is not None:
                d_h, d_c = d_h * keep, d_c * keep
    return d_projected


def _unproject(at: _Kept, layer: _Layer, d_h: Tensor, d_projected: Tensor) -> Tensor:
    """RETURNS (Tensor): Shape (d, B, H), new."""
    if layer.projection is None:
        return d_h.clone()
    if layer.output_clip is not None:
        d_h = _unclip(d_h, at.raw_outputs, layer.output_clip)
    d_projected.copy_(d_h)
    return torch.bmm(d_projected, layer.projection.transpose(1, 2)).to(at.tanhs.dtype)


def _cell_backward(
    at: _Kept, d_act: Tensor, d_squashed: Tensor, d_c: Optional[Tensor], before: Tensor, clip: Optional[float]
) -> Tensor:
    """Set `d_act` (4, d, B, H) to the gradient of the gate activations.

    RETURNS (Tensor): Shape (d, B, H), the gradient of the cells of the previous step.
    """
    i, j, f, o = at.acts.unbind(0)
    d_i, d_j, d_f, d_o = d_act.unbind(0)
    torch.mul(d_squashed, at.tanhs, out=d_o)
    d_cell = d_squashed.mul_(o)
    _tanh_backward(d_cell, at.tanhs, d_cell)
    if d_c is not None:
        d_cell.add_(d_c)
    if clip is not None:
        d_cell = _unclip(d_cell, at.raw_cells, clip)
    torch.mul(d_cell, j, out=d_i)
    torch.mul(d_cell, i, out=d_j)
    torch.mul(d_cell, before, out=d_f)
    return d_cell.mul_(f)


def _gates_backward(at: _Kept, d_act: Tensor, d_pre: Tensor) -> None:
    """Set `d_pre` (4, d, B, H) to the gradient of the gate pre-activations."""
    _sigmoid_backward(d_act[0], at.acts[0], d_pre[0])
    _tanh_backward(d_act[1], at.acts[1], d_pre[1])
    _sigmoid_backward(d_act[2:], at.acts[2:], d_pre[2:])


def _allocate(
    gates: Tensor, output_width: int, exact: torch.dtype, has_cell_clip: bool, has_output_clip: bool
) -> _Kept:
    """Allocate the tensors. Without a clip, values before and after it share one tensor."""
    d, n_steps, n_lanes, width = gates.shape

    def room(*shape: int) -> Tensor:
        return torch.empty(*shape, dtype=exact, device=gates.device)

    cells, outputs = room(n_steps, d, n_lanes, width // 4), room(d, n_steps, n_lanes, output_width)
    return _Kept(
        acts=room(n_steps, 4, d, n_lanes, width // 4),
        cells=cells,
        tanhs=torch.empty_like(cells),
        outputs=outputs,
        raw_cells=torch.empty_like(cells) if has_cell_clip else cells,
        raw_outputs=torch.empty_like(outputs) if has_output_clip else outputs,
    )


def _unclip(gradient: Tensor, raw: Tensor, clip: float) -> Tensor:
    """The gradient where |raw| <= clip, else zero. The operation excludes its bounds, so they are one ulp larger."""
    numbers = np.float64 if raw.dtype == torch.float64 else np.float32
    bound = float(np.nextafter(numbers(clip), numbers(np.inf)))
    unclipped: Tensor = torch.ops.aten.hardtanh_backward(gradient, raw, -bound, bound)
    return unclipped


def _sigmoid_backward(gradient: Tensor, values: Tensor, out: Tensor) -> None:
    """Multiply a gradient by y (1 - y)."""
    torch.ops.aten.sigmoid_backward.grad_input(gradient, values, grad_input=out)


def _tanh_backward(gradient: Tensor, values: Tensor, out: Tensor) -> None:
    """Multiply a gradient by 1 - y^2."""
    torch.ops.aten.tanh_backward.grad_input(gradient, values, grad_input=out)


def _keeps(resets: Optional[Tensor], n_steps: int, dtype: torch.dtype) -> Keeps:
    """One factor (B, 1) for each step that resets something, None for the others."""
    if resets is None:
        return [None] * n_steps
    is_needed = resets.any(dim=1).tolist()
    return [(~row).to(dtype).unsqueeze(1) if needed else None for row, needed in zip(resets, is_needed)]


def _read_outputs(outputs: Tensor, h: Tensor, mask: Optional[Tensor], keeps: Keeps) -> Tensor:
    """Input of the recurrent product at each step, shape (d, S * B, R)."""
    read = torch.cat([h.unsqueeze(1), outputs[:, :-1]], dim=1)  # (d, S, B, R)
    for s, keep in enumerate(keeps):
        if keep is not None:
            read[:, s] *= keep
    if mask is not None:
        read *= mask.unsqueeze(1)
    return read.flatten(1, 2)
