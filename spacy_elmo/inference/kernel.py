"""Products of float32 rows with constant weights on a CPU, by the native kernel (`_kernel.h`).

Weights are packed once. Every sum has one order, so a row gives the same bits in every batch.
"""

from typing import Any

import torch
from torch import Tensor

try:
    from . import _kernel

    native: Any = _kernel
except ImportError:  # installed without a compiler
    native = None


def has_kernel(weight: Tensor) -> bool:
    """RETURNS (bool): Whether the kernel multiplies with this weight: float32 on a CPU."""
    return native is not None and weight.device.type == "cpu" and weight.dtype == torch.float32


def pad_width(width: int) -> int:
    """RETURNS (int): Columns of whole panels, at least `width`."""
    return int(-(-width // native.PANEL_WIDTH) * native.PANEL_WIDTH)


def pad_columns(columns: Tensor) -> Tensor:
    """From (..., n) to (..., n*), the width of whole panels; zeros are added."""
    return torch.nn.functional.pad(columns, (0, pad_width(columns.shape[-1]) - columns.shape[-1]))


def pack_panels(weight: Tensor) -> Tensor:
    """From (..., n_in, n_out) to (..., panels, n_in, PANEL_WIDTH), a copy."""
    panels: Tensor = pad_columns(weight).unflatten(-1, (-1, native.PANEL_WIDTH)).transpose(-3, -2)
    return panels.clone(memory_format=torch.contiguous_format)


def order_gates(columns: Tensor) -> Tensor:
    """From (..., 4H), all i, then all j, f and o, to (..., 4H*): i, j, f, o of each group of W cells in turn."""
    cells = pad_columns(columns.unflatten(-1, (4, -1)))  # (..., 4, H*)
    groups: Tensor = cells.unflatten(-1, (-1, native.PANEL_WIDTH // 2)).transpose(-3, -2)  # (..., groups, 4, W)
    return groups.flatten(-3).contiguous()


def multiply(rows: Tensor, panels: Tensor, bias: Tensor, outputs: Tensor) -> None:
    """Write x W + b to outputs (N, n_out*).

    rows (Tensor): Shape (N, n_in).
    panels (Tensor): Shape (panels, n_in or more, PANEL_WIDTH), of which the first n_in rows are used.
    bias (Tensor): Shape (n_out*,).
    """
    native.multiply(
        rows.data_ptr(),
        rows.stride(0),
        rows.shape[1],
        panels.data_ptr(),
        bias.data_ptr(),
        outputs.data_ptr(),
        len(rows),
        len(panels),
        panels.stride(0),
        outputs.stride(0),
    )
