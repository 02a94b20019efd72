"""Formats of biLMs that are known but cannot be read yet: their names, and what to do."""

import tarfile
import zipfile
from pathlib import Path
from typing import Iterable, List, Optional, Tuple

from .sources import decoding

GZIP_MAGIC = b"\x1f\x8b"
MAX_MEMBERS = 1000

# Names of files that say which format it is, what it is called, and what to do.
KNOWN: Tuple[Tuple[Tuple[str, ...], str, str], ...] = (
    (
        ("encoder.pkl", "token_embedder.pkl"),
        "an ELMoForManyLangs model",
        "Choose weights in HDF5 with an options.json: NLPL has them for many languages (zips of bilm-tf)",
    ),
    (
        ("config.json", "weights.th"),
        "an AllenNLP archive",
        "Take the options.json and the HDF5 file that its config.json names under `options_file` and `weight_file` "
        "(AllenNLP keeps copies of them in the archive's folder `fta`, if it has one), and pass their paths",
    ),
)


def recognize(path: Path) -> Optional[Tuple[str, str]]:
    """path (Path): A folder, a zip or a tar archive.
    RETURNS (Optional[Tuple[str, str]]): The format that it looks like and what to do, None for all others.
    RAISES (ValueError): EL022 for a damaged archive.
    """
    names = {Path(name).name for name in _names(path)}
    return next(((title, remedy) for marks, title, remedy in KNOWN if names.issuperset(marks)), None)


def _names(path: Path) -> Iterable[str]:
    """Of the files inside; those of a tar archive only up to a limit, since all of it has to be decompressed."""
    if path.is_dir():
        return [file.name for file in path.iterdir()]
    with path.open("rb") as file:
        is_gzip = file.read(2) == GZIP_MAGIC
    if is_gzip or path.suffix == ".tar":
        return _names_in_tar(path)
    if zipfile.is_zipfile(path):
        with decoding(path, "zip"), zipfile.ZipFile(path) as archive:
            return archive.namelist()
    return []


def _names_in_tar(path: Path) -> List[str]:
    with decoding(path, "tar archive"), tarfile.open(path) as archive:
        return [member.name for member, _ in zip(archive, range(MAX_MEMBERS))]
