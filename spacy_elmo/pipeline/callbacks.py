"""What has to happen when `nlp.pipe(n_process=2)` makes its workers.

spaCy does not tell a component. There are two signs of it: this process forks, or the component is pickled (spawn and
forkserver). Then the call of `nlp.pipe` is found on the stack.
"""

import os
import sys
import warnings
from types import FrameType
from typing import Any, Callable, NamedTuple, Optional, Tuple
from weakref import WeakSet

from .._warnings import Warnings
from ..ml.workers import available_cores, one_process_is_enough, share_threads, threads_of_workers, use_threads
from .registries import remember_encoders

# The method of `Language` that starts the workers, and what it calls things.
PIPE = ("_multiprocessing_pipe", "n_process", "pipes", "procs")

_components: "WeakSet[Any]" = WeakSet()
_registered = {"fork": False}


class PipeCall(NamedTuple):
    """A call of `nlp.pipe` that is making its workers.

    n_process (int): How many it makes.
    components (Tuple[Any, ...]): What they run.
    is_first (bool): Whether none has been made yet.
    """

    n_process: int
    components: Tuple[Any, ...]
    is_first: bool


def prepare_before_fork(component: Any) -> None:
    """Let a component get ready before workers start, so that they share one copy of the weights and need no disk.

    component (Any): An ELMo component; it is forgotten when it is gone.
    """
    _components.add(component)
    if not _registered["fork"] and hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before_fork)
        _registered["fork"] = True


def meet_pipe_call(call: PipeCall) -> int:
    """Make the way of the Docs short, and warn once of each call whose workers cannot help.

    call (PipeCall): What `find_pipe_call` found.
    RETURNS (int): Threads for each worker.
    """
    remember_encoders()
    n_cores = available_cores()
    if call.is_first and call.n_process > n_cores:
        warnings.warn(Warnings.WL062.format(n_process=call.n_process, n_cores=n_cores), stacklevel=2)
    elif call.is_first and _has_only_elmo(call):
        warnings.warn(Warnings.WL063.format(n_process=call.n_process, n_cores=n_cores), stacklevel=2)
    return threads_of_workers(call.n_process)


def _has_only_elmo(call: PipeCall) -> bool:
    """RETURNS (bool): Whether ELMo is all that workers run, and this process keeps all cores busy with it."""
    ours = {id(component): component for component in _components}  # others may have no hash
    found = [ours.get(id(component)) for component in call.components]
    return all(component is not None and one_process_is_enough(component.model) for component in found)


def become_worker(n_threads: int) -> None:
    """n_threads (int): Threads for this process, a worker that was not forked."""
    remember_encoders()
    use_threads(n_threads)


def find_pipe_call() -> Optional[PipeCall]:
    """RETURNS (Optional[PipeCall]): The call of `nlp.pipe` that runs now and has several processes, None without."""
    frame: Optional[FrameType] = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == PIPE[0]:
            found = frame.f_locals
            if all(name in found for name in PIPE[1:]):
                components = tuple(pipe.keywords.get("proc") for pipe in found["pipes"])
                return PipeCall(found["n_process"], components, all(proc.pid is None for proc in found["procs"]))
        frame = frame.f_back
    return None


def _before_fork() -> None:
    n_threads = 1
    try:
        call = find_pipe_call()
        ours = [component for component in _components if call is not None and component in call.components]
        for component in list(_components):
            if component in ours:
                _attempt(component.prepare)
            elif component.sizes is None:
                _attempt(component.fill)
        if call is not None and ours:
            n_threads = meet_pipe_call(call)
    finally:
        share_threads(n_threads)  # at last: computing undoes it; in any case, or the numbers of an older fork count


def _attempt(get_ready: Callable[[], None]) -> None:
    try:
        get_ready()
    except Exception:  # a component that cannot be filled says so when it is used; a fork must go on
        return
