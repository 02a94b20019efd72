"""Matrix products with a weight that stands still, as fast as the device gives them.

BLAS libraries rearrange both operands of every product they compute. In a step of an LSTM the weight is much larger
than the other operand, so that a weight that has been rearranged once, by oneDNN, saves up to a third of the time.
Where torch was built without oneDNN, or on a GPU, the product is torch's own.
"""

from typing import Any, Optional, Protocol, Union

import torch
from torch import Tensor

from . import onednn

Scale = Union[float, Tensor]
SHORT_ROW = 1024  # oneDNN adds up a longer row that is alone in another order, but not faster than two of them


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


class LowMatrix(Protocol):
    """Matrices in fewer bits, see `low_precision`."""

    def product(self, directions: slice) -> Product:
        """RETURNS (Product): With the matrices of these directions."""

    def dense(self) -> Tensor:
        """RETURNS (Tensor): Shape (d, n_in, n_out), float32."""


def make_product(module: Any, name: str, directions: slice, scale: Scale = 1.0) -> Product:
    """The product with a weight of a module, in the precision that it is in.

    module (Any): Has the parameter, shape (d, n_in, n_out), and `low`, its matrices in fewer bits.
    name (str): The parameter.
    directions (slice): Which of them.
    scale (Scale): One factor, or one per column; a matrix in fewer bits holds it already.
    RETURNS (Product): The product.
    """
    if name in module.low:
        low: LowMatrix = module.low[name]
        return low.product(directions)
    weight = getattr(module, name).detach()[directions]
    return PackedProduct(weight, scale=scale) if has_packing(weight) else BatchedProduct(weight, scale)


def has_packing(weight: Tensor) -> bool:
    """RETURNS (bool): Whether `PackedProduct` can be used for this weight."""
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and onednn.works("float32")


class PackedProduct:
    """x -> x (W * scale). The weight is rearranged when first needed.

    A row comes out the same to the last bit, whatever the number of rows, so that vectors do not depend on what shares
    their batch. (BLAS takes other ways for one row or a few, faster, but with other rounding errors: `lone.py`.)

    weights (Tensor): Shape (1, n_in, n_out), not copied; of several the columns are as long as all theirs together.
    scale (Scale): One factor, or one per column.
    """

    def __init__(self, *weights: Tensor, scale: Scale = 1.0) -> None:
        self._weights = [weight[0] for weight in weights]
        self._scale = torch.as_tensor(scale)
        self._packed: Optional[Tensor] = None

    def __call__(self, rows: Tensor, bias: Optional[Tensor] = None) -> Tensor:
        """rows (Tensor): Shape (1, N, n_in).
        bias (Optional[Tensor]): Shape (1, 1, n_out), added.
        RETURNS (Tensor): Shape (1, N, n_out), new.
        """
        flat_bias = None if bias is None else bias[0, 0]
        if _is_alone(rows):
            return onednn.linear(rows[0].repeat(2, 1), self._pack(), flat_bias)[None, :1]
        return onednn.linear(rows[0], self._pack(), flat_bias).unsqueeze(0)

    def plus(self, rows: Tensor, other: Tensor) -> Tensor:
        """rows (Tensor): Shape (1, N, n_in).
        other (Tensor): Shape (1, N, n_out), added.
        RETURNS (Tensor): Shape (1, N, n_out), new.
        """
        if _is_alone(rows):
            return onednn.linear_plus(rows[0].repeat(2, 1), other[0].repeat(2, 1), self._pack())[None, :1]
        return onednn.linear_plus(rows[0], other[0], self._pack()).unsqueeze(0)

    def _pack(self) -> Tensor:
        if self._packed is None:
            whole = torch.cat(self._weights) if len(self._weights) > 1 else self._weights[0]
            self._packed = onednn.pack(whole * self._scale)
        return self._packed


def _is_alone(rows: Tensor) -> bool:
    return rows.shape[1] == 1 and rows.shape[2] > SHORT_ROW


class BatchedProduct:
    """x -> x (W * scale), d products at once, in torch's own operations.

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
