"""Matrix products with constant weights: by the native kernel, by torch, or in reduced precision.

In reduced precision a weight is int8 with a scale per column, or has 16 bits; those of small LSTMs are multiplied in
bfloat16 by the native kernel. `quantize` replaces the matrices of the encoder and of highways of a network; everything
else stays float32. `quantize(network, "float32")` restores parameters, with rounded values.
"""

import os
import warnings
from functools import cache, partial
from typing import Any, Callable, Dict, List, Optional, Protocol, Tuple, Union

import torch
from torch import Tensor, nn

from ..bilm.config import BiLMConfig
from ..bilm.layers import Highway, LayerHighway, is_hooked
from ..bilm.lstm import LSTMLayer
from ..bilm.model import BiLMNetwork
from ..bilm.transformer import TransformerLayer
from ..errors import Errors, Warnings
from ..util import PRECISIONS, shorten
from . import kernel
from .dispatch import INT8_WEIGHTS
from .kernel import Bfloat16Matrix, Product, has_kernel, kernel_product, pack_panels
from .runtime import isolated

Scale = Union[float, Tensor]

HALF_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
LARGEST = 127  # largest absolute int8 weight
SMALLEST_SCALE = 1e-30
PROJECTION_SCALE = 2.0  # folded into the projection, since `lstm.update_cell` returns half of the cell's output
SCALE_MASK = 0xFF  # low bits of a scale; cleared, it has 16 significant bits, so that 127 times the scale is exact


