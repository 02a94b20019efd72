"""Catalogues of messages: each template begins with its code in brackets, like those of spaCy."""

from typing import Any, Dict, Tuple

PREFIXES = ("EL", "WL")


class Catalogue(type):
    """Class of a catalogue: `EL001 = "Text."` becomes "[EL001] Text."."""

    def __new__(mcs, name: str, bases: Tuple[type, ...], members: Dict[str, Any]) -> "Catalogue":
        """name (str), bases (Tuple[type, ...]), members (Dict[str, Any]): Of the class that is being defined."""
        coded = {key: f"[{key}] {text}" if key.startswith(PREFIXES) else text for key, text in members.items()}
        return super().__new__(mcs, name, bases, coded)
