"""Detect changed weights, so that everything derived from them is computed again."""

from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn

WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes of an element


class WeightVersions:
    """Versions of the weights of a network.

    PyTorch counts the in-place changes of each tensor, but fused optimizers and writes to `weight.data` are not
    counted. On the CPU the last value of each weight is therefore compared, too.

    network (nn.Module): Its weights and modules may be changed or replaced later.
    """

    def __init__(self, network: nn.Module) -> None:
        self._network = network
        self._children = [
            (module._modules, name, child) for module in network.modules() for name, child in module._modules.items()
        ]
        self._weights: List[Tuple[Dict[str, Optional[nn.Parameter]], str, Any]] = [
            (module._parameters, name, _last_value(weight))
            for module in network.modules()
            for name, weight in module._parameters.items()
            if weight is not None
        ]
        # Tensors created in inference mode have no version counter.
        self._is_counted = not any(weight.is_inference() for weight in network.parameters())
        self._seen = self._read()

    def have_changed(self, network: nn.Module) -> bool:
        """network (nn.Module): The network that is used now.
        RETURNS (bool): Whether it is another one, a module was replaced, or a weight changed, moved or replaced.
        """
        has_same_modules = all(modules.get(name) is child for modules, name, child in self._children)
        return network is not self._network or not has_same_modules or self._seen != self._read()

    def _read(self) -> List[Tuple[int, int, int]]:
        found = []
        for weights, name, last_value in self._weights:
            weight = weights.get(name)
            if weight is not None:
                version = weight._version if self._is_counted else 0
                found.append((weight.data_ptr(), version, 0 if last_value is None else int(last_value)))
        return found


def _last_value(weight: Tensor) -> Any:
    """RETURNS (Any): The bits of the last value, as a NumPy array without axes that shares the memory of the weight;
    None on a GPU, where reading a value waits for all work that was started.
    """
    if weight.device.type != "cpu" or not weight.numel():
        return None
    with torch.no_grad():
        return weight.detach()[(-1,) * weight.dim()].view(WORDS[weight.element_size()]).numpy()