def gate_scale(bias: Tensor) -> Tensor:
    """Factors (4H,) to fold into weights and bias (d, 4H) of the gates: 2 for the candidate, else 1."""
    scale = torch.ones(4, bias.shape[1] // 4, dtype=torch.float32, device=bias.device)
    scale[1] = 2.0
    return scale.view(-1)


class QuantizedMatrix(Protocol):
    """d matrices in reduced precision. They are immutable, so that copies share them."""

    def product(self, directions: slice) -> Product:
        """See `make_product`."""

    def dense(self) -> Tensor:
        """Shape (d, n_in, n_out), float32, without the factors of the columns."""


def make_product(weight: Union[Tensor, QuantizedMatrix], directions: slice, scale: Scale = 1.0) -> Product:
    """The product of some directions of a weight (d, n_in, n_out), in its precision.

    scale (Union[float, Tensor]): One factor, or one per column; a quantized matrix contains it already.
    """
    if not isinstance(weight, Tensor):
        return weight.product(directions)
    scaled = weight.detach()[directions] * scale
    if has_kernel(weight):
        return kernel_product(pack_panels(scaled[0]), scaled.shape[2])
    return _batched_product(scaled.contiguous())


def split_directions(weight: Union[Tensor, QuantizedMatrix], bias: Tensor) -> List[slice]:
    """Directions of a weight and its bias that share a product: all of them in torch's batched products."""
    is_batched = bias.device.type != "cpu" or (isinstance(weight, Tensor) and not has_kernel(bias))
    return [slice(0, len(bias))] if is_batched else [slice(k, k + 1) for k in range(len(bias))]


def _batched_product(weight: Tensor) -> Product:
    """x -> x W with a weight (d, n_in, n_out), all directions at once, by torch."""
    return lambda rows, added=None: torch.bmm(rows, weight) if added is None else torch.baddbmm(added, rows, weight)


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
        self._packed = [pack_int8(part) for part in values]
        self._scale = scale.squeeze(1)  # (d, n_out)
        self._fold = fold

    def __deepcopy__(self, memo: Any) -> "Int8Matrix":
        return self

    def __reduce__(self) -> Tuple[Any, ...]:
        return Int8Matrix, (self.dense(), self._fold)

    def product(self, directions: slice) -> Product:
        """Of a single direction."""
        (k,) = range(*directions.indices(len(self._packed)))
        return _int8_product(self._packed[k], self._scale[k] * self._fold)

    def dense(self) -> Tensor:
        parts = [packed.to_dense().float() * scale for packed, scale in zip(self._packed, self._scale)]
        return torch.stack(parts)


def _int8_product(packed: Tensor, column_scale: Tensor) -> Product:
    """x -> x W in integers, for one direction. Each row is quantized with its own scale, so results do not depend on
    other rows. It is rounded to 255 levels, or to 127 on processors without int8 dot products, see `LEVELS`.
    """
    shift = torch.zeros(len(column_scale), dtype=torch.int32, device=column_scale.device)
    n_levels = most_levels()  # either side of zero

    def product(rows: Tensor, added: Optional[Tensor] = None) -> Tensor:
        inputs = rows[0]
        scale = inputs.abs().amax(1, keepdim=True).clamp_(min=SMALLEST_SCALE).div_(n_levels)  # (N, 1)
        zero = n_levels + 1
        levels = torch.mul(inputs, scale.reciprocal()).round_().to(torch.int8).view(torch.uint8).add_(zero)  # wraps
        sums = linear_int8(levels, zero, packed, column_scale, shift)  # (N, n_out)
        return (sums.mul_(scale) if added is None else torch.addcmul(added[0], sums, scale, out=sums)).unsqueeze(0)

    return product


class HalfMatrix:
    """d matrices in 16 bits on a GPU; factors to `fold`, powers of two, are applied in products."""

    def __init__(self, weight: Tensor, fold: Tensor, dtype: torch.dtype) -> None:
        self._fold = fold.to(weight.device)
        self._weight = (weight * self._fold).to(dtype).contiguous()

    def __deepcopy__(self, memo: Any) -> "HalfMatrix":
        return self

    def __reduce__(self) -> Tuple[Any, ...]:
        return HalfMatrix, (self.dense(), self._fold, self._weight.dtype)

    def product(self, directions: slice) -> Product:
        """Rounded to 16 bits; sums with other tensors, and results, are float32."""
        weight = self._weight[directions]

        def product(rows: Tensor, added: Optional[Tensor] = None) -> Tensor:
            sums = torch.bmm(rows.to(weight.dtype), weight)
            return sums.float() if added is None else torch.add(added, sums)

        return product

    def dense(self) -> Tensor:
        return self._weight.float() / self._fold


# Operations of oneDNN that torch.compile uses for linear layers. They are not public API of PyTorch;
# `most_levels` tests them before they are used.

# oneDNN and PyTorch cache a prepared primitive for each shape of a product, by default 1,024 of them, which takes one
# or two gigabytes here, since nearly every product has another number of rows. Both read these variables on first use.
# Values set by the user are kept.
for _name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(_name, "16")

# Levels of int8 inputs on either side of zero, the most precise first. Processors without int8 dot products (x86
# before VNNI) add pairs of products in 16 bits: with 63 levels they do not overflow, as 2 * 127 * 127 < 2^15.
LEVELS = (127, 63)
# Limits of oneDNN (ONEDNN_MAX_CPU_ISA) without instructions for bfloat16 products.
ISAS_WITHOUT_BFLOAT16 = ("SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2", "AVX512_CORE", "AVX512_CORE_VNNI")


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


def works(precision: str) -> bool:
    """Whether products in "bfloat16" (native kernel) or "int8" (oneDNN) are available on a CPU, and correct."""
    if precision == "bfloat16":
        return kernel.native is not None
    return torch.backends.mkldnn.is_available() and most_levels() > 0


@cache
def has_bfloat16_units(device: torch.device = torch.device("cpu")) -> bool:
    """Whether torch's products in bfloat16 use instructions of the device, on a CPU AVX512-BF16, which all with AMX
    have. Otherwise they are emulated, at many times the cost of float32. The limit of oneDNN is read as well.
    """
    if device.type == "cuda":
        with torch.cuda.device(device):
            return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", os.environ.get("DNNL_MAX_CPU_ISA", ""))
    is_known = bool(getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)())
    return torch.backends.mkldnn.is_available() and is_known and limit.upper() not in ISAS_WITHOUT_BFLOAT16


@cache
def most_levels() -> int:
    """Largest entry of `LEVELS` with exact int8 products, 0 if there is none."""
    return next((levels for levels in LEVELS if _try(partial(_are_exact, levels))), 0)


