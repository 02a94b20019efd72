"""Matrix products with constant weights: prepacked by oneDNN on CPUs, or in reduced precision.

BLAS libraries pack both operands of every product. In a step of an LSTM the weight is much larger than the other
operand, so packing it once saves up to a third of the time. On GPUs, and in builds of PyTorch without oneDNN, torch's
batched products are used.

In reduced precision a weight is int8 with a scale per column, or has 16 bits.
"""

from typing import Any, Callable, List, Optional, Protocol, Tuple, Union

import torch
from torch import Tensor

from . import onednn
from .dispatch import SINGLE_ROW_COLUMNS

Scale = Union[float, Tensor]

HALF_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
LARGEST = 127  # largest absolute int8 weight
SMALLEST_SCALE = 1e-30
SCALE_MASK = 0xFF  # low bits of a scale; cleared, it has 16 significant bits, so that 127 times the scale is exact


class Product:
    """x -> x W for d directions."""

    def __call__(self, rows: Tensor, bias: Optional[Tensor] = None) -> Tensor:
        """From rows (d, N, n_in), and a bias (d, 1, n_out) to add, to (d, N, n_out), new."""
        raise NotImplementedError

    def plus(self, rows: Tensor, other: Tensor) -> Tensor:
        """From rows (d, N, n_in), and another tensor (d, N, n_out) to add, to (d, N, n_out), new."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Pack the weight now instead of at the first product."""


class QuantizedMatrix(Protocol):
    """d matrices in reduced precision. They are immutable, so that copies share them."""

    def product(self, directions: slice) -> Product:
        """Product with the matrices of these directions, with the factors of the columns."""

    def dense(self) -> Tensor:
        """Shape (d, n_in, n_out), float32, without the factors of the columns."""


def make_product(weight: Union[Tensor, QuantizedMatrix], directions: slice, scale: Scale = 1.0) -> Product:
    """The product of some directions of a weight (d, n_in, n_out), in its precision. `scale` is one factor, or one per
    column; a quantized matrix contains it already.
    """
    if not isinstance(weight, Tensor):
        return weight.product(directions)
    some = weight.detach()[directions]
    return PackedProduct(some, scale=scale) if has_packing(some) else BatchedProduct((some * scale).contiguous())


def has_packing(weight: Tensor) -> bool:
    """Whether `PackedProduct` can be used for this weight."""
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and onednn.works("float32")


class PackedProduct(Product):
    """x -> x (W * scale) for one direction. The weight is packed on first use.

    The result for a row is bit-identical for every number of rows, so vectors do not depend on the other sequences of a
    batch. (BLAS has faster kernels for one row or a few, with other rounding errors: `UnpackedLayer`.)

    weights (Tensor): Shape (1, n_in, n_out), not copied; several are concatenated along n_in.
    """

    def __init__(self, *weights: Tensor, scale: Scale = 1.0) -> None:
        self._weights = [weight[0] for weight in weights]
        self._scale = torch.as_tensor(scale, dtype=torch.float32)
        self._packed: Optional[Tensor] = None

    def __call__(self, rows: Tensor, bias: Optional[Tensor] = None) -> Tensor:
        flat_bias = None if bias is None else bias[0, 0]
        if _is_single_long_row(rows):
            return onednn.linear(rows[0].repeat(2, 1), self._pack(), flat_bias)[None, :1]
        return onednn.linear(rows[0], self._pack(), flat_bias).unsqueeze(0)

    def plus(self, rows: Tensor, other: Tensor) -> Tensor:
        if _is_single_long_row(rows):
            return onednn.linear_plus(rows[0].repeat(2, 1), other[0].repeat(2, 1), self._pack())[None, :1]
        return onednn.linear_plus(rows[0], other[0], self._pack()).unsqueeze(0)

    def prepare(self) -> None:
        self._pack()

    def _pack(self) -> Tensor:
        if self._packed is None:
            whole = torch.cat(self._weights) if len(self._weights) > 1 else self._weights[0]
            self._packed = onednn.pack(whole * self._scale)
        return self._packed


def _is_single_long_row(rows: Tensor) -> bool:
    return rows.shape[1] == 1 and rows.shape[2] > SINGLE_ROW_COLUMNS


class BatchedProduct(Product):
    """x -> x W, all directions at once, by torch's operations. The weight (d, n_in, n_out) is not copied."""

    def __init__(self, weight: Tensor) -> None:
        self._weight = weight

    def __call__(self, rows: Tensor, bias: Optional[Tensor] = None) -> Tensor:
        return torch.bmm(rows, self._weight) if bias is None else torch.baddbmm(bias, rows, self._weight)

    def plus(self, rows: Tensor, other: Tensor) -> Tensor:
        return torch.baddbmm(other, rows, self._weight)


