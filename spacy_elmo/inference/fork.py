"""Support for forked processes.

The OpenMP threads of PyTorch do not exist in a child process, which would wait for them forever: a child computes with
one thread. A lock held by another thread of the parent would block the child too, so a fork waits for the cache lock.
"""

import os
import threading

import torch

from .threads import forget_threads

CACHE_LOCK = threading.RLock()  # held while a word cache is read or changed
_registered = {"fork": False}
_is_held = {"fork": False}  # stays False if the handlers are registered during the fork itself


def register_fork_handlers() -> None:
    """Make sure that processes forked from now on can compute. Further calls have no effect."""
    if not _registered["fork"] and hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_acquire, after_in_parent=_release, after_in_child=_begin_child)
        _registered["fork"] = True


def _acquire() -> None:
    CACHE_LOCK.acquire()
    _is_held["fork"] = True


def _release() -> None:
    if _is_held["fork"]:
        _is_held["fork"] = False
        CACHE_LOCK.release()


def compute_with_one_thread() -> None:
    """Use one thread in this process from now on; other workers use the other cores."""
    torch.set_num_threads(1)


def _begin_child() -> None:
    _release()
    forget_threads()
    compute_with_one_thread()