def _try(trial: Callable[[], bool]) -> bool:
    try:
        return isolated(torch.no_grad()(trial))()
    except (AttributeError, NotImplementedError, RuntimeError, TypeError):  # another version of torch
        return False


def _are_exact(levels: int) -> bool:
    """Whether sums of the largest products are exact."""
    n_in = 64
    values = torch.full((n_in, 2), 127, dtype=torch.int8)
    values[:, 1] = -127
    packed = pack_int8(values)
    rows = torch.full((2, n_in), 2 * levels + 1, dtype=torch.uint8)
    scale = torch.tensor([1.0, 2.0], dtype=torch.float32)
    product = linear_int8(rows, levels + 1, packed, scale, torch.zeros(2, dtype=torch.int32))
    exact = 127.0 * levels * n_in * torch.tensor([1.0, -2.0], dtype=torch.float32)
    return torch.equal(packed.to_dense(), values) and torch.equal(product[1], exact)


# Networks in reduced precision

RECURRENT = (LSTMLayer, LayerHighway)
KINDS = (*RECURRENT, TransformerLayer, Highway)
MATRICES = tuple(f"{part}weight" for part in ("recurrent_", "projection_", "", "input_", "output_", "up_", "down_"))


def check_precision(precision: str, device: torch.device) -> None:
    """RAISES (ValueError): For an unknown precision; EL015 if the device does not support it."""
    if precision not in PRECISIONS:
        known = ", ".join(f'"{name}"' for name in PRECISIONS)
        raise ValueError(f"The precision is '{precision}', but should be one of: {known}. Choose one of these.")
    is_cpu = device.type == "cpu"
    if precision == "float32" or (is_cpu and precision != "float16" and works(precision)):
        return
    if is_cpu or precision == "int8":
        reason = "it is for CPUs only"
        if is_cpu:
            reason = {
                "float16": "CPUs compute it many times slower than float32",
                "bfloat16": "the native kernel was not compiled at installation",
                "int8": "this processor, or this build of PyTorch, has no fast int8 products",
            }[precision]
        reduced = [name for name in ("bfloat16", "int8") if name != precision]
        supported = [name for name in reduced if (works(name) if is_cpu else name != "int8")]
        others = " or ".join(f"'{name}'" for name in ["float32", *supported])
        raise ValueError(Errors.EL015.format(precision=precision, device=device, reason=reason, others=others))


def _warn_if_slow(precision: str, device: torch.device, has_small_lstms: bool) -> None:
    """Warn of a precision that `check_precision` accepts, and that is slower than float32 on this device (WL021)."""
    reason = ""
    if precision == "bfloat16" and device.type != "cpu" and not has_bfloat16_units(device):
        reason = "it has no instructions for bfloat16"
    if precision == "int8" and not has_small_lstms and most_levels() < LEVELS[0]:
        reason = (
            "without VNNI instructions, one sentence at a time has 0.18 to 0.6 times the speed of float32; batches of "
            "a large biLM are faster, and all need less memory"
        )
    if reason:
        warnings.warn(Warnings.WL021.format(precision=precision, device=device, reason=reason), stacklevel=2)


def require_float32(precision: str, what: str, remedy: str) -> None:
    """RAISES (ValueError): For another precision."""
    if precision != "float32":
        raise ValueError(f"{what} needs float32 weights, but their precision is {precision}. {remedy}")


