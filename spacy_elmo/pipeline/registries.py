"""A short way for Docs between processes: srsly looks its msgpack encoders up once.

`srsly.msgpack_dumps` and `msgpack_loads` ask a registry of catalogue for their encoders in every call. The answer is
always the same, but takes 0.2 ms: all entry points of all packages are searched, and all functions that anybody has
registered. spaCy makes three such calls to write a Doc with user data, and three to read it, which is more time than
all the rest of its way, and for a short sentence as much as ELMo takes.
"""

from typing import Any, Dict, Optional

import srsly
from catalogue import REGISTRY, Registry


class RememberingRegistry(Registry):  # type: ignore[misc]
    """A registry that remembers what it holds, until something is registered."""

    _found: Optional[Dict[str, Any]] = None
    _n_known = 0

    def get_all(self) -> Dict[str, Any]:
        """RETURNS (Dict[str, Any]): The functions by name, those of entry points among them."""
        if self._found is None or self._n_known != len(REGISTRY):
            self._found, self._n_known = super().get_all(), len(REGISTRY)
        return dict(self._found)

    def register(self, name: str, *, func: Optional[Any] = None) -> Any:
        """name (str): The name, which may be known already.
        func (Optional[Any]): The function.
        RETURNS (Any): A decorator without a function, else the function.
        """
        self._found = None
        return super().register(name, func=func)


def remember_encoders() -> None:
    """Let srsly's registries remember, in this process; again does no harm. Other kinds of registries stay."""
    for registry in (srsly.msgpack_encoders, srsly.msgpack_decoders):
        if type(registry) is Registry:
            registry.__class__ = RememberingRegistry
