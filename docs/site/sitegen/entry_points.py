"""The entry points of `setup.py`, read from its source."""

import ast
from typing import Dict, Tuple

from .source import ROOT


def read_entry_points() -> Dict[str, Dict[str, Tuple[str, str]]]:
    """RETURNS (Dict[str, Dict[str, Tuple[str, str]]]): By group and name: the module and the name in it."""
    for node in ast.walk(ast.parse((ROOT / "setup.py").read_text(encoding="utf8"))):
        if isinstance(node, ast.keyword) and node.arg == "entry_points":
            groups = ast.literal_eval(node.value)
            return {group: dict(map(_split, lines)) for group, lines in groups.items() if group != "spacy_cli"}
    raise ValueError("setup.py has no entry_points")


def _split(line: str) -> Tuple[str, Tuple[str, str]]:
    name, _, target = line.partition(" = ")
    module, _, attribute = target.partition(":")
    return name, (module, attribute)
