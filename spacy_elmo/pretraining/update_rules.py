"""Update rules: Adagrad and Adam of PyTorch for dense gradients, and their equivalents for sparse ones.

Adagrad (Duchi et al. 2011) as in bilm-tf: sums of squares start at `initial_accumulator`, with no epsilon. Adam
(Kingma & Ba 2015) with sparse gradients does not change the moments of rows without a gradient.
"""

from typing import Any, Dict, List

import torch
from torch import Tensor, nn

from .config import OptimizerConfig
from .layer_groups import LayerGroup

SLOTS = {
    "adagrad": ("step", "sum"),
    "adam": ("step", "exp_avg", "exp_avg_sq"),
    "adamw": ("step", "exp_avg", "exp_avg_sq"),
}


def make_rule(groups: List[LayerGroup], settings: OptimizerConfig) -> torch.optim.Optimizer:
    """Make the PyTorch optimizer, with parameter groups per layer; biases have no weight decay.

    groups (List[LayerGroup]): From the top; groups of the optimizer store their index as "depth".
    settings (OptimizerConfig): Which rule.
    RETURNS (torch.optim.Optimizer): For dense gradients; `update_rows` also uses its state.
    """
    parts: List[Dict[str, Any]] = []
    for depth, group in enumerate(groups):
        for is_bias in (False, True):
            chosen = [part for name, part in group.parameters.items() if name.endswith("bias") == is_bias]
            decay = {} if not is_bias else {"weight_decay": 0.0}
            parts.append({"params": chosen, "depth": depth, **decay})
    device = next(parameter.device for group in groups for parameter in group.parameters.values())
    fused = _can_fuse(settings.name, device)
    if settings.name == "adagrad":
        start = settings.initial_accumulator
        eps = 0.0 if start > 0 else settings.eps  # prevents 0 / 0 for a gradient of zero
        return torch.optim.Adagrad(
            parts, settings.learn_rate, initial_accumulator_value=start, eps=eps, fused=fused or None
        )
    rule = torch.optim.AdamW if settings.name == "adamw" else torch.optim.Adam
    return rule(
        parts,
        settings.learn_rate,
        betas=(settings.beta1, settings.beta2),
        eps=settings.eps,
        weight_decay=settings.weight_decay,
        fused=fused or None,
    )


@torch.no_grad()
def update_rows(
    rule: torch.optim.Optimizer, parameter: nn.Parameter, learn_rate: float, settings: OptimizerConfig
) -> None:
    """Update the rows of a coalesced sparse gradient.

    rule (torch.optim.Optimizer): From `make_rule`, with the moments.
    parameter (nn.Parameter): With its gradient.
    learn_rate (float): Learning rate of this update.
    settings (OptimizerConfig): Which rule.
    """
    grad: Tensor = parameter.grad  # type: ignore[assignment]  # parameters with a gradient only
    rows, values, slots = grad.indices()[0], grad.values(), rule.state[parameter]
    if not slots:
        moments = {slot: torch.zeros_like(parameter) for slot in SLOTS[settings.name][1:]}
        slots.update(step=new_step(rule, parameter), **moments)
    slots["step"] += 1
    if settings.name == "adagrad":
        change = _adagrad_rows(slots["sum"], rows, values, rule.defaults["eps"])
    else:
        change = _adam_rows(slots, rows, values, settings)
    parameter.index_add_(0, rows, change, alpha=-learn_rate)


def new_step(rule: torch.optim.Optimizer, parameter: nn.Parameter) -> Tensor:
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


def _can_fuse(name: str, device: torch.device) -> bool:
    """RETURNS (bool): Whether PyTorch has a fused kernel; on CPUs it does since 2.4."""
    if device.type == "cuda":
        return name != "adagrad"
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    return device.type == "cpu" and version >= (2, 4)
