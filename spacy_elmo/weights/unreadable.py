"""Known formats of biLMs that cannot be read yet: their names and remedies."""

import tarfile
import zipfile
from pathlib import Path
from typing import Iterable, List, Optional, Tuple

from .sources import decoding

GZIP_MAGIC = b"\x1f\x8b"
MAX_MEMBERS = 1000

# File names that identify the format, name of the format, remedy.
KNOWN: Tuple[Tuple[Tuple[str, ...], str, str], ...] = (
    (
        ("config.json", "weights.th"),
        "an AllenNLP archive",
        "Pass the paths of the options.json and the HDF5 file listed in its config.json under `options_file` and "
        "`weight_file` (AllenNLP may store copies of them in the folder `fta` of the archive)",
    ),
)


def recognize(path: Path) -> Optional[Tuple[str, str]]:
    """path (Path): A folder, a zip or a tar archive.
    RETURNS (Optional[Tuple[str, str]]): The detected format and the remedy, None for all others.
    RAISES (ValueError): EL022 for a damaged archive.
    """
    names = {Path(name).name for name in _names(path)}
    return next(((title, remedy) for required, title, remedy in KNOWN if names.issuperset(required)), None)


def _names(path: Path) -> Iterable[str]:
    """Names of the files inside; of a tar archive up to a limit, since it must be decompressed to list them."""
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
