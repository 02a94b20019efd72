"""Independent directions in parallel threads on a CPU.

torch releases Python's lock while it computes. Two products at once, one core each, are faster than one after the
other on two cores: no thread waits for the other at the end of each small operation.
"""

import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Callable, Dict, List, Sequence, Tuple, TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

_pools: Dict[Tuple[int, int], ThreadPoolExecutor] = {}  # by number of items, and of torch's threads for each
_busy = threading.Lock()  # one caller at a time: other callers have cores of their own to use


def run_parallel(function: Callable[[Item], Result], items: Sequence[Item]) -> List[Result]:
    """Call a function for each item, without gradients: at the same time if torch has a thread for each.

    function (Callable[[Item], Result]): Writes to nothing that calls share.
    items (Sequence[Item]): A few.
    RETURNS (List[Result]): In the order of the items.
    """
    n_threads = torch.get_num_threads() // max(1, len(items))
    if len(items) < 2 or not n_threads or not _busy.acquire(blocking=False):
        return [function(item) for item in items]
    try:
        futures = _submit(function, items, n_threads)
    finally:
        _busy.release()
    return [future.result() for future in futures] or [function(item) for item in items]


def forget_threads() -> None:
    """Forget the pools, in a process that was forked: threads stay in the parent."""
    global _busy
    _pools.clear()
    _busy = threading.Lock()


def _submit(function: Callable[[Item], Result], items: Sequence[Item], n_threads: int) -> "List[Future[Result]]":
    """RETURNS (List[Future[Result]]): All done; none if no thread can be started, as when the interpreter ends."""
    mode = torch.is_inference_mode_enabled()  # modes belong to a thread

    def call(item: Item) -> Result:
        with torch.inference_mode(mode), torch.no_grad():
            return function(item)

    futures: List[Future[Result]] = []
    try:
        pool = _pool(len(items), n_threads)
        for item in items:
            futures.append(pool.submit(call, item))
    except RuntimeError:
        wait(futures)
        return []
    wait(futures)
    return futures


def _pool(n_items: int, n_threads: int) -> ThreadPoolExecutor:
    key = (n_items, n_threads)
    if key not in _pools:
        _pools[key] = _make_pool(*key)
    return _pools[key]


def _make_pool(n_items: int, n_threads: int) -> ThreadPoolExecutor:
    """Threads that compute with `n_threads` of torch each; the caller's own number stays the same.

    RAISES (RuntimeError): If the system or the interpreter refuses a thread.
    """
    ready = threading.Barrier(n_items)
    before = torch.get_num_threads()

    def begin() -> None:
        torch.get_num_threads()  # a thread reads the common number when it first needs it: now, before it changes
        torch.set_num_threads(n_threads)
        ready.wait()

    pool = ThreadPoolExecutor(n_items, "spacy-elmo", initializer=begin)
    try:
        wait([pool.submit(int) for _ in range(n_items)])
    except RuntimeError:
        ready.abort()  # so that nobody waits for a thread that does not come
        raise
    torch.set_num_threads(before)  # the number that later threads read
    return pool
