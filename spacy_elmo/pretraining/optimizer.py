"""The optimizer: schedule, clipping by the global norm, rates per layer, gradual unfreezing, loss scaling.

Adagrad (Duchi et al. 2011) as in bilm-tf: sums of squares start at `initial_accumulator`, with no epsilon. Adam
(Kingma & Ba 2015) with sparse gradients does not change the moments of rows without a gradient. Howard & Ruder (2018)
train each layer at its own rate and unfreeze the layers one by one, the top one first.
"""

import math
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Tuple

import torch
from torch import Tensor, nn

from ..bilm.network import BiLMNetwork, layer_parameters, n_unfrozen, slanted_triangle
from .run_config import OptimizerConfig, ScheduleConfig

OptimizerState = Tuple[Dict[str, Tensor], Dict[str, Any]]
SLOTS = {
    "adagrad": ("step", "sum"),
    "adam": ("step", "exp_avg", "exp_avg_sq"),
    "adamw": ("step", "exp_avg", "exp_avg_sq"),
}
FIRST_LOSS_SCALE, MAX_LOSS_SCALE = 2.0**12, 2.0**24
STEADY_UPDATES = 1000  # updates without an overflow before the factor is doubled
# Consecutive overflows after which training stops: 24 halvings reduce the largest factor to 1, so no factor helps.
MAX_OVERFLOWS = 30


@dataclass(frozen=True)
class StepInfo:
    """Statistics of an update.

    learn_rate (float): Learning rate of the top layer.
    grad_norm (float): Global norm of the gradient before clipping; if it is not finite, nothing was changed.
    """

    learn_rate: float
    grad_norm: float


class PretrainOptimizer:
    """Updates the weights of a biLM and its softmax in place; shared parameters are updated once. It also sets the
    attribute `sparse_words` of the network.

    max_tokens (int): Predictions per direction of the whole run.
    """

    def __init__(
        self,
        network: BiLMNetwork,
        head: nn.Module,
        settings: OptimizerConfig,
        schedule: ScheduleConfig,
        *,
        max_tokens: int,
    ) -> None:
        self.settings, self.schedule, self.max_tokens = settings, schedule, max_tokens
        network.sparse_words = settings.sparse
        self.groups = layer_groups(network, head)
        self.named = {name: parameter for group in self.groups.values() for name, parameter in group.items()}
        self.parameters = list(self.named.values())
        self._rule = _make_rule(list(self.groups.values()), settings)
        self.n_trained = 1 if settings.unfreeze_tokens else len(self.groups)
        self._freeze()

    def zero_grad(self) -> None:
        """Set all gradients to None."""
        for parameter in self.parameters:
            parameter.grad = None

    def step(self, *, step: int, n_tokens: int) -> StepInfo:
        """Clip the gradients in place and update the weights. Layers that are due are unfrozen afterwards, so they have
        gradients from the next update on. Weights without a gradient, and their moments, do not change.

        step (int), n_tokens (int): Updates, and predictions per direction, done before this one.
        """
        factor = rate_factor(self.schedule, step=step, n_tokens=n_tokens, max_tokens=self.max_tokens)
        learn_rate, clip = self.settings.learn_rate * factor, self.settings.grad_clip
        values = [_coalesced_values(parameter) for parameter in self.parameters if parameter.grad is not None]
        grad_norm = _global_norm(values)
        if math.isfinite(grad_norm):
            if grad_norm > clip:
                for gradient in values:
                    gradient.mul_(clip / grad_norm)
            self._update(learn_rate)
            every = self.settings.unfreeze_tokens
            due = n_unfrozen(len(self.groups), done=n_tokens, every=every, at_start=1)
            if due > self.n_trained:
                self.n_trained = due
                self._freeze()
        return StepInfo(learn_rate, grad_norm)

    def state_dict(self) -> OptimizerState:
        """RETURNS (OptimizerState): Tensors by "<parameter>.<slot>", not copied, and everything else in JSON types."""
        moments = self._rule.state
        tensors = {
            f"{name}.{slot}": tensor
            for name, parameter in self.named.items()
            for slot, tensor in moments[parameter].items()
        }
        return tensors, {"n_trained": self.n_trained}

    def load_state_dict(self, state: OptimizerState) -> None:
        """Copy the tensors of an optimizer with the same rule and the same model."""
        tensors, record = state
        self._rule.state.clear()
        for name, parameter in self.named.items():
            if f"{name}.step" in tensors:
                slots = {slot: tensors[f"{name}.{slot}"] for slot in SLOTS[self.settings.name]}
                step = _new_step(self._rule, parameter).copy_(slots.pop("step"))
                moments = {slot: torch.empty_like(parameter).copy_(tensor) for slot, tensor in slots.items()}
                self._rule.state[parameter] = {"step": step, **moments}
        self.n_trained = int(record["n_trained"])
        self._freeze()

    def _update(self, learn_rate: float) -> None:
        for group in self._rule.param_groups:
            group["lr"] = learn_rate * self.settings.layer_decay ** group["depth"]
            for parameter in group["params"]:
                if parameter.grad is not None and parameter.grad.is_sparse:
                    _update_rows(self._rule, parameter, group["lr"], self.settings)
                    parameter.grad = None
        self._rule.step()

    def _freeze(self) -> None:
        for depth, group in enumerate(self.groups.values()):
            for parameter in group.values():
                parameter.requires_grad_(depth < self.n_trained)


