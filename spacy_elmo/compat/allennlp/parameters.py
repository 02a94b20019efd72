"""Parameters of AllenNLP's modules and of ours: the same values in another order, with another sign or offset.

| | AllenNLP | here |
| --- | --- | --- |
| gates | rows i, f, j (candidate), o | columns i, j, f, o |
| forget bias | 1 is part of the bias | 1 is added at run time |
| directions | a module each | first dimension |
| highway | the gate carries | the gate transforms |

All functions are differentiable. They map both ways, except for the rounding of the forget bias.
"""

from typing import Any, Dict, NamedTuple, Sequence

import torch
from torch import Tensor, nn

from ...bilm.lstm import FORGET_BIAS


def current_weights(module: nn.Module, names: Sequence[str]) -> Dict[str, Tensor]:
    """Read weights as a forward pass of their modules would. They are parameters, or are computed from parameters by
    `torch.nn.utils` (`prune`, `parametrize`, `weight_norm`), or belong to a replica of `nn.DataParallel`.

    names (Sequence[str]): Dotted names in the module.
    RETURNS (Dict[str, Tensor]): The weights by these names, attached to the graph.
    """
    found: Dict[str, Tensor] = {}
    for name in names:
        *path, last = name.split(".")
        owner: Any = module
        for part in path:
            owner = owner._modules[part]
        for hook in owner._forward_pre_hooks.values():
            if type(hook).__module__.startswith("torch.nn.utils."):
                hook(owner, ())  # sets the attribute anew
        found[name] = getattr(owner, last)
    return found


def are_parameters(weights: Sequence[Tensor]) -> bool:
    """RETURNS (bool): Whether all are parameters, so that what is derived from them can be kept until they change."""
    return all(isinstance(weight, nn.Parameter) for weight in weights)


def own_copy(weights: Dict[str, Tensor]) -> Dict[str, Tensor]:
    """RETURNS (Dict[str, Tensor]): Copies with contiguous rows, as in AllenNLP: optimizers and files rely on it."""
    return {name: weight.clone(memory_format=torch.contiguous_format) for name, weight in weights.items()}


class LayerWeights(NamedTuple):
    """Weights of one LSTM layer in our order. The forget bias is part of `bias`.

    input_weight (Tensor): Shape (2, P, 4H).
    recurrent_weight (Tensor): Shape (2, P, 4H).
    bias (Tensor): Shape (2, 4H).
    projection_weight (Tensor): Shape (2, H, P).
    """

    input_weight: Tensor
    recurrent_weight: Tensor
    bias: Tensor
    projection_weight: Tensor

    def stored(self) -> Dict[str, Tensor]:
        """RETURNS (Dict[str, Tensor]): The parameters of an `LSTMLayer`."""
        return {**self._asdict(), "bias": self.bias - _forget_bias(self.bias)}


def swap_gates(weight: Tensor) -> Tensor:
    """weight (Tensor): Shape (4H, ...), gates in the order i, f, j, o or i, j, f, o.
    RETURNS (Tensor): The same with the two in the middle exchanged.
    """
    i, second, third, o = weight.chunk(4)
    return torch.cat([i, third, second, o])


def swap_gate(weight: Tensor) -> Tensor:
    """weight (Tensor): Shape (2F, ...), rows of the transform, then of the gate of a highway.
    RETURNS (Tensor): The same with the other sign of the gate.
    """
    transform, gate = weight.chunk(2)
    return torch.cat([transform, -gate])


def join_cells(cells: Sequence[Dict[str, Tensor]]) -> LayerWeights:
    """cells (Sequence[Dict[str, Tensor]]): Parameters of the forward and the backward cell of a layer, by the names of
        AllenNLP.
    RETURNS (LayerWeights): The weights of the layer.
    """
    return LayerWeights(
        torch.stack([swap_gates(cell["input_linearity.weight"]).t() for cell in cells]),
        torch.stack([swap_gates(cell["state_linearity.weight"]).t() for cell in cells]),
        torch.stack([swap_gates(cell["state_linearity.bias"]) for cell in cells]),
        torch.stack([cell["state_projection.weight"].t() for cell in cells]),
    )


def split_cell(layer: Dict[str, Tensor], direction: int) -> Dict[str, Tensor]:
    """layer (Dict[str, Tensor]): Parameters of an `LSTMLayer`.
    direction (int): 0 forward, 1 backward.
    RETURNS (Dict[str, Tensor]): Parameters of the cell, by the names of AllenNLP.
    """
    bias = (layer["bias"] + _forget_bias(layer["bias"]))[direction]
    return {
        "input_linearity.weight": swap_gates(layer["input_weight"][direction].t()),
        "state_linearity.weight": swap_gates(layer["recurrent_weight"][direction].t()),
        "state_linearity.bias": swap_gates(bias),
        "state_projection.weight": layer["projection_weight"][direction].t(),
    }


def to_char_cnn(parameters: Dict[str, Tensor]) -> Dict[str, Tensor]:
    """parameters (Dict[str, Tensor]): Of AllenNLP's character encoder.
    RETURNS (Dict[str, Tensor]): Of our `CharCNN`.
    """
    ours = {}
    for name, value in parameters.items():
        if name == "_char_embedding_weights":
            ours["embedding"] = value
        elif name.startswith("_highways._layers."):
            ours[name.replace("_highways._layers.", "highways.")] = swap_gate(value)
        elif name.startswith("char_conv_"):
            ours[name.replace("char_conv_", "filters.")] = value
        else:
            ours[name.replace("_projection.", "projection.")] = value
    return ours


def from_char_cnn(parameters: Dict[str, Tensor]) -> Dict[str, Tensor]:
    """The inverse of `to_char_cnn`."""
    theirs = {}
    for name, value in parameters.items():
        if name == "embedding":
            theirs["_char_embedding_weights"] = value
        elif name.startswith("highways."):
            theirs[name.replace("highways.", "_highways._layers.")] = swap_gate(value)
        elif name.startswith("filters."):
            theirs[name.replace("filters.", "char_conv_")] = value
        else:
            theirs[name.replace("projection.", "_projection.")] = value
    return theirs


def _forget_bias(bias: Tensor) -> Tensor:
    """bias (Tensor): Shape (..., 4H), gates in the order i, j, f, o."""
    width = bias.shape[-1] // 4
    forget = torch.zeros_like(bias)
    forget[..., 2 * width : 3 * width] = FORGET_BIAS
    return forget
