"""A short sha256 of the files of a biLM, for results that were made with it."""

import hashlib
from pathlib import Path
from typing import List

from ..files import hash_file, walk_files
from .archive import Listing, PathLike
from .formats import locate_model, split_name
from .pipelines import detect_pipeline

N_DIGITS = 12
# Files beside the weights: settings and words, which change with the weights or do not matter to vectors.
BESIDE = (".json", ".txt", ".md", ".tsv", ".jsonl")


def hash_weights(bilm: PathLike) -> str:
    """The first 12 hexadecimal digits of the sha256 of the file of weights, as `sha256sum` prints it; of several files,
    of their names and sums. Descriptions and settings are left out. FileNotFoundError without such files.
    """
    path = locate_model(split_name(bilm)[0])
    files = _find_weights(path)
    if not files:
        raise FileNotFoundError(
            f"There are no weights of the biLM '{bilm}' at '{path}'. Give the name of a packaged biLM, or the "
            "path of weights in any known format."
        )
    sums = {file.relative_to(path).as_posix(): hash_file(file) for file in files}
    if len(sums) == 1:
        return next(iter(sums.values()))[:N_DIGITS]
    listed = "\n".join(f"{name} {digest}" for name, digest in sums.items())
    return hashlib.sha256(listed.encode("utf8")).hexdigest()[:N_DIGITS]


def _find_weights(path: Path) -> List[Path]:
    if path.is_file():
        return [path]
    pipeline = detect_pipeline(Listing(path)) if path.is_dir() else None
    if pipeline is not None:  # without what else is in it
        return pipeline.paths
    return [file for file in walk_files(path) if file.suffix not in BESIDE and not file.name.startswith(".")]
