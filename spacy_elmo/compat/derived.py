"""What is derived from the weights of a module, computed again when these have changed."""

from typing import Any, Callable, Generic, Optional, Tuple, TypeVar

from torch import nn

from ..inference.words import WeightVersions

T = TypeVar("T")


class DerivingModule(nn.Module):
    """A module that holds values derived from its weights, or whose parts do."""

    def refresh(self) -> None:
        """Discard everything derived from the weights. Needed only after writes that torch does not count, see
        `BiLM.refresh`.
        """
        for module in self.modules():
            derived = getattr(module, "_derived", None)
            if isinstance(derived, Derived):
                derived.clear()


class Derived(Generic[T]):
    """Holds one value. A copy and a pickle of a module have an empty one."""

    def __init__(self) -> None:
        self._value: Optional[T] = None
        self._versions: Optional[WeightVersions] = None

    def get(self, module: nn.Module, derive: Callable[[], T]) -> T:
        """module (nn.Module): With the weights.
        derive (Callable[[], T]): Computes the value.
        RETURNS (T): The value for the current weights.
        """
        if self._value is None or self._versions is None or self._versions.have_changed(module):
            self._value, self._versions = derive(), WeightVersions(module)
        return self._value

    def clear(self) -> None:
        """Discard the value."""
        self._value = self._versions = None

    def __deepcopy__(self, memo: Any) -> "Derived[T]":
        return Derived()

    def __reduce__(self) -> Tuple[Any, ...]:
        return Derived, ()
