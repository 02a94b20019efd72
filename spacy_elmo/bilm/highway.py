"""Highways (Srivastava et al. 2015): over the pooled character filters, and past a recurrent layer."""

from typing import Dict

import torch
from torch import Tensor, nn

from .products import LowMatrix


class Highway(nn.Module):
    """Let each feature through as it is, or transformed: y = g * relu(W x + b) + (1 - g) * x.

    The gate g transforms and 1 - g carries, as in the paper and in bilm-tf (whose file calls g "carry").
    Both maps are one product: rows 0..F of `weight` transform, rows F..2F are the gate.

    width (int): F.
    low (Dict[str, LowMatrix]): Attribute: the matrix in fewer bits, in place of `weight`.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.low: Dict[str, LowMatrix] = {}
        self.weight = nn.Parameter(torch.empty(2 * width, width))
        self.bias = nn.Parameter(torch.empty(2 * width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw N(0, 1/sqrt(F)) weights and a gate bias of -2, so that a new layer mostly carries (bilm-tf)."""
        width = self.weight.shape[1]
        nn.init.normal_(self.weight, std=width**-0.5)
        with torch.no_grad():
            self.bias[:width] = 0.0
            self.bias[width:] = -2.0

    def forward(self, features: Tensor) -> Tensor:
        """features (Tensor): Shape (U, F).
        RETURNS (Tensor): Shape (U, F).
        """
        if self.low:
            scores = self.low["weight"].product(slice(0, 1))(features.unsqueeze(0), self.bias.view(1, 1, -1))[0]
        else:
            scores = nn.functional.linear(features, self.weight, self.bias)
        transform, gate = scores.chunk(2, dim=1)  # 2 x (U, F)
        return features + torch.sigmoid(gate) * (torch.relu(transform) - features)


class LayerHighway(nn.Module):
    """Mix what an LSTM layer gives with what it read: y = g * LSTM(x) + (1 - g) * x, g = sigmoid(W x + b).

    The learned form of a skip connection; each direction has a gate of its own.

    n_directions (int): d.
    width (int): P.
    low (Dict[str, LowMatrix]): Attribute: the matrices in fewer bits, in place of `weight`.
    """

    def __init__(self, n_directions: int, width: int) -> None:
        super().__init__()
        self.low: Dict[str, LowMatrix] = {}
        self.weight = nn.Parameter(torch.empty(n_directions, width, width))
        self.bias = nn.Parameter(torch.empty(n_directions, width))
        nn.init.normal_(self.weight, std=width**-0.5)
        nn.init.constant_(self.bias, -2.0)  # a new layer mostly carries, as in `Highway`

    def forward(self, inputs: Tensor, outputs: Tensor) -> Tensor:
        """inputs (Tensor): Shape (d, S, B, P), what the layer read.
        outputs (Tensor): Shape (d, S, B, P), what it gave.
        RETURNS (Tensor): Shape (d, S, B, P).
        """
        gate = torch.baddbmm(self.bias.unsqueeze(1), inputs.flatten(1, 2), self.weight).sigmoid()  # (d, S * B, P)
        return inputs + gate.view(inputs.shape) * (outputs - inputs)
