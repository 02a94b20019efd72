"""Convert a packaged name or a path to the path of a biLM."""

import os
from pathlib import Path
from typing import Optional, Tuple

from .._choices import AnyPath
from .._settings import to_path
from ..errors import Errors
from .atomic import aside_of
from .native.files import detect_native
from .sources import PathLike

MODELS_DIR = Path(__file__).parent.parent / "models"
PACKAGED_NAMES = ("en_elmo_sm",)
PART_MARK = "#"


def split_part(path: PathLike) -> Tuple[PathLike, Optional[str]]:
    """path (PathLike): A path, or a path, "#" and the name of a biLM in it.
    RETURNS (Tuple[PathLike, Optional[str]]): The path, and the name if the "#" is not part of the path.
    """
    whole, mark, part = str(path).rpartition(PART_MARK)
    return (whole, part) if mark and whole and not to_path(path).exists() else (path, None)


def resolve(path: AnyPath) -> str:
    """Let a path that is read later mean the same file after `os.chdir`.

    path (AnyPath): A path, or the name of a packaged model.
    RETURNS (str): The path from the root, or from the working directory of now; a name or a blank text as it is.
    """
    name = os.path.expanduser(os.fsdecode(path))
    is_path = name.strip() and name not in PACKAGED_NAMES and not os.path.isabs(name)
    return str(Path.cwd() / name) if is_path else name


def locate(path: PathLike) -> Path:
    """path (PathLike): Folder or file, or the name of a packaged model.
    RETURNS (Path): Its path, which need not exist.
    RAISES (ValueError): EL024 if a packaged model is not installed.
    """
    if isinstance(path, str) and path in PACKAGED_NAMES:
        return _packaged(path)
    path = to_path(path)
    # Another process is replacing the folder, or was killed while it did.
    return aside_of(path) if not path.exists() and aside_of(path).is_dir() else path


def _packaged(name: str) -> Path:
    folder = MODELS_DIR / name
    if not folder.is_dir() or detect_native(folder) is None:
        raise ValueError(Errors.EL024.format(name=name, folder=folder))
    return folder
