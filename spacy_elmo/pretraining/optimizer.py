"""The optimizer: clipping by the global norm, learning rates per layer, gradual unfreezing from the top."""

import math
from dataclasses import dataclass
from typing import Any, Dict, Iterable, Mapping, Tuple

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..bilm.model import BiLMNetwork
from ..errors import Errors
from .config import OptimizerConfig, ScheduleConfig
from .layer_groups import layer_groups
from .schedule import rate_factor
from .update_rules import SLOTS, make_rule, new_step, update_rows

Array = NDArray[Any]
OptimizerState = Tuple[Dict[str, Tensor], Dict[str, Any]]


@dataclass(frozen=True)
class StepInfo:
    """Statistics of an update.

    learn_rate (float): Learning rate of the top layer.
    grad_norm (float): Global norm of the gradient before clipping; if it is not finite, nothing was changed.
    clipped (bool): Whether the norm was above `grad_clip`.
    """

    learn_rate: float
    grad_norm: float
    clipped: bool


class PretrainOptimizer:
    """Updates the weights of a biLM and its softmax.

    network (BiLMNetwork), head (nn.Module): Updated in place; shared parameters are updated once. The attribute
        `sparse_words` of the network is also set.
    settings (OptimizerConfig): Update rule, rates, clipping, unfreezing.
    schedule (ScheduleConfig): The learning rate schedule.
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
        self.named = {name: parameter for group in self.groups for name, parameter in group.parameters.items()}
        self.parameters = list(self.named.values())
        self._rule = make_rule(self.groups, settings)
        self.n_trained = 1 if settings.unfreeze_tokens else len(self.groups)
        self._freeze()

    def zero_grad(self) -> None:
        """Set all gradients to None."""
        for parameter in self.parameters:
            parameter.grad = None

    def step(self, *, step: int, n_tokens: int) -> StepInfo:
        """Clip the gradients in place and update the weights. Layers that are due are unfrozen afterwards, so they have
        gradients from the next update on. Weights without a gradient, and their moments, do not change.

        step (int): Updates done before this one.
        n_tokens (int): Predictions per direction trained on before this one.
        RETURNS (StepInfo): Rate and norm.
        """
        factor = rate_factor(self.schedule, step=step, n_tokens=n_tokens, max_tokens=self.max_tokens)
        learn_rate, clip = self.settings.learn_rate * factor, self.settings.grad_clip
        values = [_coalesced_values(parameter) for parameter in self.parameters if parameter.grad is not None]
        grad_norm = global_norm(values)
        if math.isfinite(grad_norm):
            if grad_norm > clip:
                for part in values:
                    part.mul_(clip / grad_norm)
            self._update(learn_rate)
            self._unfreeze(n_tokens)
        return StepInfo(learn_rate, grad_norm, grad_norm > clip)

    def state_dict(self) -> OptimizerState:
        """RETURNS (OptimizerState): Tensors by "<parameter>.<slot>", not copied, and everything else in JSON types."""
        moments = self._rule.state
        tensors = {
            f"{name}.{slot}": tensor
            for name, parameter in self.named.items()
            for slot, tensor in moments[parameter].items()
        }
        return tensors, {"name": self.settings.name, "n_trained": self.n_trained}

    def load_state_dict(self, state: OptimizerState) -> None:
        """state (OptimizerState): From `state_dict`; its tensors are copied.
        RAISES (ValueError): EL116 with all mismatches.
        """
        tensors, record = state
        self._check_fit(tensors, record)
        self._rule.state.clear()
        for name, parameter in self.named.items():
            if f"{name}.step" in tensors:
                slots = {slot: tensors[f"{name}.{slot}"] for slot in SLOTS[self.settings.name]}
                step = new_step(self._rule, parameter).copy_(slots.pop("step"))
                moments = {slot: torch.empty_like(parameter).copy_(tensor) for slot, tensor in slots.items()}
                self._rule.state[parameter] = {"step": step, **moments}
        self.n_trained = int(record["n_trained"])
        self._freeze()

    def take_accumulators(self, sums: Mapping[str, Array]) -> None:
        """Start Adagrad from the sums of squares of another run.

        sums (Mapping[str, Array]): float32 arrays by the names of all parameters; they are copied.
        RAISES (ValueError): EL116 with all mismatches.
        """
        tensors = {f"{name}.sum": torch.from_numpy(array) for name, array in sums.items()}
        steps = {f"{name}.step": torch.zeros(()) for name in self.named}
        self.load_state_dict(({**tensors, **steps}, {"name": self.settings.name, "n_trained": self.n_trained}))

    def _update(self, learn_rate: float) -> None:
        for group in self._rule.param_groups:
            group["lr"] = learn_rate / self.settings.discriminative ** group["depth"]
            for parameter in group["params"]:
                if parameter.grad is not None and parameter.grad.is_sparse:
                    update_rows(self._rule, parameter, group["lr"], self.settings)
                    parameter.grad = None
        self._rule.step()

    def _unfreeze(self, n_tokens: int) -> None:
        if self.settings.unfreeze_tokens and self.n_trained < len(self.groups):
            due = min(len(self.groups), 1 + n_tokens // self.settings.unfreeze_tokens)
            if due > self.n_trained:
                self.n_trained = due
                self._freeze()

    def _freeze(self) -> None:
        """Set `requires_grad` to False for the layers that are not trained yet."""
        for depth, group in enumerate(self.groups):
            for parameter in group.parameters.values():
                parameter.requires_grad_(depth < self.n_trained)

    def _check_fit(self, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
        name, problems = record["name"], []
        if name != self.settings.name:
            problems.append(f"name is '{name}', should be '{self.settings.name}'")
        known = {f"{name}.{slot}": name for name in self.named for slot in SLOTS[self.settings.name]}
        # Adagrad has sums for all parameters from the start, Adam has moments for those that had a gradient.
        begun = {known[key] for key in tensors if key in known} if name != "adagrad" else set(self.named)
        missing = sorted(key for key, name in known.items() if name in begun and key not in tensors)
        problems += [f"unexpected: {key}" for key in sorted(set(tensors) - set(known))]
        problems += [f"missing: {key}" for key in missing]
        for key in sorted(set(tensors) & set(known)):
            shape = list(tensors[key].shape)
            wanted = [] if key.endswith(".step") else list(self.named[known[key]].shape)
            if shape != wanted:
                problems.append(f"wrong shape: {key} is {shape}, should be {wanted}")
        if problems:
            raise ValueError(Errors.EL116.format(n_problems=len(problems), problems="; ".join(problems)))


def global_norm(values: Iterable[Tensor]) -> float:
    """values (Iterable[Tensor]): All gradients; for sparse ones the values of their coalesced rows.
    RETURNS (float): The norm of their concatenation, 0 for none.
    """
    norms = [torch.linalg.vector_norm(part) for part in values]
    return float(torch.linalg.vector_norm(torch.stack(norms))) if norms else 0.0


def _coalesced_values(parameter: nn.Parameter) -> Tensor:
    """The values of a gradient; changing them in place changes the gradient."""
    grad: Tensor = parameter.grad  # type: ignore[assignment]  # parameters with a gradient only
    if not grad.is_sparse:
        return grad
    parameter.grad = grad.coalesce()
    return parameter.grad.values()
