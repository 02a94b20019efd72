"""Independent directions in parallel threads on a CPU, and forked processes.

PyTorch releases the GIL while it computes. Two concurrent products with one core each are faster than two consecutive
products with two cores each, since no thread waits for another at the end of each small operation.

The OpenMP threads of PyTorch do not exist in a forked process, which would wait for them forever: it computes with one
thread. A lock held by another thread of the parent would block it too, so a fork waits for the lock of the word caches.
"""

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Callable, Dict, List, Sequence, Tuple, TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

_pools: Dict[Tuple[int, int], ThreadPoolExecutor] = {}  # by number of items and torch threads per item
_busy = threading.Lock()  # one caller at a time; concurrent callers already use several cores
CACHE_LOCK = threading.RLock()  # held while a word cache is read or changed
_fork = {"is_registered": False, "is_held": False}  # not held if the handlers are registered during the fork itself


def run_parallel(function: Callable[[Item], Result], items: Sequence[Item]) -> List[Result]:
    """Call a thread-safe function for each item, without gradients; concurrently if torch has a thread for each."""
    n_threads = torch.get_num_threads() // max(1, len(items))
    if len(items) < 2 or not n_threads or not _busy.acquire(blocking=False):
        return [function(item) for item in items]
    try:
        futures = _submit(function, items, n_threads)
    finally:
        _busy.release()
    return [future.result() for future in futures] or [function(item) for item in items]


def _submit(function: Callable[[Item], Result], items: Sequence[Item], n_threads: int) -> "List[Future[Result]]":
    """Futures that are all complete; none if no thread can be started, as at interpreter shutdown."""

    def call(item: Item) -> Result:
        with torch.no_grad():  # it applies to one thread
            return function(item)

    futures: List[Future[Result]] = []
    try:
        key = len(items), n_threads
        if key not in _pools:
            _pools[key] = _make_pool(*key)
        for item in items:
            futures.append(_pools[key].submit(call, item))
    except RuntimeError:
        wait(futures)
        return []
    wait(futures)
    return futures


def _make_pool(n_items: int, n_threads: int) -> ThreadPoolExecutor:
    """Start threads that compute with `n_threads` torch threads each; the caller's own number does not change.

    RAISES (RuntimeError): If a thread cannot be started.
    """
    ready = threading.Barrier(n_items)
    before = torch.get_num_threads()

    def begin() -> None:
        torch.get_num_threads()  # initializes this thread from the global number before that changes
        torch.set_num_threads(n_threads)
        ready.wait()

    pool = ThreadPoolExecutor(n_items, "spacy-elmo", initializer=begin)
    try:
        wait([pool.submit(int) for _ in range(n_items)])
    except RuntimeError:
        ready.abort()  # so that no thread waits for one that was not started
        raise
    torch.set_num_threads(before)  # the global number, for threads that start later
    return pool


def register_fork_handlers() -> None:
    """Make sure that processes forked from now on can compute. Further calls have no effect."""
    if not _fork["is_registered"] and hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_acquire, after_in_parent=_release, after_in_child=_begin_child)
        _fork["is_registered"] = True


def compute_with_one_thread() -> None:
    """Use one thread in this process from now on; other workers use the other cores."""
    torch.set_num_threads(1)


def _acquire() -> None:
    CACHE_LOCK.acquire()
    _fork["is_held"] = True


def _release() -> None:
    if _fork["is_held"]:
        _fork["is_held"] = False
        CACHE_LOCK.release()


def _begin_child() -> None:
    global _busy
    _release()
    _pools.clear()  # their threads do not exist here
    _busy = threading.Lock()
    compute_with_one_thread()
