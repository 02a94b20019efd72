"""Commands that read one text: their argument, and the file that they write."""

import sys
from pathlib import Path

from ..errors import Errors
from ._app import Arg

TEXT_ARG = Arg(..., help="The text, in quotation marks; - reads it from stdin.")


def read_text(text: str) -> str:
    """text (str): A text, or - for stdin.
    RETURNS (str): The text.
    RAISES (ValueError): EL380 if it is empty.
    """
    found = sys.stdin.read() if text == "-" else text
    if not found.strip():
        raise ValueError(Errors.EL380)
    return found


def write_text(path: Path, text: str) -> None:
    """path (Path): Where; the file is complete or not there.
    text (str): The content.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf8", errors="replace")
    part.replace(path)
