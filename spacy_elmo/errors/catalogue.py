"""Catalogues of messages. Each template begins with its code in brackets, as in spaCy."""

from typing import Any, Dict, Tuple

PREFIXES = ("EL", "WL")


class Catalogue(type):
    """Metaclass of a catalogue: it turns `EL001 = "Text."` into "[EL001] Text."."""

    def __new__(mcs, name: str, bases: Tuple[type, ...], members: Dict[str, Any]) -> "Catalogue":
        """name (str), bases (Tuple[type, ...]), members (Dict[str, Any]): Arguments of the class definition."""
        coded = {key: f"[{key}] {text}" if key.startswith(PREFIXES) else text for key, text in members.items()}
        return super().__new__(mcs, name, bases, coded)
