"""The gradient of a training batch: the sum over all listeners, then the backward pass of the biLM."""

from typing import Any, Callable, Dict, Optional

from thinc.types import Floats3d


class GradientBuffer:
    """Sums the gradients that the listeners return for one batch.

    backprop (Callable): Backward pass, takes the gradient of the layers.
    """

    def __init__(self, backprop: Callable[[Floats3d], Any]) -> None:
        self._backprop = backprop
        self._d_layers: Optional[Floats3d] = None

    def receiver(self, losses: Dict[str, float], name: str) -> Callable[[Floats3d], None]:
        """RETURNS (Callable[[Floats3d], None]): Callback of a listener for its gradient."""

        def receive(d_layers: Floats3d) -> None:
            self._d_layers = d_layers if self._d_layers is None else self._d_layers + d_layers
            losses[name] += float((d_layers**2).sum())

        return receive

    @property
    def has_gradient(self) -> bool:
        """RETURNS (bool): Whether a listener has returned a gradient."""
        return self._d_layers is not None

    def finish(self) -> None:
        """Run the backward pass."""
        if self._d_layers is not None:
            self._backprop(self._d_layers)
