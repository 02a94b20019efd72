"""The layer mix: Peters et al. (2018), eq. 1, elmo = gamma * sum_j softmax(w)_j h_j; its settings, arithmetic, layer.

bilm-tf has softmax(w + 1/n), which is equal; its L2 on `w` regularizes towards the mean of the layers. AllenNLP's layer
norm, over a batch with its boundaries, is in `spacy_elmo.nn`.
"""

import dataclasses
from typing import Any, Callable, List, Optional, Sequence, Tuple

import numpy
import torch
from pydantic.dataclasses import dataclass
from thinc.api import Linear, Model
from thinc.types import Floats1d, Floats2d, Floats3d
from thinc.util import get_array_module

from ..errors import Errors
from ..inference.runtime import isolated
from ..settings import KNOWN_NAMES, Count, Flag, Mix, MixNorm, NotNegative, Number, Probability, require
from ..util import DROPPED, LAYER_NORMS


@dataclass(frozen=True, config=KNOWN_NAMES)
class MixSettings:
    """How a task mixes the layers.

    initial_weights (Optional[List[float]]): Initial weights w before the softmax, one per layer, the token layer first;
        null for equal weights.
    learn_weights (bool): Whether to train w; only a "learned" mix does.
    initial_gamma (float): Initial scale gamma of the mix.
    learn_gamma (bool): Whether to train the scale gamma.
    layer_dropout (float): Layer dropout: probability of leaving a layer out of the softmax of a batch, 0 to below 1.
    weights_l2 (float): L2 penalty on w, towards equal weights: weights_l2 * sum(w^2) is added to the loss. lambda in
        Peters et al. (2018), sec. 5.1.
    layer_norm (Optional[str]): Norm of each layer before the mix: "token" (mean 0, variance 1 over the values of a
        token); "bilm-tf", as the reference does it (over all tokens of the batch, so that the result depends on the
        batch); or null.
    output_dropout (float): Dropout probability of the mixed vector, 0 to below 1, in addition to the dropout of
        [training].
    projection_width (Optional[int]): Width of a linear projection after the mix; null for none.
    mix (str): "learned"; "fixed" (w stays as initial_weights gives it); "mean" of all layers; "top" (only the
        highest layer); "concat" (of all layers, the token layer first: L+1 times as wide, scaled by gamma).
    """

    initial_weights: Optional[List[Number]] = None
    learn_weights: Flag = True
    initial_gamma: Number = 1.0
    learn_gamma: Flag = True
    layer_dropout: Probability = 0.0
    weights_l2: NotNegative = 0.0
    layer_norm: Optional[MixNorm] = None
    output_dropout: Probability = 0.0
    projection_width: Optional[Count] = None
    mix: Mix = "learned"

    def __post_init__(self) -> None:
        """RAISES (ValueError): For settings that have no effect with this `mix`."""
        weights, mix = self.initial_weights, f'with mix = "{self.mix}"'
        is_constant, weighs_none = self.mix in ("mean", "top", "concat"), self.mix in ("top", "concat")
        require(
            (weights is not None or self.mix != "fixed", f"initial_weights is null, should be a list of weights {mix}"),
            (weights is None or not is_constant, f"initial_weights is {weights}, should be null {mix}"),
            (
                self.learns_weights or not self.weights_l2,
                f"weights_l2 is {self.weights_l2}, should be 0 {mix} and learn_weights = {self.learn_weights}, which "
                "learn no weights",
            ),
            (
                not (weighs_none and self.layer_dropout),
                f"layer_dropout is {self.layer_dropout}, should be 0 {mix}, which weighs no layers",
            ),
        )

    @property
    def learns_weights(self) -> bool:
        """RETURNS (bool): Whether w is trained."""
        return self.learn_weights and self.mix == "learned"

    def get_width(self, mixture_size: int, width: int) -> int:
        """RETURNS (int): Width of the mixed vector of L+1 layers of a width, before a projection."""
        return mixture_size * width if self.mix == "concat" else width


@dataclasses.dataclass(frozen=True)
class ElmoBatch:
    """The layers of a batch of Docs, concatenated.

    layers (Floats3d): Shape (L+1, T, D), with T tokens in all Docs. Space tokens have rows of zeros.
    lengths (List[int]): Tokens of each Doc; they sum to T.
    """

    layers: Floats3d
    lengths: List[int]

    @property
    def width(self) -> int:
        """RETURNS (int): D, the width of a vector."""
        return int(self.layers.shape[2])


