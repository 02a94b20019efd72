"""The LSTM cell for inference in few operations (Sak et al. 2014, without peepholes).

tanh(x) = 2 sigmoid(2x) - 1, so one sigmoid over all gates is enough if the pre-activations of the candidate and the
memory cell are doubled. The factor is folded into the weights of the products; factors that are powers of two are
exact.

If a C compiler was found at installation, `_cell.c` does the same in one pass over the gates.
"""

from typing import NamedTuple, Optional

import torch
from torch import Tensor

from .dispatch import ONE_PASS_NUMBERS, ONE_PASS_THREADS

try:
    from ._cell import update as update_in_one_pass
except ImportError:  # installed without a compiler
    update_in_one_pass = None  # type: ignore[assignment]  # a function or None

PROJECTION_SCALE = 2.0  # folded into the projection, since `update_cell` returns half of the cell's output
NO_CLIP = torch.finfo(torch.float32).max


class GateRows(NamedTuple):
    """Rows of a table of gate pre-activations, to be added to other pre-activations.

    table (Tensor): Shape (d, R, 4H).
    indices (Tensor): Shape (d, b), int64, the selected rows.
    buffer (Tensor): Shape (d, b, 4H), output of `gather`.
    """

    table: Tensor
    indices: Tensor
    buffer: Tensor

    def gather(self) -> Tensor:
        """RETURNS (Tensor): Shape (d, b, 4H), valid until the next call."""
        for own, indices, out in zip(self.table, self.indices, self.buffer):
            torch.index_select(own, 0, indices, out=out)
        return self.buffer


def gate_scale(bias: Tensor) -> Tensor:
    """bias (Tensor): Shape (d, 4H).
    RETURNS (Tensor): Shape (4H,), factors to fold into weights and bias of the gates: 2 for the candidate, else 1.
    """
    scale = torch.ones(4, bias.shape[1] // 4, dtype=torch.float32, device=bias.device)
    scale[1] = 2.0
    return scale.view(-1)


def is_one_pass(gates: Tensor, n_rows: int) -> bool:
    """gates (Tensor): Shape (..., 4H); device and dtype matter.
    n_rows (int): Rows of a step, all directions.
    RETURNS (bool): Whether `update_cell` computes such a step in one pass; `added` is then added without a copy.
    """
    if update_in_one_pass is None or gates.dtype is not torch.float32 or gates.device.type != "cpu":
        return False
    return n_rows * gates.shape[-1] <= ONE_PASS_NUMBERS or torch.get_num_threads() <= ONE_PASS_THREADS


def update_cell(
    acts: Tensor,
    c2: Tensor,
    clip2: Optional[float],
    *,
    candidate_scale: float = 1.0,
    added: Optional[GateRows] = None,
    out: Optional[Tensor] = None,
) -> Tensor:
    """One step: c = clip(i j + f c), and half of o tanh(c).

    acts (Tensor): Shape (d, b, 4H), pre-activations of i, j (candidate), f, o; contiguous, overwritten.
    c2 (Tensor): Shape (d, b, H), twice the memory cell; updated in place.
    clip2 (Optional[float]): Bound of `c2`, None for no clip.
    candidate_scale (float): 2 if the candidate's pre-activations are not doubled, else 1.
    added (Optional[GateRows]): Added to `acts`.
    out (Optional[Tensor]): Shape (d, b, H), output buffer; contiguous.
    RETURNS (Tensor): Shape (d, b, H), half of o * tanh(c).
    """
    if is_one_pass(acts, c2.shape[0] * c2.shape[1]):
        half = torch.empty_like(c2, memory_format=torch.contiguous_format) if out is None else out
        _update_in_one_pass(acts, c2, clip2, candidate_scale, added, half)
        return half
    if added is not None:
        acts += added.gather()
    i, j, f, o = acts.chunk(4, dim=2)
    if candidate_scale != 1.0:
        j.mul_(candidate_scale)
    acts.sigmoid_()
    c2.mul_(f).addcmul_(i, j.sub_(0.5), value=4.0)
    if clip2 is not None:
        c2.clamp_(-clip2, clip2)
    return torch.sigmoid(c2, out=out).sub_(0.5).mul_(o)


def _update_in_one_pass(
    acts: Tensor, c2: Tensor, clip2: Optional[float], candidate_scale: float, added: Optional[GateRows], half: Tensor
) -> None:
    """half (Tensor): Shape (d, b, H), output buffer; for the other arguments see `update_cell`."""
    d, n_rows, width = c2.shape
    for k in range(d):  # addresses in bytes: 4 of a float, 8 of an index
        update_in_one_pass(
            acts.data_ptr() + 16 * k * n_rows * width,
            0 if added is None else added.table.data_ptr() + 4 * k * added.table.stride(0),
            0 if added is None else added.indices.data_ptr() + 8 * k * added.indices.stride(0),
            c2.data_ptr() + 4 * k * c2.stride(0),
            half.data_ptr() + 4 * k * n_rows * width,
            n_rows,
            width,
            candidate_scale,
            NO_CLIP if clip2 is None else clip2,
        )


def clip_output(output: Tensor, clip: Optional[float]) -> Tensor:
    """RETURNS (Tensor): The same tensor, clipped in place."""
    return output if clip is None else output.clamp_(-clip, clip)
