"""The body of a request, checked: each field has a type and a range, and its text can be encoded in UTF-8."""

import json
from typing import Any, Dict, Optional, Sequence

from ..errors import Errors
from .limits import MAX_CHARACTERS, check_length


class Fields:
    """The fields of a request.

    body (bytes): A JSON object.
    RAISES (ValueError): EL413 for anything else.
    """

    def __init__(self, body: bytes) -> None:
        try:
            found = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise _invalid("its body is not valid JSON") from error
        if not isinstance(found, dict):
            raise _invalid("its body should be a JSON object")
        self._values: Dict[str, Any] = found

    def text(self, name: str, limit: int = MAX_CHARACTERS) -> str:
        """name (str): The field.
        limit (int): Characters that it may have.
        RETURNS (str): The text; unpaired surrogates, which UTF-8 does not have, are U+FFFD.
        RAISES (ValueError): EL413 if it is not a string, EL414 if it is too long.
        """
        value = self._values.get(name)
        if not isinstance(value, str):
            raise _invalid(f"'{name}' should be a string")
        check_length(len(value), "characters", limit)
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def number(self, name: str, low: int, high: int) -> int:
        """name (str): The field.
        low (int), high (int): The smallest and the largest value.
        RETURNS (int): The number.
        RAISES (ValueError): EL413 if it is not an integer in this range.
        """
        value = self._values.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise _invalid(f"'{name}' should be a whole number from {low} to {high}")
        return value

    def maybe_number(self, name: str, low: int, high: int) -> Optional[int]:
        """See `number`; None if the field is null or absent."""
        return None if self._values.get(name) is None else self.number(name, low, high)

    def choice(self, name: str, known: Sequence[str]) -> str:
        """name (str): The field.
        known (Sequence[str]): The values it may have.
        RETURNS (str): One of them.
        RAISES (ValueError): EL413 for another value.
        """
        value = self._values.get(name)
        if value not in known:
            raise _invalid(f"'{name}' should be one of {', '.join(known)}")
        return str(value)


def _invalid(problem: str) -> ValueError:
    return ValueError(Errors.EL413.format(problem=problem))