@torch.inference_mode(False)
@torch.no_grad()
def quantize(network: BiLMNetwork, precision: str) -> None:
    """Replace the large matrices of a network, in place; "float32" restores parameters, with rounded values. Does
    nothing if they are in this precision already.

    RAISES (ValueError): See `check_precision`, before anything is changed; EL015 also for the encoder "bilstm"; if
        modules whose matrices would be replaced have hooks or parametrizations.
    """
    check_precision(precision, network.device)
    if precision == network.precision:
        return
    if precision != "float32" and network.config.encoder == "bilstm":
        reason = f"the encoder '{network.config.encoder}' is computed in float32 only"
        raise ValueError(
            Errors.EL015.format(precision=precision, device=network.device, reason=reason, others="'float32'")
        )
    if hooked := [prefix for prefix, module in _quantizable(network) if is_hooked(module)]:
        raise ValueError(
            f"Modules of the biLM have hooks or parametrizations ({shorten(', '.join(hooked))}), which a change from "
            f"{network.precision} to {precision} would lose. Remove them before it."
        )
    has_small_lstms = _has_small_lstms(network.config)
    _warn_if_slow(precision, network.device, has_small_lstms)
    for _, module in _quantizable(network):
        is_trained = any(parameter.requires_grad for parameter in module.parameters())
        is_small = has_small_lstms and isinstance(module, RECURRENT)
        for name, weight in _dense_matrices(module).items():
            vars(module).pop(name, None)
            module._parameters[name] = None  # hidden by the quantized matrix; keeps its place among the others
            if precision == "float32":
                module._parameters[name] = nn.Parameter(weight, requires_grad=is_trained)
            else:
                vars(module)[name] = _quantize(module, name, weight, precision, is_small)
    network.precision = precision


def full_state(network: BiLMNetwork) -> Dict[str, Tensor]:
    """The state dict in float32, with the rounded values of quantized matrices."""
    state: Dict[str, Tensor] = dict(network.state_dict())
    if network.precision != "float32":
        for prefix, module in _quantizable(network):
            state.update((f"{prefix}.{name}", weight) for name, weight in _dense_matrices(module).items())
    return state


def quantizable_names(network: BiLMNetwork) -> List[str]:
    """Entries of `full_state` that int8 rounds, for a network in any precision."""
    return [f"{prefix}.{name}" for prefix, module in _quantizable(network) for name in _matrices(module)]


def _quantizable(network: BiLMNetwork) -> List[Tuple[str, nn.Module]]:
    """Modules with matrices, and their prefixes in the state dict."""
    return [(prefix, module) for prefix, module in network.named_modules() if isinstance(module, KINDS)]


def _matrices(module: nn.Module) -> Dict[str, Any]:
    """Matrices by name: parameters, or quantized ones. An LSTM without projection has None as its weight."""
    matrices = {name: getattr(module, name, None) for name in MATRICES}
    return {name: matrix for name, matrix in matrices.items() if matrix is not None}


def _dense_matrices(module: nn.Module) -> Dict[str, Tensor]:
    """Weights in float32, those of quantized matrices rounded."""
    weights = {}
    for name, matrix in _matrices(module).items():
        weight = matrix.detach() if isinstance(matrix, Tensor) else matrix.dense()
        is_turned = isinstance(module, Highway) and not isinstance(matrix, Tensor)  # (1, n_in, n_out)
        weights[name] = weight[0].t().contiguous() if is_turned else weight
    return weights


def _has_small_lstms(config: BiLMConfig) -> bool:
    """Whether all products of the LSTMs, and of highways between them, are computed in bfloat16 if weights are int8."""
    largest = config.projection_width * max(4 * config.cell_width, config.projection_width)
    return config.encoder == "lstm" and largest <= INT8_WEIGHTS and works("bfloat16")


def _quantize(module: nn.Module, name: str, weight: Tensor, precision: str, is_small: bool) -> QuantizedMatrix:
    fold, is_on_cpu = weight.new_ones(1), weight.device.type == "cpu"
    are_gates = isinstance(module, LSTMLayer) and name != "projection_weight"
    if isinstance(module, LSTMLayer):
        fold = gate_scale(module.bias) if are_gates else fold * PROJECTION_SCALE
    if isinstance(module, Highway):
        weight = weight.t().unsqueeze(0)
    if precision == "int8" and is_small:
        values, scale = to_int8(weight, 1)
        return Bfloat16Matrix(values * scale, scale, are_gates)
    if precision == "int8":
        return Int8Matrix(weight, fold)
    return Bfloat16Matrix(weight, None, are_gates) if is_on_cpu else HalfMatrix(weight, fold, HALF_DTYPES[precision])
