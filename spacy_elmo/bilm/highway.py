"""Highways (Srivastava et al. 2015): over the pooled character filters, and around a recurrent layer."""

import torch
from torch import Tensor, nn

from .initialization import constant_, new_parameter, normal_

GATE_BIAS = -2.0  # initial value, with which a highway mostly carries its input (bilm-tf)


class Highway(nn.Module):
    """Highway layer: y = g * relu(W x + b) + (1 - g) * x.

    The gate g transforms and 1 - g carries, as in the paper and in bilm-tf (whose file calls g "carry").
    Both maps are one product: rows 0..F of `weight` are the transform, rows F..2F the gate.

    width (int): F.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = new_parameter(2 * width, width)
        self.bias = new_parameter(2 * width)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights from N(0, 1/sqrt(F)); the biases are those of bilm-tf."""
        width = self.weight.shape[1]
        normal_(self.weight, width**-0.5)
        constant_(self.bias[:width], 0.0)
        constant_(self.bias[width:], GATE_BIAS)

    def forward(self, features: Tensor) -> Tensor:
        """features (Tensor): Shape (U, F).
        RETURNS (Tensor): Shape (U, F).
        """
        return apply_highway(features, nn.functional.linear(features, self.weight, self.bias))


def apply_highway(features: Tensor, scores: Tensor) -> Tensor:
    """features (Tensor): Shape (U, F), input of a highway.
    scores (Tensor): Shape (U, 2F), its product with the weights, plus bias.
    RETURNS (Tensor): Shape (U, F).
    """
    transform, gate = scores.chunk(2, dim=1)  # 2 x (U, F)
    return features + torch.sigmoid(gate) * (torch.relu(transform) - features)


class LayerHighway(nn.Module):
    """Mix the output of an LSTM layer with its input: y = g * LSTM(x) + (1 - g) * x, g = sigmoid(W x + b).

    The learned form of a skip connection; each direction has its own gate.

    n_directions (int): d.
    width (int): P.
    """

    def __init__(self, n_directions: int, width: int) -> None:
        super().__init__()
        self.weight = new_parameter(n_directions, width, width)
        self.bias = new_parameter(n_directions, width)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights from N(0, 1/sqrt(P))."""
        normal_(self.weight, self.weight.shape[1] ** -0.5)
        constant_(self.bias, GATE_BIAS)

    def forward(self, inputs: Tensor, outputs: Tensor) -> Tensor:
        """inputs (Tensor): Shape (d, S, B, P), inputs of the layer.
        outputs (Tensor): Shape (d, S, B, P), outputs of the layer.
        RETURNS (Tensor): Shape (d, S, B, P).
        """
        gate = torch.baddbmm(self.bias.unsqueeze(1), inputs.flatten(1, 2), self.weight).sigmoid()  # (d, S * B, P)
        return inputs + gate.view(inputs.shape) * (outputs - inputs)
