"""Which biLM is this: fingerprints, hashes of files, and what its meta data say of its origin."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
from torch import Tensor

from ..inference.bilm import BiLM
from ..inference.products import quantizable_names
from ..util import hash_file
from .files import File, Listing, PathLike
from .formats import detect_format, detect_pair, locate, split_name
from .meta import read_record
from .pipelines import detect_pipeline

# The identity of weights, for results that were made with them: a short sha256 of a biLM, or of its files.

N_DIGITS = 12
# Files beside the weights: settings and words, which change with the weights or do not matter to vectors.
BESIDE = (".json", ".txt", ".md", ".tsv", ".jsonl")
MAX_SIGNS = 4096  # of each tensor


def digest_bilm(bilm: PathLike) -> str:
    """Hash the files of weights, without descriptions, so that `sha256sum` finds the same for a single file.

    bilm (PathLike): Name of a packaged biLM, or path of a folder or file.
    RETURNS (str): The first 12 hexadecimal digits of the sha256 of the file; of several files, of their names and sums.
    RAISES (FileNotFoundError): If there is no file of weights.
    """
    path = locate(split_name(bilm)[0])
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


def fingerprint_bilm(bilm: BiLM) -> str:
    """Hash the signs of the weights that reduced precision leaves in float32: embeddings, filters, biases.

    A biLM keeps its fingerprint on another device, in reduced precision, and in files of any format and dtype, since
    rounding does not change a sign. Training changes it as soon as one of these weights changes its sign.

    bilm (BiLM): The biLM.
    RETURNS (str): 12 hexadecimal digits.
    """
    rounded = set(quantizable_names(bilm.network))
    kept: Dict[str, Tensor] = {name: weight for name, weight in bilm.network.named_parameters() if name not in rounded}
    if bilm.token_embeddings is not None:
        kept["token_embeddings"] = bilm.token_embeddings
    found = hashlib.sha256()
    for name in sorted(kept):
        signs = kept[name].detach().flatten()[:MAX_SIGNS].signbit().cpu().numpy()
        found.update(f"{name} {list(kept[name].shape)} ".encode() + np.packbits(signs).tobytes())
    return found.hexdigest()[:N_DIGITS]


def _find_weights(path: Path) -> List[Path]:
    if path.is_file():
        return [path]
    pipeline = detect_pipeline(Listing(path)) if path.is_dir() else None
    if pipeline is not None:  # without what else is in it
        return pipeline.paths
    files = (file for file in sorted(path.rglob("*")) if file.is_file())
    return [file for file in files if file.suffix not in BESIDE and not file.name.startswith(".")]


# Provenance of a biLM on disk: its format, its files with sizes and checksums, and the record of its download.

MAX_FILES = 1000


@dataclass(frozen=True)
class FileFacts:
    """A file of a biLM.

    name (str): Its path.
    n_bytes (int): Its size.
    sha256 (str): Its checksum.
    """

    name: str
    n_bytes: int
    sha256: str


@dataclass(frozen=True)
class Provenance:
    """What is known of a biLM on disk.

    path (str): The folder or file.
    format (str): Name of its format.
    files (Tuple[FileFacts, ...]): Its files; an archive is one file.
    origin (Optional[Dict[str, Any]]): The record of `elmo download`.
    """

    path: str
    format: str
    files: Tuple[FileFacts, ...]
    origin: Optional[Dict[str, Any]]

    @property
    def n_bytes(self) -> int:
        """RETURNS (int): Size of all files."""
        return sum(file.n_bytes for file in self.files)


def read_provenance(path: PathLike, options: Optional[Path] = None) -> Provenance:
    """path (PathLike): See `load_bilm`; the weights file if `options` is given.
    options (Optional[Path]): options.json of bilm-tf, if it is not beside the weights.
    RETURNS (Provenance): All files are read for their checksums.
    RAISES (ValueError): EL020 and others if no biLM is detected.
    """
    place = locate(split_name(path)[0])
    if options is not None:
        format, found = detect_pair(place, File(options))
        paths = sorted({*found.paths, options})
    else:
        format, found = detect_format(place)
        paths = found.paths
    files = tuple(FileFacts(str(file), file.stat().st_size, hash_file(file)) for file in paths[:MAX_FILES])
    return Provenance(str(place), format.name, files, read_record(place))
