"""Pipelines that are kept beside their results, to measure their speed."""

import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, Optional

import srsly

RESULT = "result.json"  # in the folder of the pipeline


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
