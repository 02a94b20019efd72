"""Reduced precision for inference: the matrices of the encoder and of highways as bfloat16, float16 or int8.

`quantize` replaces the modules that contain them with modules of this file; everything else stays float32.
`quantize(network, "float32")` restores the modules of `bilm/`, with rounded weights.
"""

from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

import torch
from torch import Tensor, nn

from .._choices import PRECISIONS
from ..bilm.layers import Highway, LayerHighway, apply_highway
from ..bilm.lstm import LSTMLayer
from ..bilm.model import BiLMNetwork
from ..bilm.transformer import TransformerLayer
from ..errors import Errors
from . import onednn
from .cell import PROJECTION_SCALE, gate_scale
from .products import QuantizedMatrix
from .quantized_matrices import HALF_DTYPES, HalfMatrix, Int8Matrix

TRANSFORMER_MATRICES = ("input_weight", "output_weight", "up_weight", "down_weight")


class QuantizedLSTMLayer(nn.Module):
    """An `LSTMLayer` with quantized matrices, with the attributes that the engine uses.

    layer (LSTMLayer): In float32.
    precision (str): "bfloat16", "float16" or "int8".
    """

    def __init__(self, layer: LSTMLayer, precision: str) -> None:
        super().__init__()
        self.precision = precision
        self.bias = layer.bias
        self.cell_clip, self.projection_clip = layer.cell_clip, layer.projection_clip
        scale = gate_scale(layer.bias)
        self.input_weight = _quantize(layer.input_weight, scale, precision)
        self.recurrent_weight = _quantize(layer.recurrent_weight, scale, precision)
        self.projection_weight: Any = None
        if layer.projection_weight is not None:
            fold = scale.new_tensor([PROJECTION_SCALE])
            self.projection_weight = _quantize(layer.projection_weight, fold, precision)

    def dense_weights(self) -> Dict[str, Tensor]:
        """RETURNS (Dict[str, Tensor]): The rounded weights in float32, by the name of the parameter."""
        names = ("input_weight", "recurrent_weight", "projection_weight")
        return {name: getattr(self, name).dense() for name in names if getattr(self, name) is not None}


class QuantizedTransformerLayer(nn.Module):
    """A `TransformerLayer` with quantized matrices, with the attributes that the engine uses.

    layer (TransformerLayer): In float32.
    precision (str): "bfloat16", "float16" or "int8".
    """

    def __init__(self, layer: TransformerLayer, precision: str) -> None:
        super().__init__()
        self.precision, self.n_heads = precision, layer.n_heads
        for name, parameter in layer.named_parameters():
            if name in TRANSFORMER_MATRICES:
                setattr(self, name, _quantize(parameter, parameter.new_ones(1), precision))
            else:
                self.register_parameter(name, parameter)

    def dense_weights(self) -> Dict[str, Tensor]:
        """RETURNS (Dict[str, Tensor]): The rounded weights in float32, by the name of the parameter."""
        return {name: getattr(self, name).dense() for name in TRANSFORMER_MATRICES}


class QuantizedLayerHighway(nn.Module):
    """A `LayerHighway` with a quantized matrix.

    highway (LayerHighway): In float32.
    precision (str): "bfloat16", "float16" or "int8".
    """

    def __init__(self, highway: LayerHighway, precision: str) -> None:
        super().__init__()
        self.precision = precision
        self.bias = highway.bias
        self.weight = _quantize(highway.weight, torch.ones(1, dtype=torch.float32), precision)

    def dense_weights(self) -> Dict[str, Tensor]:
        """RETURNS (Dict[str, Tensor]): The rounded weights in float32, by the name of the parameter."""
        return {"weight": self.weight.dense()}


class QuantizedHighway(nn.Module):
    """A `Highway` with a quantized matrix.

    highway (Highway): In float32.
    precision (str): "bfloat16", "float16" or "int8".
    """

    def __init__(self, highway: Highway, precision: str) -> None:
        super().__init__()
        self.precision = precision
        self.bias = highway.bias
        self.weight = _quantize(highway.weight.t().unsqueeze(0), torch.ones(1, dtype=torch.float32), precision)

    def dense_weights(self) -> Dict[str, Tensor]:
        """RETURNS (Dict[str, Tensor]): The rounded weights in float32, by the name of the parameter."""
        return {"weight": self.weight.dense()[0].t().contiguous()}

    def forward(self, features: Tensor) -> Tensor:
        """features (Tensor): Shape (U, F).
        RETURNS (Tensor): Shape (U, F).
        """
        product = self.weight.product(slice(0, 1))
        scores = product(features.unsqueeze(0), self.bias.view(1, 1, -1))  # (1, U, 2F)
        return apply_highway(features, scores[0])


