"""Say which files of a format are missing at a path, and where files with similar names are."""

from difflib import get_close_matches
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import Dict, List, Optional, Sequence

from .allennlp.tar import is_tar, scan_tar
from .sources import is_hidden, is_zip, list_sources

Listing = Dict[str, List[str]]  # names of files by folder

ARCHIVE_SUFFIXES = (".zip", ".tar.gz", ".tgz", ".tar")
COMMON_SUFFIXES = (".json", ".txt")
MAX_NAMES = 2000  # files considered, in a folder and in the folders below it
MAX_NAMED = 3  # names in a message
SIMILAR = 0.75  # ratio of difflib


def find_missing(path: Path, required: Sequence[str], places: Optional[Listing]) -> str:
    """Compare the files at a path with those that a format needs.

    path (Path): A folder or file.
    required (Sequence[str]): Patterns of names, each of which a file should match.
    places (Optional[Listing]): What `list_files` says of the path.
    RETURNS (str): For each pattern the file that is there, or that it is missing, with files of similar names, and the
        folder one level deeper that has all files, if there is one.
    """
    if places is None:
        return f"'{path.name}' is a single file that is neither a zip nor a tar"
    names = places.get("", [])
    texts = [_describe(pattern, names) for pattern in required]
    deeper = [place for place, found in places.items() if place and all(_match(each, found) for each in required)]
    if deeper:
        texts.append(f"all of them are in '{deeper[0]}/': pass '{path / deeper[0]}' instead")
    return ", ".join(texts)


def has_all(places: Optional[Listing], required: Sequence[str]) -> bool:
    """places (Optional[Listing]): What `list_files` says of a path.
    required (Sequence[str]): Patterns of names.
    RETURNS (bool): Whether all files that a format needs are there.
    """
    return places is not None and bool(required) and all(_match(each, places.get("", [])) for each in required)


def unpacking(path: Path) -> str:
    """path (Path): An archive.
    RETURNS (str): How to unpack it, as a sentence.
    """
    folder = str(path)
    for suffix in ARCHIVE_SUFFIXES:
        folder = folder.removesuffix(suffix)
    folder = folder if folder != str(path) else f"{folder}_files"
    command = f"python -m {'zipfile' if is_zip(path) else 'tarfile'} -e {quote(str(path))} {quote(folder)}"
    return f"Unpack it, and pass the folder with these files: `{command}`"


def only_archive(path: Path) -> Optional[Path]:
    """path (Path): A folder or file.
    RETURNS (Optional[Path]): The archive in a folder, if there is exactly one.
    """
    if not path.is_dir():
        return None
    files = (file for file in sorted(path.iterdir()) if file.is_file() and not is_hidden(file.name))
    archives = [file for file in files if file.name.endswith(ARCHIVE_SUFFIXES)]
    return archives[0] if len(archives) == 1 else None


def list_files(path: Path) -> Optional[Listing]:
    """path (Path): A folder or file.
    RETURNS (Optional[Listing]): Names of files by the folder they are in, "" for the path itself and for all files of
        an archive; None for a file that is no archive.
    """
    if path.is_file() and not is_zip(path) and not is_tar(path):
        return None
    places: Listing = {"": []}
    for place in _members(path) if path.is_file() else _files_below(path):
        folder = "" if path.is_file() or str(place.parent) == "." else str(place.parent)
        places.setdefault(folder, []).append(place.name)
    return places


def _members(path: Path) -> List[PurePosixPath]:
    """Members of an archive; their folders do not matter, since readers ignore them."""
    try:
        names = list(list_sources(path)) if is_zip(path) else scan_tar(path, lambda name: False).names
    except ValueError:  # a damaged file, which the readers report
        return []
    return [PurePosixPath(name) for name in names[:MAX_NAMES] if not is_hidden(name)]


def _files_below(path: Path) -> List[PurePosixPath]:
    """Files of a folder and of the folders in it, in alphabetical order."""
    found: List[PurePosixPath] = []
    for place in sorted(path.iterdir()) if path.is_dir() else []:
        try:
            inner = sorted(place.iterdir()) if place.is_dir() else [place]
        except OSError:
            continue
        found += [
            PurePosixPath(file.relative_to(path).as_posix())
            for file in inner
            if file.is_file() and not is_hidden(file.name)
        ]
        if len(found) > MAX_NAMES:
            break
    return found[:MAX_NAMES]


def _match(pattern: str, names: Sequence[str]) -> List[str]:
    return [name for name in names if any(fnmatch(name, each) for each in pattern.split("|"))]


def _describe(pattern: str, names: Sequence[str]) -> str:
    """What is there of one pattern."""
    found = _match(pattern, names)
    if found:
        return f"{found[0]} is there"
    wanted = pattern.replace("|", " or ")
    close = list(dict.fromkeys(name for each in pattern.split("|") for name in _close_to(each, names)))[:MAX_NAMED]
    return f"{wanted} is missing" + (f" (there is {', '.join(close)}: a wrong name?)" if close else "")


def _close_to(pattern: str, names: Sequence[str]) -> List[str]:
    """Similar names; also those with the same suffix, unless there are many kinds of such files."""
    exact = pattern.replace("*", "")
    suffix = PurePosixPath(exact).suffix
    same_suffix = [] if suffix in COMMON_SUFFIXES else [name for name in names if name.endswith(suffix or exact)]
    return [*get_close_matches(exact, names, n=MAX_NAMED, cutoff=SIMILAR), *same_suffix]
