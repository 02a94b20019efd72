"""Find the files of a text: by name, in folders and by patterns, each with the format that its suffix says."""

from glob import glob
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

from ..errors import Errors
from .lines import COMPRESSED, STDIN

# What a folder is searched for; other files, when they are named, are text.
SUFFIXES: Dict[str, str] = {".txt": "text", ".jsonl": "jsonl", ".ndjson": "jsonl", ".spacy": "docbin"}
Tell = Callable[[str], Any]
MAX_NAMED = 5  # files that a statement names


def say_nothing(text: str) -> None:
    """text (str): Of no interest."""


def find_files(place: str, tell: Tell = say_nothing) -> List[Path]:
    """place (str): A file; a folder, searched at any depth; a pattern with `*` or `**`; or "-" for stdin.
    tell (Tell): Is told which files of a folder are left out.
    RETURNS (List[Path]): In an order that depends on the names alone.
    RAISES (ValueError): EL133 if there is none.
    """
    path = Path(place)
    if path == STDIN or (path.exists() and not path.is_dir()):
        return [path]
    if path.is_dir():
        found = _search_folder(path, tell)
    else:
        found = [file for file in map(Path, glob(place, recursive=True)) if file.is_file()]
    if not found:
        suffixes = ", ".join([*SUFFIXES, *COMPRESSED])
        raise ValueError(Errors.EL133.format(path=place, suffixes=suffixes))
    return sorted(found, key=lambda file: file.parts)


def kind_of(file: Path) -> Optional[str]:
    """file (Path): A name with one suffix or two.
    RETURNS (Optional[str]): "text", "jsonl" or "docbin"; a compressed file without another suffix is text, None for
        what is no text by its suffix.
    """
    if file.suffix not in COMPRESSED:
        return SUFFIXES.get(file.suffix)
    inner = file.with_suffix("").suffix
    return SUFFIXES.get(inner) if inner else "text"


def name_some(names: Sequence[str]) -> str:
    """RETURNS (str): The first names, and how many more there are."""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more


def _search_folder(folder: Path, tell: Tell) -> List[Path]:
    """Hidden files are not looked at; others that are no text by their suffix are told."""
    files = [file for file in folder.rglob("*") if file.is_file() and not _is_hidden(file.relative_to(folder))]
    found = [file for file in files if kind_of(file) is not None]
    left_out = sorted(str(file.relative_to(folder)) for file in set(files) - set(found))
    if found and left_out:
        names = name_some(left_out)
        tell(f"Left out of '{folder}', files with other suffixes than texts have (name them to read them): {names}")
    return found


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
