"""Matrix products with constant weights: by the native kernel, by torch, or in reduced precision.

In reduced precision a weight has 16 bits, or is int8 with a scale per column (on CPUs). `quantize` replaces the
matrices of the encoder and of highways of a network; everything else stays float32. `quantize(network, "float32")`
restores parameters, with rounded values.
"""

import hashlib
import os
import warnings
from functools import cache
from typing import Any, Dict, List, Optional, Protocol, Tuple, Union

import torch
from torch import Tensor, nn

from ..bilm.layers import Highway, LayerHighway, is_hooked
from ..bilm.lstm import LSTMLayer
from ..bilm.network import BiLMNetwork
from ..bilm.transformer import TransformerLayer
from ..errors import Warnings
from ..util import shorten
from .kernel import PackedMatrix, Product, check_precision, find_unsupported, has_kernel, kernel_product, pack_panels

Scale = Union[float, Tensor]

HALF_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
PROJECTION_SCALE = 2.0  # folded into the projection, since `torch_lanes.update_cell` returns half of the cell's output


def gate_scale(bias: Tensor) -> Tensor:
    """Factors (4H,) to fold into weights and bias (d, 4H) of the gates: 2 for the candidate, else 1."""
    scale = torch.ones(4, bias.shape[1] // 4, dtype=torch.float32, device=bias.device)
    scale[1] = 2.0
    return scale.view(-1)


class QuantizedMatrix(Protocol):
    """d matrices in reduced precision. They are immutable, so that copies share them.

    original (str): `hash_values` of the float32 weight that was rounded.
    """

    original: str

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


def split_directions(weight: Union[Tensor, QuantizedMatrix], n_directions: int) -> List[slice]:
    """Directions of a weight that share a product: all of them in torch's batched products."""
    n = 1 if has_kernel(weight) else n_directions
    return [slice(k, k + n) for k in range(0, n_directions, n)]


def _batched_product(weight: Tensor) -> Product:
    """x -> x W with a weight (d, n_in, n_out), all directions at once, by torch."""
    return lambda rows, added=None: torch.bmm(rows, weight) if added is None else torch.baddbmm(added, rows, weight)


class HalfMatrix:
    """d matrices in 16 bits on a GPU; factors to `fold`, powers of two, are applied in products."""

    def __init__(self, weight: Tensor, fold: Tensor, dtype: torch.dtype, original: str) -> None:
        self.original = original
        self._fold = fold.to(weight.device)
        self._weight = (weight * self._fold).to(dtype).contiguous()

    def __deepcopy__(self, memo: Any) -> "HalfMatrix":
        return self

    def __reduce__(self) -> Tuple[Any, ...]:
        return HalfMatrix, (self.dense(), self._fold, self._weight.dtype, self.original)

    def product(self, directions: slice) -> Product:
        """Rounded to 16 bits; sums with other tensors, and results, are float32."""
        weight = self._weight[directions]

        def product(rows: Tensor, added: Optional[Tensor] = None) -> Tensor:
            sums = torch.bmm(rows.to(weight.dtype), weight)
            return sums.float() if added is None else torch.add(added, sums)

        return product

    def dense(self) -> Tensor:
        return self._weight.float() / self._fold


# oneDNN, which multiplies in bfloat16 in pretraining, and PyTorch cache a prepared primitive for each shape of a
# product, by default 1,024 of them. Products with another number of rows each time took one or two gigabytes. Both
# read these variables on first use. Values set by the user are kept.
for _name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
    os.environ.setdefault(_name, "16")

# Limits of oneDNN (ONEDNN_MAX_CPU_ISA) without instructions for bfloat16 products.
ISAS_WITHOUT_BFLOAT16 = ("SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2", "AVX512_CORE", "AVX512_CORE_VNNI")


def is_supported_on_cpu(precision: str) -> bool:
    """Whether products in this precision are available on a CPU."""
    return find_unsupported(precision, torch.device("cpu")) is None


@cache
def has_bfloat16_units(device: torch.device = torch.device("cpu")) -> bool:
    """Whether torch's products in bfloat16 use instructions of the device, on a CPU AVX512-BF16, which all with AMX
    have. Otherwise they are emulated, at many times the cost of float32. The limit of oneDNN is read as well, and
    the instruction set that is forced for the kernel.
    """
    if device.type == "cuda":
        with torch.cuda.device(device):
            return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", os.environ.get("DNNL_MAX_CPU_ISA", ""))
    has_instructions = bool(getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)())
    is_allowed = limit.upper() not in ISAS_WITHOUT_BFLOAT16
    is_allowed &= os.environ.get("SPACY_ELMO_CPU_ISA", "") in ("", "none", "avx512_bf16")
    return torch.backends.mkldnn.is_available() and has_instructions and is_allowed