# Modules and their quantized counterparts, and the parameters that are quantized.
QUANTIZED: Dict[Any, Any] = {
    LSTMLayer: QuantizedLSTMLayer,
    TransformerLayer: QuantizedTransformerLayer,
    LayerHighway: QuantizedLayerHighway,
    Highway: QuantizedHighway,
}
MATRICES = ("recurrent_weight", "projection_weight", "weight", *TRANSFORMER_MATRICES)


class Place(NamedTuple):
    """Position of a module that is quantized or can be.

    owner (nn.ModuleList): The list that contains it.
    number (int): Its index in the list.
    prefix (str): Prefix of its entries in the state dict.
    """

    owner: nn.ModuleList
    number: int
    prefix: str


def check_precision(precision: str, device: torch.device) -> None:
    """RAISES (ValueError): EL014 for an unknown precision, EL015 if the device does not support it."""
    if precision not in PRECISIONS:
        known = ", ".join(f'"{name}"' for name in PRECISIONS)
        raise ValueError(Errors.EL014.format(precision=precision, known=known))
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
    """RETURNS (str): The precision that `quantize` has set, by default "float32"."""
    return next((place.owner[place.number].precision for place in _quantized(network)), "float32")  # type: ignore[return-value]  # a module of this file


@torch.inference_mode(False)
@torch.no_grad()
def quantize(network: BiLMNetwork, precision: str) -> None:
    """Replace the modules with large matrices, in place. Does nothing if they are in this precision already.

    network (BiLMNetwork): In any precision; rounding cannot be undone.
    precision (str): One of `PRECISIONS`; "float32" restores the modules of `bilm/`.
    RAISES (ValueError): EL014 and EL015, before anything is changed; EL015 also for the encoder "bilstm".
    """
    check_precision(precision, network.device)
    if precision == precision_of(network):
        return
    if precision != "float32" and network.config.encoder == "bilstm":
        reason = f"the encoder '{network.config.encoder}' is computed in float32 only"
        raise ValueError(
            Errors.EL015.format(precision=precision, device=network.device, reason=reason, others="'float32'")
        )
    for place in list(_quantized(network)):
        place.owner[place.number] = _restore(network, place.owner[place.number])
    if precision != "float32":
        for place in list(_places(network, tuple(QUANTIZED))):
            module = place.owner[place.number]
            place.owner[place.number] = QUANTIZED[type(module)](module, precision).train(module.training)


def full_state(network: BiLMNetwork) -> Dict[str, Tensor]:
    """RETURNS (Dict[str, Tensor]): The state dict in float32, with the rounded values of quantized matrices."""
    state: Dict[str, Tensor] = dict(network.state_dict())
    for place in _quantized(network):
        module: Any = place.owner[place.number]
        state.update((f"{place.prefix}.{name}", weight) for name, weight in module.dense_weights().items())
    return state


def quantizable_names(network: BiLMNetwork) -> List[str]:
    """RETURNS (List[str]): Entries of `full_state` that int8 rounds, for a network in any precision."""
    kinds = (*QUANTIZED, *QUANTIZED.values())
    found: List[str] = []
    for place in _places(network, kinds):
        module = place.owner[place.number]
        found += [f"{place.prefix}.{name}" for name in MATRICES if getattr(module, name, None) is not None]
    return found


def _quantized(network: BiLMNetwork) -> Iterator[Place]:
    return _places(network, tuple(QUANTIZED.values()))


def _places(network: BiLMNetwork, kinds: Tuple[Any, ...]) -> Iterator[Place]:
    """YIELDS (Place): Positions of modules of these classes. All of them are in lists."""
    for prefix, owner in network.named_modules():
        if isinstance(owner, nn.ModuleList):
            for number, module in enumerate(owner):
                if isinstance(module, kinds):
                    yield Place(owner, number, f"{prefix}.{number}")


def _restore(network: BiLMNetwork, quantized: Any) -> nn.Module:
    """RETURNS (nn.Module): The original module with rounded weights."""
    module: Any
    with torch.device("meta"):
        if isinstance(quantized, QuantizedLSTMLayer):
            module = LSTMLayer(network.config)
        elif isinstance(quantized, QuantizedTransformerLayer):
            module = TransformerLayer(network.config)
        elif isinstance(quantized, QuantizedLayerHighway):
            module = LayerHighway(network.config.n_directions, network.config.projection_width)
        else:
            module = Highway(len(quantized.bias) // 2)
    for name, parameter in quantized.named_parameters():
        setattr(module, name, parameter)
    is_trained = any(parameter.requires_grad for parameter in quantized.parameters())
    for name, weight in quantized.dense_weights().items():
        setattr(module, name, nn.Parameter(weight, requires_grad=is_trained))
    module.train(quantized.training)
    return module  # type: ignore[no-any-return]  # one of the four


def _quantize(weight: Tensor, fold: Tensor, precision: str) -> QuantizedMatrix:
    if precision == "int8":
        return Int8Matrix(weight.detach(), fold)
    return HalfMatrix(weight.detach(), fold, HALF_DTYPES[precision])
