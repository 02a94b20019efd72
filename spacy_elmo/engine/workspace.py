"""Working memory that is kept from batch to batch.

Large arrays that are allocated and freed fragment the heap: the next batch, a little larger, does not fit into what is
free, and the process grows for a long time. Arrays that are kept do not, and their pages need not be cleared again.
"""

import math
from contextlib import contextmanager
from typing import Dict, Iterator, List

import torch
from torch import Tensor

from .dispatch import WORKSPACE_MAX_KEPT, WORKSPACE_STEP
from .memory import map_pages


class Workspace:
    """Arrays by name, for one computation at a time; each is as large as the largest that was asked for.

    device (torch.device): Where they are.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._held: Dict[str, Tensor] = {}

    @torch.inference_mode(False)  # arrays outlive the mode in which they are first needed
    def take(self, name: str, *shape: int) -> Tensor:
        """name (str): What it is for; what was taken by this name before is overwritten.
        shape (int): Its sizes.
        RETURNS (Tensor): Float32, of that shape, with any content.
        """
        n_numbers = math.prod(shape)
        if name not in self._held or len(self._held[name]) < n_numbers:
            self._held.pop(name, None)  # before there is another
            self._held[name] = self._new(-(-n_numbers // WORKSPACE_STEP) * WORKSPACE_STEP)
        return self._held[name][:n_numbers].view(shape)

    def _new(self, n_numbers: int) -> Tensor:
        """Allocated by mmap on a CPU, so that the pages go back to the system when the array does."""
        if self._device.type != "cpu":
            return torch.empty(n_numbers, dtype=torch.float32, device=self._device)
        return torch.frombuffer(map_pages(4 * max(n_numbers, WORKSPACE_STEP)), dtype=torch.float32)

    def trim(self) -> None:
        """Give up what one unusually large computation needed."""
        self._held = {name: array for name, array in self._held.items() if len(array) <= WORKSPACE_MAX_KEPT}


class WorkspacePool:
    """Lends workspaces, one to each computation that runs at the same time.

    device (torch.device): Where their arrays are.
    n_kept (int): How many to keep for later.
    """

    def __init__(self, device: torch.device, n_kept: int) -> None:
        self._device = device
        self._n_kept = n_kept
        self._free: List[Workspace] = []  # a list can be shared by threads, and by a fork at any time

    @contextmanager
    def borrow(self) -> Iterator[Workspace]:
        """After an error it does not come back: threads may still write to it.

        YIELDS (Workspace): One that nobody else uses.
        """
        try:
            workspace = self._free.pop()
        except IndexError:
            workspace = Workspace(self._device)
        try:
            yield workspace
        except GeneratorExit:  # a reader that goes no further
            self._give_back(workspace)
            raise
        self._give_back(workspace)

    def _give_back(self, workspace: Workspace) -> None:
        workspace.trim()
        if len(self._free) < self._n_kept:
            self._free.append(workspace)
