"""PyTorch modules for the models of tasks: the layer mix of Peters et al. (2018), eq. 1, and a bidirectional LSTM."""

import inspect
import os
from functools import wraps
from typing import (
    Annotated,
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    Optional,
    Sequence,
    SupportsFloat,
    TypeVar,
    Union,
    cast,
)

import torch
from pydantic import BeforeValidator
from torch import Tensor, nn

from ..errors import Errors
from ..inference.kernel_lstm import PackedLSTM
from ..inference.lstm_sequences import run_lstm
from ..inference.runtime import register_fork_handlers
from ..settings import AnyNorm, Count, Flag, Number, Probability, check_arguments
from ..util import DROPPED, LAYER_NORMS

F = TypeVar("F", bound=Callable[..., Any])


def _to_floats(weights: Any) -> Any:
    """Numbers of any type, also of an array or a tensor."""
    is_list = isinstance(weights, Iterable)
    return [float(value) if isinstance(value, SupportsFloat) else value for value in weights] if is_list else weights


MixWeights = Annotated[Sequence[Number], BeforeValidator(_to_floats)]
ALLENNLP_HINT = "Code for AllenNLP runs with `from spacy_elmo.compat.allennlp import {name}`"


def reject_other_arguments(function: F) -> F:
    """Let the error for arguments that do not fit name the module that has the signature of AllenNLP."""
    signature = inspect.signature(function)
    names = ", ".join(list(signature.parameters)[1:])

    @wraps(function)
    def call(self: Any, *args: Any, **settings: Any) -> None:
        try:
            n_mixes = signature.bind(self, *args, **settings).arguments.get("n_mixes")
            if isinstance(n_mixes, (str, os.PathLike)):
                raise TypeError(f"n_mixes is '{n_mixes}', should be a whole number")
        except TypeError as error:
            name = type(self).__name__
            advice = ALLENNLP_HINT.format(name=function.__qualname__.partition(".")[0])
            raise TypeError(f"{name}(): {error}. It takes {names}. {advice}.") from None
        function(self, *args, **settings)

    return cast(F, call)


