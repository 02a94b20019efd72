"""The layer mix as a Thinc layer: Peters et al. (2018), eq. 1, elmo = gamma * sum_j softmax(w)_j h_j.

bilm-tf has softmax(w + 1/n), which is equal; its L2 on `w` regularizes towards the mean of the layers.
"""

from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

from thinc.api import Linear, Model
from thinc.types import Floats1d, Floats2d, Floats3d

from .._choices import DROPPED
from ..errors import Errors
from .batch_norm import LayersWithBoundaries
from .mix_settings import MixSettings
from .mixing import equal_weights, layer_norm, softmax, softmax_backward, weigh

Sizes = Tuple[Optional[int], Optional[int]]


def ScalarMix(settings: MixSettings) -> Model[Floats3d, Floats2d]:
    """Create the layer. Parameters: `w`, shape (L+1,), and `gamma`, shape (1,).

    settings (MixSettings): The settings.
    RETURNS (Model[Floats3d, Floats2d]): Maps layers (L+1, T, D) to (T, D), or (T, projection width).
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


def set_sizes(model: Model[Floats3d, Floats2d], n_layers: int, width: int, *, owner: str = "") -> None:
    """Set the sizes of a mix.

    model (Model): A `ScalarMix`.
    n_layers (int): Layers to mix, L+1.
    width (int): D.
    owner (str): Name of its component, for the error; empty if it is not known.
    RAISES (ValueError): EL068 if it was initialized with other sizes, for another number of initial weights.
    """
    known = (model.maybe_get_dim("nL"), model.maybe_get_dim("nI"))
    if model.has_param("w") and known != (n_layers, width):
        raise wrong_sizes(owner, known, (n_layers, width))
    _check_count(get_mix_settings(model), n_layers, owner)
    model.set_dim("nL", n_layers, force=True)
    model.set_dim("nI", width, force=True)
    if not model.layers:
        model.set_dim("nO", width, force=True)


def init(model: Model[Floats3d, Floats2d], X: Optional[Floats3d] = None, Y: Any = None) -> None:
    """Set the initial values. The sizes must be known, from `X` or `set_sizes`."""
    if X is not None:
        set_sizes(model, X.shape[0], X.shape[2])
    settings, ops = get_mix_settings(model), model.ops
    # Of "top", too: with `mix = "learned"` in a later training, all layers can gain weight.
    model.set_param("w", ops.asarray1f(equal_weights(settings.initial_weights, model.get_dim("nL"))))
    model.set_param("gamma", ops.asarray1f([settings.initial_gamma]))
    for projection in model.layers:
        projection.set_dim("nI", model.get_dim("nI"))
        projection.initialize()


def get_weights(model: Model[Floats3d, Floats2d]) -> Floats1d:
    """The settings decide, not the parameter, unless the mix is learned: those of a trained pipeline can be changed
    when it is loaded.

    model (Model): A `ScalarMix` that is initialized.
    RETURNS (Floats1d): Raw weights, shape (L+1,).
    RAISES (ValueError): For another number of initial weights.
    """
    settings, weights = get_mix_settings(model), model.get_param("w")
    if settings.mix == "learned":
        return weights
    _check_count(settings, len(weights))
    return model.ops.asarray1f(_start_weights(settings, len(weights)))


def _check_count(settings: MixSettings, n_layers: int, owner: str = "") -> None:
    weights = settings.initial_weights
    if weights is not None and len(weights) != n_layers:
        raise wrong_count("initial_weights" + (f" of '{owner}'" if owner else ""), weights, n_layers)


def _start_weights(settings: MixSettings, n_layers: int) -> List[float]:
    if settings.mix == "top":
        return [DROPPED] * (n_layers - 1) + [0.0]
    return equal_weights(settings.initial_weights, n_layers)


def get_mix_settings(model: Model[Floats3d, Floats2d]) -> MixSettings:
    """RETURNS (MixSettings): The settings of a `ScalarMix`."""
    settings: MixSettings = model.attrs["mix"]
    return settings


def forward(
    model: Model[Floats3d, Floats2d], layers: Union[Floats3d, LayersWithBoundaries], is_train: bool
) -> Tuple[Floats2d, Callable[..., Optional[Floats3d]]]:
    """layers (Union[Floats3d, LayersWithBoundaries]): Shape (L+1, T, D), with sums of the boundaries for a norm that
        includes them.
    is_train (bool): Whether to apply layer dropout and output dropout.
    RETURNS (Tuple[Floats2d, Callable]): Mixed vectors, and the backward pass to the gradient of `layers`; with
        `has_input_grad=False` it returns None.
    """
    mixed, backprop_mix = _mix(model, layers, is_train)
    projected, backprop_projection = model.layers[0](mixed, is_train) if model.layers else (mixed, _same)
    dropout = get_mix_settings(model).output_dropout if is_train else 0.0
    mask = model.ops.get_dropout_mask(projected.shape, dropout) if dropout else None

    def backprop(d_output: Floats2d, has_input_grad: bool = True) -> Optional[Floats3d]:
        d_projected = d_output if mask is None else d_output * mask
        return backprop_mix(backprop_projection(d_projected), has_input_grad)

    return projected if mask is None else projected * mask, backprop


def _mix(
    model: Model[Floats3d, Floats2d], inputs: Union[Floats3d, LayersWithBoundaries], is_train: bool
) -> Tuple[Floats2d, Callable[[Floats2d, bool], Optional[Floats3d]]]:
    layers, boundaries = inputs if isinstance(inputs, LayersWithBoundaries) else (inputs, None)
    settings, xp = get_mix_settings(model), model.ops.xp
    weights, gamma = get_weights(model), model.get_param("gamma")
    backprop_norm: Callable[[Floats3d], Floats3d] = _same
    if settings.layer_norm is not None:
        layers, backprop_norm = layer_norm(layers, settings.layer_norm, boundaries)
    kept = xp.ones(weights.shape, dtype=bool)
    if is_train and settings.layer_dropout:
        kept = xp.random.uniform(size=weights.shape) >= settings.layer_dropout
    shares = softmax(xp.where(kept, weights, DROPPED).astype(weights.dtype))

    def backprop(d_mixed: Floats2d, has_input_grad: bool) -> Optional[Floats3d]:
        d_scaled_shares = xp.einsum("td,ltd->l", d_mixed, layers)  # (L+1,), before gamma
        if settings.learn_gamma:
            model.inc_grad("gamma", (shares * d_scaled_shares).sum(keepdims=True))
        if settings.learns_weights:
            d_weights = softmax_backward(shares, gamma * d_scaled_shares) * kept
            model.inc_grad("w", _as_kind(d_weights + 2 * settings.weights_l2 * weights, weights))
        if not has_input_grad:
            return None
        return backprop_norm((gamma * shares)[:, None, None] * d_mixed[None])

    return weigh(layers, shares, gamma), backprop


def _as_kind(array: Floats1d, like: Floats1d) -> Floats1d:
    return array.astype(like.dtype, copy=False)


def _same(array: Any) -> Any:
    return array


def wrong_count(setting: str, weights: Sequence[float], n_layers: int) -> ValueError:
    """setting (str): What has the weights.
    weights (Sequence[float]): Raw weights of a mix.
    n_layers (int): Layers of the biLM, of which there is another number.
    RETURNS (ValueError): The error.
    """
    return ValueError(
        f"{setting} has {len(weights)} weights ({list(weights)}), but the biLM has {n_layers} layers (including the "
        "token layer). Give one weight per layer, or null for equal weights."
    )


def wrong_sizes(owner: str, wanted: Sizes, found: Sizes) -> ValueError:
    """owner (str): Name of the component with the mix, empty if it is not known.
    wanted (Sizes), found (Sizes): Layers to mix and their width, of the mix and of a biLM.
    RETURNS (ValueError): EL068.
    """
    told = [f"{n_layers} layers of width {width}" for n_layers, width in (wanted, found)]
    return ValueError(Errors.EL068.format(owner=f" of '{owner}'" if owner else "", wanted=told[0], found=told[1]))
