"""Data sets of a few lines, in the format of the real ones."""

import gzip
import json
from pathlib import Path
from typing import Any, Dict, List


def write_jsonl(path: Path, lines: List[Dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def write_parts(folder: Path, lines: List[Dict[str, Any]]) -> Path:
    """The same lines as training, development and test part. Returns the folder."""
    for name in ("train", "dev", "test"):
        write_jsonl(folder / f"{name}.jsonl.gz", lines)
    return folder
