"""Workers of `nlp.pipe(n_process=2)`: what a component does before they start, and in them.

spaCy tells a component nothing of workers, so this module listens to the system: `os.register_at_fork` for forked
ones, and pickling on the way to a new process for spawned ones. Without it each forked worker would load the packaged
weights and prepack them itself, and a spawned one would compute with as many threads as the machine has cores.
"""

import os
from multiprocessing.context import get_spawning_popen
from typing import Any
from weakref import WeakSet

import srsly

from ..engine.fork import compute_with_one_thread

_components: "WeakSet[Any]" = WeakSet()
_registered = {"fork": False}


def prepare_before_fork(component: Any) -> None:
    """Let a component prepare what workers share, before a process is forked.

    component (Any): An ELMo component; it is forgotten when it is deleted.
    """
    _components.add(component)
    if not _registered["fork"] and hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before_fork)
        _registered["fork"] = True


def is_sent_to_worker() -> bool:
    """RETURNS (bool): Whether what is pickled now goes to a process that is being spawned."""
    return get_spawning_popen() is not None


def configure_worker() -> None:
    """Let this process, a spawned worker, compute with one thread, as forked ones do.

    The main process says that it is one: Python does not know it yet while it unpickles what the worker is to run.
    """
    compute_with_one_thread()
    load_encoders_once()


def load_encoders_once() -> None:
    """Let srsly look up the entry points of its msgpack encoders once, not for every part of a Doc.

    A Doc with user data takes six such searches on its way to a worker and back, 0.2 ms each, as long as ELMo takes for
    a short sentence. Encoders that are registered later, by a decorator, are still found.
    """
    for registry in (srsly.msgpack_encoders, srsly.msgpack_decoders):
        if registry.entry_points:
            for name, function in registry.get_entry_points().items():
                registry.register(name, func=function)
            registry.entry_points = False


def _before_fork() -> None:
    for component in list(_components):
        try:
            component.prepare()
        except Exception:  # a component without weights says so when it is used; a fork must go on
            continue
    if len(_components):
        load_encoders_once()
