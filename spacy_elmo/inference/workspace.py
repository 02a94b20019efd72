"""Working memory that is reused from batch to batch.

Large arrays that are allocated and freed fragment the heap: a slightly larger next batch does not fit in the free
blocks, and the memory of the process grows. Reused arrays avoid this, and their pages are not cleared again.
"""

import math
from contextlib import contextmanager
from typing import Dict, Iterator, List

import torch
from torch import Tensor

from .dispatch import WORKSPACE_MAX_KEPT, WORKSPACE_STEP
from .memory import map_pages


class Workspace:
    """Named arrays, for one computation at a time. Each is as large as the largest request so far.

    device (torch.device): Device of the arrays.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._held: Dict[str, Tensor] = {}

    @torch.inference_mode(False)  # arrays are reused after the inference mode in which they are created
    def take(self, name: str, *shape: int) -> Tensor:
        """name (str): Name of the array. An array taken before by this name becomes invalid.
        shape (int): Its sizes.
        RETURNS (Tensor): float32, of that shape, uninitialized.
        """
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
    """A pool of workspaces, one for each concurrent computation.

    device (torch.device): Device of their arrays.
    n_kept (int): Maximum number of idle workspaces.
    """

    def __init__(self, device: torch.device, n_kept: int) -> None:
        self._device = device
        self._n_kept = n_kept
        self._free: List[Workspace] = []  # append and pop of a list are thread-safe, and safe in a forked process

    @contextmanager
    def borrow(self) -> Iterator[Workspace]:
        """Borrow a workspace. After an error it is not returned to the pool: threads may still write to it.

        YIELDS (Workspace): A workspace that no other computation uses.
        """
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
