"""Random initial weights. Tensors on the meta device are skipped, since they are replaced when weights are read.

`torch.nn.init` also works on the meta device, but then imports torch._dynamo, which takes longer than reading a model.
"""

import torch
from torch import Tensor, nn


def uniform_(tensor: Tensor, low: float, high: float) -> None:
    """Fill a tensor from U(low, high), in place."""
    if not tensor.is_meta:
        nn.init.uniform_(tensor, low, high)


def normal_(tensor: Tensor, std: float) -> None:
    """Fill a tensor from N(0, std), in place."""
    if not tensor.is_meta:
        nn.init.normal_(tensor, std=std)


class Linear(nn.Linear):
    """A linear layer that is not initialized on the meta device."""

    def reset_parameters(self) -> None:
        """Initialize the weights."""
        if not self.weight.is_meta:
            super().reset_parameters()


class LSTM(nn.LSTM):
    """PyTorch's LSTM, not initialized on the meta device."""

    def reset_parameters(self) -> None:
        """Initialize the weights."""
        if not self.weight_ih_l0.is_meta:
            super().reset_parameters()


@torch.no_grad()
def constant_(tensor: Tensor, value: float) -> None:
    """Fill a tensor with one value, in place."""
    tensor.fill_(value)
