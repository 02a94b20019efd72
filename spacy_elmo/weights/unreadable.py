"""Known formats of biLMs that cannot be read yet: their names and remedies."""

import zipfile
from pathlib import Path
from typing import Iterable, Optional, Tuple

from .sources import decoding

# File names that identify the format, name of the format, remedy.
KNOWN: Tuple[Tuple[Tuple[str, ...], str, str], ...] = (
    (
        ("encoder.pkl", "token_embedder.pkl"),
        "an ELMoForManyLangs model",
        "Choose weights in HDF5 with an options.json: NLPL has them for many languages (zips of bilm-tf)",
    ),
)


def recognize(path: Path) -> Optional[Tuple[str, str]]:
    """path (Path): A folder or a zip.
    RETURNS (Optional[Tuple[str, str]]): The detected format and the remedy, None for all others.
    RAISES (ValueError): EL022 for a damaged archive.
    """
    names = {Path(name).name for name in _names(path)}
    return next(((title, remedy) for required, title, remedy in KNOWN if names.issuperset(required)), None)


def _names(path: Path) -> Iterable[str]:
    """Names of the files inside."""
    if path.is_dir():
        return [file.name for file in path.iterdir()]
    if zipfile.is_zipfile(path):
        with decoding(path, "zip"), zipfile.ZipFile(path) as archive:
            return archive.namelist()
    return []
