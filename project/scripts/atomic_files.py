"""Files that are complete or not there: written under a temporary name, then renamed."""

import os
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator

import srsly


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Give a file to write to, which takes the place of `path` if the block ends without an error. Its folder is made.

    YIELDS (Path): A path in the same folder, of this process alone.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Write JSON; an interrupted process leaves no file, or the older one."""
    with replace_file(path) as part:
        srsly.write_json(part, content)
