"""Products of float32 rows with constant weights on a CPU, by the native kernel (`_kernel.h`).

Weights are packed once, in float32, or in bfloat16 or int8: two bfloat16 or four int8 values share an int32. Every sum
has one order, so a row gives the same bits in every batch.
"""

from typing import Any, Optional, Protocol, Tuple

import torch
from torch import Tensor

from ..errors import Errors
from ..util import PRECISIONS
from .installation import explain_missing_kernel, import_kernel, warn_missing_kernel
from .kernel_records import WEIGHT_TYPES, KernelProduct, check_layout, pack_record
from .limits import MIN_THREAD_MULTIPLICATIONS
from .runtime import run_parallel

native: Any = import_kernel()
if native is not None:
    check_layout(native)


class Product(Protocol):
    """x -> x W for d directions."""

    def __call__(self, rows: Tensor, added: Optional[Tensor] = None) -> Tensor:
        """From rows (d, N, n_in), and a bias (d, 1, n_out) or a tensor (d, N, n_out) to add, to (d, N, n_out), new."""


N_PACKED = {"bfloat16": 2, "int8": 4}  # inputs in 32 bits
MAX_INT8 = 127  # largest absolute int8 weight
SMALLEST_SCALE = 1e-30
SCALE_MASK = 0xFF  # low bits of a scale; cleared, it has 16 significant bits, so that 127 times the scale is exact


def to_int8(weight: Tensor, dim: int) -> Tuple[Tensor, Tensor]:
    """Round a float32 weight to 255 levels, evenly spaced up to the largest absolute value along a dimension.

    dim (int): The dimension that products sum over; values along it share a scale.
    RETURNS (Tuple[Tensor, Tensor]): int8 values of the same shape, and their float32 scales with `dim` of size 1.
        Rounding is idempotent: the product of both rounds to the same values and scales.
    """
    scale = weight.abs().amax(dim, keepdim=True).clamp_(min=SMALLEST_SCALE).div_(MAX_INT8)
    bits = scale.view(torch.int32)
    scale = bits.add_(SCALE_MASK).bitwise_and_(~SCALE_MASK).view(torch.float32)  # rounded up
    return weight.div(scale).round_().to(torch.int8), scale


