"""Weights in fewer bits, for inference: the matrices of the LSTMs and of the highways.

A network that was lowered has given up its float32 matrices: their parameters are empty (on torch's device "meta"),
and `low` of each module holds them in their new form. Everything else stays float32.
"""

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn

from ..errors import Errors
from . import onednn
from .lstm import PROJECTION_SCALE
from .model import BiLMNetwork
from .products import LowMatrix

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
PRECISIONS = ("float32", "bfloat16", "float16", "int8")
LARGEST = 127  # of an int8 weight
SMALLEST_SCALE = 1e-30
LOW_BITS = 0xFF  # of a scale that has 16 digits (of 24), so that 127 times it is exact


class Heavy(NamedTuple):
    """A matrix that makes out much of a network."""

    key: str  # in the state dict
    module: Any  # an nn.Module with `low`
    name: str  # in the module
    fold: Tensor  # (n_out,), powers of two that the products bring along, see `stepper.PackedLayer`
    is_transposed: bool  # (n_out, n_in) in place of (d, n_in, n_out)


def heavy_weights(network: BiLMNetwork) -> Iterator[Heavy]:
    """YIELDS (Heavy): The matrices that `lower` takes."""
    for prefix, layer in network.lstm.named_children():
        yield from _heavy_of_layer(f"lstm.{prefix}", layer)
    for prefix, highway in network.between.named_children():
        yield Heavy(f"between.{prefix}.weight", highway, "weight", torch.ones(1), False)
    if network.char_cnn is not None:
        for prefix, highway in network.char_cnn.highways.named_children():
            yield Heavy(f"char_cnn.highways.{prefix}.weight", highway, "weight", torch.ones(1), True)


def _heavy_of_layer(prefix: str, layer: Any) -> Iterator[Heavy]:
    gates = layer.gate_scale()
    yield Heavy(f"{prefix}.input_weight", layer, "input_weight", gates, False)
    yield Heavy(f"{prefix}.recurrent_weight", layer, "recurrent_weight", gates, False)
    if layer.projection_weight is not None:
        fold = gates.new_tensor([PROJECTION_SCALE])
        yield Heavy(f"{prefix}.projection_weight", layer, "projection_weight", fold, False)


def check_precision(precision: str, device: torch.device) -> None:
    """RAISES (ValueError): EL014 for an unknown precision, EL015 for one that this device has no products for."""
    if precision not in PRECISIONS:
        known = ", ".join(f'"{name}"' for name in PRECISIONS)
        raise ValueError(Errors.EL014.format(precision=precision, known=known))
    is_cpu = device.type == "cpu"
    if precision == "float32" or (is_cpu and precision != "float16" and onednn.works(precision)):
        return
    if is_cpu or precision == "int8":
        reason = "its products are for CPUs"
        if is_cpu:
            reason = "CPUs compute it many times slower than float32"
            if precision != "float16":
                reason = f"this processor, or this build of PyTorch, has no fast {precision} products"
        fewer = [name for name in ("bfloat16", "int8") if name != precision]
        found = [name for name in fewer if (onednn.works(name) if is_cpu else name != "int8")]
        others = " or ".join(f"'{name}'" for name in ["float32", *found])
        raise ValueError(Errors.EL015.format(precision=precision, device=device, reason=reason, others=others))


@torch.inference_mode(False)
@torch.no_grad()
def lower(network: BiLMNetwork, precision: str) -> None:
    """Bring the heavy weights of a network into a precision, in place. Nothing happens if they are in it.

    network (BiLMNetwork): Of any precision; what rounding took away does not come back.
    precision (str): One of `PRECISIONS`; "float32" makes the parameters whole again.
    RAISES (ValueError): EL014 and EL015, before anything is changed.
    """
    check_precision(precision, network.lstm[0].bias.device)  # type: ignore[arg-type]
    if precision == network.precision:
        return
    for heavy in list(heavy_weights(network)):
        low: Dict[str, LowMatrix] = heavy.module.low
        weight = getattr(heavy.module, heavy.name)
        if heavy.name in low:
            weight = nn.Parameter(_dense(heavy))
            del low[heavy.name]
        if precision != "float32":
            matrices = weight.t().unsqueeze(0) if heavy.is_transposed else weight
            low[heavy.name] = _make(matrices.detach(), heavy.fold, precision)
            weight = nn.Parameter(torch.empty_like(weight, device="meta"), requires_grad=False)
        setattr(heavy.module, heavy.name, weight)
    network.precision = precision


def full_state(network: BiLMNetwork) -> Dict[str, Tensor]:
    """RETURNS (Dict[str, Tensor]): The state dict in float32, matrices in fewer bits as what they round to."""
    state: Dict[str, Tensor] = dict(network.state_dict())
    if network.precision != "float32":
        state.update((heavy.key, _dense(heavy)) for heavy in heavy_weights(network))
    return state


