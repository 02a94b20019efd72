"""Names of the arrays of a network in files. They do not change when modules of the code are renamed."""

from typing import Tuple

# Prefix of a name in files, and in the state dict.
NAMES: Tuple[Tuple[str, str], ...] = (
    ("lstm.", "encoder.layers."),
    ("between.", "encoder.highways."),
    ("transformer.", "encoder.blocks."),
    ("output_norm.", "encoder.norm."),
)


def stored_name(name: str) -> str:
    """name (str): Name of an entry of the state dict.
    RETURNS (str): Its name in files and checkpoints.
    """
    for stored, current in NAMES:
        if name.startswith(current):
            return stored + name.removeprefix(current)
    return name


def current_name(name: str) -> str:
    """RETURNS (str): The inverse of `stored_name`."""
    for stored, current in NAMES:
        if name.startswith(stored):
            return current + name.removeprefix(stored)
    return name
