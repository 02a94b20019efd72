"""Download a published biLM into a folder, or put files there that were fetched by other means."""

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from ..._compat import hash_file
from ...errors import Errors
from ..replacing import find_replaceable
from ..sources import is_hidden
from .facts import check_facts
from .fetch import check_file, fetch_file, note_of
from .http import Opener, check_url, open_url
from .registry import Origin, OriginFile

RECORD_NAME = "origin.json"
MAX_RECORD_BYTES = 2**20


@dataclass(frozen=True)
class Downloaded:
    """A file in its place.

    name (str): Its name in the folder.
    url (str): Where it came from: an address, or the path of a local file.
    n_bytes (int): Its size.
    sha256 (str): Its checksum.
    is_documented (bool): Whether the registry has this checksum; otherwise this is the checksum of the first download.
    """

    name: str
    url: str
    n_bytes: int
    sha256: str
    is_documented: bool


def download(
    origin: Origin,
    folder: Path,
    *,
    given: Sequence[Path] = (),
    mirrors: Sequence[str] = (),
    force: bool = False,
    opener: Opener = open_url,
    on_bytes: Callable[[int], Any] = lambda n: None,
) -> Tuple[Downloaded, ...]:
    """Put the files of a published biLM into a folder, with a record of their origin in origin.json.

    Each file is written to NAME.part, where a later call continues it, checked, and renamed when all are complete.

    origin (Origin): The published biLM.
    folder (Path): Output.
    given (Sequence[Path]): Local files, or folders with them; then nothing is downloaded.
    mirrors (Sequence[str]): Folders on the web with the files, tried before the documented ones.
    force (bool): Replace the files of an earlier download, or of a biLM that `save_bilm` wrote; other files are kept.
    opener (Opener): Sends the requests.
    on_bytes (Callable[[int], Any]): Called with the number of bytes of each chunk.
    RETURNS (Tuple[Downloaded, ...]): The files.
    RAISES (ValueError): EL025 if the folder has other files, EL361 for a mirror that is not on the web, EL362 if no
        mirror provides a file, EL363, EL364 or EL366 for a wrong file, EL365 if `given` lacks files, EL371 for another
        size or number of parameters than is documented, EL372 for files of a biLM from elsewhere.
    """
    _check_folder(origin, folder, force)
    own_mirrors = [check_url(mirror).rstrip("/") + "/" for mirror in mirrors]
    sources = match_given(origin, given) if given else {}
    if given:
        _check_given(origin, sources)
    folder.mkdir(parents=True, exist_ok=True)
    places: Dict[str, str] = {}
    for file in origin.files:
        part = part_of(folder, file)
        if given:
            places[file.name] = _copy(sources[file.name], part)
        else:
            urls = [mirror + file.path.rpartition("/")[2] for mirror in own_mirrors]
            urls += [mirror + file.path for mirror in origin.mirrors]
            places[file.name] = fetch_file(
                urls, part, opener=opener, name=file.name, n_bytes=file.n_bytes, sha256=file.sha256, on_bytes=on_bytes
            )
    if not given:
        _check_parts(origin, folder)
    return _put_in_place(origin, folder, places)


def part_of(folder: Path, file: OriginFile) -> Path:
    """RETURNS (Path): The name of a file while it is incomplete."""
    return folder / f"{file.name}.part"


def read_record(folder: Path) -> Optional[Dict[str, Any]]:
    """folder (Path): A folder, or a file in it.
    RETURNS (Optional[Dict[str, Any]]): The record of `download`, None if there is none that can be read.
    """
    path = (folder if folder.is_dir() else folder.parent) / RECORD_NAME
    try:
        with path.open("rb") as file:
            record = json.loads(file.read(MAX_RECORD_BYTES).decode("utf8"))
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def match_given(origin: Origin, given: Sequence[Path]) -> Dict[str, Path]:
    """Find the files of a biLM among local files: by published name, by name in the folder, or by suffix.

    RETURNS (Dict[str, Path]): The local file of each name in the folder.
    RAISES (ValueError): EL365 if there is none, or several, for a file.
    """
    paths = [path for place in given for path in (sorted(place.iterdir()) if place.is_dir() else [place])]
    absent = [f"'{path}' does not exist" for path in paths if not path.is_file() and not path.is_dir()]
    paths = [path for path in paths if path.is_file() and (path in given or not is_hidden(path.name))]
    found = {file.name: _candidates(file, paths, len(origin.files)) for file in origin.files}
    problems = absent + [_problem(file, found[file.name]) for file in origin.files if len(found[file.name]) != 1]
    if problems:
        raise ValueError(Errors.EL365.format(name=origin.name, problems="".join(f"\n- {text}" for text in problems)))
    return {name: candidates[0] for name, candidates in found.items()}


