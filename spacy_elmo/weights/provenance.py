"""Provenance of a biLM on disk: its format, its files with sizes and checksums, and the record of its download."""

from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

from .._compat import hash_file
from .formats import detect_format
from .load import format_with_options
from .locate import locate
from .origins.download import read_record
from .sources import PathLike, Source

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
    place = locate(path)
    if not place.exists() and "#" in str(path):  # PATH#NAME is one of several biLMs in a file
        place = locate(str(path).rpartition("#")[0])
    if options is not None:
        format, found = format_with_options(place, options), [place, options]
    else:
        format, found = detect_format(place)
    paths = sorted(set(_paths_of(found))) or sorted(_inside(place))
    files = tuple(FileFacts(str(file), file.stat().st_size, hash_file(file)) for file in paths[:MAX_FILES])
    return Provenance(str(place), format.name, files, read_record(place))


def _paths_of(found: Any) -> Iterator[Path]:
    """All files that the result of `detect` refers to, in fields of any depth."""
    if isinstance(found, Source):
        yield found.path
    elif isinstance(found, Path):
        yield from _inside(found)
    elif is_dataclass(found):
        for field in fields(found):
            yield from _paths_of(getattr(found, field.name))
    elif isinstance(found, (list, tuple)):
        for item in found:
            yield from _paths_of(item)
    elif isinstance(found, dict):
        yield from _paths_of(list(found.values()))


def _inside(path: Path) -> List[Path]:
    """A file, or the files of a folder, without hidden and incomplete ones."""
    if path.is_file():
        # A TensorFlow checkpoint has its arrays in files beside the index.
        return [path, *sorted(path.parent.glob(f"{path.stem}.data-*"))] if path.suffix == ".index" else [path]
    files = sorted(path.iterdir()) if path.is_dir() else []
    return [file for file in files if file.is_file() and not file.name.startswith(".") and file.suffix != ".part"]
