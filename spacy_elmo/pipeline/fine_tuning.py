"""How a biLM is trained together with a task: which layers, when, at which rates, and how far from where they were.

Howard & Ruder (2018), sec. 3.2 and 3.3: learning rates by layer and gradual unfreezing. Li et al. (2018), eq. 2: L2-SP,
the L2 penalty towards the pretrained weights.
"""

import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, islice
from typing import Annotated, Any, Dict, Iterator, List, Optional, Tuple

from pydantic import Field
from thinc.api import Optimizer
from thinc.types import FloatsXd
from thinc.util import torch2xp, xp2torch
from torch import Tensor, nn

from ..bilm.network import BiLMNetwork, layer_parameters, n_unfrozen, slanted_triangle
from ..errors import Warnings
from ..inference.bilm import BiLM
from ..settings import (
    Count,
    Factor,
    NotNegative,
    Positive,
    Probability,
    Share,
    WholeNumber,
    check_arguments,
    check_fields,
    require,
)


@check_fields
@dataclass(frozen=True)
class FineTuning:
    """Settings of a biLM that is trained (`frozen = false`). The defaults train all layers like the task network.

    layers (Optional[List[int]]): Layers to train, numbered as in `doc._.elmo_layers`: 0 is the token layer; None for
        all. The others stay as they are.
    top_rate (float): Learning rate of the top layer, as a factor of the optimizer's.
    layer_decay (float): Learning rate of every other layer, as a factor of the rate of the layer above it, above 0 to
        1. Howard & Ruder (2018) use 1/2.6.
    unfreeze_every (int): Gradual unfreezing: all layers are frozen at first, and after every so many updates one more
        is trained, from the top; 0 trains all from the start.
    l2_to_pretrained (float): Strength of the L2 penalty towards the weights that training began with, in place of the
        optimizer's own `L2` towards zero, and applied like it: to the gradient, or as weight decay. 0 for none.
    RAISES (ValueError): For invalid settings.
    """

    layers: Optional[Annotated[List[WholeNumber], Field(min_length=1)]] = None
    top_rate: Positive = 1.0
    layer_decay: Share = 1.0
    unfreeze_every: WholeNumber = 0
    l2_to_pretrained: NotNegative = 0.0

    def __post_init__(self) -> None:
        layers = self.layers or []
        require((len(set(layers)) == len(layers), f"layers is {layers}, should name each layer once"))


class FineTuner:
    """Applies `FineTuning` to one network. Its count of updates and its pretrained weights are neither saved nor
    copied: a pipeline that is loaded starts again, with the weights that it was saved with as the pretrained ones.
    """

    def __init__(self, settings: FineTuning) -> None:
        self.settings = settings
        self.n_updates = 0
        self._layers_from_top: List[int] = []  # those to train
        self._pretrained: Dict[str, FloatsXd] = {}

    @property
    def n_trained(self) -> int:
        """RETURNS (int): Layers that the next update changes."""
        return self._n_unfrozen(self.n_updates)

    def find_left_frozen(self, n_updates: int) -> List[int]:
        """RETURNS (List[int]): The layers that no update of so many would change, ascending."""
        return sorted(self._layers_from_top[self._n_unfrozen(n_updates) :])

    def _n_unfrozen(self, n_updates: int) -> int:
        return n_unfrozen(len(self._layers_from_top), done=n_updates, every=self.settings.unfreeze_every, at_start=0)

    @property
    def n_pretrained_bytes(self) -> int:
        """RETURNS (int): Memory of the pretrained weights that are kept for the L2 penalty."""
        return sum(array.nbytes for array in self._pretrained.values())

    def begin(self, bilm: BiLM) -> None:
        """Start again: count from 0, take the weights as the pretrained ones, freeze what is not trained yet.

        RAISES (ValueError): For layers that the biLM does not have, or whose vectors are constant, like token
            embeddings in place of its token layer.
        """
        known = list(range(int(bilm.token_embeddings is not None), bilm.config.n_layers + 1))
        trained = known if self.settings.layers is None else self.settings.layers
        unknown = sorted(set(trained) - set(known))
        if unknown:
            raise ValueError(
                f"fine_tuning.layers names {unknown}, but the layers of this biLM that have weights to train "
                f"are {known} (0 is the token layer, {bilm.config.n_layers} the top LSTM layer). Correct the "
                "list, or set layers = null to train all."
            )
        self._layers_from_top = sorted(trained, reverse=True)
        self.n_updates = 0
        self._pretrained = {}
        self._freeze(bilm.network)

    def update(self, network: BiLMNetwork, optimizer: Optimizer, owner: int) -> bool:
        """Let a Thinc optimizer change each parameter that has a gradient, by the key (owner, name); count the update.

        owner (int): Id of the shim.
        RETURNS (bool): Whether a weight was changed.
        """
        layers = layer_parameters(network)
        n_trained, is_changed = self.n_trained, False
        for layer in self._layers_from_top[:n_trained]:
            rate = float(self.settings.top_rate * self.settings.layer_decay ** (network.config.n_layers - layer))
            for name, parameter in layers[layer].items():
                if parameter.grad is not None:
                    self._step(optimizer, (owner, name), parameter, parameter.grad, rate)
                    is_changed = True
        self.n_updates += 1
        if self.n_trained > n_trained:
            self._freeze(network)
        return is_changed

    def _freeze(self, network: BiLMNetwork) -> None:
        """No gradients are computed for what is not trained, and none are kept."""
        trained = self._layers_from_top[: self.n_trained]
        for layer, parameters in enumerate(layer_parameters(network)):
            for parameter in parameters.values():
                parameter.requires_grad_(layer in trained)
                if layer not in trained:
                    parameter.grad = None

    def _step(
        self, optimizer: Optimizer, key: Tuple[int, str], parameter: nn.Parameter, grad: Tensor, rate: float
    ) -> None:
        weights, gradient = torch2xp(parameter.data), torch2xp(grad)
        if optimizer.averages is not None and key not in optimizer.averages:
            optimizer.averages[key] = weights.copy()  # Thinc's start at zero: 0.8 times the weights after one update
        with _without_l2(optimizer, self.settings.l2_to_pretrained), _scaled_radam(optimizer, rate) as rate:
            if self.settings.l2_to_pretrained:
                self._apply_l2_sp(optimizer, key[1], weights, gradient, rate)
            updated, _ = optimizer(key, weights, gradient, lr_scale=rate)
        parameter.data = xp2torch(updated, device=parameter.device)
        parameter.grad = None

    def _apply_l2_sp(self, optimizer: Optimizer, name: str, weights: Any, gradient: Any, rate: float) -> None:
        """Add the penalty, l2 / 2 * |w - w0|^2, to the gradient, or shorten w - w0 by the learning rate times l2,
        at most to 0 (decoupled weight decay, Loshchilov & Hutter 2019)."""
        if name not in self._pretrained:
            self._pretrained[name] = weights.copy()
        if optimizer.L2_is_weight_decay:
            share = optimizer.learn_rate * rate * self.settings.l2_to_pretrained  # of w - w0; more than 1 would diverge
            weights -= min(share, 1.0) * (weights - self._pretrained[name])
        else:
            gradient += self.settings.l2_to_pretrained * (weights - self._pretrained[name])


