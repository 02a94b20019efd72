"""Files and kept pipelines that are complete or not there: written under a temporary name, then renamed."""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, Optional

import srsly

RESULT = "result.json"  # in the folder of a kept pipeline


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


def load_kept(folder: Path) -> Optional[Dict[str, Any]]:
    """RETURNS (Optional[Dict[str, Any]]): The result of a pipeline; None if there is none."""
    path = folder / RESULT
    found: Optional[Dict[str, Any]] = srsly.read_json(path) if path.is_file() else None
    return found


@contextmanager
def keep_pipeline(folder: Optional[Path]) -> Iterator[Optional[Path]]:
    """Give a folder to write to, which takes the place of `folder` if the block ends without an error.

    YIELDS (Optional[Path]): A path that does not exist; None without a folder.
    """
    if folder is None:
        yield None
        return
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield part
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
