"""Reduced precision for inference: the matrices of the encoder and of highways as bfloat16, float16 or int8.

`quantize` replaces the modules that contain them by `Quantized` ones; everything else stays float32.
`quantize(network, "float32")` restores the modules of `bilm/`, with rounded weights.
"""

from typing import Any, Dict, Iterator, List, Tuple

import torch
from torch import Tensor, nn

from .._choices import PRECISIONS
from ..bilm.layers import Highway, LayerHighway, apply_highway
from ..bilm.lstm import LSTMLayer
from ..bilm.model import BiLMNetwork
from ..bilm.transformer import TransformerLayer
from ..errors import Errors
from . import onednn
from .lstm import PROJECTION_SCALE, gate_scale
from .products import HALF_DTYPES, HalfMatrix, Int8Matrix, QuantizedMatrix

KINDS = (LSTMLayer, TransformerLayer, LayerHighway, Highway)
MATRICES = tuple(f"{part}weight" for part in ("recurrent_", "projection_", "", "input_", "output_", "up_", "down_"))

# Attributes of the modules besides their parameters. An LSTM without projection has None as its weight.
SETTINGS = ("cell_clip", "projection_clip", "n_heads", "projection_weight")


class Quantized(nn.Module):
    """A module of `KINDS` with quantized matrices in the place of some parameters; other attributes are the same."""

    def __init__(self, module: nn.Module, precision: str) -> None:
        super().__init__()
        self.precision, self.kind = precision, type(module)
        self.settings = {name: value for name, value in vars(module).items() if name in SETTINGS}
        self.names = [name for name, _ in module.named_parameters()]
        for name, value in [*self.settings.items(), *module.named_parameters()]:
            setattr(self, name, _quantize(module, name, precision) if name in MATRICES and value is not None else value)
        self.train(module.training)

    def dense_weights(self) -> Dict[str, Tensor]:
        """The rounded weights in float32, by the name of the parameter."""
        weights = {name: getattr(self, name).dense() for name in self.names if name in MATRICES}
        if self.kind is Highway:  # (1, n_in, n_out) to (n_out, n_in)
            return {name: weight[0].t().contiguous() for name, weight in weights.items()}
        return weights

    def restore(self) -> nn.Module:
        """The module before, with rounded weights."""
        module: nn.Module = self.kind.__new__(self.kind)
        nn.Module.__init__(module)
        is_trained = any(parameter.requires_grad for parameter in self.parameters())
        weights, kept = self.dense_weights(), dict(self.named_parameters())
        for name, value in self.settings.items():
            setattr(module, name, value)
        for name in self.names:
            rounded = weights.get(name)
            setattr(module, name, kept[name] if rounded is None else nn.Parameter(rounded, requires_grad=is_trained))
        return module.train(self.training)

    def forward(self, features: Tensor) -> Tensor:
        """Of a `Highway`, see there; the encoders are run by `runner.py`."""
        weight: Any = self.weight
        bias: Any = self.bias
        scores = weight.product(slice(0, 1))(features.unsqueeze(0), bias.view(1, 1, -1))  # (1, U, 2F)
        return apply_highway(features, scores[0])


def check_precision(precision: str, device: torch.device) -> None:
    """RAISES (ValueError): For an unknown precision; EL015 if the device does not support it."""
    if precision not in PRECISIONS:
        known = ", ".join(f'"{name}"' for name in PRECISIONS)
        raise ValueError(f"The precision is '{precision}', but should be one of: {known}. Choose one of these.")
    is_cpu = device.type == "cpu"
    if precision == "float32" or (is_cpu and precision != "float16" and onednn.works(precision)):
        return
    if is_cpu or precision == "int8":
        reason = "it is for CPUs only"
        if is_cpu:
            reason = "CPUs compute it many times slower than float32"
            if precision != "float16":
                reason = f"this processor, or this build of PyTorch, has no fast {precision} products"
        reduced = [name for name in ("bfloat16", "int8") if name != precision]
        found = [name for name in reduced if (onednn.works(name) if is_cpu else name != "int8")]
        others = " or ".join(f"'{name}'" for name in ["float32", *found])
        raise ValueError(Errors.EL015.format(precision=precision, device=device, reason=reason, others=others))


def precision_of(network: BiLMNetwork) -> str:
    """The precision that `quantize` has set, by default "float32"."""
    return next((module.precision for _, _, module in _find(network, (Quantized,))), "float32")


@torch.inference_mode(False)
@torch.no_grad()
def quantize(network: BiLMNetwork, precision: str) -> None:
    """Replace the modules with large matrices, in place; "float32" restores those of `bilm/`, but rounding cannot be
    undone. Does nothing if they are in this precision already.

    RAISES (ValueError): See `check_precision`, before anything is changed; EL015 also for the encoder "bilstm".
    """
    check_precision(precision, network.device)
    if precision == precision_of(network):
        return
    if precision != "float32" and network.config.encoder == "bilstm":
        reason = f"the encoder '{network.config.encoder}' is computed in float32 only"
        raise ValueError(
            Errors.EL015.format(precision=precision, device=network.device, reason=reason, others="'float32'")
        )
    for owner, prefix, module in list(_find(network, (Quantized,))):
        owner[_number(prefix)] = module.restore()
    if precision != "float32":
        for owner, prefix, module in list(_find(network, KINDS)):
            owner[_number(prefix)] = Quantized(module, precision)


def full_state(network: BiLMNetwork) -> Dict[str, Tensor]:
    """The state dict in float32, with the rounded values of quantized matrices."""
    state: Dict[str, Tensor] = dict(network.state_dict())
    for _, prefix, module in _find(network, (Quantized,)):
        state.update((f"{prefix}.{name}", weight) for name, weight in module.dense_weights().items())
    return state


def quantizable_names(network: BiLMNetwork) -> List[str]:
    """Entries of `full_state` that int8 rounds, for a network in any precision."""
    found: List[str] = []
    for _, prefix, module in _find(network, (*KINDS, Quantized)):
        found += [f"{prefix}.{name}" for name in MATRICES if getattr(module, name, None) is not None]
    return found


def _find(network: BiLMNetwork, kinds: Tuple[type, ...]) -> Iterator[Tuple[nn.ModuleList, str, Any]]:
    """Modules of these classes; before each the list that contains it, and its prefix in the state dict."""
    for prefix, owner in network.named_modules():
        if isinstance(owner, nn.ModuleList):
            for number, module in enumerate(owner):
                if isinstance(module, kinds):
                    yield owner, f"{prefix}.{number}", module


def _number(prefix: str) -> int:
    return int(prefix.rpartition(".")[2])


def _quantize(module: nn.Module, name: str, precision: str) -> QuantizedMatrix:
    weight: Tensor = getattr(module, name).detach()
    fold = weight.new_ones(1)
    if isinstance(module, LSTMLayer):
        fold = fold * PROJECTION_SCALE if name == "projection_weight" else gate_scale(module.bias)
    if isinstance(module, Highway):
        weight = weight.t().unsqueeze(0)
    return Int8Matrix(weight, fold) if precision == "int8" else HalfMatrix(weight, fold, HALF_DTYPES[precision])