def softmax(weights: Floats1d) -> Floats1d:
    """Positive weights that sum to one, from raw weights; both have shape (L+1,)."""
    exps: Floats1d = get_array_module(weights).exp(weights - weights.max())
    return exps / exps.sum()


def _softmax_backward(shares: Floats1d, d_shares: Floats1d) -> Floats1d:
    return shares * (d_shares - (shares * d_shares).sum())


def _concatenate_layers(layers: Floats3d, gamma: Floats1d) -> Floats2d:
    """Map layers (L+1, T, D) to concatenated vectors, (T, (L+1) * D), scaled."""
    mixture_size, n_tokens, width = layers.shape
    rows: Floats2d = layers.transpose(1, 0, 2).reshape(n_tokens, mixture_size * width) * gamma
    return rows.astype(get_array_module(layers).promote_types(layers.dtype, "float32"), copy=False)


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
    """Mix the layers of Docs, shape (L+1, T, D), to (T, D). The result must not depend on other Docs of a batch, so the
    only norm is "token".
    """
    if norm is not None:
        layers, _ = layer_norm(layers, norm)
    shares = softmax(get_array_module(layers).asarray(weights, dtype="float64"))
    return weigh(layers, shares, gamma)


def layer_norm(layers: Floats3d, norm: str) -> Tuple[Floats3d, Callable[[Floats3d], Floats3d]]:
    """Normalize layers (L+1, T, D) to mean 0 and variance 1: each token of each layer ("token"), or each layer over all
    tokens ("bilm-tf"). Rows of zeros (space tokens) stay zeros and are excluded.
    """
    xp = get_array_module(layers)
    layers = layers.astype(xp.promote_types(layers.dtype, "float32"), copy=False)
    axes, n_values = ((2,), layers.shape[2]) if norm == "token" else ((1, 2), _count_tokens(layers) * layers.shape[2])
    if norm == "token" and xp is numpy:
        normed, scale = _norm_tokens(layers, LAYER_NORMS[norm])
    else:
        normed = (layers - layers.sum(axis=axes, keepdims=True) / n_values) * _find_tokens(layers)
        scale = 1.0 / xp.sqrt((normed**2).sum(axis=axes, keepdims=True) / n_values + LAYER_NORMS[norm])
        normed *= scale

    def backprop(d_normed: Floats3d) -> Floats3d:
        mask = _find_tokens(layers)
        d_normed = d_normed * mask
        mean = d_normed.sum(axis=axes, keepdims=True) / n_values
        slope = (d_normed * normed).sum(axis=axes, keepdims=True) / n_values
        d_layers: Floats3d = scale * (d_normed - mean - normed * slope) * mask
        return d_layers

    return normed, backprop


def _find_tokens(layers: Floats3d) -> Floats3d:
    """RETURNS (Floats3d): Shape (1, T, 1): 1 for a token, 0 for a row of zeros."""
    mask: Floats3d = layers.any(axis=(0, 2))[None, :, None].astype(layers.dtype)
    return mask


def _count_tokens(layers: Floats3d) -> float:
    return max(float(_find_tokens(layers).sum()), 1.0)


@isolated
@torch.no_grad()
def _norm_tokens(layers: Floats3d, epsilon: float) -> Tuple[Floats3d, Floats3d]:
    """RETURNS (Tuple[Floats3d, Floats3d]): Normalized tokens (L+1, T, D), which stay zeros if they were; and what they
    were multiplied by, (L+1, T, 1).
    """
    rows = torch.from_numpy(numpy.require(layers, requirements=["C", "W"]))  # a stored array is read-only
    normed, _, scale = torch.native_layer_norm(rows, rows.shape[-1:], None, None, epsilon)
    return normed.numpy(), scale.numpy()


def fill_weights(weights: Optional[Sequence[float]], mixture_size: int) -> List[float]:
    """Raw weights of `mixture_size` layers: those given, or equal ones for None, the plain mean."""
    return [0.0] * mixture_size if weights is None else [float(weight) for weight in weights]


