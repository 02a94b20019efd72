"""The process around the computation: modes of the caller, memory of the host, threads and forks.

Word vectors, states and packed weights are kept and used again in other modes (autocast, inference mode, default
device), so that none of them may depend on the mode in which it is computed first: `isolated`. The default type is not
among these modes, since it belongs to the whole process and not to a thread: tensors are created with a type of their
own.

Large arrays that are allocated and freed fragment the heap: a slightly larger next batch does not fit in the free
blocks, and the memory of the process grows. Reused arrays (`Workspace`) avoid this, and their pages are not cleared
again.

The native kernel releases the GIL while it computes: `run_parallel` divides its work among threads. The OpenMP threads
of PyTorch do not exist in a forked process, which would wait for them forever: it computes with one thread. A lock held
by another thread of the parent would block it too, so a fork waits for the lock of the word caches.
"""

import ctypes
import inspect
import math
import mmap
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache, partial, wraps
from itertools import count
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Optional, Sequence, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .limits import TRIM_TIME, TRIM_TOKENS, WORKSPACE_MAX_KEPT, WORKSPACE_STEP

F = TypeVar("F", bound=Callable[..., Any])

AUTOCAST_DEVICES = [name for name in ("cpu", "cuda", "mps", "xpu") if torch.amp.is_autocast_available(name)]
END = object()


def isolated(function: F) -> F:
    """Leave the modes of the caller during a call, or during each step of a generator, and make sure that processes
    forked later can compute.

    Autocast is off, tensors without a device are created on the CPU, and inference mode is left, since its tensors
    cannot be used in training; gradients are recorded as before. `torch.compile` breaks its graph around the call.
    Where there is nothing to leave, a call takes 3 microseconds more.
    """
    if inspect.isgeneratorfunction(function):
        return cast(F, _isolate_steps(function))
    without_compiler: List[Callable[..., Any]] = []

    @wraps(function)
    def call(*args: Any, **settings: Any) -> Any:
        if torch.compiler.is_compiling():
            if not without_compiler:  # made on first use, since it imports the compiler, which takes a second
                without_compiler.append(torch.compiler.disable(call))
            return without_compiler[0](*args, **settings)
        register_fork_handlers()  # this call may start threads of torch
        modes = _modes_to_leave()
        if not modes:
            return function(*args, **settings)
        with ExitStack() as stack:
            for mode in modes:
                stack.enter_context(mode)
            return function(*args, **settings)

    return cast(F, call)


