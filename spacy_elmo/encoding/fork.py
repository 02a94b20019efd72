"""Computing in a process that was forked: torch's thread pool stays in the parent, and waiting for it hangs."""

import os

import torch

from .side_by_side import forget_threads

_registered = {"fork": False}


def survive_fork() -> None:
    """Let every process that is forked from now on compute with one thread; again does no harm."""
    if not _registered["fork"] and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_use_one_thread)
        _registered["fork"] = True


def _use_one_thread() -> None:
    forget_threads()
    torch.set_num_threads(1)
