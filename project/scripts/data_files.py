"""Where the files of a data set are: below a folder of local copies, in the downloads, or in this repository."""

from pathlib import Path
from typing import Dict

from known_datasets import DATASETS, DOWNLOAD_DIR, FILES, PROJECT_DIR, find_files
from messages import Messages


def find_sources(name: str, assets_dir: str = "") -> Dict[str, Path]:
    """name (str): Name in `FILES`.
    assets_dir (str): Folder with local copies, relative to the project's folder; "" for downloads.
    RETURNS (Dict[str, Path]): The file of each split.
    RAISES (ValueError): P000 if the data set is not known.
    RAISES (FileNotFoundError): P001 or P002 if the folder or files are not there.
    """
    if name not in FILES:
        raise ValueError(Messages.P000.format(name=name, known=", ".join(FILES)))
    folder = _find_folder(name, assets_dir)
    found, missing = find_files(FILES[name], folder)
    if missing:
        told = {"name": name, "folder": folder, "missing": "; ".join(missing), "remedy": _remedy(name)}
        raise FileNotFoundError(Messages.P002.format(**told))
    return found


def _find_folder(name: str, assets_dir: str) -> Path:
    folder = (PROJECT_DIR / assets_dir).resolve() if assets_dir else DOWNLOAD_DIR
    if assets_dir and not folder.is_dir():
        told = {"assets_dir": assets_dir, "resolved": folder, "project_dir": PROJECT_DIR, "remedy": _remedy(name)}
        raise FileNotFoundError(Messages.P001.format(hint=_hint(assets_dir), **told))
    return PROJECT_DIR / "assets" / name if _is_ours(name) else folder


def _hint(assets_dir: str) -> str:
    beside = (PROJECT_DIR.parent / assets_dir).resolve()
    return f" Did you mean '../{assets_dir}' ({beside})?" if beside.is_dir() else ""


def _remedy(name: str) -> str:
    is_downloaded = name in DATASETS and DATASETS[name].is_downloaded
    remedy = Messages.OURS if _is_ours(name) else Messages.DOWNLOADED if is_downloaded else Messages.LOCAL
    return remedy.format(project_dir=PROJECT_DIR)


def _is_ours(name: str) -> bool:
    return name in DATASETS and DATASETS[name].is_ours
