"""Computing in a process that was forked: torch's thread pool stays in the parent, and waiting for it hangs.

So would waiting for another thread of the parent: none is within a cache of words at the moment of the fork.

A process may have more threads than one if the parent gives its pool up before: parent and child then start pools of
their own (OpenMP 5.0, `omp_pause_resource_all`; of GNU's since GCC 9).
"""

import ctypes
import os

import torch

from .side_by_side import forget_threads
from .word_encoder import TURNS

OMP_PAUSE_HARD = 2
_registered = {"fork": False}
_has_turn = {"fork": False}  # false in a fork whose preparations made the first encoder: there was no cache before
_threads = {"forked": 1}


def survive_fork() -> None:
    """Let every process that is forked from now on compute with one thread, or with what `share_threads` says.

    Again does no harm.
    """
    if not _registered["fork"] and hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_take_turn, after_in_parent=_end_turn, after_in_child=_set_threads)
        _registered["fork"] = True


def share_threads(n_threads: int) -> None:
    """Say what forked processes get; to be called just before the fork, since computing brings the pool back.

    n_threads (int): Threads of each. It is one, if the pool cannot be given up.
    """
    _threads["forked"] = n_threads if n_threads > 1 and _drop_pool() else 1


def _take_turn() -> None:
    TURNS.acquire()
    _has_turn["fork"] = True


def _end_turn() -> None:
    if _has_turn["fork"]:
        _has_turn["fork"] = False
        TURNS.release()


def _set_threads() -> None:
    _end_turn()
    forget_threads()
    torch.set_num_threads(_threads["forked"])


def _drop_pool() -> bool:
    """RETURNS (bool): Whether torch's OpenMP has no threads any more; it starts new ones when it needs them."""
    try:
        pause = ctypes.CDLL(torch._C.__file__).omp_pause_resource_all  # looks into the libraries that torch links, too
    except (AttributeError, OSError):
        return False
    return int(pause(OMP_PAUSE_HARD)) == 0
