"""Products with prepacked weights on CPUs: the operations of oneDNN that torch.compile uses for linear layers.

These operations are not public API of PyTorch; `works` tests each kind before it is used.
"""

import os
from functools import cache, partial
from typing import Callable, Dict, Optional

import torch
from torch import Tensor

from .isolation import isolated

# oneDNN and PyTorch cache a prepared primitive for each shape of a product, by default 1,024 of them, which takes one
# or two gigabytes here, since nearly every product has another number of rows. Both read these variables on first use.
# Values set by the user are kept.
for _name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(_name, "16")

ROWS_HINT = 128
# Levels of int8 inputs on either side of zero, the most precise first. Processors without int8 dot products (x86
# before VNNI) add pairs of products in 16 bits: with 63 levels they do not overflow, as 2 * 127 * 127 < 2^15.
LEVELS = (127, 63)


def pack(weight: Tensor) -> Tensor:
    """From (n_in, n_out), float32 or bfloat16, to a prepacked weight; `to_dense` returns the transposed weight."""
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.t().contiguous(), ROWS_HINT)
    return packed


def linear(rows: Tensor, packed: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """From rows (N, n_in), in the dtype of the weight, to (N, n_out)."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, packed, bias, "none", [], "")
    return product


def linear_plus(rows: Tensor, other: Tensor, packed: Tensor) -> Tensor:
    """The sum of the product and `other`, shape (N, n_out)."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise.binary(rows, other, packed, None, "add")
    return product


def pack_int8(values: Tensor) -> Tensor:
    """From (n_in, n_out), int8, to prepacked values; `to_dense` is the inverse."""
    packed: Tensor = torch.ops.onednn.qlinear_prepack(values.t().contiguous(), None)
    return packed


def linear_int8(levels: Tensor, zero: int, packed: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """From levels (N, n_in), uint8, to (N, n_out), float32; the sums of integers are exact before scaling.

    zero (int): The level that represents zero (zero point).
    scale (Tensor): Shape (n_out,), float32, factors of the columns.
    shift (Tensor): Shape (n_out,), int32, zeros.
    """
    multiply = torch.ops.onednn.qlinear_pointwise
    product: Tensor = multiply(levels, 1.0, zero, packed, scale, shift, None, 1.0, 0, torch.float32, "none", [], "")
    return product


@cache
def works(precision: str) -> bool:
    """Whether products in "float32", "bfloat16" or "int8" are available and correct."""
    if not torch.backends.mkldnn.is_available() or (precision != "float32" and not works("float32")):
        return False
    return _try(_TRIALS[precision])


@cache
def most_levels() -> int:
    """Largest entry of `LEVELS` with exact int8 products, 0 if there is none."""
    return next((levels for levels in LEVELS if _try(partial(_are_exact, levels))), 0)


def _try(trial: Callable[[], bool]) -> bool:
    try:
        return isolated(torch.no_grad()(trial))()
    except (AttributeError, NotImplementedError, RuntimeError, TypeError):  # another version of torch
        return False


def _float32_works() -> bool:
    rows, bias, weight = (torch.ones(sizes, dtype=torch.float32) for sizes in ((2, 3), (2, 4), (3, 4)))
    return torch.equal(linear_plus(rows, bias, pack(weight)), 4 * bias)


def _bfloat16_works() -> bool:
    weight = torch.arange(12.0).view(3, 4).bfloat16()
    packed = pack(weight)
    found = linear(torch.ones(2, 3).bfloat16(), packed)
    return torch.equal(packed.to_dense(), weight.t()) and torch.equal(found[1], weight.sum(dim=0))


def _are_exact(levels: int) -> bool:
    """Whether sums of the largest products are exact."""
    n_in = 64
    values = torch.full((n_in, 2), 127, dtype=torch.int8)
    values[:, 1] = -127
    packed = pack_int8(values)
    rows = torch.full((2, n_in), 2 * levels + 1, dtype=torch.uint8)
    scale = torch.tensor([1.0, 2.0], dtype=torch.float32)
    found = linear_int8(rows, levels + 1, packed, scale, torch.zeros(2, dtype=torch.int32))
    wanted = 127.0 * levels * n_in * torch.tensor([1.0, -2.0], dtype=torch.float32)
    return torch.equal(packed.to_dense(), values) and torch.equal(found[1], wanted)


_TRIALS: Dict[str, Callable[[], bool]] = {
    "float32": _float32_works,
    "bfloat16": _bfloat16_works,
    "int8": lambda: most_levels() > 0,
}
