"""Products of float32 rows with constant weights on a CPU, by the native kernel (`_kernel.h`).

Weights are packed once, in float32, or in bfloat16, of which two are an int32. Every sum has one order, so a row gives
the same bits in every batch.
"""

from typing import Any, Optional, Protocol, Tuple

import torch
from torch import Tensor

from .dispatch import MIN_THREAD_MULTIPLICATIONS
from .runtime import run_parallel

try:
    from . import _kernel

    native: Any = _kernel
except ImportError:  # installed without a compiler
    native = None


class Product(Protocol):
    """x -> x W for d directions."""

    def __call__(self, rows: Tensor, added: Optional[Tensor] = None) -> Tensor:
        """From rows (d, N, n_in), and a bias (d, 1, n_out) or a tensor (d, N, n_out) to add, to (d, N, n_out), new."""


class Bfloat16Matrix:
    """d matrices (d, n_in, n_out) in bfloat16, packed for the kernel. They are immutable, so that copies share them.

    scale (Optional[Tensor]): Shape (d, 1, n_out), if the weight is int8 values times this scale. `dense` restores it
        exactly.
    are_gates (bool): Whether columns are the gates of LSTMs, whose panels `KernelStack` reads.
    """

    def __init__(self, weight: Tensor, scale: Optional[Tensor] = None, are_gates: bool = False) -> None:
        self._sizes, self._scale, self._are_gates = weight.shape[1:], scale, are_gates
        self.panels = pack_panels(pair_inputs(order_gates(weight) if are_gates else weight))

    def __deepcopy__(self, memo: Any) -> "Bfloat16Matrix":
        return self

    def __reduce__(self) -> Tuple[Any, ...]:
        return Bfloat16Matrix, (self.dense(), self._scale, self._are_gates)

    def product(self, directions: slice) -> Product:
        """Of a single direction."""
        return kernel_product(self.panels[directions.start], self._sizes[1])

    def dense(self) -> Tensor:
        """RETURNS (Tensor): Shape (d, n_in, n_out), float32."""
        n_in, n_out = self._sizes
        weight = unpair_inputs(unpack_panels(self.panels), n_in)
        weight = restore_gates(weight, n_out // 4) if self._are_gates else weight[..., :n_out].contiguous()
        return weight if self._scale is None else weight.div_(self._scale).round_().mul_(self._scale)


def has_kernel(weight: Any) -> bool:
    """RETURNS (bool): Whether the kernel multiplies with this parameter, float32 on a CPU, or matrix that it packed."""
    if not isinstance(weight, Tensor):
        return isinstance(weight, Bfloat16Matrix)
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


def unpack_panels(panels: Tensor) -> Tensor:
    """The inverse of `pack_panels`, but for the padding."""
    return panels.transpose(-3, -2).flatten(-2)


def pair_inputs(weight: Tensor) -> Tensor:
    """Round (..., n_in, n_out) to bfloat16; two inputs that follow one another are an int32 (..., n_in / 2, n_out)."""
    rounded = torch.nn.functional.pad(weight, (0, 0, 0, weight.shape[-2] % 2)).bfloat16()
    pairs: Tensor = rounded.unflatten(-2, (-1, 2)).transpose(-2, -1).contiguous().view(torch.int32)
    return pairs.squeeze(-1)


def unpair_inputs(pairs: Tensor, n_in: int) -> Tensor:
    """The inverse of `pair_inputs`, in float32."""
    numbers: Tensor = pairs.contiguous().unsqueeze(-1).view(torch.bfloat16)  # (..., pairs, n_out, 2)
    return numbers.transpose(-2, -1).flatten(-3, -2)[..., :n_in, :].float()


def order_gates(columns: Tensor) -> Tensor:
    """From (..., 4H), all i, then all j, f and o, to (..., 4H*): i, j, f, o of each group of W cells in turn."""
    cells = pad_columns(columns.unflatten(-1, (4, -1)))  # (..., 4, H*)
    groups: Tensor = cells.unflatten(-1, (-1, native.PANEL_WIDTH // 2)).transpose(-3, -2)  # (..., groups, 4, W)
    return groups.flatten(-3).contiguous()


def restore_gates(columns: Tensor, n_cells: int) -> Tensor:
    """The inverse of `order_gates`, (..., 4H)."""
    groups: Tensor = columns.unflatten(-1, (-1, 4, native.PANEL_WIDTH // 2))  # (..., groups, 4, W)
    return groups.transpose(-3, -2).flatten(-2)[..., :n_cells].flatten(-2)


def kernel_product(panels: Tensor, n_out: int) -> Product:
    """x -> x W for one direction. A row gives the same bits in every batch; threads divide the rows. Only a bias can be
    added.
    """
    zeros = torch.zeros(panels.shape[0] * panels.shape[2], dtype=torch.float32)

    def product(rows: Tensor, added: Optional[Tensor] = None) -> Tensor:
        inputs = rows[0].contiguous()
        bias = zeros if added is None else pad_columns(added[0, 0]).contiguous()
        outputs = inputs.new_empty(len(inputs), len(bias))
        n_threads = min(torch.get_num_threads(), 1 + inputs.numel() * n_out // MIN_THREAD_MULTIPLICATIONS)
        edges = [len(inputs) * k // n_threads for k in range(n_threads + 1)]
        run_parallel(
            lambda block: multiply(inputs[block], panels, bias, outputs[block]),
            [slice(*pair) for pair in zip(edges, edges[1:])],
            uses_torch=False,
        )
        return outputs[None, :, :n_out]

    return product


def multiply(rows: Tensor, panels: Tensor, bias: Tensor, outputs: Tensor) -> None:
    """Write x W + b to outputs (N, n_out*).

    rows (Tensor): Shape (N, n_in).
    panels (Tensor): Shape (panels, n_in, PANEL_WIDTH), float32, or (panels, n_in / 2, PANEL_WIDTH), pairs of bfloat16.
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
        panels.dtype == torch.int32,
    )
