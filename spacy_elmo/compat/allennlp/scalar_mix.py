"""`ScalarMix` of AllenNLP: Peters et al. (2018), eq. 1, with one parameter per layer."""

from typing import Any, List, Optional, Sequence

import torch
from torch import Tensor, nn

from ...errors import Errors
from ..arguments import ConfigurationError


class ScalarMix(nn.Module):
    """gamma * sum_k softmax(w)_k * layer_k. The parameters are `scalar_parameters.k`, shape (1,), and `gamma`, (1,).

    mixture_size (int): Layers to mix.
    do_layer_norm (bool): First normalize each layer over all elements of the batch inside the mask.
    initial_scalar_parameters (Optional[Sequence[float]]): w at the start; None for equal shares.
    trainable (bool): Learn w and gamma.
    RAISES (ConfigurationError): EL332 for another number of initial parameters.
    """

    def __init__(
        self,
        mixture_size: int,
        do_layer_norm: bool = False,
        initial_scalar_parameters: Optional[Sequence[float]] = None,
        trainable: bool = True,
    ) -> None:
        super().__init__()
        self.mixture_size, self.do_layer_norm = mixture_size, do_layer_norm
        initial = [0.0] * mixture_size if initial_scalar_parameters is None else list(initial_scalar_parameters)
        if len(initial) != mixture_size:
            raise _refuse("initial_scalar_parameters", initial, f"{mixture_size} numbers, one per layer")
        values = torch.tensor([[float(value)] for value in initial], dtype=torch.float32)
        self.scalar_parameters = nn.ParameterList(
            [nn.Parameter(value.clone(), requires_grad=trainable) for value in values]
        )
        self.gamma = nn.Parameter(torch.tensor([1.0], dtype=torch.float32), requires_grad=trainable)

    def forward(self, tensors: Sequence[Tensor], mask: Optional[Tensor] = None) -> Tensor:
        """tensors (Sequence[Tensor]): One tensor (..., D) per layer.
        mask (Optional[Tensor]): Shape (...), True for tokens. It is used, and needed, only with `do_layer_norm`.
        RETURNS (Tensor): Shape (..., D).
        RAISES (ConfigurationError): EL332 for another number of layers, or without a mask for the norm.
        """
        if len(tensors) != self.mixture_size:
            raise _refuse("number of layers to mix", len(tensors), f"{self.mixture_size}, as the module was made for")
        layers: List[Tensor] = list(tensors)
        if self.do_layer_norm:
            if mask is None:
                raise _refuse("mask of a mix with do_layer_norm", None, "a tensor of truth values, one per token")
            layers = [normalize(layer, mask) for layer in layers]
        shares = torch.cat(list(self.scalar_parameters)).softmax(dim=0)
        mixed = torch.stack([share * layer for share, layer in zip(shares, layers)]).sum(dim=0)
        return self.gamma * mixed


def normalize(layer: Tensor, mask: Tensor) -> Tensor:
    """Subtract the mean of all elements inside the mask, and divide by their standard deviation.

    layer (Tensor): Shape (..., D).
    mask (Tensor): Shape (...).
    RETURNS (Tensor): Shape (..., D); values outside the mask are shifted and scaled, too.
    """
    inside = mask.unsqueeze(-1).to(layer.dtype)
    n_values = inside.sum() * layer.shape[-1]
    mean = (layer * inside).sum() / n_values
    variance = ((layer - mean) * inside).square().sum() / n_values
    epsilon = 1e-13 if layer.dtype in (torch.float32, torch.float64) else 1e-4
    return (layer - mean) / torch.sqrt(variance + epsilon)


def _refuse(name: str, value: Any, wanted: str) -> ConfigurationError:
    return ConfigurationError(Errors.EL332.format(name=name, value=value, wanted=wanted))