@dataclass
class LossScale:
    """Dynamic loss scaling: halve the factor on overflow, double it after `STEADY_UPDATES` without one.

    Micikevicius et al. (2018), sec. 3.2.

    is_on (bool): Otherwise the factor stays 1.
    n_steady (int), n_overflows (int): Consecutive updates without and with an overflow.
    """

    is_on: bool
    factor: float
    n_steady: int = 0
    n_overflows: int = 0

    @property
    def has_persistent_overflow(self) -> bool:
        """RETURNS (bool): Whether gradients overflow with every factor, so that training cannot continue."""
        return self.n_overflows >= MAX_OVERFLOWS

    def unscale(self, parameters: Iterable[nn.Parameter]) -> bool:
        """Divide the gradients in place, and set the factor of the next update.

        RETURNS (bool): Whether they overflowed; gradients are then set to None.
        """
        if not self.is_on:
            return False
        trained = [parameter for parameter in parameters if parameter.grad is not None]
        for parameter in trained:
            _coalesced_values(parameter).mul_(1.0 / self.factor)
        is_fine = all(bool(torch.isfinite(_coalesced_values(parameter)).all()) for parameter in trained)
        self.n_steady = self.n_steady + 1 if is_fine else 0
        self.n_overflows = 0 if is_fine else self.n_overflows + 1
        if not is_fine:
            self.factor = max(1.0, self.factor / 2)
            for parameter in trained:
                parameter.grad = None
        elif self.n_steady % STEADY_UPDATES == 0:
            self.factor = min(MAX_LOSS_SCALE, self.factor * 2)
        return not is_fine


def layer_groups(network: BiLMNetwork, head: nn.Module) -> Dict[str, Dict[str, nn.Parameter]]:
    """Parameters that are unfrozen together and share a learning rate. A shared parameter (`tie_weights`) is listed
    once, with the network.

    RETURNS (Dict[str, Dict[str, nn.Parameter]]): From the top: "head", "layers.1", "layers.0", "words"; parameters by a
        name that is the same in every run, e.g. "network.encoder.layers.0.bias".
    """
    seen = {id(parameter) for parameter in network.parameters()}
    head_parameters = {
        f"head.{name}": parameter for name, parameter in head.named_parameters() if id(parameter) not in seen
    }
    groups = {"head": head_parameters}
    for layer, parameters in reversed(list(enumerate(layer_parameters(network)))):
        named = {f"network.{key}": parameter for key, parameter in parameters.items()}
        groups[f"layers.{layer - 1}" if layer else "words"] = named
    return groups


def rate_factor(settings: ScheduleConfig, *, step: int, n_tokens: int, max_tokens: int) -> float:
    """The factor of the peak learning rate, 0 to 1; `warmup_steps` of None means no warm-up.

    step (int), n_tokens (int): Updates, and predictions per direction, done before this one.
    max_tokens (int): Predictions per direction of the whole run.
    """
    done = min(1.0, n_tokens / max_tokens)
    if settings.name == "slanted_triangular":
        return slanted_triangle(done, total=1.0, cut=settings.cut_frac, ratio=settings.ratio)
    n_warmup = max(1, settings.warmup_steps or 0)
    rise = min(1.0, (step + 1) / n_warmup)
    if settings.name == "linear":
        return rise * (1.0 - done)
    if settings.name == "cosine":
        return rise * 0.5 * (1.0 + math.cos(math.pi * done))
    if settings.name == "inverse_sqrt":
        return rise * min(1.0, math.sqrt(n_warmup / (step + 1)))
    return rise


