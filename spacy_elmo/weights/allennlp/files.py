"""Find the files of an AllenNLP model: in a tar archive, in a folder, or next to a state dict."""

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Iterable, List, Mapping, Optional, Tuple

from ...errors import Errors
from ..limits import MAX_JSON_BYTES
from ..native.files import has_network
from ..sources import Source, decode_text, is_hidden, list_sources, parse_json
from .jsonnet import to_json
from .tar import TarMember, is_tar, scan_tar

CONFIG_NAME = "config.json"
OPTIONS_NAME = "options.json"
ARCHIVE_NAME = "model.tar.gz"
WEIGHTS_NAMES = ("weights.th", "best.th")  # in an archive; in the folder of a training
# Of the epochs of a training: model_state_epoch_3.th; in AllenNLP 2 model_state_e3_b0.th.
EPOCH_PATTERN = re.compile(r"model_state_e.*\.th")
TRAINING_STATE = "training_state_"  # the optimizer
STATE_SUFFIXES = (".th", ".pt", ".pth")
INNER_FOLDERS = ("vocabulary", "fta")
WANTED = (
    "an AllenNLP model.tar.gz or its folder, with weights.th, best.th or model_state_epoch_N.th (config.json is read "
    "if there is one), or a state dict: a file of `torch.save` or safetensors, of any name"
)


@dataclass(frozen=True)
class AllenNLPFiles:
    """The files of an AllenNLP model.

    base (str): Beginning of the path of a file, for messages: the folder and "/", or the archive and ":".
    sources (Mapping[str, Source]): All files, by name relative to the base.
    weights (str): Name of the state dict.
    """

    base: str
    sources: Mapping[str, Source]
    weights: str

    def place(self, name: str) -> str:
        """RETURNS (str): A file, for messages."""
        return str(self.sources.get(name, f"{self.base}{name}"))

    def read_json(self, name: str) -> Any:
        """RETURNS (Any): The value of a JSON file, in which AllenNLP allows some Jsonnet.
        RAISES (ValueError): EL022 or EL036.
        """
        content = self.sources[name].read_bytes(MAX_JSON_BYTES)
        try:
            return parse_json(content, self.place(name))
        except ValueError as error:
            try:
                return parse_json(to_json(decode_text(content).encode("utf8")), self.place(name))
            except ValueError:
                raise error from None  # with the position in the file

    def read_config(self) -> Any:
        """RETURNS (Any): The config, {} if there is none."""
        return self.read_json(CONFIG_NAME) if CONFIG_NAME in self.sources else {}


def detect_allennlp(path: Path) -> Optional[AllenNLPFiles]:
    """path (Path): A folder or file that exists.
    RETURNS (Optional[AllenNLPFiles]): The files, None for another format.
    RAISES (ValueError): EL022, EL036 or EL310 for a tar archive that is damaged or refused.
    """
    if path.is_dir():
        sources = list_sources(path, INNER_FOLDERS)
        if not any(name in sources for name in WEIGHTS_NAMES) and (path / ARCHIVE_NAME).is_file():
            return detect_allennlp(path / ARCHIVE_NAME)
        own = _choose_weights(sources)
        return None if own is None else AllenNLPFiles(f"{path}/", sources, own)
    source = Source(path)
    if _is_state_dict(source) or (source.name.endswith(STATE_SUFFIXES) and not source.kind()):
        beside = list_sources(path.parent, INNER_FOLDERS)
        return AllenNLPFiles(f"{path.parent}/", {**beside, source.name: source}, source.name)
    return _in_tar(path) if path.is_file() and is_tar(path) else None


def detect_state_dict(path: Path) -> Optional[AllenNLPFiles]:
    """path (Path): A folder in no other format.
    RETURNS (Optional[AllenNLPFiles]): Its files, if there is a state dict of any name among them.
    RAISES (ValueError): EL021 if there are several.
    """
    sources = list_sources(path, INNER_FOLDERS) if path.is_dir() else {}
    names = [name for name in sources if "/" not in name and not name.startswith(TRAINING_STATE)]
    found = [name for name in names if _is_state_dict(sources[name])]
    if len(found) > 1:
        raise ValueError(Errors.EL021.format(path=path, n=len(found), kind="state dicts", names=", ".join(found)))
    return AllenNLPFiles(f"{path}/", sources, found[0]) if found else None


def _is_state_dict(source: Source) -> bool:
    kind = source.kind()
    return kind == "torch" or (kind == "safetensors" and not has_network(source))


def _choose_weights(names: Iterable[str]) -> Optional[str]:
    """The state dict of a training: the best one, else that of the newest epoch."""
    found = list(names)
    own = [name for name in WEIGHTS_NAMES if name in found]
    epochs = sorted((name for name in found if EPOCH_PATTERN.fullmatch(name)), key=_epoch)
    return next(iter([*own, *reversed(epochs)]), None)


def _epoch(name: str) -> List[int]:
    """RETURNS (List[int]): Epoch, and what follows: a batch or the time of day."""
    return [int(number) for number in re.findall(r"\d{1,18}", name)]


def _in_tar(path: Path) -> Optional[AllenNLPFiles]:
    """The state dict in the outermost folder that has one."""
    scan = scan_tar(path, _is_small)
    names = [name for name in scan.names if not is_hidden(name)]
    found: List[Tuple[int, str, str]] = []
    for folder in {str(PurePosixPath(name).parent) for name in names}:
        root = "" if folder == "." else f"{folder}/"
        own = _choose_weights(name[len(root) :] for name in names if name.startswith(root))
        if own is not None:
            found.append((root.count("/"), root, own))
    if not found:
        return None
    _, root, own = min(found)
    inside = [name for name in names if name.startswith(root)]
    sources = {name[len(root) :]: TarMember(path, name, scan.contents.get(name)) for name in inside}
    return AllenNLPFiles(f"{path}:{root}", sources, own)


def _is_small(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix in (".json", ".txt") or (path.parent.name == "fta" and path.suffix == ".options_file")
