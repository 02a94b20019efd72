"""The gradient of a training batch: listeners add to it, then it goes through the biLM."""

from typing import Any, Callable, Dict, Optional

from thinc.types import Floats3d


class GradientBuffer:
    """Adds up the gradients that the listeners of one batch return.

    backprop (Callable): Takes the gradient of the layers.
    """

    def __init__(self, backprop: Callable[[Floats3d], Any]) -> None:
        self._backprop = backprop
        self._d_layers: Optional[Floats3d] = None

    def receiver(self, losses: Dict[str, float], name: str) -> Callable[[Floats3d], None]:
        """RETURNS (Callable[[Floats3d], None]): What a listener calls with its gradient."""

        def receive(d_layers: Floats3d) -> None:
            self._d_layers = d_layers if self._d_layers is None else self._d_layers + d_layers
            losses[name] += float((d_layers**2).sum())

        return receive

    @property
    def has_gradient(self) -> bool:
        """RETURNS (bool): Whether a listener has sent anything."""
        return self._d_layers is not None

    def finish(self) -> None:
        """Run the backward pass."""
        if self._d_layers is not None:
            self._backprop(self._d_layers)
