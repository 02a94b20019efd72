"""Detect changed weights, so that everything derived from them is computed again."""

from typing import Dict, List, Optional, Tuple

from torch import nn

Place = Tuple[Dict[str, Optional[nn.Parameter]], str]


class WeightVersions:
    """Versions of the weights of a network. PyTorch counts the in-place changes of each tensor.

    network (nn.Module): Its parameters may be changed or replaced later; replaced modules are not detected.
    """

    def __init__(self, network: nn.Module) -> None:
        self._places: List[Place] = [
            (module._parameters, name)
            for module in network.modules()
            for name, weight in module._parameters.items()
            if weight is not None
        ]
        # Tensors created in inference mode have no version counter.
        self._is_counted = not any(weight.is_inference() for weight in network.parameters())
        self._seen = self._read()

    def have_changed(self) -> bool:
        """RETURNS (bool): Whether a weight was changed, moved or replaced since."""
        return self._seen != self._read()

    def _read(self) -> List[Tuple[int, int]]:
        weights = [weights[name] for weights, name in self._places]
        if not self._is_counted:
            return [(weight.data_ptr(), 0) for weight in weights if weight is not None]
        return [(weight.data_ptr(), weight._version) for weight in weights if weight is not None]
