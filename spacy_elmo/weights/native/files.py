"""Find a biLM in our own format."""

from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from ...errors import Errors

CONFIG_NAME, WEIGHTS_NAME = "config.json", "weights.safetensors"
WANTED = f"a folder with {CONFIG_NAME} and {WEIGHTS_NAME}"


@dataclass(frozen=True)
class NativeFiles:
    """A folder in our own format.

    folder (Path): Holds config.json and weights.safetensors.
    """

    folder: Path


def detect_native(path: Path) -> Optional[NativeFiles]:
    """path (Path): A folder or file that exists.
    RETURNS (Optional[NativeFiles]): The folder if it is one of ours, else None.
    RAISES (ValueError): EL020 if the weights are there, and the config is not.
    """
    if not (path / WEIGHTS_NAME).is_file():
        return None
    if not (path / CONFIG_NAME).is_file():
        raise ValueError(
            Errors.EL020.format(path=path, reason=f"{CONFIG_NAME} is missing beside {WEIGHTS_NAME}", wanted=WANTED)
        )
    return NativeFiles(path)