# Networks in reduced precision

PRODUCT_MODULES = (LSTMLayer, LayerHighway, TransformerLayer, Highway)
MATRIX_NAMES = (
    "recurrent_weight",
    "projection_weight",
    "weight",
    "input_weight",
    "output_weight",
    "up_weight",
    "down_weight",
)


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
    check_precision(precision, network.device, network.config.encoder)
    if precision == network.precision:
        return
    if hooked := [prefix for prefix, module in _quantizable(network) if is_hooked(module)]:
        raise ValueError(
            f"Modules of the biLM have hooks or parametrizations ({shorten(', '.join(hooked))}), which a change from "
            f"{network.precision} to {precision} would lose. Remove them before it."
        )
    if precision == "bfloat16" and network.device.type != "cpu" and not has_bfloat16_units(network.device):
        warnings.warn(Warnings.WL021.format(precision=precision, device=network.device), stacklevel=2)
    for _, module in _quantizable(network):
        is_trained = any(parameter.requires_grad for parameter in module.parameters())
        matrices = _matrices_of(module)
        for name, weight in _dense_matrices(module).items():
            vars(module).pop(name, None)
            module._parameters[name] = None  # hidden by the quantized matrix; keeps its place among the others
            if precision == "float32":
                module._parameters[name] = nn.Parameter(weight, requires_grad=is_trained)
            else:
                matrix = matrices[name]
                original = hash_values(weight) if isinstance(matrix, Tensor) else matrix.original
                vars(module)[name] = _quantize(module, name, weight, precision, original)
    network.precision = precision


def full_state(network: BiLMNetwork) -> Dict[str, Tensor]:
    """The state dict in float32, with the rounded values of quantized matrices."""
    state: Dict[str, Tensor] = dict(network.state_dict())
    if network.precision != "float32":
        for prefix, module in _quantizable(network):
            state.update((f"{prefix}.{name}", weight) for name, weight in _dense_matrices(module).items())
    return state


def stored_state(network: BiLMNetwork) -> Dict[str, Union[Tensor, QuantizedMatrix]]:
    """The state dict with quantized matrices as they are."""
    state: Dict[str, Union[Tensor, QuantizedMatrix]] = dict(network.state_dict())
    if network.precision != "float32":
        for prefix, module in _quantizable(network):
            state.update((f"{prefix}.{name}", matrix) for name, matrix in _matrices_of(module).items())
    return state


def hash_values(weight: Tensor) -> str:
    """A hash of the shape and the float32 values of a weight, equal on every device; on "meta" there are no values."""
    hashed = hashlib.sha256(f"{list(weight.shape)} ".encode("ascii"))
    if not weight.is_meta:
        hashed.update(weight.detach().to("cpu", torch.float32).contiguous().view(-1).numpy().data)
    return hashed.hexdigest()


def quantizable_names(network: BiLMNetwork) -> List[str]:
    """Entries of `full_state` that int8 rounds, for a network in any precision."""
    return [f"{prefix}.{name}" for prefix, module in _quantizable(network) for name in _matrices_of(module)]


def _quantizable(network: BiLMNetwork) -> List[Tuple[str, nn.Module]]:
    """Modules with matrices, and their prefixes in the state dict."""
    return [(prefix, module) for prefix, module in network.named_modules() if isinstance(module, PRODUCT_MODULES)]


def _matrices_of(module: nn.Module) -> Dict[str, Any]:
    """Matrices by name: parameters, or quantized ones. An LSTM without projection has None as its weight."""
    matrices = {name: getattr(module, name, None) for name in MATRIX_NAMES}
    return {name: matrix for name, matrix in matrices.items() if matrix is not None}


def _dense_matrices(module: nn.Module) -> Dict[str, Tensor]:
    """Weights in float32; a quantized matrix has its rounded values."""
    weights = {}
    for name, matrix in _matrices_of(module).items():
        weight = matrix.detach() if isinstance(matrix, Tensor) else matrix.dense()
        is_transposed = isinstance(module, Highway) and not isinstance(matrix, Tensor)  # (1, n_in, n_out)
        weights[name] = weight[0].t().contiguous() if is_transposed else weight
    return weights


def _quantize(module: nn.Module, name: str, weight: Tensor, precision: str, original: str) -> QuantizedMatrix:
    are_gates = isinstance(module, LSTMLayer) and name != "projection_weight"
    if isinstance(module, Highway):
        weight = weight.t().unsqueeze(0)
    if weight.device.type == "cpu":
        return PackedMatrix(weight, precision, are_gates, original)
    fold = weight.new_ones(1)
    if isinstance(module, LSTMLayer):
        fold = gate_scale(module.bias) if are_gates else fold * PROJECTION_SCALE
    return HalfMatrix(weight, fold, HALF_DTYPES[precision], original)
