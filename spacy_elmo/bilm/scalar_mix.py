"""The weighted sum of a biLM's layers (Peters et al. 2018, eq. 1), with the layer norms of both references."""

from typing import Optional

import torch
from torch import Tensor, nn

from ..errors import Errors

LAYER_NORMS = ("none", "token", "batch-bilm-tf", "batch-allennlp")
EPSILON = {"token": 1e-12, "batch-bilm-tf": 1e-12, "batch-allennlp": 1e-13}


class ScalarMix(nn.Module):
    """Weigh the layers of a biLM into one vector per token: gamma * sum_j softmax(w)_j * h_j.

    Both references start from equal weights and gamma 1. bilm-tf adds 1/n to the raw weights, which a softmax does
    not notice.

    n_layers (int): Layers to mix, the token layer included (3 for the original models).
    layer_norm (str): "none"; "token": each row of each layer by itself; "batch-bilm-tf": each layer over all rows
        but the sentence marks; "batch-allennlp": the same with the marks. The batch forms make a token's vector
        depend on what shares its batch and are there for parity only.
    is_top_only (bool): The last layer alone, times gamma (bilm-tf's `use_top_only`).
    l2_coef (float): Strength of the pull of the raw weights to zero, which is to the plain mean.
    """

    def __init__(
        self, n_layers: int, *, layer_norm: str = "none", is_top_only: bool = False, l2_coef: float = 0.0
    ) -> None:
        super().__init__()
        if layer_norm not in LAYER_NORMS:
            wanted = f"one of {', '.join(LAYER_NORMS)}"
            raise ValueError(Errors.EL004.format(name="layer_norm", value=layer_norm, wanted=wanted))
        self.layer_norm = layer_norm
        self.is_top_only = is_top_only
        self.l2_coef = l2_coef
        self.weights = nn.Parameter(torch.zeros(n_layers))
        self.gamma = nn.Parameter(torch.ones(()))

    def forward(self, layers: Tensor, is_mark: Optional[Tensor] = None) -> Tensor:
        """layers (Tensor): Shape (L+1, T, D), rows of real tokens and sentence marks only, no padding.
        is_mark (Optional[Tensor]): Shape (T,) bool, rows of `<S>` and `</S>`; None if there are none.
        RETURNS (Tensor): Shape (T, D).
        RAISES (ValueError): EL004 if the number of layers differs from `n_layers`.
        """
        if len(layers) != len(self.weights):
            name, wanted = "number of layers", len(self.weights)
            raise ValueError(Errors.EL004.format(name=name, value=len(layers), wanted=wanted))
        if self.is_top_only:
            return self.gamma * layers[-1]
        if self.layer_norm == "token":
            layers = _normalize(layers, layers.mean(2, keepdim=True), layers, (2,), EPSILON["token"])
        elif self.layer_norm != "none":
            layers = self._batch_norm(layers, is_mark)
        return self.gamma * torch.einsum("l,ltd->td", self.weights.softmax(dim=0), layers)

    def penalty(self) -> Tensor:
        """RETURNS (Tensor): Shape (), l2_coef * sum(w^2), to be added to the loss."""
        return self.weights.new_zeros(()) if self.is_top_only else self.l2_coef * self.weights.square().sum()

    def _batch_norm(self, layers: Tensor, is_mark: Optional[Tensor]) -> Tensor:
        """Mean and variance of each layer over all counted rows and columns at once."""
        counted = layers
        if self.layer_norm == "batch-bilm-tf" and is_mark is not None:
            counted = layers[:, ~is_mark]
        if not counted.shape[1]:  # nothing to measure
            return layers
        return _normalize(layers, counted.mean((1, 2), keepdim=True), counted, (1, 2), EPSILON[self.layer_norm])


def _normalize(layers: Tensor, mean: Tensor, counted: Tensor, axes: "tuple[int, ...]", epsilon: float) -> Tensor:
    variance = (counted - mean).square().mean(axes, keepdim=True)
    return (layers - mean) / torch.sqrt(variance + epsilon)
