"""Find text files by path, folder or pattern, and infer their format from the suffix."""

from glob import glob
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

from .._settings import to_path
from ..errors import Errors
from .lines import COMPRESSED, STDIN

# Suffixes searched for in folders. Files with other suffixes are read as text if they are named.
SUFFIXES: Dict[str, str] = {".txt": "text", ".jsonl": "jsonl", ".ndjson": "jsonl", ".spacy": "docbin"}
Tell = Callable[[str], Any]
MAX_NAMED = 5  # file names in a message


def say_nothing(text: str) -> None:
    """text (str): Ignored."""


def find_files(place: str, tell: Tell = say_nothing) -> List[Path]:
    """place (str): A file; a folder, searched at any depth; a pattern with `*` or `**`; or "-" for stdin.
    tell (Tell): Called with a message on files of a folder that are not read.
    RETURNS (List[Path]): Sorted by name.
    RAISES (ValueError): EL133 if there are no files.
    """
    path = to_path(place)
    if path == STDIN or (path.exists() and not path.is_dir()):
        return [path]
    if path.is_dir():
        found = _search_folder(path, tell)
    else:
        found = [file for file in map(Path, glob(str(path), recursive=True)) if file.is_file()]
    if not found:
        suffixes = ", ".join([*SUFFIXES, *COMPRESSED])
        raise ValueError(Errors.EL133.format(path=place, suffixes=suffixes))
    return sorted(found, key=lambda file: file.parts)


def kind_of(file: Path) -> Optional[str]:
    """file (Path): A name with one or two suffixes.
    RETURNS (Optional[str]): "text", "jsonl" or "docbin", None for other suffixes; a compressed file without another
        suffix is text.
    """
    if file.suffix not in COMPRESSED:
        return SUFFIXES.get(file.suffix)
    inner = file.with_suffix("").suffix
    return SUFFIXES.get(inner) if inner else "text"


def format_of(file: Path) -> str:
    """file (Path): A file that was named or found.
    RETURNS (str): Its format. A `.json` file, which folders are not searched for, is read as `jsonl`; files with other
        suffixes are text.
    """
    name = file.with_suffix("") if file.suffix in COMPRESSED else file
    return "jsonl" if name.suffix == ".json" else kind_of(file) or "text"


def name_some(names: Sequence[str]) -> str:
    """RETURNS (str): The first names and the number of others."""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more


def _search_folder(folder: Path, tell: Tell) -> List[Path]:
    """Search a folder without hidden files; `tell` names the files that have other suffixes."""
    files = [file for file in folder.rglob("*") if file.is_file() and not _is_hidden(file.relative_to(folder))]
    found = [file for file in files if kind_of(file) is not None]
    left_out = sorted(str(file.relative_to(folder)) for file in set(files) - set(found))
    if found and left_out:
        names = name_some(left_out)
        tell(f"Files in '{folder}' with other suffixes are not read, unless they are named: {names}")
    return found


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
