"""Layer normalization (Ba et al. 2016)."""

from torch import Tensor, nn

from .initialization import constant_, new_parameter

# Added to the variance. AllenNLP adds 1e-13 to the standard deviation, which is equal within float32 rounding.
NORM_EPS = 1e-12


class LayerNorm(nn.Module):
    """Normalize each row to mean 0 and variance 1, then scale and shift it.

    shape (int): Width of a row, after the directions where each has its own scale: d, P.
    """

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.weight = new_parameter(*shape)
        self.bias = new_parameter(*shape)
        constant_(self.weight, 1.0)
        constant_(self.bias, 0.0)

    def forward(self, rows: Tensor) -> Tensor:
        """rows (Tensor): Shape (N, P), or (d, N, P) with a scale for each direction.
        RETURNS (Tensor): Of the same shape.
        """
        return normalize(rows, self.weight, self.bias)


def normalize(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """rows (Tensor): Shape (N, P) or (d, N, P).
    weight (Tensor), bias (Tensor): Shape (P,) or (d, P).
    RETURNS (Tensor): Of the shape of `rows`.
    """
    width = rows.shape[-1:]
    if weight.dim() == 1:
        return nn.functional.layer_norm(rows, width, weight, bias, NORM_EPS)
    if len(weight) == 1:
        return nn.functional.layer_norm(rows, width, weight[0], bias[0], NORM_EPS)
    return nn.functional.layer_norm(rows, width, eps=NORM_EPS) * weight.unsqueeze(1) + bias.unsqueeze(1)
