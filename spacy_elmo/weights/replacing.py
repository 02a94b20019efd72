"""Which files of a folder may be replaced or deleted when a biLM is written into it."""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Collection, Iterable, Optional, Set

from ..errors import Errors
from .formats import ALLENNLP, BILM_TF, FORMATS, NATIVE, Format
from .limits import shorten
from .sources import is_hidden

PATTERNS = [part for known in FORMATS for pattern in known.required for part in pattern.split("|")]
NAMES = {name for known in FORMATS for name in known.file_names}


def find_replaceable(folder: Path, chosen: Optional[Format] = None, known: Collection[str] = ()) -> Set[str]:
    """Find the files of the biLM in a folder. If they stayed beside those of another one, the folder would have two.

    Only a whole biLM is replaced, as this package writes it: config.json alone may belong to something else, a
    model.tar.gz may be a trained model of AllenNLP, and weights with names of their own were not written here.

    folder (Path): An existing folder.
    chosen (Optional[Format]): The format that is written: an archive replaces an archive.
    known (Collection[str]): Names of further files that may be replaced.
    RETURNS (Set[str]): Names in the folder, empty if it has no biLM. Other files stay.
    RAISES (ValueError): EL372 for files of a biLM that may not be replaced.
    """
    found = {file.name for file in folder.iterdir() if _belongs_to_a_model(file.name)} - set(known)
    writable = (NATIVE, BILM_TF, *((ALLENNLP,) if chosen is ALLENNLP else ()))
    if found and not any(_is_whole(found, format) for format in writable):
        raise ValueError(Errors.EL372.format(path=folder, names=shorten(", ".join(sorted(found)))))
    return found | {name for name in known if (folder / name).is_file()}


def check_source(source: str, target: Path) -> None:
    """source (str): Path of the biLM that is read, or the name of a packaged one.
    target (Path): Folder or file that it is converted to.
    RAISES (ValueError): EL373 if this would replace what is read.
    """
    read, written = Path(source.partition("#")[0]).resolve(), target.resolve()
    if read.exists() and (read == written or written in read.parents):
        raise ValueError(Errors.EL373.format(source=source, target=target))


def _belongs_to_a_model(name: str) -> bool:
    return name in NAMES or (not is_hidden(name) and any(fnmatchcase(name, pattern) for pattern in PATTERNS))


def _is_whole(found: Set[str], format: Format) -> bool:
    if not found <= set(format.file_names):
        return False
    return format is ALLENNLP or all(_has(found, pattern.split("|")) for pattern in format.required)


def _has(found: Set[str], patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in found for pattern in patterns)
