"""Matrices in reduced precision and their products: int8 with a scale per column, or 16 bits."""

from typing import Any, List, Optional, Tuple

import torch
from torch import Tensor

from . import onednn

HALF_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
LARGEST = 127  # largest absolute int8 weight
SMALLEST_SCALE = 1e-30
SCALE_MASK = 0xFF  # low bits of a scale; cleared, it has 16 significant bits, so that 127 times the scale is exact


def to_int8(weight: Tensor, dim: int) -> Tuple[Tensor, Tensor]:
    """Round to 255 levels, evenly spaced up to the largest absolute value along a dimension.

    weight (Tensor): Any shape, float32.
    dim (int): The dimension that products sum over; values along it share a scale.
    RETURNS (Tuple[Tensor, Tensor]): int8 values of the same shape, and their float32 scales with `dim` of size 1.
        Rounding is idempotent: the product of both rounds to the same values and scales.
    """
    scale = weight.abs().amax(dim, keepdim=True).clamp_(min=SMALLEST_SCALE).div_(LARGEST)
    bits = scale.view(torch.int32)
    scale = bits.add_(SCALE_MASK).bitwise_and_(~SCALE_MASK).view(torch.float32)  # rounded up
    return weight.div(scale).round_().to(torch.int8), scale


class Int8Matrix:
    """d matrices in int8, with a scale for each column.

    weight (Tensor): Shape (d, n_in, n_out), float32.
    fold (Tensor): Factors of the columns, applied in products.
    """

    def __init__(self, weight: Tensor, fold: Tensor) -> None:
        values, scale = to_int8(weight, 1)
        self._packed = [onednn.pack_int8(part) for part in values]
        self._scale = scale.squeeze(1)  # (d, n_out)
        self._fold = fold
        self._shift = torch.zeros(weight.shape[2], dtype=torch.int32, device=weight.device)

    def __deepcopy__(self, memo: Any) -> "Int8Matrix":
        return self  # immutable

    def __reduce__(self) -> Tuple[Any, ...]:
        return Int8Matrix, (self.dense(), self._fold)

    def product(self, directions: slice) -> "Int8Product":
        """directions (slice): A single direction."""
        (k,) = range(*directions.indices(len(self._packed)))
        return Int8Product(self._packed[k], self._scale[k] * self._fold, self._shift)

    def dense(self) -> Tensor:
        """RETURNS (Tensor): Shape (d, n_in, n_out), float32, without the factors of `fold`."""
        parts = [packed.to_dense().float() * scale for packed, scale in zip(self._packed, self._scale)]
        return torch.stack(parts)


class Int8Product:
    """x -> x W in integers. Each row is quantized with its own scale, so results do not depend on other rows.

    A row is rounded to 255 levels, or to 127 on processors without int8 dot products, see `onednn.LEVELS`.

    packed (Tensor): From `onednn.pack_int8`.
    scale (Tensor): Shape (n_out,).
    shift (Tensor): Shape (n_out,), zeros.
    """

    def __init__(self, packed: Tensor, scale: Tensor, shift: Tensor) -> None:
        self._packed, self._scale, self._shift = packed, scale, shift
        self._levels = onednn.most_levels()  # either side of zero

    def __call__(self, rows: Tensor, bias: Optional[Tensor] = None) -> Tensor:
        """rows (Tensor): Shape (1, N, n_in).
        bias (Optional[Tensor]): Shape (1, 1, n_out), added.
        RETURNS (Tensor): Shape (1, N, n_out), new.
        """
        sums, scale = self._sums(rows[0])
        return (sums.mul_(scale) if bias is None else torch.addcmul(bias[0], sums, scale)).unsqueeze(0)

    def plus(self, rows: Tensor, other: Tensor) -> Tensor:
        """rows (Tensor): Shape (1, N, n_in).
        other (Tensor): Shape (1, N, n_out), added.
        RETURNS (Tensor): Shape (1, N, n_out), new.
        """
        sums, scale = self._sums(rows[0])
        return torch.addcmul(other[0], sums, scale, out=sums).unsqueeze(0)

    def prepare(self) -> None:
        """Do nothing: matrices are packed when they are quantized."""

    def _sums(self, rows: Tensor) -> Tuple[Tensor, Tensor]:
        """RETURNS (Tuple[Tensor, Tensor]): Shape (N, n_out), and the scales of the rows, (N, 1)."""
        levels = rows.abs()
        scale = levels.amax(1, keepdim=True).clamp_(min=SMALLEST_SCALE).div_(self._levels)  # (N, 1)
        rounded = torch.mul(rows, scale.reciprocal(), out=levels).round_().to(torch.int8)
        zero = self._levels + 1
        shifted = rounded.view(torch.uint8).add_(zero)  # wraps around
        return onednn.linear_int8(shifted, zero, self._packed, self._scale, self._shift), scale


