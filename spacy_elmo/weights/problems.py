"""Collect the errors of all files of a biLM, to raise them together."""

from typing import Any, Callable, List, Optional, TypeVar

from ..errors import Errors

T = TypeVar("T")


class Faults:
    """Errors so far. The caller skips steps that need the result of a failed step."""

    def __init__(self) -> None:
        self.errors: List[ValueError] = []

    def attempt(self, step: Callable[..., T], *args: Any) -> Optional[T]:
        """step (Callable[..., T]): Raises a ValueError if its input is invalid.
        RETURNS (Optional[T]): Its result, or None if it failed.
        """
        try:
            return step(*args)
        except ValueError as error:
            self.errors.append(error)
        return None

    def raise_together(self, path: object) -> None:
        """path (object): Path of the biLM.
        RAISES (ValueError): The only error, or EL034 with all errors; nothing if there is none.
        """
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            problems = "".join(f"\n{number}. {error}" for number, error in enumerate(self.errors, start=1))
            message = Errors.EL034.format(path=path, n_problems=len(self.errors), problems=problems)
            raise ValueError(message) from self.errors[0]