class PackedMatrix:
    """d matrices (d, n_in, n_out) in bfloat16, or in int8 with a scale for each column, packed for the kernel. They are
    immutable, so that copies share them.

    precision (str): "bfloat16" or "int8".
    are_gates (bool): Whether columns are the gates of LSTMs, whose panels `KernelStack` reads.
    original (str): See `QuantizedMatrix`.
    panels (Tensor): Shape (d, panels, n_packed, PANEL_WIDTH), int32; those of int8 begin with the scales, as float32.
    """

    def __init__(self, weight: Tensor, precision: str, are_gates: bool = False, original: str = "") -> None:
        check_precision(precision, torch.device("cpu"))  # also of what is unpickled
        self.original = original
        self.precision, self._sizes, self._are_gates = precision, weight.shape[1:], are_gates
        columns = order_gates(weight) if are_gates else weight
        if precision == "bfloat16":
            self.panels = pack_panels(_pack_inputs(columns.bfloat16(), precision))
        else:
            values, scale = to_int8(columns, 1)
            self.panels = pack_panels(torch.cat([scale.view(torch.int32), _pack_inputs(values, precision)], dim=1))

    def __deepcopy__(self, memo: Any) -> "PackedMatrix":
        return self

    def __reduce__(self) -> Tuple[Any, ...]:
        return PackedMatrix, (self.dense(), self.precision, self._are_gates, self.original)

    def product(self, directions: slice) -> Product:
        """The product for one direction."""
        (k,) = range(*directions.indices(len(self.panels)))
        return kernel_product(self.panels[k], self._sizes[1], self.precision)

    def dense(self) -> Tensor:
        """RETURNS (Tensor): Shape (d, n_in, n_out), float32."""
        n_in, n_out = self._sizes
        packed = unpack_panels(self.panels)
        if self.precision == "bfloat16":
            weight = _unpack_inputs(packed, torch.bfloat16)[:, :n_in]
        else:
            values = _unpack_inputs(packed[:, 1:], torch.int8)[:, :n_in]
            weight = values * packed[:, :1].contiguous().view(torch.float32)
        return restore_gates(weight, n_out // 4) if self._are_gates else weight[..., :n_out].contiguous()


def find_unsupported(precision: str, device: torch.device, encoder: str = "lstm") -> Optional[str]:
    """RETURNS (Optional[str]): The reason why a device does not support a precision, None if it does."""
    if precision != "float32" and encoder == "bilstm":
        return f"the encoder '{encoder}' is computed in float32 only"
    if device.type != "cpu":
        return "it is for CPUs only" if precision == "int8" else None
    if precision in N_PACKED and native is None:
        reason, remedy = explain_missing_kernel()
        return f"there is no native kernel, since {reason}. {remedy}"
    return None if precision in WEIGHT_TYPES else "CPUs compute it many times slower than float32"


def check_precision(precision: str, device: torch.device, encoder: str = "lstm") -> None:
    """RAISES (ValueError): For an unknown precision; EL015 if the device does not support it."""
    if precision not in PRECISIONS:
        known = ", ".join(f'"{name}"' for name in PRECISIONS)
        raise ValueError(f"The precision is '{precision}', but should be one of: {known}. Choose one of these.")
    if (reason := find_unsupported(precision, device, encoder)) is not None:
        others = " or ".join(f"'{name}'" for name in PRECISIONS if find_unsupported(name, device, encoder) is None)
        raise ValueError(Errors.EL015.format(precision=precision, device=device, reason=reason, others=others))


def warn_without_kernel(device: torch.device) -> None:
    """Warn with WL022, once in a process, that the kernel is missing on a CPU, which would compute faster with it."""
    if native is None and device.type == "cpu":
        warn_missing_kernel()


def has_kernel(weight: Any) -> bool:
    """RETURNS (bool): Whether the kernel multiplies with this parameter, float32 on a CPU, or matrix that it packed."""
    if not isinstance(weight, Tensor):
        return isinstance(weight, PackedMatrix)
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


def _pack_inputs(weight: Tensor, precision: str) -> Tensor:
    """From (d, n_in, n_out), bfloat16 or int8, to int32 of inputs that follow one another, the first lowest."""
    n_packed = N_PACKED[precision]
    padded = torch.nn.functional.pad(weight, (0, 0, 0, -weight.shape[1] % n_packed))
    numbers: Tensor = padded.unflatten(1, (-1, n_packed)).transpose(2, 3)  # (d, packed, n_out, n_packed)
    return numbers.flatten().view(torch.int32).view(numbers.shape[:3])


def _unpack_inputs(packed: Tensor, dtype: torch.dtype) -> Tensor:
    """The inverse of `_pack_inputs`, but for the padding, in float32."""
    numbers = packed.flatten().view(dtype).view(*packed.shape, -1)  # (d, packed, n_out, n_packed)
    return numbers.transpose(2, 3).flatten(1, 2).float()


def order_gates(columns: Tensor) -> Tensor:
    """From (..., 4H), all i, then all j, f and o, to (..., 4H*): i, j, f, o of each group of W cells in turn."""
    cells = pad_columns(columns.unflatten(-1, (4, -1)))  # (..., 4, H*)
    groups: Tensor = cells.unflatten(-1, (-1, native.PANEL_WIDTH // 2)).transpose(-3, -2)  # (..., groups, 4, W)
    return groups.flatten(-3).contiguous()


def restore_gates(columns: Tensor, n_cells: int) -> Tensor:
    """The inverse of `order_gates`, (..., 4H)."""
    groups: Tensor = columns.unflatten(-1, (-1, 4, native.PANEL_WIDTH // 2))  # (..., groups, 4, W)
    return groups.transpose(-3, -2).flatten(-2)[..., :n_cells].flatten(-2)


def kernel_product(panels: Tensor, n_out: int, precision: str = "float32") -> Product:
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
            lambda thread_rows: multiply(inputs[thread_rows], panels, bias, outputs[thread_rows], precision),
            [slice(*pair) for pair in zip(edges, edges[1:])],
        )
        return outputs[None, :, :n_out]

    return product


def multiply(rows: Tensor, panels: Tensor, bias: Tensor, outputs: Tensor, precision: str) -> None:
    """Write x W + b to outputs (N, n_out*).

    rows (Tensor): Shape (N, n_in).
    panels (Tensor): Shape (panels, n_in, PANEL_WIDTH), float32, or those of a direction of a `PackedMatrix`.
    bias (Tensor): Shape (n_out*,).
    """
    product = KernelProduct(
        rows=rows.data_ptr(),
        rows_stride=rows.stride(0),
        n_in=rows.shape[1],
        weights=panels.data_ptr(),
        bias=bias.data_ptr(),
        out=outputs.data_ptr(),
        n_rows=len(rows),
        n_panels=len(panels),
        panel_size=panels.stride(0),
        out_stride=outputs.stride(0),
        type=WEIGHT_TYPES.index(precision),
    )
    native.multiply(pack_record(product))
