"""LSTMs of cuDNN in float32. By default torch lets cuDNN round their inputs to TF32, which has 10 bits of mantissa."""

from contextlib import contextmanager
from typing import Any, Iterator

import torch
from torch import Tensor


@contextmanager
def no_tf32(device: torch.device) -> Iterator[None]:
    """Forbid TF32 in LSTMs for a while; the flags of the caller are restored.

    device (torch.device): On a CPU nothing is done.
    """
    if device.type != "cuda":
        yield
        return
    before = _forbid()
    try:
        yield
    finally:
        _restore(before)


def no_tf32_in_backward(outputs: Tensor) -> Tensor:
    """outputs (Tensor): Of an LSTM of cuDNN, computed by torch; of another kind nothing is done.
    RETURNS (Tensor): The same tensor, whose backward pass does not use TF32 either.
    """
    node: Any = outputs.grad_fn if outputs.device.type == "cuda" else None
    while node is not None and "CudnnRnn" not in node.name():
        node = node.next_functions[0][0] if node.next_functions else None
    if node is not None:
        before = []
        node.register_prehook(lambda gradients: before.append(_forbid()))
        node.register_hook(lambda inputs, gradients: _restore(before.pop()))
    return outputs


def _forbid() -> Any:
    """RETURNS (Any): The flag before."""
    rnn: Any = getattr(torch.backends.cudnn, "rnn", None)  # torch 2.9 has a flag for each operation
    flags, name, value = (torch.backends.cudnn, "allow_tf32", False) if rnn is None else (rnn, "fp32_precision", "ieee")
    before = getattr(flags, name)
    setattr(flags, name, value)
    return flags, name, before


def _restore(before: Any) -> None:
    flags, name, value = before
    setattr(flags, name, value)
