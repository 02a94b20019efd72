"""Arithmetic of the layer mix, on NumPy or cupy arrays: Peters et al. (2018), eq. 1.

elmo = gamma * sum_j softmax(w)_j h_j, with an optional layer norm of each h_j.
"""

from typing import Callable, List, Optional, Sequence, Tuple

from thinc.types import Floats1d, Floats2d, Floats3d
from thinc.util import get_array_module

from .._choices import LAYER_NORMS
from .batch_norm import BoundarySums, boundary_columns


def softmax(weights: Floats1d) -> Floats1d:
    """weights (Floats1d): Raw weights, shape (L+1,).
    RETURNS (Floats1d): Positive weights that sum to one.
    """
    exps: Floats1d = get_array_module(weights).exp(weights - weights.max())
    return exps / exps.sum()


def softmax_backward(shares: Floats1d, d_shares: Floats1d) -> Floats1d:
    """shares (Floats1d): Output of `softmax`.
    RETURNS (Floats1d): The gradient of the raw weights.
    """
    return shares * (d_shares - (shares * d_shares).sum())


def weigh(layers: Floats3d, shares: Floats1d, gamma: float) -> Floats2d:
    """layers (Floats3d): Shape (L+1, T, D).
    shares (Floats1d): Shape (L+1,), output of `softmax`.
    RETURNS (Floats2d): Shape (T, D), in the dtype of the layers or float32, the wider of the two.
    """
    xp = get_array_module(layers)
    shares = xp.asarray(shares, dtype=xp.promote_types(layers.dtype, "float32")) * gamma
    mixed = layers[0] * shares[0]
    for layer, share in zip(layers[1:], shares[1:]):
        mixed += layer * share
    return mixed


def mix_layers(layers: Floats3d, weights: Sequence[float], gamma: float, norm: Optional[str] = None) -> Floats2d:
    """Mix the layers of Docs. The result must not depend on other Docs of a batch, so the only norm is "token".

    layers (Floats3d): Shape (L+1, T, D).
    weights (Sequence[float]): Raw weights, one per layer.
    gamma (float): Scale of the result.
    norm (Optional[str]): "token" or None.
    RETURNS (Floats2d): Shape (T, D).
    """
    if norm is not None:
        layers, _ = layer_norm(layers, norm)
    shares = softmax(get_array_module(layers).asarray(weights, dtype="float64"))
    return weigh(layers, shares, gamma)


def layer_norm(
    layers: Floats3d, norm: str, boundaries: Optional[BoundarySums] = None
) -> Tuple[Floats3d, Callable[[Floats3d], Floats3d]]:
    """Normalize to mean 0 and variance 1: each token of each layer ("token"), or each layer over all tokens.

    Rows of zeros (space tokens) stay zeros and are excluded.
    layers (Floats3d): Shape (L+1, T, D).
    norm (str): A name in `LAYER_NORMS`.
    boundaries (Optional[BoundarySums]): Sums of BOS and EOS, included in mean and variance; they get no gradient.
    RETURNS (Tuple[Floats3d, Callable]): Normalized layers, and the backward pass to the gradient of `layers`.
    """
    xp = get_array_module(layers)
    layers = layers.astype(xp.promote_types(layers.dtype, "float32"), copy=False)
    axes = (2,) if norm == "token" else (1, 2)
    mask = layers.any(axis=(0, 2))[None, :, None].astype(layers.dtype)  # (1, T, 1)
    n_boundaries, boundary_sums, boundary_squares = boundary_columns(boundaries, xp)
    n_values = layers.shape[2] if norm == "token" else max(float(mask.sum()) + n_boundaries, 1.0) * layers.shape[2]
    mean = (layers.sum(axis=axes, keepdims=True) + boundary_sums) / n_values  # (L+1, T or 1, 1)
    centred = (layers - mean).astype(layers.dtype, copy=False) * mask
    of_boundaries = boundary_squares - 2 * mean * boundary_sums + n_boundaries * layers.shape[2] * mean**2
    variance = ((centred**2).sum(axis=axes, keepdims=True) + of_boundaries) / n_values
    scale = (1.0 / xp.sqrt(variance + LAYER_NORMS[norm])).astype(layers.dtype)  # (L+1, T or 1, 1)
    normed = centred * scale

    def backprop(d_normed: Floats3d) -> Floats3d:
        d_normed = d_normed * mask
        mean = d_normed.sum(axis=axes, keepdims=True) / n_values
        slope = (d_normed * normed).sum(axis=axes, keepdims=True) / n_values
        d_layers: Floats3d = scale * (d_normed - mean - normed * slope) * mask
        return d_layers

    return normed, backprop


def equal_weights(weights: Optional[Sequence[float]], n_layers: int) -> List[float]:
    """weights (Optional[Sequence[float]]): Raw weights, None for the plain mean.
    RETURNS (List[float]): Raw weights of `n_layers` layers.
    """
    return [0.0] * n_layers if weights is None else [float(weight) for weight in weights]