def to_int8(weight: Tensor, dim: int) -> Tuple[Tensor, Tensor]:
    """Round to 255 levels, evenly spaced up to the largest absolute value along a dimension.

    weight (Tensor): Of any shape, float32.
    dim (int): Values along it share a scale: the one that products sum over.
    RETURNS (Tuple[Tensor, Tensor]): int8 values of the same shape, and their float32 scales with `dim` of size 1. What
        they stand for, values times scales, rounds to the same values and scales.
    """
    scale = weight.abs().amax(dim, keepdim=True).clamp_(min=SMALLEST_SCALE).div_(LARGEST)
    bits = scale.view(torch.int32)
    scale = bits.add_(LOW_BITS).bitwise_and_(~LOW_BITS).view(torch.float32)  # upwards
    return weight.div(scale).round_().to(torch.int8), scale


class Int8Matrix:
    """d matrices in int8, a scale for each column.

    weight (Tensor): Shape (d, n_in, n_out), float32.
    fold (Tensor): Factors of the columns that products bring along.
    """

    def __init__(self, weight: Tensor, fold: Tensor) -> None:
        values, scale = to_int8(weight, 1)
        self._packed = [onednn.pack_int8(part) for part in values]
        self._scale = scale.squeeze(1)  # (d, n_out)
        self._fold = fold
        self._shift = torch.zeros(weight.shape[2], dtype=torch.int32, device=weight.device)

    def __deepcopy__(self, memo: Any) -> "Int8Matrix":
        return self  # never changes

    def __reduce__(self) -> Tuple[Any, ...]:
        return Int8Matrix, (self.dense(), self._fold)

    def product(self, directions: slice) -> "Int8Product":
        """directions (slice): One of them."""
        (k,) = range(*directions.indices(len(self._packed)))
        return Int8Product(self._packed[k], self._scale[k] * self._fold, self._shift)

    def dense(self) -> Tensor:
        """RETURNS (Tensor): Shape (d, n_in, n_out), float32, without the fold."""
        parts = [packed.to_dense().float() * scale for packed, scale in zip(self._packed, self._scale)]
        return torch.stack(parts)


class Int8Product:
    """x -> x W in whole numbers: each row is rounded to levels of its own, so that its company does not matter.

    There are 255 of them, or 127 where the processor needs them smaller, see `onednn.LEVELS`.

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

    def _sums(self, rows: Tensor) -> Tuple[Tensor, Tensor]:
        """RETURNS (Tuple[Tensor, Tensor]): Shape (N, n_out), and the scales of the rows, (N, 1)."""
        levels = rows.abs()
        scale = levels.amax(1, keepdim=True).clamp_(min=SMALLEST_SCALE).div_(self._levels)  # (N, 1)
        rounded = torch.mul(rows, scale.reciprocal(), out=levels).round_().to(torch.int8)
        zero = self._levels + 1
        shifted = rounded.view(torch.uint8).add_(zero)  # which wraps around
        return onednn.linear_int8(shifted, zero, self._packed, self._scale, self._shift), scale


class HalfMatrix:
    """d matrices in 16 bits.

    weight (Tensor): Shape (d, n_in, n_out), float32.
    fold (Tensor): Factors of the columns that products bring along, powers of two.
    dtype (torch.dtype): Of 16 bits.
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
        return self  # never changes

    def __reduce__(self) -> Tuple[Any, ...]:
        return HalfMatrix, (self.dense(), self._fold, self._dtype)

    def product(self, directions: slice) -> "HalfProduct":
        """directions (slice): One of them where weights are packed, else any."""
        if self._weight is not None:
            return HalfProduct(self._weight[directions], None)
        return HalfProduct(None, self._packed[directions.start])  # type: ignore[index]

    def dense(self) -> Tensor:
        """RETURNS (Tensor): Shape (d, n_in, n_out), float32, without the fold."""
        folded = self._weight
        if folded is None:
            folded = torch.stack([packed.to_dense().t() for packed in self._packed or []])
        return folded.float() / self._fold


class HalfProduct:
    """x -> x W, rounded to 16 bits; what is added to it is added in float32.

    weight (Optional[Tensor]): Shape (d, n_in, n_out), or
    packed (Optional[Tensor]): from `onednn.pack`.
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

    def _multiply(self, rows: Tensor) -> Tensor:
        if self._packed is not None:
            return onednn.linear(rows[0].bfloat16(), self._packed).unsqueeze(0)
        return torch.bmm(rows.to(self._weight.dtype), self._weight)  # type: ignore[union-attr, arg-type]


def _make(weight: Tensor, fold: Tensor, precision: str) -> LowMatrix:
    return Int8Matrix(weight, fold) if precision == "int8" else HalfMatrix(weight, fold, DTYPES[precision])


def _dense(heavy: Heavy) -> Tensor:
    """RETURNS (Tensor): In float32, in the shape of the parameter."""
    matrices: Tensor = heavy.module.low[heavy.name].dense()
    return matrices[0].t().contiguous() if heavy.is_transposed else matrices
