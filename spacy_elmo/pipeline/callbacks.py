"""What has to happen when a process forks: `nlp.pipe(n_process=2)` gives a component no other sign of it."""

import os
from typing import Any
from weakref import WeakSet

# Components that may still be without weights.
_waiting: "WeakSet[Any]" = WeakSet()
_registered = {"fork": False}


def fill_before_fork(component: Any) -> None:
    """Let a component take the packaged weights before workers start, so that they share one copy and no disk.

    component (Any): An ELMo component; it is forgotten when it is gone.
    """
    _waiting.add(component)
    if not _registered["fork"] and hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_fill_waiting)
        _registered["fork"] = True


def _fill_waiting() -> None:
    for component in list(_waiting):
        _waiting.discard(component)
        try:
            component.fill()
        except Exception:  # a component that cannot be filled says so when it is used; a fork must go on
            continue
