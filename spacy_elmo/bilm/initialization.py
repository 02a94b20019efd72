"""Random initial weights. Tensors on the meta device are skipped: a reader of weights replaces them.

`torch.nn.init` works there too, but imports torch._dynamo for it, which takes longer than reading a model.
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
    """A linear map that draws no weights on the meta device."""

    def reset_parameters(self) -> None:
        """Draw the weights."""
        if not self.weight.is_meta:
            super().reset_parameters()


@torch.no_grad()
def constant_(tensor: Tensor, value: float) -> None:
    """Fill a tensor with one value, in place."""
    tensor.fill_(value)
