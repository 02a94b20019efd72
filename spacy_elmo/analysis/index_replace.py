"""Rebuild an index without losing the old one: in a folder inside it, whose files take the place of the old files at
the end. A build that fails, is stopped or is killed leaves the old index as it was.
"""

import shutil
from pathlib import Path

from .token_store import FILE, LockedError, TokenStore

NEW = "new.part"
SEARCH_FILES = "vectors-*.faiss*"


def start_replacement(path: Path) -> Path:
    """path (Path): Folder of an index, complete, damaged or absent.
    RETURNS (Path): Folder to build the new index in: `path` itself if it has none, otherwise a new one inside it.
    RAISES (ValueError): EL401 if another process writes the index, or replaces it.
    """
    if not (path / FILE).is_file():
        return path
    _check_unlocked(path)
    new = path / NEW
    if new.exists():  # of a build that was killed
        _check_unlocked(new)
        shutil.rmtree(new)
    return new


def replace_index(path: Path, new: Path) -> None:
    """Put the files of a complete new index in the place of the old ones. Other files stay. The step that counts is one
    rename: a kill before it leaves the old index, a kill after it the new one.

    path (Path): Folder of the old index.
    new (Path): From `start_replacement`, complete and closed.
    RAISES (ValueError): EL401 if another process writes the old index.
    """
    _check_unlocked(path)
    names = [file.name for file in new.glob(SEARCH_FILES)]
    for name in names:
        (new / name).replace(path / name)
    for journal in path.glob(f"{FILE}-*"):  # it would be applied to the new file
        journal.unlink()
    (new / FILE).replace(path / FILE)
    for file in path.glob(SEARCH_FILES):
        if file.name not in names:
            file.unlink()
    shutil.rmtree(new)


def _check_unlocked(path: Path) -> None:
    try:
        TokenStore(path, can_write=True).close()
    except LockedError:
        raise
    except ValueError:  # damaged: it is replaced
        pass
