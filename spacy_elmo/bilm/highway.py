"""Highway layers over the pooled character filters (Srivastava et al. 2015)."""

import torch
from torch import Tensor, nn


class Highway(nn.Module):
    """Let each feature through as it is, or transformed: y = g * relu(W x + b) + (1 - g) * x.

    The gate g transforms and 1 - g carries, as in the paper and in bilm-tf (whose file calls g "carry").
    Both maps are one product: rows 0..F of `weight` transform, rows F..2F are the gate.

    width (int): F.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
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
        transform, gate = nn.functional.linear(features, self.weight, self.bias).chunk(2, dim=1)  # 2 x (U, F)
        return features + torch.sigmoid(gate) * (torch.relu(transform) - features)
