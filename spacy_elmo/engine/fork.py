"""Computing in a process that was forked.

torch's OpenMP threads stay in the parent, and waiting for them in the child hangs: a child computes with one thread.
It would hang as well at a lock that another thread of the parent held, so that nobody forks while a cache is changed.
"""

import os
import threading

import torch

from .threads import forget_threads

CACHE_LOCK = threading.RLock()  # held by whoever reads or changes a cache of words
_registered = {"fork": False}
_is_held = {"fork": False}  # not where preparations for the fork made the first encoder


def survive_fork() -> None:
    """Let every process that is forked from now on compute. Calling it again has no effect."""
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
    """Leave the other cores to other workers, from now on in this process."""
    torch.set_num_threads(1)


def _begin_child() -> None:
    _release()
    forget_threads()
    compute_with_one_thread()