@contextmanager
def _without_l2(optimizer: Optimizer, l2_to_pretrained: float) -> Iterator[None]:
    """Without the optimizer's L2 towards zero where there is one towards the pretrained weights."""
    if not l2_to_pretrained:
        yield
        return
    towards_zero, optimizer.L2 = optimizer.L2, 0.0
    try:
        yield
    finally:
        optimizer.L2 = towards_zero


@contextmanager
def _scaled_radam(optimizer: Optimizer, rate: float) -> Iterator[float]:
    """RAdam of Thinc 8.3 ignores `lr_scale`: scale its learning rate for this call, and yield the `lr_scale` left."""
    if not getattr(optimizer, "use_radam", False):
        yield rate
        return
    learn_rate, optimizer.learn_rate = optimizer.learn_rate, optimizer.learn_rate * rate
    try:
        yield 1.0
    finally:
        optimizer.learn_rate = learn_rate


SLANTED_TRIANGULAR = "spacy-elmo.slanted_triangular.v1"
N_SPARE = 2  # `spacy train` makes max_steps + 1 updates, and asks for a rate after the last one


@check_arguments
def slanted_triangular(
    max_rate: Positive,
    num_steps: Count,
    *,
    cut_frac: Probability = 0.1,
    ratio: Factor = 32.0,
    t: WholeNumber = 0,
) -> Iterator[float]:
    """Rise linearly for a short time, then fall linearly: Howard & Ruder (2018), eq. 3.

    cut = floor(T cut_frac); p = t / cut up to the cut, then 1 - (t - cut) / (T - cut);
    rate = max_rate (1 + p (ratio - 1)) / ratio. The paper has cut (1 / cut_frac - 1) for T - cut, which is the same
    number where T cut_frac is whole, and falls below the lowest rate where it is not.

    max_rate (float): The highest rate.
    num_steps (int): T, the updates of the training. Later rates are the lowest one, with warning WL071.
    cut_frac (float): Share of the updates in which the rate rises, 0 to below 1.
    ratio (float): The highest rate by the lowest one.
    t (int): Updates done before, for a training that is resumed; if there are none left.
    RETURNS (Iterator[float]): The rate of each update, without end.
    RAISES (ValueError): For invalid settings.
    """
    cut = int(num_steps * cut_frac)
    steps = (min(step, num_steps) for step in count(t))
    rates = (max_rate * slanted_triangle(step, total=num_steps, cut=cut, ratio=ratio) for step in steps)
    if ratio == 1:  # a constant rate has no end
        return rates
    lowest = f"{max_rate / ratio:g}"
    if t >= num_steps:
        warnings.warn(
            f"The schedule {SLANTED_TRIANGULAR} starts after its end: t is {t}, num_steps is {num_steps}, so that all "
            f"updates have the lowest rate, {lowest}. Set num_steps to the updates of the whole training, with those "
            "done before, and t to the updates done before.",
            stacklevel=2,
        )
        return rates
    text = Warnings.WL071.format(name=f"schedule {SLANTED_TRIANGULAR}", num_steps=num_steps, rate=lowest)
    return _warn_after(rates, num_steps - t + N_SPARE, text)


def _warn_after(rates: Iterator[float], n_rates: int, text: str) -> Iterator[float]:
    """YIELDS (float): The same rates; a warning comes with the first one after `n_rates`."""
    yield from islice(rates, n_rates)
    warnings.warn(text, stacklevel=2)
    yield from rates