def _candidates(file: OriginFile, paths: List[Path], n_files: int) -> List[Path]:
    published = file.path.rpartition("/")[2]
    for name in (published, file.name):
        exact = [path for path in paths if path.name == name]
        if exact:
            return exact
    if n_files == 1 and len(paths) == 1:
        return paths
    return [path for path in paths if path.suffix == Path(file.name).suffix]


def _problem(file: OriginFile, candidates: List[Path]) -> str:
    published = file.path.rpartition("/")[2]
    if not candidates:
        return f"{published} is missing"
    return f"{published} may be any of {', '.join(str(path) for path in candidates)}"


def _check_folder(origin: Origin, folder: Path, force: bool) -> None:
    if folder.is_file():
        raise ValueError(Errors.EL025.format(path=folder, kind="file"))
    parts = [part_of(folder, file) for file in origin.files]
    own = {path.name for part in parts for path in (part, note_of(part))}
    if folder.is_dir() and not force and any(path.name not in own for path in folder.iterdir()):
        raise ValueError(Errors.EL025.format(path=folder, kind="folder with files"))
    if folder.is_dir():
        find_replaceable(folder, known=_recorded_names(folder) | own)


def _check_given(origin: Origin, sources: Mapping[str, Path]) -> None:
    for file in origin.files:
        check_file(sources[file.name], file.name, file.sha256, file.n_bytes)
    check_facts(origin, sources)


def _copy(source: Path, part: Path) -> str:
    shutil.copyfile(source, part)
    return str(source)


def _check_parts(origin: Origin, folder: Path) -> None:
    """Compare complete downloads with what is documented. Wrong ones are removed, so that none is continued."""
    parts = {file.name: part_of(folder, file) for file in origin.files}
    try:
        check_facts(origin, parts)
    except ValueError:
        for part in parts.values():
            part.unlink(missing_ok=True)
            note_of(part).unlink(missing_ok=True)
        raise


def _put_in_place(origin: Origin, folder: Path, places: Mapping[str, str]) -> Tuple[Downloaded, ...]:
    """Rename all files when all of them are complete, then write the record."""
    files = []
    for file in origin.files:
        part = part_of(folder, file)
        files.append(
            Downloaded(file.name, places[file.name], part.stat().st_size, hash_file(part), file.sha256 is not None)
        )
    for name in find_replaceable(folder, known=_recorded_names(folder)) - set(places):
        (folder / name).unlink(missing_ok=True)
    for file in origin.files:
        os.replace(part_of(folder, file), folder / file.name)
        note_of(part_of(folder, file)).unlink(missing_ok=True)
    _write_record(origin, folder, files)
    return tuple(files)


def _recorded_names(folder: Path) -> Set[str]:
    """Names of the files of an earlier download."""
    files = (read_record(folder) or {}).get("files")
    names = [file.get("name") for file in files if isinstance(file, dict)] if isinstance(files, list) else []
    return {name for name in names if isinstance(name, str) and name and Path(name).name == name}


def _write_record(origin: Origin, folder: Path, files: Sequence[Downloaded]) -> None:
    names = ("name", "language", "format", "note", "licence", "licence_source", "paper", "documented")
    record = {**{name: getattr(origin, name) for name in names}, "files": [asdict(file) for file in files]}
    part = folder / f"{RECORD_NAME}.part"
    part.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf8")
    os.replace(part, folder / RECORD_NAME)
