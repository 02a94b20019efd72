"""Detect changed weights, so that everything derived from them is computed again."""

from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import increment_version
from torch.optim.optimizer import register_optimizer_step_post_hook

_is_watching: List[Any] = []  # the hook, once it is registered
WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes of an element


class WeightVersions:
    """Versions of the weights of a network, and of precomputed word vectors.

    PyTorch counts the in-place changes of each tensor; those by fused optimizers are counted here. Writes through
    `weight.data` or NumPy are not counted. On the CPU the last value of each weight is compared, too, which notices
    those of whole tensors; `BiLM.refresh` is for the rest. A checksum of all weights, which would notice everything,
    takes 1.4 ms for `en_elmo_sm`, a third of the time of a sentence.

    network (nn.Module): Its weights and modules may be changed or replaced later.
    table (Optional[Tensor]): Precomputed word vectors.
    """

    def __init__(self, network: nn.Module, table: Optional[Tensor] = None) -> None:
        _watch_fused_optimizers()
        self._network, self._table = network, table
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
        self._counted_table = None if table is None or table.is_inference() else table
        self._seen = self._read()

    def have_changed(self, network: nn.Module, table: Optional[Tensor] = None) -> bool:
        """network (nn.Module), table (Optional[Tensor]): What is used now.
        RETURNS (bool): Whether it is another one, a module was replaced, or a weight changed, moved or replaced.
        """
        is_other = network is not self._network or table is not self._table
        has_same_modules = all(modules.get(name) is child for modules, name, child in self._children)
        return is_other or not has_same_modules or self._seen != self._read()

    def _read(self) -> List[Tuple[int, int, int]]:
        found = [] if self._counted_table is None else [(0, self._counted_table._version, 0)]
        for weights, name, last_value in self._weights:
            weight = weights.get(name)
            if weight is not None:
                version = weight._version if self._is_counted else 0
                found.append((weight.data_ptr(), version, 0 if last_value is None else int(last_value)))
        return found


def _watch_fused_optimizers() -> None:
    """Count the changes of fused optimizers, on any device, as torch does those of all other optimizers."""
    if not _is_watching:
        _is_watching.append(register_optimizer_step_post_hook(_count_fused_step))


def _count_fused_step(optimizer: Any, args: Any, settings: Any) -> None:
    for group in optimizer.param_groups:
        for weight in group["params"] if group.get("fused") else ():
            if weight.grad is not None:
                increment_version(weight)


def _last_value(weight: Tensor) -> Any:
    """RETURNS (Any): The bits of the last value, as a NumPy array without axes that shares the memory of the weight;
    None on a GPU, where reading a value waits for all work that was started.
    """
    if weight.device.type != "cpu" or not weight.numel():
        return None
    with torch.no_grad():
        return weight.detach()[(-1,) * weight.dim()].view(WORDS[weight.element_size()]).numpy()
