"""New parameters, float32 whatever the default of torch is, and random initial weights.

Tensors on the meta device are not initialized, since they are replaced when weights are read.
`torch.nn.init` also works on the meta device, but then imports torch._dynamo, which takes longer than reading a model.
"""

from typing import Any

import torch
from torch import Tensor, nn

from .tf32 import no_tf32, no_tf32_in_backward


def new_parameter(*shape: int) -> nn.Parameter:
    """RETURNS (nn.Parameter): Not initialized."""
    return nn.Parameter(torch.empty(*shape, dtype=torch.float32))


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

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__(n_in, n_out, dtype=torch.float32)

    def reset_parameters(self) -> None:
        """Initialize the weights."""
        if not self.weight.is_meta:
            super().reset_parameters()


class LSTM(nn.LSTM):
    """PyTorch's LSTM, not initialized on the meta device, and without TF32 on a GPU."""

    def forward(self, *inputs: Any) -> Any:
        """See `torch.nn.LSTM`; the first input may be a packed sequence."""
        device: Any = self.weight_ih_l0.device
        with no_tf32(device):
            outputs, state = super().forward(*inputs)
        no_tf32_in_backward(outputs.data if isinstance(outputs, nn.utils.rnn.PackedSequence) else outputs)
        return outputs, state

    def __init__(self, *sizes: int, **settings: Any) -> None:
        super().__init__(*sizes, dtype=torch.float32, **settings)

    def reset_parameters(self) -> None:
        """Initialize the weights."""
        if not self.weight_ih_l0.is_meta:
            super().reset_parameters()


@torch.no_grad()
def constant_(tensor: Tensor, value: float) -> None:
    """Fill a tensor with one value, in place."""
    tensor.fill_(value)
