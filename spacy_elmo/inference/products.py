"""Matrix products with constant weights, prepacked by oneDNN on CPUs.

BLAS libraries pack both operands of every product. In a step of an LSTM the weight is much larger than the other
operand, so packing it once saves up to a third of the time. On GPUs, and in builds of PyTorch without oneDNN, torch's
batched products are used.
"""

from typing import Optional, Protocol, Union

import torch
from torch import Tensor

from . import onednn
from .dispatch import SINGLE_ROW_COLUMNS

Scale = Union[float, Tensor]


class Product(Protocol):
    """x -> x W for one or more directions."""

    def __call__(self, rows: Tensor, bias: Optional[Tensor] = None) -> Tensor:
        """rows (Tensor): Shape (d, N, n_in).
        bias (Optional[Tensor]): Shape (d, 1, n_out), added.
        RETURNS (Tensor): Shape (d, N, n_out), new.
        """

    def plus(self, rows: Tensor, other: Tensor) -> Tensor:
        """rows (Tensor): Shape (d, N, n_in).
        other (Tensor): Shape (d, N, n_out), added.
        RETURNS (Tensor): Shape (d, N, n_out), new.
        """

    def prepare(self) -> None:
        """Pack the weight now instead of at the first product."""


class QuantizedMatrix(Protocol):
    """d matrices in reduced precision, see `quantization`."""

    def product(self, directions: slice) -> Product:
        """RETURNS (Product): Product with the matrices of these directions, with the factors of the columns."""

    def dense(self) -> Tensor:
        """RETURNS (Tensor): Shape (d, n_in, n_out), float32, without the factors of the columns."""


def make_product(weight: Union[Tensor, QuantizedMatrix], directions: slice, scale: Scale = 1.0) -> Product:
    """Create the product with a weight, in the precision of the weight.

    weight (Union[Tensor, QuantizedMatrix]): Shape (d, n_in, n_out).
    directions (slice): Directions of the product.
    scale (Scale): One factor, or one per column; a quantized matrix contains it already.
    RETURNS (Product): The product.
    """
    if not isinstance(weight, Tensor):
        return weight.product(directions)
    some = weight.detach()[directions]
    return PackedProduct(some, scale=scale) if has_packing(some) else BatchedProduct(some, scale)


def has_packing(weight: Tensor) -> bool:
    """RETURNS (bool): Whether `PackedProduct` can be used for this weight."""
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and onednn.works("float32")


class PackedProduct:
    """x -> x (W * scale). The weight is packed on first use.

    The result for a row is bit-identical for every number of rows, so vectors do not depend on the other sequences of
    a batch. (BLAS has faster kernels for one row or a few, with other rounding errors: `single_sequence.py`.)

    weights (Tensor): Shape (1, n_in, n_out), not copied; several are concatenated along n_in.
    scale (Scale): One factor, or one per column.
    """

    def __init__(self, *weights: Tensor, scale: Scale = 1.0) -> None:
        self._weights = [weight[0] for weight in weights]
        self._scale = torch.as_tensor(scale, dtype=torch.float32)
        self._packed: Optional[Tensor] = None

    def __call__(self, rows: Tensor, bias: Optional[Tensor] = None) -> Tensor:
        """rows (Tensor): Shape (1, N, n_in).
        bias (Optional[Tensor]): Shape (1, 1, n_out), added.
        RETURNS (Tensor): Shape (1, N, n_out), new.
        """
        flat_bias = None if bias is None else bias[0, 0]
        if _is_single_long_row(rows):
            return onednn.linear(rows[0].repeat(2, 1), self._pack(), flat_bias)[None, :1]
        return onednn.linear(rows[0], self._pack(), flat_bias).unsqueeze(0)

    def plus(self, rows: Tensor, other: Tensor) -> Tensor:
        """rows (Tensor): Shape (1, N, n_in).
        other (Tensor): Shape (1, N, n_out), added.
        RETURNS (Tensor): Shape (1, N, n_out), new.
        """
        if _is_single_long_row(rows):
            return onednn.linear_plus(rows[0].repeat(2, 1), other[0].repeat(2, 1), self._pack())[None, :1]
        return onednn.linear_plus(rows[0], other[0], self._pack()).unsqueeze(0)

    def prepare(self) -> None:
        """Pack the weight."""
        self._pack()

    def _pack(self) -> Tensor:
        if self._packed is None:
            whole = torch.cat(self._weights) if len(self._weights) > 1 else self._weights[0]
            self._packed = onednn.pack(whole * self._scale)
        return self._packed


def _is_single_long_row(rows: Tensor) -> bool:
    return rows.shape[1] == 1 and rows.shape[2] > SINGLE_ROW_COLUMNS


class BatchedProduct:
    """x -> x (W * scale), d products at once, by torch's operations.

    weight (Tensor): Shape (d, n_in, n_out), copied.
    scale (Scale): One factor, or one per column.
    """

    def __init__(self, weight: Tensor, scale: Scale = 1.0) -> None:
        self._weight = (weight * scale).contiguous()

    def __call__(self, rows: Tensor, bias: Optional[Tensor] = None) -> Tensor:
        """rows (Tensor): Shape (d, N, n_in).
        bias (Optional[Tensor]): Shape (d, 1, n_out), added.
        RETURNS (Tensor): Shape (d, N, n_out), new.
        """
        return torch.bmm(rows, self._weight) if bias is None else torch.baddbmm(bias, rows, self._weight)

    def plus(self, rows: Tensor, other: Tensor) -> Tensor:
        """rows (Tensor): Shape (d, N, n_in).
        other (Tensor): Shape (d, N, n_out), added.
        RETURNS (Tensor): Shape (d, N, n_out), new.
        """
        return torch.baddbmm(other, rows, self._weight)

    def prepare(self) -> None:
        """Do nothing: the weight is not packed."""