def _isolate_steps(function: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    @wraps(function)
    def iterate(*args: Any, **settings: Any) -> Iterator[Any]:
        steps: Any = function(*args, **settings)
        advance = isolated(partial(next, steps, END))
        try:
            while (step := advance()) is not END:
                yield step
        finally:
            steps.close()

    return iterate


def _modes_to_leave() -> List[ContextManager[Any]]:
    modes: List[ContextManager[Any]] = [
        torch.autocast(device, enabled=False) for device in AUTOCAST_DEVICES if torch.is_autocast_enabled(device)
    ]
    if torch.empty(0).device.type != "cpu":
        modes.append(torch.device("cpu"))
    if torch.is_inference_mode_enabled():
        modes += [torch.inference_mode(False), torch.no_grad()]
    return modes


# Memory


class Workspace:
    """Named arrays, for one computation at a time. Each is as large as the largest request so far."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._held: Dict[str, Tensor] = {}

    @torch.inference_mode(False)  # arrays are reused after the inference mode in which they are created
    def take(self, name: str, *shape: int) -> Tensor:
        """An uninitialized float32 array. One taken before by this name becomes invalid."""
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
        # By stream of the device, since kernels may still write to what was returned. Append and pop of a list are
        # thread-safe, and safe in a forked process.
        self._free: Dict[int, List[Workspace]] = {}

    @contextmanager
    def borrow(self) -> Iterator[Workspace]:
        """Borrow a workspace. After an error it is not returned to the pool: threads may still write to it."""
        free = self._free.setdefault(stream_of(self._device), [])
        try:
            workspace = free.pop()
        except IndexError:
            workspace = Workspace(self._device)
        try:
            yield workspace
        except GeneratorExit:  # the caller stopped the iteration
            self._give_back(workspace, free)
            raise
        self._give_back(workspace, free)

    def _give_back(self, workspace: Workspace, free: List[Workspace]) -> None:
        workspace.trim()
        if len(free) < self._n_kept:
            free.append(workspace)


def stream_of(device: torch.device) -> int:
    """The current stream of a GPU; 0 for a CPU."""
    return torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0


def map_pages(n_bytes: int) -> mmap.mmap:
    """Allocate zeros by mmap, not shared with processes that are forked later. The pages are returned to the system as
    soon as there are no references to them. MemoryError if there is not enough.
    """
    # Windows has no fork and no such flags.
    flags = {} if sys.platform == "win32" else {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS}
    try:
        return mmap.mmap(-1, n_bytes, **flags)
    except OSError as error:
        raise MemoryError(
            f"There is no memory for {n_bytes / 1e6:,.0f} MB of working memory ({error.strerror}). Raise the limit of "
            "the process, or compute fewer tokens at once with a smaller batch_tokens."
        ) from error


class HeapTrimmer:
    """Returns free memory of the heap to the system at intervals, in a long stream.

    Torch's operations allocate their results. The GNU C library rarely reuses the memory of a freed aligned array for
    one of the same size, so the heap fragments: a process would keep several times as many free pages as it needs.

    every (Optional[int]): Minimum count between two calls; `TRIM_TOKENS` by default.
    """

    def __init__(self, every: Optional[int] = None) -> None:
        self._every = TRIM_TOKENS if every is None else every
        self._n_counted, self._n_between = 0, self._every
        self._ended = time.perf_counter()

    def count(self, n_tokens: int) -> None:
        """Count tokens computed since the last call; or anything else that `every` is meant for."""
        self._n_counted += n_tokens
        if self._n_counted < self._n_between:
            return
        started = time.perf_counter()
        trim_heap()
        ended = time.perf_counter()
        if ended - started > TRIM_TIME * (started - self._ended):
            self._n_between *= 2  # trimming is slow if the process has much other memory
        else:
            self._n_between = max(self._every, self._n_between // 2)
        self._n_counted, self._ended = 0, ended


def trim_heap() -> None:
    """Return free memory of the heap to the system, if the C library can."""
    trim = _trim()
    if trim is not None:
        trim(0)


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


# Threads and forked processes

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

_make_pool = partial(ThreadPoolExecutor, 1024, "spacy-elmo")  # of at most so many threads, which start when needed
_pool = _make_pool()
_busy = threading.Lock()  # one caller at a time; concurrent callers already use several cores
CACHE_LOCK = threading.RLock()  # held while a word cache is read or changed
_fork = {"is_registered": False, "is_held": False}  # not held if the handlers are registered during the fork itself


def run_parallel(function: Callable[[ItemT], ResultT], items: Sequence[ItemT]) -> List[ResultT]:
    """Call a thread-safe function for each item, without gradients; in parallel on as many threads as torch has, the
    calling thread among them. The function computes without torch's own threads. After an interrupt of the caller no
    item is begun; the next calls use one thread until all threads have finished theirs.
    """
    global _pool
    n_threads, busy = min(len(items), torch.get_num_threads()), _busy
    if n_threads < 2 or not busy.acquire(blocking=False):
        return [function(item) for item in items]
    results: Dict[int, ResultT] = {}
    errors: List[Exception] = []
    places, n_finished, all_finished = iter(range(len(items))), count(1), threading.Event()

    def finish() -> None:
        if next(n_finished) == len(items):
            busy.release()
            all_finished.set()

    @torch.no_grad()  # it applies to one thread
    def work() -> None:
        for place in places:
            try:
                results[place] = function(items[place])
            except Exception as error:
                errors.append(error)
            finally:
                finish()

    try:
        try:
            for _ in range(n_threads - 1):
                _pool.submit(work)
        except RuntimeError:  # no more threads, or at interpreter shutdown: the caller computes what is left
            _pool = _make_pool()  # the other one keeps what it could not start
        work()
        all_finished.wait()
    finally:
        for _ in places:  # after an interrupt
            finish()
    if errors:
        raise errors[0]
    return [results[place] for place in range(len(items))]


def register_fork_handlers() -> None:
    """Make sure that processes forked from now on can compute. Further calls have no effect, nor has one in a function
    that torch compiles.
    """
    if torch.compiler.is_compiling():
        return
    if not _fork["is_registered"] and hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_acquire, after_in_parent=_release, after_in_child=_begin_child)
        _fork["is_registered"] = True


def _acquire() -> None:
    CACHE_LOCK.acquire()
    _fork["is_held"] = True


def _release() -> None:
    if _fork["is_held"]:
        _fork["is_held"] = False
        CACHE_LOCK.release()


def _begin_child() -> None:
    global _busy, _pool
    _release()
    _pool = _make_pool()  # the threads of the parent do not exist here
    _busy = threading.Lock()
    torch.set_num_threads(1)  # other workers use the other cores