def ScalarMixLayer(settings: MixSettings) -> Model[Floats3d, Floats2d]:
    """Create the layer, which maps layers (L+1, T, D) to (T, D), (T, (L+1) * D) if it concatenates them, or (T,
    projection width). Parameters: `w`, shape (L+1,), and `gamma`, shape (1,).
    """
    width = settings.projection_width
    return Model(
        "scalar_mix",
        forward,
        init=init,
        dims={"nL": None, "nI": None, "nO": width},
        params={"w": None, "gamma": None},
        layers=[] if width is None else [Linear(width)],
        attrs={"mix": settings},
    )


def set_sizes(model: Model[Floats3d, Floats2d], mixture_size: int, width: int, *, owner: str = "") -> None:
    """Set the sizes of a `ScalarMixLayer`: L+1 layers of width D. The error names the component `owner`, if it is
    known.

    RAISES (ValueError): EL068 if it was initialized with other sizes, for another number of initial weights.
    """
    if model.has_param("w"):
        check_sizes(model, (mixture_size, width), owner=owner)
    settings = _get_mix_settings(model)
    _check_initial_weights(settings, mixture_size, owner)
    model.set_dim("nL", mixture_size, force=True)
    model.set_dim("nI", width, force=True)
    if not model.layers:
        model.set_dim("nO", settings.get_width(mixture_size, width), force=True)


def check_width(model: Model[Floats3d, Floats2d], owner: str = "") -> None:
    """RAISES (ValueError): If the layer after the mix was trained for the width of another setting `mix`."""
    settings = _get_mix_settings(model)
    expected = model.layers[0].maybe_get_dim("nI") if model.layers else model.maybe_get_dim("nO")
    width = settings.get_width(model.get_dim("nL"), model.get_dim("nI"))
    if expected is not None and expected != width:
        raise ValueError(
            f'mix = "{settings.mix}"{f" of {owner!r}" if owner else ""} gives vectors of width {width}, but the layers '
            f'after it were trained with {expected}: "concat" is {model.get_dim("nL")} times as wide as the other '
            "mixes. Use the `mix` of the training, or train the component again."
        )


def init(model: Model[Floats3d, Floats2d], X: Optional[Floats3d] = None, Y: Any = None) -> None:
    """Set the initial values. The sizes must be known, from `X` or `set_sizes`."""
    if X is not None:
        set_sizes(model, X.shape[0], X.shape[2])
    settings, ops = _get_mix_settings(model), model.ops
    # Of "top" and "concat", too: with `mix = "learned"` in a later training, all layers can gain weight.
    model.set_param("w", ops.asarray1f(fill_weights(settings.initial_weights, model.get_dim("nL"))))
    model.set_param("gamma", ops.asarray1f([settings.initial_gamma]))
    for projection in model.layers:
        projection.set_dim("nI", settings.get_width(model.get_dim("nL"), model.get_dim("nI")))
        projection.initialize()


def get_weights(model: Model[Floats3d, Floats2d]) -> Floats1d:
    """Raw weights of an initialized `ScalarMixLayer`, shape (L+1,). The settings decide, not the parameter, unless the
    mix is learned: settings of a trained pipeline can be changed when it is loaded.

    RAISES (ValueError): For another number of initial weights.
    """
    settings, weights = _get_mix_settings(model), model.get_param("w")
    if settings.mix == "learned":
        return weights
    _check_initial_weights(settings, len(weights))
    is_top = settings.mix == "top"
    constant = (
        [DROPPED] * (len(weights) - 1) + [0.0] if is_top else fill_weights(settings.initial_weights, len(weights))
    )
    return model.ops.asarray1f(constant)


def _check_initial_weights(settings: MixSettings, mixture_size: int, owner: str = "") -> None:
    check_count("initial_weights" + (f" of '{owner}'" if owner else ""), settings.initial_weights, mixture_size)


def _get_mix_settings(model: Model[Floats3d, Floats2d]) -> MixSettings:
    settings: MixSettings = model.attrs["mix"]
    return settings


def forward(
    model: Model[Floats3d, Floats2d], layers: Floats3d, is_train: bool
) -> Tuple[Floats2d, Callable[..., Optional[Floats3d]]]:
    """Mix layers (L+1, T, D). In training, layer dropout and output dropout are applied. With `has_input_grad=False`
    the backward pass returns None.
    """
    mixed, backprop_mix = _mix(model, layers, is_train)
    projected, backprop_projection = model.layers[0](mixed, is_train) if model.layers else (mixed, _identity)
    dropout = _get_mix_settings(model).output_dropout if is_train else 0.0
    mask = model.ops.get_dropout_mask(projected.shape, dropout) if dropout else None

    def backprop(d_output: Floats2d, has_input_grad: bool = True) -> Optional[Floats3d]:
        d_projected = d_output if mask is None else d_output * mask
        return backprop_mix(backprop_projection(d_projected), has_input_grad)

    return projected if mask is None else projected * mask, backprop