def _make_rule(groups: List[Dict[str, nn.Parameter]], settings: OptimizerConfig) -> torch.optim.Optimizer:
    """The PyTorch optimizer of dense gradients, whose state `_update_rows` uses, too. Parameter groups store the depth
    of their layer below the top; biases have no weight decay.
    """
    rule_groups: List[Dict[str, Any]] = []
    for depth, group in enumerate(groups):
        for is_bias in (False, True):
            chosen = [parameter for name, parameter in group.items() if name.endswith("bias") == is_bias]
            decay = {} if not is_bias else {"weight_decay": 0.0}
            rule_groups.append({"params": chosen, "depth": depth, **decay})
    device = next(parameter.device for group in groups for parameter in group.values())
    fused = device.type == "cpu" or (device.type == "cuda" and settings.name != "adagrad")  # there is a fused kernel
    if settings.name == "adagrad":
        start = settings.initial_accumulator
        eps = 0.0 if start > 0 else settings.eps  # prevents 0 / 0 for a gradient of zero
        return torch.optim.Adagrad(
            rule_groups, settings.learn_rate, initial_accumulator_value=start, eps=eps, fused=fused or None
        )
    rule = torch.optim.AdamW if settings.name == "adamw" else torch.optim.Adam
    return rule(
        rule_groups,
        settings.learn_rate,
        betas=(settings.beta1, settings.beta2),
        eps=settings.eps,
        weight_decay=settings.weight_decay,
        fused=fused or None,
    )


@torch.no_grad()
def _update_rows(
    rule: torch.optim.Optimizer, parameter: nn.Parameter, learn_rate: float, settings: OptimizerConfig
) -> None:
    grad: Tensor = parameter.grad  # type: ignore[assignment]  # parameters with a gradient only
    rows, values, slots = grad.indices()[0], grad.values(), rule.state[parameter]
    if not slots:
        moments = {slot: torch.zeros_like(parameter) for slot in SLOTS[settings.name][1:]}
        slots.update(step=_new_step(rule, parameter), **moments)
    slots["step"] += 1
    if settings.name == "adagrad":
        change = _adagrad_rows(slots["sum"], rows, values, rule.defaults["eps"])
    else:
        change = _adam_rows(slots, rows, values, settings)
    parameter.index_add_(0, rows, change, alpha=-learn_rate)


def _new_step(rule: torch.optim.Optimizer, parameter: nn.Parameter) -> Tensor:
    """RETURNS (Tensor): Zero step counter of a parameter, shape (); for fused rules on the device of the parameter."""
    return torch.zeros((), device=parameter.device if rule.defaults["fused"] else "cpu")


def _adagrad_rows(sums: Tensor, rows: Tensor, values: Tensor, eps: float) -> Tensor:
    squares = sums.index_select(0, rows).addcmul_(values, values)
    sums.index_copy_(0, rows, squares)
    return values / squares.sqrt_().add_(eps)


def _adam_rows(slots: Dict[str, Tensor], rows: Tensor, values: Tensor, settings: OptimizerConfig) -> Tensor:
    step = float(slots["step"])
    means = slots["exp_avg"].index_select(0, rows).lerp_(values, 1 - settings.beta1)
    squares = slots["exp_avg_sq"].index_select(0, rows).mul_(settings.beta2)
    squares.addcmul_(values, values, value=1 - settings.beta2)
    slots["exp_avg"].index_copy_(0, rows, means)
    slots["exp_avg_sq"].index_copy_(0, rows, squares)
    mean_share, square_share = 1 - settings.beta1**step, 1 - settings.beta2**step  # bias correction
    root = squares.sqrt_().mul_(mean_share / square_share**0.5).add_(mean_share * settings.eps)
    return means.div_(root)


def _global_norm(values: Iterable[Tensor]) -> float:
    """The norm of the concatenation of gradients (of sparse ones the values of their coalesced rows), 0 for none."""
    norms = [torch.linalg.vector_norm(gradient) for gradient in values]
    return float(torch.linalg.vector_norm(torch.stack(norms))) if norms else 0.0


def _coalesced_values(parameter: nn.Parameter) -> Tensor:
    """The values of a gradient; changing them in place changes the gradient."""
    grad: Tensor = parameter.grad  # type: ignore[assignment]  # parameters with a gradient only
    if not grad.is_sparse:
        return grad
    parameter.grad = grad.coalesce()
    return parameter.grad.values()