class HalfMatrix:
    """d matrices in 16 bits.

    weight (Tensor): Shape (d, n_in, n_out), float32.
    fold (Tensor): Factors of the columns, applied in products; powers of two.
    dtype (torch.dtype): bfloat16 or float16.
    """

    def __init__(self, weight: Tensor, fold: Tensor, dtype: torch.dtype) -> None:
        self._fold, self._dtype = fold.to(weight.device), dtype
        folded = (weight * self._fold).to(dtype)
        self._packed: Optional[List[Tensor]] = None
        self._weight: Optional[Tensor] = None
        if weight.device.type == "cpu" and dtype == torch.bfloat16:
            self._packed = [onednn.pack(part) for part in folded]
        else:
            self._weight = folded.contiguous()

    def __deepcopy__(self, memo: Any) -> "HalfMatrix":
        return self  # immutable

    def __reduce__(self) -> Tuple[Any, ...]:
        return HalfMatrix, (self.dense(), self._fold, self._dtype)

    def product(self, directions: slice) -> "HalfProduct":
        """directions (slice): A single direction if weights are packed, otherwise any."""
        if self._weight is not None:
            return HalfProduct(self._weight[directions], None)
        return HalfProduct(None, self._packed[directions.start])  # type: ignore[index]  # one of the two is set

    def dense(self) -> Tensor:
        """RETURNS (Tensor): Shape (d, n_in, n_out), float32, without the factors of `fold`."""
        folded = self._weight
        if folded is None:
            folded = torch.stack([packed.to_dense().t() for packed in self._packed or []])
        return folded.float() / self._fold


class HalfProduct:
    """x -> x W, rounded to 16 bits; sums with other tensors are float32.

    weight (Optional[Tensor]): Shape (d, n_in, n_out).
    packed (Optional[Tensor]): From `onednn.pack`. Exactly one of the two is given.
    """

    def __init__(self, weight: Optional[Tensor], packed: Optional[Tensor]) -> None:
        self._weight, self._packed = weight, packed

    def __call__(self, rows: Tensor, bias: Optional[Tensor] = None) -> Tensor:
        """rows (Tensor): Shape (d, N, n_in).
        bias (Optional[Tensor]): Shape (d, 1, n_out), added.
        RETURNS (Tensor): Shape (d, N, n_out), float32, new.
        """
        return self._multiply(rows).float() if bias is None else torch.add(bias, self._multiply(rows))

    def plus(self, rows: Tensor, other: Tensor) -> Tensor:
        """rows (Tensor): Shape (d, N, n_in).
        other (Tensor): Shape (d, N, n_out), added.
        RETURNS (Tensor): Shape (d, N, n_out), float32, new.
        """
        return torch.add(other, self._multiply(rows))

    def prepare(self) -> None:
        """Do nothing: matrices are packed when they are quantized."""

    def _multiply(self, rows: Tensor) -> Tensor:
        if self._packed is not None:
            return onednn.linear(rows[0].bfloat16(), self._packed).unsqueeze(0)
        return torch.bmm(rows.to(self._weight.dtype), self._weight)  # type: ignore[union-attr, arg-type]  # one of the two is set
