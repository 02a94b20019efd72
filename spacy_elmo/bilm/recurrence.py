"""The recurrent part of an LSTM layer with a backward pass written by hand.

Autograd through a loop over time would record some twenty operations a step and multiply the weight gradients step by
step. Here the loop keeps the gates, walks back once, and leaves the weight gradients to two large products at the end.

tanh(x) is computed as 2 sigmoid(2x) - 1, which is several times faster in torch on CPUs and exact to 1e-7.
"""

from typing import Any, List, Optional, Tuple

import torch
from torch import Tensor


def run_recurrence(
    gates: Tensor,
    recurrent_weight: Tensor,
    projection_weight: Optional[Tensor],
    h: Tensor,
    c: Tensor,
    *,
    resets: Optional[Tensor] = None,
    cell_clip: Optional[float] = None,
    projection_clip: Optional[float] = None,
) -> Tuple[Tensor, Tensor, Tensor]:
    """Step through time: i, j, f, o = gates + h W; c = clip(i j + f c); h = clip(W_P (o tanh(c))).

    gates (Tensor): Shape (d, S, B, 4H), input side and bias of the gates, order i, j, f, o; float32 or bfloat16.
    recurrent_weight (Tensor): Shape (d, R, 4H).
    projection_weight (Optional[Tensor]): Shape (d, H, R), or None if R == H.
    h (Tensor): Shape (d, B, R). No gradient flows into it: back-propagation is truncated here.
    c (Tensor): Shape (d, B, H). The same.
    resets (Optional[Tensor]): Shape (S, B) bool, where the state is set to zero before the step.
    cell_clip (Optional[float]): Bound of c.
    projection_clip (Optional[float]): Bound of h.
    RETURNS (Tuple[Tensor, Tensor, Tensor]): Outputs (d, S, B, R) float32, last h, last c (both detached).
    """
    outputs, cells = _Recurrence.apply(  # type: ignore[no-untyped-call]
        gates, recurrent_weight, projection_weight, h, c, resets, cell_clip, projection_clip
    )
    return outputs, outputs[:, -1].detach(), cells[-1].detach()


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
        cell_clip: Optional[float],
        projection_clip: Optional[float],
    ) -> Tuple[Tensor, Tensor]:
        d, n_steps, n_lanes, width = gates.shape
        dtype = gates.dtype  # of the products; gate arithmetic and states are float32, or float64 with float64
        exact = torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype
        recurrent = recurrent_weight.to(dtype)
        projection = None if projection_weight is None else projection_weight.to(dtype)
        acts = torch.empty(n_steps, d, n_lanes, width, dtype=exact, device=gates.device)
        cells = torch.empty(n_steps, d, n_lanes, width // 4, dtype=exact, device=gates.device)
        outputs = torch.empty(d, n_steps, n_lanes, recurrent.shape[1], dtype=exact, device=gates.device)
        squashed = torch.empty(d, n_steps, n_lanes, width // 4, dtype=dtype, device=gates.device)
        keeps = _keeps(resets, n_steps, exact)
        last_h, last_c = h.to(exact), c.to(exact)
        for s in range(n_steps):
            keep = keeps[s]
            if keep is not None:
                last_h, last_c = last_h * keep, last_c * keep
            act, cell = acts[s], cells[s]
            act.copy_(torch.baddbmm(gates[:, s], last_h.to(dtype), recurrent))
            i, j, f, o = act.chunk(4, dim=2)  # 4 x (d, B, H)
            j.mul_(2)
            act.sigmoid_()
            j.mul_(2).sub_(1)
            torch.mul(f, last_c, out=cell).addcmul_(i, j)
            if cell_clip is not None:
                cell.clamp_(-cell_clip, cell_clip)
            output = _tanh(cell).mul_(o)  # (d, B, H)
            squashed[:, s] = output  # what the projection reads
            if projection is not None:
                output = torch.bmm(squashed[:, s], projection).to(exact)  # (d, B, R)
                if projection_clip is not None:
                    output.clamp_(-projection_clip, projection_clip)
            outputs[:, s] = output
            last_h, last_c = output, cell
        ctx.save_for_backward(acts, cells, outputs, squashed, recurrent, projection, h, c)
        ctx.keeps, ctx.cell_clip, ctx.projection_clip = keeps, cell_clip, projection_clip
        ctx.mark_non_differentiable(cells)
        ctx.set_materialize_grads(False)
        return outputs, cells

    @staticmethod
    def backward(ctx: Any, d_outputs: Optional[Tensor], _: Any) -> Tuple[Optional[Tensor], ...]:
        if d_outputs is None:
            return (None,) * 8
        acts, cells, outputs, squashed, recurrent, projection, h, c = ctx.saved_tensors
        n_steps, d, n_lanes, width = acts.shape
        dtype, exact = squashed.dtype, acts.dtype
        d_gates = torch.empty(d, n_steps, n_lanes, width, dtype=dtype, device=acts.device)
        d_squashed_from = torch.empty(d, n_steps, n_lanes, outputs.shape[3], dtype=dtype, device=acts.device)
        recurrent_t = recurrent.transpose(1, 2).contiguous()
        projection_t = None if projection is None else projection.transpose(1, 2).contiguous()
        d_h: Optional[Tensor] = None
        d_c: Optional[Tensor] = None
        for s in reversed(range(n_steps)):
            i, j, f, o = acts[s].chunk(4, dim=2)
            cell = cells[s]
            d_h = d_outputs[:, s] if d_h is None else d_h.to(exact).add_(d_outputs[:, s])
            if projection_t is not None:
                if ctx.projection_clip is not None:
                    d_h = d_h * (outputs[:, s].abs() < ctx.projection_clip)
                d_squashed_from[:, s] = d_h
                d_m = torch.bmm(d_squashed_from[:, s], projection_t).to(exact)
            else:
                d_m = d_h
            t = _tanh(cell)
            d_act = torch.empty(d, n_lanes, width, dtype=exact, device=acts.device)
            d_i, d_j, d_f, d_o = d_act.chunk(4, dim=2)
            torch.mul(d_m, t, out=d_o)
            d_cell = torch.mul(d_m, o).mul_(t.square_().neg_().add_(1))
            if d_c is not None:
                d_cell.add_(d_c)
            if ctx.cell_clip is not None:
                d_cell.mul_(cell.abs() < ctx.cell_clip)
            torch.mul(d_cell, j, out=d_i)
            torch.mul(d_cell, i, out=d_j).mul_(1 - j * j)
            torch.mul(d_cell, _before(cells, c, ctx.keeps, s), out=d_f)
            d_i.mul_(i).mul_(1 - i)
            d_f.mul_(f).mul_(1 - f)
            d_o.mul_(o).mul_(1 - o)
            d_gates[:, s] = d_act
            if s > 0:
                d_c = d_cell.mul_(f)
                d_h = torch.bmm(d_gates[:, s], recurrent_t)
                if ctx.keeps[s] is not None:
                    d_c, d_h = d_c * ctx.keeps[s], d_h * ctx.keeps[s]
        d_recurrent = torch.bmm(_previous_outputs(outputs, h, ctx.keeps).to(dtype), d_gates.flatten(1, 2))
        d_projection = None
        if projection is not None:
            d_projection = torch.bmm(squashed.flatten(1, 2).transpose(1, 2), d_squashed_from.flatten(1, 2)).to(exact)
        return d_gates, d_recurrent.to(exact), d_projection, None, None, None, None, None


def _tanh(values: Tensor) -> Tensor:
    return torch.mul(values, 2).sigmoid_().mul_(2).sub_(1)


def _keeps(resets: Optional[Tensor], n_steps: int, dtype: torch.dtype) -> List[Optional[Tensor]]:
    """One factor (B, 1) for each step that resets something, None for the others."""
    if resets is None:
        return [None] * n_steps
    is_needed = resets.any(dim=1).tolist()
    return [(~row).to(dtype).unsqueeze(1) if needed else None for row, needed in zip(resets, is_needed)]


def _before(cells: Tensor, c: Tensor, keeps: List[Optional[Tensor]], s: int) -> Tensor:
    before = c.to(cells.dtype) if s == 0 else cells[s - 1]
    keep = keeps[s]
    return before if keep is None else before * keep


def _previous_outputs(outputs: Tensor, h: Tensor, keeps: List[Optional[Tensor]]) -> Tensor:
    """What the recurrent product read at each step, shape (d, R, S * B)."""
    previous = torch.cat([h.to(outputs.dtype).unsqueeze(1), outputs[:, :-1]], dim=1)  # (d, S, B, R)
    for s, keep in enumerate(keeps):
        if keep is not None:
            previous[:, s] *= keep
    return previous.flatten(1, 2).transpose(1, 2)