class ScalarMix(nn.Module):
    """Weigh the layers of a biLM into one vector per token.

    Peters et al. (2018), eq. 1: elmo = gamma * sum_j softmax(w)_j * h_j. The parameters are `weights`, shape (L+1,),
    which is w, and `gamma`, shape (1,). State dicts of AllenNLP's ScalarMix can be loaded.

    mixture_size (int): Layers to mix, the token layer included (3 for the original models).
    initial_weights (Optional[Sequence[float]]): Raw weights w at the start, one per layer; None for equal shares.
    initial_gamma (float): Scale at the start.
    trainable (bool): Learn w and gamma.
    layer_norm (Optional[str]): Norm of each layer before the mix: "token" (over the values of a token); "bilm-tf" or
        "allennlp" (over all tokens of the batch, as in these programs, so that a result depends on its batch); or None.
    layer_dropout (float): Chance that a layer is left out of the softmax, for one batch in training.
    RAISES (ValueError): EL060 for invalid settings.
    """

    @reject_other_arguments
    @check_arguments
    def __init__(
        self,
        mixture_size: Count,
        *,
        initial_weights: Optional[MixWeights] = None,
        initial_gamma: Number = 1.0,
        trainable: Flag = True,
        layer_norm: Optional[AnyNorm] = None,
        layer_dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        register_fork_handlers()
        if initial_weights is not None and len(initial_weights) != mixture_size:
            n_weights = f"{len(initial_weights)} weights, should have {mixture_size}, one per layer"
            raise ValueError(Errors.EL060.format(block="ScalarMix", problems=f"initial_weights has {n_weights}"))
        self.layer_norm, self.layer_dropout = layer_norm, layer_dropout
        initial, dtype = [0.0] * mixture_size if initial_weights is None else initial_weights, parameter_dtype()
        weights = torch.tensor([float(weight) for weight in initial], dtype=dtype)
        self.weights = nn.Parameter(weights, requires_grad=trainable)  # (L+1,)
        self.gamma = nn.Parameter(torch.tensor([float(initial_gamma)], dtype=dtype), requires_grad=trainable)  # (1,)

    @property
    def mixture_size(self) -> int:
        """RETURNS (int): Layers to mix, L+1."""
        return len(self.weights)

    @property
    def shares(self) -> Tensor:
        """RETURNS (Tensor): Shape (L+1,), softmax(w): what each layer contributes, without gradients."""
        return self.weights.detach().softmax(dim=0)

    def forward(self, layers: Union[Tensor, Sequence[Tensor]], mask: Optional[Tensor] = None) -> Tensor:
        """Mix the layers.

        layers (Union[Tensor, Sequence[Tensor]]): Shape (L+1, ..., D), such as (L+1, T, D) or padded (L+1, B, S, D); or
            a list with a tensor (..., D) per layer.
        mask (Optional[Tensor]): Shape (...), True for tokens; None if there is no padding. Rows outside are zeros, and
            do not count in a norm.
        RETURNS (Tensor): Shape (..., D), in the type of `weights`.
        RAISES (ValueError): For another number of layers, or a mask of another shape or type.
        """
        register_fork_handlers()  # again, since a module may come from a pickle
        stack = self._check(layers)
        if mask is not None:
            check_mask(mask, stack[0])
        dtype = torch.promote_types(self.weights.dtype, torch.float32)
        shares = self._dropped_weights().to(dtype).softmax(dim=0) * self.gamma.to(dtype)
        mixed = torch.zeros((), dtype=dtype, device=stack[0].device)
        if mask is not None:  # before the product, since the gradient of the shares reads the padding as well
            stack = [layer.masked_fill(~mask.unsqueeze(-1), 0.0) for layer in stack]
        for share, layer in zip(shares, stack):
            mixed = mixed + share * self._norm(layer.to(dtype), mask)  # (..., D)
        if mask is not None:
            mixed = mixed.masked_fill(~mask.unsqueeze(-1), 0.0)
        return mixed.to(self.weights.dtype)

    def extra_repr(self) -> str:
        """RETURNS (str): Settings, for `print`."""
        return f"{self.mixture_size}, layer_norm={self.layer_norm!r}, layer_dropout={self.layer_dropout}"

    def _check(self, layers: Union[Tensor, Sequence[Tensor]]) -> List[Tensor]:
        is_list = isinstance(layers, (list, tuple)) and all(isinstance(layer, Tensor) for layer in layers)
        expected, actual = f"{self.mixture_size} layers", ""
        if not is_list and not isinstance(layers, Tensor):
            actual = f"a {type(layers).__name__}"
        elif len({tuple(layer.shape) for layer in layers}) > 1:
            expected, actual = "layers of one shape", ", ".join(str(tuple(layer.shape)) for layer in layers)
        elif len(layers) != self.mixture_size or layers[0].dim() < 1:
            actual = f"{len(layers)}{describe_shape(layers)}"
        if actual:
            raise mismatch_of_layers(expected, actual)
        return list(layers)

    def _dropped_weights(self) -> Tensor:
        if not self.training or not self.layer_dropout:
            return self.weights
        is_kept = torch.rand(self.mixture_size, device=self.weights.device) >= self.layer_dropout
        return self.weights.float().where(is_kept, DROPPED)

    def _norm(self, layer: Tensor, mask: Optional[Tensor]) -> Tensor:
        if self.layer_norm is None:
            return layer
        epsilon = LAYER_NORMS[self.layer_norm]
        if self.layer_norm == "token":
            return nn.functional.layer_norm(layer, layer.shape[-1:], eps=epsilon)
        counted = layer if mask is None else layer[mask]  # (tokens, D)
        n_values = max(counted.numel(), 1)
        mean = counted.sum() / n_values
        variance = (counted - mean).square().sum() / n_values
        return (layer - mean) / torch.sqrt(variance + epsilon)

    def _load_from_state_dict(self, state_dict: Dict[str, Any], prefix: str, *rest: Any) -> None:
        """Also take what AllenNLP saves: a parameter `scalar_parameters.k` for each layer."""
        start = f"{prefix}scalar_parameters."
        names = sorted((name for name in state_dict if name.startswith(start)), key=lambda name: (len(name), name))
        if names:
            state_dict[f"{prefix}weights"] = torch.cat([state_dict.pop(name).reshape(1) for name in names])
        super()._load_from_state_dict(state_dict, prefix, *rest)


class BiLSTM(nn.Module):
    """`torch.nn.LSTM` in both directions over each sentence, without its padding: the batch changes nothing.

    It computes the same as packed sequences. Their backward pass is slow on CPUs, so that sentences of similar
    length are computed together in training there. Without gradients, the native kernel computes on CPUs, in float32.

    input_width (int): Width of the input, nI.
    width (int): Width of each direction, H. The output has 2H: forward, then backward.
    RAISES (ValueError): EL060 for invalid settings.
    """

    @check_arguments
    def __init__(self, input_width: Count, width: Count) -> None:
        super().__init__()
        register_fork_handlers()
        self.lstm = nn.LSTM(input_width, width, batch_first=True, bidirectional=True, dtype=parameter_dtype())
        self._packed = PackedLSTM()

    def forward(self, rows: Tensor, mask: Tensor) -> Tensor:
        """rows (Tensor): Shape (B, S, nI), float.
        mask (Tensor): Shape (B, S), bool: which rows are words.
        RETURNS (Tensor): Shape (B, S, 2H), zeros at the padding.
        RAISES (ValueError): For rows or a mask of another type or shape.
        """
        register_fork_handlers()  # again, since a module may come from a pickle
        self._check(rows)
        check_mask(mask, rows)
        if not mask.any():
            return rows.new_zeros(*mask.shape, 2 * self.lstm.hidden_size)
        weights = [matrix for direction in self.lstm.all_weights for matrix in direction]
        outputs = run_lstm(rows[mask], mask.sum(dim=1).tolist(), weights, self._packed)  # (T, 2H)
        encoded = outputs.new_zeros(*mask.shape, outputs.shape[-1])  # of the type that autocast chose
        encoded[mask] = outputs
        return encoded

    def _check(self, rows: Any) -> None:
        width, dtype, actual = self.lstm.input_size, self.lstm.weight_ih_l0.dtype, ""
        if not isinstance(rows, Tensor):
            actual = f"of type {type(rows).__name__}"
        elif rows.dim() != 3 or rows.shape[-1] != width:
            actual = f"of shape {tuple(rows.shape)}"
        elif rows.dtype != dtype and not torch.is_autocast_enabled(rows.device.type):
            actual = f"{rows.dtype}, the weights {dtype}"
        if actual:
            raise ValueError(
                f"The rows of the BiLSTM are {actual}, but should be a tensor (B, S, {width}): sentences, tokens of "
                "the longest sentence, input_width. Pass padded vectors of this width."
            )


def parameter_dtype() -> torch.dtype:
    """The type of new parameters: torch's default, but at least float32, the type of a biLM."""
    return torch.promote_types(torch.get_default_dtype(), torch.float32)


def check_mask(mask: Any, layer: Tensor) -> None:
    """RAISES (ValueError): If the mask is not a bool tensor (...) for a layer (..., D)."""
    is_tensor = isinstance(mask, Tensor)
    if not is_tensor or mask.dtype != torch.bool or mask.shape != layer.shape[:-1]:
        actual = f"shape {tuple(mask.shape)} and type {mask.dtype}" if is_tensor else f"type {type(mask).__name__}"
        raise ValueError(
            f"The mask has {actual}, but should have shape {tuple(layer.shape[:-1])} and type torch.bool: one truth "
            "value for each token of the layers. Pass the mask that came with them."
        )


def mismatch_of_layers(expected: str, actual: str) -> ValueError:
    """The error that layers do not fit a scalar mix."""
    return ValueError(
        f"The scalar mix expects {expected}, but found {actual}. Pass the layers of a biLM first in one tensor, as "
        "`BiLM.encode` and `Elmo.encode` return them, or a list with one tensor per layer."
    )


def describe_shape(layers: Any) -> str:
    """The shape of a tensor, for an error; nothing for a list."""
    return f" (shape {tuple(layers.shape)})" if isinstance(layers, Tensor) else ""
