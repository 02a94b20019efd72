"""Errors of the parts of a biLM, collected so that one of them does not hide the others."""

from typing import Any, Callable, List, Optional, TypeVar

from ..errors import Errors

T = TypeVar("T")


class Faults:
    """What went wrong so far. A step that needs the result of a step that failed is left out by the caller."""

    def __init__(self) -> None:
        self.errors: List[ValueError] = []

    def attempt(self, step: Callable[..., T], *args: Any) -> Optional[T]:
        """step (Callable[..., T]): Something that raises a ValueError if its part cannot be used.
        RETURNS (Optional[T]): Its result, or None if it failed.
        """
        try:
            return step(*args)
        except ValueError as error:
            self.errors.append(error)
        return None

    def raise_together(self, path: object) -> None:
        """path (object): Where the biLM is.
        RAISES (ValueError): The error there was, or EL034 with all of them; nothing if there was none.
        """
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            problems = "".join(f"\n{number}. {error}" for number, error in enumerate(self.errors, start=1))
            message = Errors.EL034.format(path=path, n_problems=len(self.errors), problems=problems)
            raise ValueError(message) from self.errors[0]