def _mix(
    model: Model[Floats3d, Floats2d], layers: Floats3d, is_train: bool
) -> Tuple[Floats2d, Callable[[Floats2d, bool], Optional[Floats3d]]]:
    settings, xp = _get_mix_settings(model), model.ops.xp
    weights, gamma = get_weights(model), model.get_param("gamma")
    backprop_norm: Callable[[Floats3d], Floats3d] = _identity
    if settings.layer_norm is not None:
        layers, backprop_norm = layer_norm(layers, settings.layer_norm)
    check_width(model)
    if settings.mix == "concat":
        return _concatenate(model, layers, gamma, backprop_norm)
    is_mixed = xp.ones(weights.shape, dtype=bool)
    if is_train and settings.layer_dropout:
        is_mixed = xp.random.uniform(size=weights.shape) >= settings.layer_dropout
    shares = softmax(xp.where(is_mixed, weights, DROPPED).astype(weights.dtype))

    def backprop(d_mixed: Floats2d, has_input_grad: bool) -> Optional[Floats3d]:
        d_scaled_shares = xp.einsum("td,ltd->l", d_mixed, layers)  # (L+1,), before gamma
        if settings.learn_gamma:
            model.inc_grad("gamma", (shares * d_scaled_shares).sum(keepdims=True))
        if settings.learns_weights:
            d_weights = _softmax_backward(shares, gamma * d_scaled_shares) * is_mixed
            model.inc_grad("w", (d_weights + 2 * settings.weights_l2 * weights).astype(weights.dtype, copy=False))
        if not has_input_grad:
            return None
        return backprop_norm((gamma * shares)[:, None, None] * d_mixed[None])

    return weigh(layers, shares, gamma), backprop


def _concatenate(
    model: Model[Floats3d, Floats2d], layers: Floats3d, gamma: Floats1d, backprop_norm: Callable[[Floats3d], Floats3d]
) -> Tuple[Floats2d, Callable[[Floats2d, bool], Optional[Floats3d]]]:
    mixture_size, n_tokens, width = layers.shape

    def backprop(d_mixed: Floats2d, has_input_grad: bool) -> Optional[Floats3d]:
        d_layers: Floats3d = d_mixed.reshape(n_tokens, mixture_size, width).transpose(1, 0, 2)
        if _get_mix_settings(model).learn_gamma:
            model.inc_grad("gamma", (d_layers * layers).sum(keepdims=True).reshape(1).astype(gamma.dtype, copy=False))
        return backprop_norm(d_layers * gamma) if has_input_grad else None

    return _concatenate_layers(layers, gamma), backprop


def _identity(array: Any) -> Any:
    return array


def check_count(setting: str, weights: Optional[Sequence[float]], mixture_size: int) -> None:
    """ValueError if a setting has weights, and not one for each layer of the biLM."""
    if weights is not None and len(weights) != mixture_size:
        raise ValueError(
            f"{setting} has {len(weights)} weights ({list(weights)}), but the biLM has {mixture_size} layers (with the "
            "token layer). Give one weight per layer, or null for equal weights."
        )


def check_sizes(model: Model[Floats3d, Floats2d], upstream: Tuple[int, int], *, owner: str = "") -> None:
    """ValueError EL068 if a `ScalarMixLayer` was trained for other sizes (L+1, D) than the biLM upstream has."""
    trained = (model.get_dim("nL"), model.get_dim("nI"))
    if trained != upstream:
        sizes = [f"{mixture_size} layers of width {width}" for mixture_size, width in (trained, upstream)]
        of_owner = f" of '{owner}'" if owner else ""
        raise ValueError(Errors.EL068.format(owner=of_owner, expected=sizes[0], actual=sizes[1]))


def check_initialized(mix: Model[Floats3d, Floats2d], name: str) -> None:
    """ValueError EL098, as spaCy's E109, if a `ScalarMixLayer` of a component or layer has no weights."""
    if not mix.has_param("w"):
        raise ValueError(Errors.EL098.format(name=name))
