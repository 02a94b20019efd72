"""Settings of a foreign config file, read with their types and ranges; all problems are collected."""

from typing import Any, List, Mapping, Optional, Tuple

from .limits import MAX_ABSOLUTE, shorten


class SettingsReader:
    """Reads settings from nested options, and collects missing, mistyped and out-of-range ones as problems.

    options (Mapping[str, Any]): The parsed JSON.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options
        self.problems: List[str] = []

    def has(self, name: str) -> bool:
        """RETURNS (bool): Whether a dotted name has a value other than null."""
        return self._find(name)[1] is not None

    def take(
        self, name: str, kind: Any, default: Any = ..., *, least: Optional[int] = None, most: Optional[float] = None
    ) -> Any:
        """name (str): Dotted name.
        kind (Any): Its type, or several.
        default (Any): For a missing value; without it, a missing value is a problem.
        least (Optional[int]), most (Optional[float]): Its range.
        RETURNS (Any): The value, None if it is invalid.
        """
        found, value = self._find(name)
        if value is None and default is not ...:
            return default
        if not found or value is None:
            self.problems.append(f"{name} is {'null' if found else 'missing'}")
        elif not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.refuse(name, value, _kind_name(kind))
        elif least is not None and not value >= least:  # also refuses NaN
            self.refuse(name, value, f"{least} or more" + (", or null for none" if default is None else ""))
        elif most is not None and value > most:
            self.refuse(name, value, f"at most {most:,}" if most < MAX_ABSOLUTE else f"at most {most:g}")
        else:
            return value
        return None

    def refuse(self, name: str, value: Any, wanted: str) -> None:
        """Add the problem that a setting should have another value."""
        self.problems.append(f"{name} is {shorten(repr(value), 80)}, should be {wanted}")

    def _find(self, name: str) -> Tuple[bool, Any]:
        node: Any = self.options
        for part in name.split("."):
            if not isinstance(node, Mapping) or part not in node:
                return False, None
            node = node[part]
        return True, node


def _kind_name(kind: Any) -> str:
    names = {
        int: "an integer",
        bool: "true or false",
        str: "a string",
        list: "a list",
        (int, float): "a number",
        Mapping: "a block of settings",
    }
    return names.get(kind, str(kind))
