"""Loss scaling for float16: the loss is multiplied before the backward pass, the gradients are divided after it."""

from typing import Any, Dict, Iterable, Mapping

import torch
from torch import nn

FIRST, LARGEST = 2.0**12, 2.0**24
STEADY_UPDATES = 1000  # updates without an overflow before the factor is doubled
# Consecutive overflows after which training stops: 24 halvings reduce the largest factor to 1, so no factor helps.
MAX_OVERFLOWS = 30


class LossScale:
    """Dynamic loss scaling: halve the factor on overflow, double it after `STEADY_UPDATES` without one.

    Micikevicius et al. (2018), sec. 3.2.

    is_on (bool): False keeps the factor at 1.
    """

    def __init__(self, *, is_on: bool) -> None:
        self.is_on = is_on
        self.factor = FIRST if is_on else 1.0
        self.n_steady = self.n_overflows = 0  # consecutive updates without and with an overflow

    @property
    def has_persistent_overflow(self) -> bool:
        """RETURNS (bool): Whether gradients overflow with every factor, so that training cannot continue."""
        return self.n_overflows >= MAX_OVERFLOWS

    def unscale(self, parameters: Iterable[nn.Parameter]) -> bool:
        """Divide the gradients in place, and set the factor of the next update.

        parameters (Iterable[nn.Parameter]): With dense or sparse gradients, or none.
        RETURNS (bool): Whether they overflowed; gradients are then set to None.
        """
        if not self.is_on:
            return False
        trained = [parameter for parameter in parameters if parameter.grad is not None]
        for parameter in trained:
            _values(parameter).mul_(1.0 / self.factor)
        is_fine = all(bool(torch.isfinite(_values(parameter)).all()) for parameter in trained)
        self._adapt(is_fine)
        if not is_fine:
            for parameter in trained:
                parameter.grad = None
        return not is_fine

    def to_dict(self) -> Dict[str, Any]:
        """RETURNS (Dict[str, Any]): Plain JSON types."""
        return {"factor": self.factor, "n_steady": self.n_steady, "n_overflows": self.n_overflows}

    def load_dict(self, record: Mapping[str, Any]) -> None:
        """record (Mapping[str, Any]): From `to_dict`."""
        self.factor, self.n_steady = record["factor"], record["n_steady"]
        self.n_overflows = record.get("n_overflows", 0)

    def _adapt(self, is_fine: bool) -> None:
        self.n_steady = self.n_steady + 1 if is_fine else 0
        self.n_overflows = 0 if is_fine else self.n_overflows + 1
        if not is_fine:
            self.factor = max(1.0, self.factor / 2)
        elif self.n_steady % STEADY_UPDATES == 0:
            self.factor = min(LARGEST, self.factor * 2)


def _values(parameter: nn.Parameter) -> torch.Tensor:
    """The values of a gradient; changing them in place changes the gradient."""
    if parameter.grad is not None and parameter.grad.is_sparse:
        parameter.grad = parameter.grad.coalesce()
        return parameter.grad.values()
    return parameter.grad  # type: ignore[return-value]  # parameters with a gradient only