def to_int8(weight: Tensor, dim: int) -> Tuple[Tensor, Tensor]:
    """Round a float32 weight to 255 levels, evenly spaced up to the largest absolute value along a dimension.

    dim (int): The dimension that products sum over; values along it share a scale.
    RETURNS (Tuple[Tensor, Tensor]): int8 values of the same shape, and their float32 scales with `dim` of size 1.
        Rounding is idempotent: the product of both rounds to the same values and scales.
    """
    scale = weight.abs().amax(dim, keepdim=True).clamp_(min=SMALLEST_SCALE).div_(LARGEST)
    bits = scale.view(torch.int32)
    scale = bits.add_(SCALE_MASK).bitwise_and_(~SCALE_MASK).view(torch.float32)  # rounded up
    return weight.div(scale).round_().to(torch.int8), scale


class Int8Matrix:
    """d matrices (d, n_in, n_out) in int8, with a scale for each column; factors to `fold` are applied in products."""

    def __init__(self, weight: Tensor, fold: Tensor) -> None:
        values, scale = to_int8(weight, 1)
        self._packed = [onednn.pack_int8(part) for part in values]
        self._scale = scale.squeeze(1)  # (d, n_out)
        self._fold = fold

    def __deepcopy__(self, memo: Any) -> "Int8Matrix":
        return self

    def __reduce__(self) -> Tuple[Any, ...]:
        return Int8Matrix, (self.dense(), self._fold)

    def product(self, directions: slice) -> "Int8Product":
        """Of a single direction."""
        (k,) = range(*directions.indices(len(self._packed)))
        return Int8Product(self._packed[k], self._scale[k] * self._fold)

    def dense(self) -> Tensor:
        parts = [packed.to_dense().float() * scale for packed, scale in zip(self._packed, self._scale)]
        return torch.stack(parts)


class Int8Product(Product):
    """x -> x W in integers, for one direction. Each row is quantized with its own scale, so results do not depend on
    other rows. It is rounded to 255 levels, or to 127 on processors without int8 dot products, see `onednn.LEVELS`.
    """

    def __init__(self, packed: Tensor, scale: Tensor) -> None:
        self._packed, self._scale = packed, scale
        self._shift = torch.zeros(len(scale), dtype=torch.int32, device=scale.device)
        self._levels = onednn.most_levels()  # either side of zero

    def __call__(self, rows: Tensor, bias: Optional[Tensor] = None) -> Tensor:
        sums, scale = self._sums(rows[0])
        return (sums.mul_(scale) if bias is None else torch.addcmul(bias[0], sums, scale)).unsqueeze(0)

    def plus(self, rows: Tensor, other: Tensor) -> Tensor:
        sums, scale = self._sums(rows[0])
        return torch.addcmul(other[0], sums, scale, out=sums).unsqueeze(0)

    def _sums(self, rows: Tensor) -> Tuple[Tensor, Tensor]:
        """Sums (N, n_out), and the scales of the rows, (N, 1)."""
        levels = rows.abs()
        scale = levels.amax(1, keepdim=True).clamp_(min=SMALLEST_SCALE).div_(self._levels)  # (N, 1)
        rounded = torch.mul(rows, scale.reciprocal(), out=levels).round_().to(torch.int8)
        zero = self._levels + 1
        shifted = rounded.view(torch.uint8).add_(zero)  # wraps around
        return onednn.linear_int8(shifted, zero, self._packed, self._scale, self._shift), scale


class HalfMatrix:
    """d matrices (d, n_in, n_out) in 16 bits; factors to `fold`, powers of two, are applied in products."""

    def __init__(self, weight: Tensor, fold: Tensor, dtype: torch.dtype) -> None:
        self._fold, self._dtype = fold.to(weight.device), dtype
        folded = (weight * self._fold).to(dtype)
        self._packed: List[Tensor] = []
        self._weight: Optional[Tensor] = None
        if weight.device.type == "cpu" and dtype == torch.bfloat16:
            self._packed = [onednn.pack(part) for part in folded]
        else:
            self._weight = folded.contiguous()

    def __deepcopy__(self, memo: Any) -> "HalfMatrix":
        return self

    def __reduce__(self) -> Tuple[Any, ...]:
        return HalfMatrix, (self.dense(), self._fold, self._dtype)

    def product(self, directions: slice) -> "HalfProduct":
        """Of a single direction if weights are packed, otherwise of any."""
        if self._weight is None:
            packed = self._packed[directions.start]
            return HalfProduct(lambda rows: onednn.linear(rows[0].bfloat16(), packed).unsqueeze(0))
        weight = self._weight[directions]
        return HalfProduct(lambda rows: torch.bmm(rows.to(weight.dtype), weight))

    def dense(self) -> Tensor:
        folded = self._weight
        if folded is None:
            folded = torch.stack([packed.to_dense().t() for packed in self._packed])
        return folded.float() / self._fold


class HalfProduct(Product):
    """x -> x W, rounded to 16 bits by `multiply`; sums with other tensors, and results, are float32."""

    def __init__(self, multiply: Callable[[Tensor], Tensor]) -> None:
        self._multiply = multiply

    def __call__(self, rows: Tensor, bias: Optional[Tensor] = None) -> Tensor:
        return self._multiply(rows).float() if bias is None else torch.add(bias, self._multiply(rows))

    def plus(self, rows: Tensor, other: Tensor) -> Tensor:
        return torch.add(other, self._multiply(rows))
