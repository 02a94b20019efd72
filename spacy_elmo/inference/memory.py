"""Memory of the host: allocated by mmap, returned to the operating system, pinned for copies to and from a GPU."""

import ctypes
import mmap
import sys
import time
from functools import cache
from typing import Any, Callable, Optional

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .dispatch import TRIM_TIME, TRIM_TOKENS


def map_pages(n_bytes: int) -> mmap.mmap:
    """Allocate by mmap. The pages are returned to the system as soon as there are no references to them.

    n_bytes (int): At least one.
    RETURNS (mmap.mmap): Zeros, not shared with processes that are forked later.
    """
    if sys.platform == "win32":  # has no fork and no such flags
        return mmap.mmap(-1, n_bytes)
    return mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class HeapTrimmer:
    """Returns free memory of the heap to the system at intervals, in a long stream.

    The operations of oneDNN allocate their results, without an output argument. The GNU C library rarely reuses the
    memory of a freed aligned array for one of the same size, so the heap fragments: a process would keep several times
    as many free pages as it needs.

    every (Optional[int]): Minimum count between two calls; `TRIM_TOKENS` by default.
    """

    def __init__(self, every: Optional[int] = None) -> None:
        self._every = TRIM_TOKENS if every is None else every
        self._n_counted, self._n_between = 0, self._every
        self._ended = time.perf_counter()

    def count(self, n_tokens: int) -> None:
        """n_tokens (int): Computed since the last call; or anything else that `every` is meant for."""
        self._n_counted += n_tokens
        trim = _trim()
        if self._n_counted < self._n_between or trim is None:
            return
        started = time.perf_counter()
        trim(0)
        ended = time.perf_counter()
        if ended - started > TRIM_TIME * (started - self._ended):
            self._n_between *= 2  # trimming is slow if the process has much other memory
        else:
            self._n_between = max(self._every, self._n_between // 2)
        self._n_counted, self._ended = 0, ended


@cache
def _trim() -> Optional[Callable[[int], int]]:
    """RETURNS (Optional[Callable[[int], int]]): `malloc_trim`, None if the C library does not have it."""
    try:
        function: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another library, another system
        return None
    return function


def to_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """array (NDArray): Any; it must not change afterwards.
    RETURNS (Tensor): On the device. A copy to a GPU is from pinned memory, so that nothing waits for it.
    """
    array = np.ascontiguousarray(array)
    tensor = torch.from_numpy(array)
    if device.type != "cuda":
        return tensor.to(device)
    pinned = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)
    np.copyto(pinned.numpy(), array)  # torch would wake its threads for a copy, which takes milliseconds
    return pinned.to(device, non_blocking=True)


def to_host(rows: Tensor) -> Tensor:
    """rows (Tensor): On any device.
    RETURNS (Tensor): On the CPU; of a GPU through pinned memory, which is several times as fast.
    """
    if rows.device.type != "cuda":
        return rows.cpu()
    pinned = torch.empty(rows.shape, dtype=rows.dtype, device="cpu", pin_memory=True)
    return pinned.copy_(rows)
