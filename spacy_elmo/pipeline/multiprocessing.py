"""Preparation of a component for the workers of `nlp.pipe(n_process=2)`.

spaCy does not inform components about workers. This module detects forked workers by `os.register_at_fork`, and spawned
workers when the component is pickled for a new process. Otherwise each forked worker would load and prepack the
weights itself, and a spawned worker would compute with as many threads as the machine has cores.
"""

import os
from multiprocessing.context import get_spawning_popen
from typing import Any
from weakref import WeakSet

import srsly
import torch

_components: "WeakSet[Any]" = WeakSet()
_registered = {"fork": False}


def prepare_before_fork(component: Any) -> None:
    """Make an ELMo component prepare shared data before every fork; only a weak reference to it is stored."""
    _components.add(component)
    if not _registered["fork"] and hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before_fork)
        _registered["fork"] = True


def is_sent_to_worker() -> bool:
    """RETURNS (bool): Whether the current pickle is for a process that is being spawned."""
    return get_spawning_popen() is not None


def configure_worker() -> None:
    """Use one thread in this process, a spawned worker, as in forked workers.

    The main process stores in the pickle that it is for a worker. While a spawned process unpickles its arguments,
    Python does not know yet that it is a worker.
    """
    torch.set_num_threads(1)
    load_encoders_once()


def load_encoders_once() -> None:
    """Make srsly look up the entry points of its msgpack encoders once, not for every field of a Doc.

    To send a Doc with user data to a worker and back takes six such searches of 0.2 ms each, as much time as ELMo needs
    for a short sentence. Encoders that are registered later by a decorator are still found.
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
        except Exception:  # a component without weights raises an error when it is used; the fork must not fail
            continue
    if len(_components):
        load_encoders_once()
