"""Operations of PyTorch that Python launches. The work of a replayed CUDA graph is none of them."""

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class Counter(TorchDispatchMode):
    """Counts the operations of PyTorch that this thread launches inside, those of the backward pass included."""

    def __init__(self) -> None:
        super().__init__()
        self.n_operations = 0

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.n_operations += 1
        return operation(*args, **(kwargs or {}))
