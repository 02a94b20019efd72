"""Find the files of a biLM in native format."""

from dataclasses import dataclass
from pathlib import Path
from typing import Optional

CONFIG_NAME, WEIGHTS_NAME = "config.json", "weights.safetensors"
LEXICON_NAME = "lexicon.json"  # symbols of a biLM with a token embedder
WANTED = f"a folder with {CONFIG_NAME} and {WEIGHTS_NAME}"


@dataclass(frozen=True)
class NativeFiles:
    """A folder in native format.

    folder (Path): Contains config.json and weights.safetensors.
    """

    folder: Path


def detect_native(path: Path) -> Optional[NativeFiles]:
    """path (Path): A folder that exists, or one of the two files in it.
    RETURNS (Optional[NativeFiles]): The folder if it is in native format, else None.
    """
    path = path.parent if path.name in (CONFIG_NAME, WEIGHTS_NAME) and path.is_file() else path
    is_complete = (path / WEIGHTS_NAME).is_file() and (path / CONFIG_NAME).is_file()
    return NativeFiles(path) if is_complete else None
