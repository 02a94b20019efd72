"""The settings of a layer mix, stated once: Peters et al. (2018), eq. 1, elmo = gamma * sum_j softmax(w)_j * h_j."""

import inspect
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, Callable, List, Optional, TypeVar

from .._choices import LAYER_NORMS
from .._settings import find_texts, is_finite
from ..errors import Errors

Built = TypeVar("Built")
MIXES = ("learned", "fixed", "mean", "top")


@dataclass(frozen=True)
class MixSettings:
    """How a task mixes the layers.

    initial_weights (Optional[List[float]]): Raw weights w at the start, one per layer, the token layer included; None
        for equal shares.
    learn_weights (bool): Train w; only a "learned" mix does.
    initial_gamma (float): Scale of the mix at the start.
    learn_gamma (bool): Train the scale.
    layer_dropout (float): Probability that a layer is excluded from the softmax, per batch.
    weights_l2 (float): L2 penalty on w, towards equal shares: weights_l2 * sum(w^2) is added to the loss. lambda in
        Peters et al. (2018), sec. 5.1.
    layer_norm (Optional[str]): Norm of each layer before the mix: "token" (over the values of one token); as the
        references do it, so that the result depends on the batch: "bilm-tf" (over all tokens of the batch) or
        "allennlp" (over all tokens and boundaries of the batch, which requires a frozen biLM); or None.
    output_dropout (float): Dropout of the mixed vector, in addition to the dropout of the training.
    projection_width (Optional[int]): Width of a linear layer after the mix, None for no layer.
    mix (str): "learned"; "fixed" (w stays as `initial_weights` gives it); "mean" of all layers; "top" (the highest
        layer alone).
    """

    initial_weights: Optional[List[float]] = None
    learn_weights: bool = True
    initial_gamma: float = 1.0
    learn_gamma: bool = True
    layer_dropout: float = 0.0
    weights_l2: float = 0.0
    layer_norm: Optional[str] = None
    output_dropout: float = 0.0
    projection_width: Optional[int] = None
    mix: str = "learned"

    def __post_init__(self) -> None:
        problems = self._problems() + self._contradictions()
        if problems:
            raise ValueError(Errors.EL060.format(block="mix", problems="; ".join(problems)))

    @property
    def learns_weights(self) -> bool:
        """RETURNS (bool): Whether w is trained."""
        return self.learn_weights and self.mix == "learned"

    @property
    def needs_boundaries(self) -> bool:
        """RETURNS (bool): Whether the norm includes BOS and EOS."""
        return self.layer_norm == "allennlp"

    def _problems(self) -> List[str]:
        dropouts = {"layer_dropout": self.layer_dropout, "output_dropout": self.output_dropout}
        numbers = {"projection_width": self.projection_width, "initial_gamma": self.initial_gamma}
        texts = find_texts(**dropouts, **numbers, weights_l2=self.weights_l2)
        if texts:
            return texts
        norms, weights = (None, *LAYER_NORMS), self.initial_weights
        is_penalty = is_finite(self.weights_l2) and self.weights_l2 >= 0
        checks = [
            (self.mix in MIXES, f"mix is '{self.mix}', should be one of {MIXES}"),
            (0 <= self.layer_dropout < 1, f"layer_dropout is {self.layer_dropout}, should be from 0 to below 1"),
            (0 <= self.output_dropout < 1, f"output_dropout is {self.output_dropout}, should be from 0 to below 1"),
            (
                weights is None or all(map(is_finite, weights)),
                f"initial_weights is {weights}, should be finite numbers, or null for equal shares",
            ),
            (is_finite(self.initial_gamma), f"initial_gamma is {self.initial_gamma}, should be a finite number"),
            (is_penalty, f"weights_l2 is {self.weights_l2}, should be a finite number of 0 or more"),
            (self.layer_norm in norms, f"layer_norm is '{self.layer_norm}', should be one of {norms}"),
            (
                self.projection_width is None or self.projection_width >= 1,
                f"projection_width is {self.projection_width}, should be 1 or more, or null",
            ),
        ]
        return [text for is_fine, text in checks if not is_fine]

    def _contradictions(self) -> List[str]:
        """RETURNS (List[str]): Settings that have no effect with this `mix`."""
        has_weights, with_mix = self.initial_weights is not None, f'with mix = "{self.mix}"'
        checks = [
            (self.mix != "fixed" or has_weights, f"initial_weights is null, should be a list of weights {with_mix}"),
            (
                self.mix not in ("mean", "top") or not has_weights,
                f"initial_weights is {self.initial_weights}, should be null {with_mix}",
            ),
            (
                self.mix == "learned" or not self.weights_l2,
                f"weights_l2 is {self.weights_l2}, should be 0 {with_mix}, which learns no weights",
            ),
            (
                self.mix != "learned" or self.learn_weights or not self.weights_l2,
                f"weights_l2 is {self.weights_l2}, should be 0 with learn_weights = false, which learns no weights",
            ),
            (
                self.mix != "top" or not self.layer_dropout,
                f"layer_dropout is {self.layer_dropout}, should be 0 {with_mix}, which has one layer",
            ),
        ]
        return [text for is_fine, text in checks if not is_fine]


def takes_mix_settings(build: Callable[..., Built]) -> Callable[..., Built]:
    """Let a registered function take the settings of a mix one by one, in place of its parameter `settings`.

    A config is filled from the signature of the function: names, types and defaults are those of `MixSettings`.
    build (Callable): A function with a parameter `settings` (MixSettings).
    RETURNS (Callable): A function with a parameter for each field of `MixSettings`, after its other ones.
    """
    signature = inspect.signature(build)
    own = [parameter for name, parameter in signature.parameters.items() if name != "settings"]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    mix = [
        inspect.Parameter(field.name, kind, default=field.default, annotation=field.type)
        for field in fields(MixSettings)
    ]
    expanded = signature.replace(parameters=[*own, *mix])

    @wraps(build)
    def build_from_settings(*args: Any, **kwargs: Any) -> Built:
        given = expanded.bind(*args, **kwargs).arguments
        settings = {parameter.name: given.pop(parameter.name) for parameter in mix if parameter.name in given}
        return build(**given, settings=MixSettings(**settings))

    build_from_settings.__signature__ = expanded  # type: ignore[attr-defined]  # read by `inspect.signature`
    return build_from_settings
