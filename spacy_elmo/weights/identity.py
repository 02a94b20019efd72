"""The identity of weights, for results that were made with them: a short sha256 of the files of a biLM."""

import hashlib
from pathlib import Path
from typing import List

from ..errors import Errors
from .locate import locate
from .sources import PathLike

N_DIGITS = 12
# Files beside the weights: settings and words, which change with the weights or do not matter to vectors.
BESIDE = (".json", ".txt", ".md", ".tsv", ".jsonl")


def digest_bilm(bilm: PathLike) -> str:
    """Hash the files of weights, without descriptions, so that `sha256sum` finds the same for a single file.

    bilm (PathLike): Name of a packaged biLM, or path of a folder or file.
    RETURNS (str): The first 12 hexadecimal digits of the sha256 of the file; of several files, of their names and sums.
    RAISES (FileNotFoundError): EL370 if there is no file of weights.
    """
    path = locate(bilm)
    files = _find_weights(path)
    if not files:
        raise FileNotFoundError(Errors.EL370.format(bilm=bilm, path=path))
    sums = {file.relative_to(path).as_posix(): _sha256(file) for file in files}
    if len(sums) == 1:
        return next(iter(sums.values()))[:N_DIGITS]
    listed = "\n".join(f"{name} {digest}" for name, digest in sums.items())
    return hashlib.sha256(listed.encode("utf8")).hexdigest()[:N_DIGITS]


def _find_weights(path: Path) -> List[Path]:
    if path.is_file():
        return [path]
    files = (file for file in sorted(path.rglob("*")) if file.is_file())
    return [file for file in files if file.suffix not in BESIDE and not file.name.startswith(".")]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
