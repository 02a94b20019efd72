"""Memory of the host: working memory that is reused, the heap of the C library, copies to and from a GPU.

Large arrays that are allocated and freed fragment the heap: a slightly larger next batch does not fit in the free
blocks, and the memory of the process grows. Reused arrays avoid this, and their pages are not cleared again.
"""

import ctypes
import math
import mmap
import sys
import time
from contextlib import contextmanager
from functools import cache
from typing import Any, Callable, Dict, Iterator, List, Optional

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .dispatch import TRIM_TIME, TRIM_TOKENS, WORKSPACE_MAX_KEPT, WORKSPACE_STEP


class Workspace:
    """Named arrays, for one computation at a time. Each is as large as the largest request so far."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._held: Dict[str, Tensor] = {}

    @torch.inference_mode(False)  # arrays are reused after the inference mode in which they are created
    def take(self, name: str, *shape: int) -> Tensor:
        """A float32 array of this shape, uninitialized. An array taken before by this name becomes invalid."""
        n_numbers = math.prod(shape)
        if name not in self._held or len(self._held[name]) < n_numbers:
            self._held.pop(name, None)  # freed before the new one is allocated
            self._held[name] = self._new(-(-n_numbers // WORKSPACE_STEP) * WORKSPACE_STEP)
        return self._held[name][:n_numbers].view(shape)

    def _new(self, n_numbers: int) -> Tensor:
        """On a CPU, allocate by mmap, so that the pages are returned to the system with the array."""
        if self._device.type != "cpu":
            return torch.empty(n_numbers, dtype=torch.float32, device=self._device)
        return torch.frombuffer(map_pages(4 * max(n_numbers, WORKSPACE_STEP)), dtype=torch.float32)

    def trim(self) -> None:
        """Free arrays above `WORKSPACE_MAX_KEPT`, which an unusually large computation needed."""
        self._held = {name: array for name, array in self._held.items() if len(array) <= WORKSPACE_MAX_KEPT}


class WorkspacePool:
    """A pool of workspaces, one for each concurrent computation; at most `n_kept` idle ones are kept."""

    def __init__(self, device: torch.device, n_kept: int) -> None:
        self._device = device
        self._n_kept = n_kept
        self._free: List[Workspace] = []  # append and pop of a list are thread-safe, and safe in a forked process

    @contextmanager
    def borrow(self) -> Iterator[Workspace]:
        """Borrow a workspace. After an error it is not returned to the pool: threads may still write to it."""
        try:
            workspace = self._free.pop()
        except IndexError:
            workspace = Workspace(self._device)
        try:
            yield workspace
        except GeneratorExit:  # the caller stopped the iteration
            self._give_back(workspace)
            raise
        self._give_back(workspace)

    def _give_back(self, workspace: Workspace) -> None:
        workspace.trim()
        if len(self._free) < self._n_kept:
            self._free.append(workspace)


def map_pages(n_bytes: int) -> mmap.mmap:
    """Allocate zeros by mmap, not shared with processes that are forked later. The pages are returned to the system as
    soon as there are no references to them.
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
        """Count tokens computed since the last call; or anything else that `every` is meant for."""
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
    """`malloc_trim`, None if the C library does not have it."""
    try:
        function: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another library, another system
        return None
    return function


def to_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """Copy an array that must not change afterwards; to a GPU from pinned memory, so that nothing waits for it."""
    array = np.ascontiguousarray(array)
    tensor = torch.from_numpy(array)
    if device.type != "cuda":
        return tensor.to(device)
    pinned = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=True)
    np.copyto(pinned.numpy(), array)  # torch would wake its threads for a copy, which takes milliseconds
    return pinned.to(device, non_blocking=True)


def to_host(rows: Tensor) -> Tensor:
    """Copy to the CPU; from a GPU through pinned memory, which is several times as fast."""
    if rows.device.type != "cuda":
        return rows.cpu()
    pinned = torch.empty(rows.shape, dtype=rows.dtype, device="cpu", pin_memory=True)
    return pinned.copy_(rows)
