"""Find the files of an AllenNLP model: in a tar archive, in a folder, or next to a state dict."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, List, Optional, Union

from ..limits import MAX_JSON_BYTES
from ..sources import Source, check_size, parse_json
from .jsonnet import to_json
from .tar import TarScan, is_tar, read_member, scan_tar

CONFIG_NAME = "config.json"
OPTIONS_NAME = "options.json"
ARCHIVE_NAME = "model.tar.gz"
WEIGHTS_NAMES = ("weights.th", "best.th")  # in an archive; in the folder of a training
STATE_SUFFIXES = (".th", ".pt", ".pth")
INNER_FOLDERS = ("vocabulary", "fta")
WANTED = (
    "an AllenNLP model.tar.gz or its folder, with weights.th or best.th (config.json is read if there is one), or a "
    "state dict (.th, .pt, .pth)"
)


@dataclass(frozen=True)
class FolderFiles:
    """Files in a folder.

    path (Path): The folder.
    """

    path: Path

    @property
    def names(self) -> List[str]:
        """RETURNS (List[str]): Names of its files, and of those in the folders that AllenNLP writes."""
        found = [file.name for file in sorted(self.path.iterdir()) if file.is_file()]
        for name in INNER_FOLDERS:
            if (self.path / name).is_dir():
                found += [f"{name}/{file.name}" for file in sorted((self.path / name).iterdir()) if file.is_file()]
        return found

    def read(self, name: str, max_bytes: Optional[int] = None) -> bytes:
        """RETURNS (bytes): The content of a file.
        RAISES (ValueError, OSError): See `Source.read_bytes`.
        """
        return Source(self.path / name).read_bytes(max_bytes)

    def place(self, name: str) -> str:
        """RETURNS (str): A file, for messages."""
        return str(self.path / name)


@dataclass(frozen=True)
class TarFiles:
    """Files in a tar archive whose headers were checked.

    path (Path): The archive.
    root (str): Folder in it with the model, "" for none.
    scan (TarScan): Its names and small files.
    """

    path: Path
    root: str
    scan: TarScan

    @property
    def names(self) -> List[str]:
        """RETURNS (List[str]): Names of its files, relative to the root."""
        return [name[len(self.root) :] for name in self.scan.names if name.startswith(self.root)]

    def read(self, name: str, max_bytes: Optional[int] = None) -> bytes:
        """RETURNS (bytes): The content of a file; its size was checked against that of the archive.
        RAISES (ValueError): EL036 if it has more than `max_bytes`, EL022 or EL036 if the archive has changed.
        """
        content = self.scan.contents.get(self.root + name)
        if content is None:
            return read_member(self.path, self.root + name, max_bytes)
        check_size(self.place(name), len(content), max_bytes)
        return content

    def place(self, name: str) -> str:
        """RETURNS (str): A file, for messages."""
        return f"{self.path}:{self.root}{name}"


@dataclass(frozen=True)
class AllenNLPFiles:
    """The files of an AllenNLP model.

    files (Union[FolderFiles, TarFiles]): Where they are.
    weights (str): Name of the state dict.
    """

    files: Union[FolderFiles, TarFiles]
    weights: str

    def has(self, name: str) -> bool:
        """RETURNS (bool): Whether there is a file of this name."""
        return name in self.files.names

    def read_json(self, name: str) -> Any:
        """RETURNS (Any): The value of a JSON file, in which AllenNLP allows some Jsonnet.
        RAISES (ValueError): EL022 or EL036.
        """
        place = self.files.place(name)
        content = self.files.read(name, MAX_JSON_BYTES)
        try:
            return parse_json(content, place)
        except ValueError:
            return parse_json(to_json(content), place)

    def read_config(self) -> Any:
        """RETURNS (Any): The config, {} if there is none."""
        return self.read_json(CONFIG_NAME) if self.has(CONFIG_NAME) else {}


def detect_allennlp(path: Path) -> Optional[AllenNLPFiles]:
    """path (Path): A folder or file that exists.
    RETURNS (Optional[AllenNLPFiles]): The files, None for another format.
    RAISES (ValueError): EL022, EL036 or EL310 for a tar archive that is damaged or refused.
    """
    if path.is_dir():
        own = next((name for name in WEIGHTS_NAMES if (path / name).is_file()), None)
        if own is not None:
            return AllenNLPFiles(FolderFiles(path), own)
        return detect_allennlp(path / ARCHIVE_NAME) if (path / ARCHIVE_NAME).is_file() else None
    if path.suffix in STATE_SUFFIXES:
        return AllenNLPFiles(FolderFiles(path.parent), path.name)
    return _in_tar(path) if path.is_file() and is_tar(path) else None


def _in_tar(path: Path) -> Optional[AllenNLPFiles]:
    """The state dict in the outermost folder that has one; weights.th before best.th."""
    scan = scan_tar(path, _is_small)
    found = [PurePosixPath(name) for name in scan.names if PurePosixPath(name).name in WEIGHTS_NAMES]
    if not found:
        return None
    best = min(found, key=lambda name: (len(name.parts), WEIGHTS_NAMES.index(name.name)))
    root = "" if best.parent == PurePosixPath(".") else f"{best.parent}/"
    return AllenNLPFiles(TarFiles(path, root, scan), best.name)


def _is_small(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix in (".json", ".txt") or (path.parent.name == "fta" and path.suffix == ".options_file")
