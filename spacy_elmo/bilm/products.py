"""Matrix products with a weight that stands still, as fast as the device gives them.

BLAS libraries rearrange both operands of every product they compute. In a step of an LSTM the weight is much larger
than the other operand, so that a weight that has been rearranged once, by oneDNN, saves up to a third of the time.
Where torch was built without oneDNN, or on a GPU, the product is torch's own.
"""

import os
from functools import cache
from typing import Optional, Union

import torch
from torch import Tensor

# oneDNN and torch keep what they prepared for each shape of product, the last 1,024 shapes, in up to a gigabyte or two;
# here nearly every product has another number of rows. Both read this when they are first used; what is set stays.
for _name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(_name, "16")

Scale = Union[float, Tensor]
SHORT_ROW = 1024  # oneDNN adds up a longer row that is alone in another order, but not faster than two of them


def has_packing(weight: Tensor) -> bool:
    """RETURNS (bool): Whether `PackedProduct` can be used for this weight."""
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and _onednn_works()


class PackedProduct:
    """x -> x (W * scale). The weight is rearranged when first needed.

    A row comes out the same to the last bit, whatever the number of rows, so that vectors do not depend on what shares
    their batch. (BLAS takes another way for one row, faster, but with other rounding errors: `lone.py`.)

    weight (Tensor): Shape (1, n_in, n_out), not copied.
    scale (Scale): One factor, or one per column.
    """

    def __init__(self, weight: Tensor, scale: Scale = 1.0) -> None:
        self._weight = weight[0]
        self._scale = torch.as_tensor(scale)
        self._packed: Optional[Tensor] = None

    def __call__(self, rows: Tensor, bias: Optional[Tensor] = None) -> Tensor:
        """rows (Tensor): Shape (1, N, n_in).
        bias (Optional[Tensor]): Shape (1, 1, n_out), added.
        RETURNS (Tensor): Shape (1, N, n_out), new.
        """
        flat_bias = None if bias is None else bias[0, 0]
        if rows.shape[1] == 1 and rows.shape[2] > SHORT_ROW:
            return _onednn.linear(rows[0].repeat(2, 1), self._pack(), flat_bias)[None, :1]
        return _onednn.linear(rows[0], self._pack(), flat_bias).unsqueeze(0)

    def plus(self, rows: Tensor, other: Tensor) -> Tensor:
        """rows (Tensor): Shape (1, N, n_in).
        other (Tensor): Shape (1, N, n_out), added.
        RETURNS (Tensor): Shape (1, N, n_out), new.
        """
        return _onednn.linear_plus(rows[0], other[0], self._pack()).unsqueeze(0)

    def _pack(self) -> Tensor:
        if self._packed is None:
            self._packed = _onednn.pack(self._weight * self._scale)
        return self._packed


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


Product = Union[BatchedProduct, PackedProduct]


class _onednn:
    """The operations that torch.compile uses for linear layers on CPUs; not public, therefore tried first."""

    ROWS_HINT = 128

    @staticmethod
    def pack(weight: Tensor) -> Tensor:
        packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.t().contiguous(), _onednn.ROWS_HINT)
        return packed

    @staticmethod
    def linear(rows: Tensor, packed: Tensor, bias: Optional[Tensor]) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, packed, bias, "none", [], "")
        return product

    @staticmethod
    def linear_plus(rows: Tensor, other: Tensor, packed: Tensor) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise.binary(rows, other, packed, None, "add")
        return product


@cache
def _onednn_works() -> bool:
    if not torch.backends.mkldnn.is_available():
        return False
    rows, weight = torch.ones(2, 3), torch.ones(3, 4)
    try:
        found = _onednn.linear_plus(rows, torch.ones(2, 4), _onednn.pack(weight))
    except (AttributeError, NotImplementedError, RuntimeError, TypeError):  # another version of torch
        return False
    return bool(torch.equal(found, torch.full((2, 4), 4.0)))
