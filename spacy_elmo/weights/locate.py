"""Find the files of a biLM behind one path: a folder, an HDF5 file beside its options, a zip, a packaged name."""

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable, List, Optional, Sequence, Union

from ..errors import Errors
from .atomic import aside_of
from .sources import PathLike, Source, decoding
from .unreadable import recognize

MODELS_DIR = Path(__file__).parent.parent / "models"
PACKAGED_NAMES = ("en_elmo_sm",)

ZIP_MAGIC = b"PK\x03\x04"
HDF5_SUFFIXES = (".hdf5", ".h5")
TOKEN_EMBEDDINGS_NAME = "token_embeddings.hdf5"
VOCAB_NAMES = ("vocab.txt", "vocab.txt.gz")  # zips of NLPL have the latter
NATIVE_NAMES = ("config.json", "weights.safetensors")



@dataclass(frozen=True)
class TFFiles:
    """The files of a bilm-tf model.

    options (Source): options.json.
    weights (Source): The HDF5 file.
    vocab (Optional[Source]): One word a line.
    token_embeddings (Optional[Source]): Cached word vectors, only as our own exporter names them.
    """

    options: Source
    weights: Source
    vocab: Optional[Source] = None
    token_embeddings: Optional[Source] = None


@dataclass(frozen=True)
class NativeFiles:
    """A folder in our own format.

    folder (Path): Holds config.json and weights.safetensors.
    """

    folder: Path


def locate(path: PathLike) -> Union[TFFiles, NativeFiles]:
    """path (PathLike): Folder, .hdf5 file, .zip file, or the name of a packaged model.
    RETURNS (Union[TFFiles, NativeFiles]): What is there.
    RAISES (ValueError): EL020 if there is nothing known, EL021 if it is not clear which files are meant, EL022 for a
        damaged zip.
    """
    if isinstance(path, str) and path in PACKAGED_NAMES:
        return _packaged(path)
    path = Path(path)
    if not path.exists() and aside_of(path).is_dir():
        path = aside_of(path)  # a process was killed, or is about to put another one in its place
    if path.exists() and path.suffix not in HDF5_SUFFIXES:
        _refuse_unreadable(path)
    if path.is_dir():
        return _in_folder(path)
    if path.suffix in HDF5_SUFFIXES and path.is_file():
        return _beside_weights(path)
    if path.is_file() and _is_meant_as_zip(path):
        return _in_zip(path)
    reason = "the file is of no known kind" if path.exists() else "there is no such file or folder"
    raise ValueError(Errors.EL020.format(path=path, reason=reason, wanted=_WANTED))


_WANTED = (
    "a folder with config.json and weights.safetensors; a folder with options.json and one .hdf5 file; "
    "an .hdf5 file beside its options.json; a .zip with both; or one of the packaged names "
    f"({', '.join(PACKAGED_NAMES)})"
)


def _refuse_unreadable(path: Path) -> None:
    """A truncated zip is left to those who read zips."""
    found = recognize(path) if path.is_dir() or path.is_file() else None
    if found is not None:
        raise ValueError(Errors.EL040.format(path=path, kind=found[0], remedy=found[1]))


def _packaged(name: str) -> NativeFiles:
    folder = MODELS_DIR / name
    if not all((folder / file_name).is_file() for file_name in NATIVE_NAMES):
        raise ValueError(Errors.EL024.format(name=name, folder=folder))
    return NativeFiles(folder)


def _in_folder(folder: Path) -> Union[TFFiles, NativeFiles]:
    names = {path.name for path in folder.iterdir()}
    if set(NATIVE_NAMES) <= names:
        return NativeFiles(folder)
    if "weights.safetensors" in names:
        reason = "config.json is missing beside weights.safetensors"
        raise ValueError(Errors.EL020.format(path=folder, reason=reason, wanted=_WANTED))
    return _pick(str(folder), [Source(path) for path in sorted(folder.iterdir()) if path.is_file()])


def _is_meant_as_zip(path: Path) -> bool:
    """By its name or first bytes: a truncated zip lacks the end, which makes it one for zipfile."""
    with path.open("rb") as file:
        return path.suffix == ".zip" or file.read(len(ZIP_MAGIC)) == ZIP_MAGIC


def _in_zip(path: Path) -> TFFiles:
    with decoding(path, "zip"), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    members = [name for name in names if not name.endswith("/") and not name.startswith("__MACOSX")]
    return _pick(str(path), [Source(path, member) for member in sorted(members)])


def _beside_weights(weights: Path) -> TFFiles:
    """The options whose name fits best: the same prefix, then plain, then the only ones there."""
    prefix = re.sub(r"(weights|model)$", "", weights.stem)
    names = [f"{prefix}options.json", f"{weights.stem}_options.json", f"{weights.stem}.json", "options.json"]
    options = _first_file(weights.parent, names)
    if options is None:
        found = _options_of([Source(path) for path in sorted(weights.parent.glob("*.json"))])
        options = _only(found, str(weights), "options", names)
    vocab = _first_file(weights.parent, [f"{prefix}vocab.txt", *VOCAB_NAMES])
    embeddings = _first_file(weights.parent, [TOKEN_EMBEDDINGS_NAME])
    return TFFiles(options, Source(weights), vocab, embeddings)


def _pick(where: str, sources: Sequence[Source]) -> TFFiles:
    """Exactly one options file and one weights file among the files of a folder or zip."""
    embeddings = [source for source in sources if source.name == TOKEN_EMBEDDINGS_NAME]
    weights = [source for source in sources if source.name.endswith(HDF5_SUFFIXES) and source not in embeddings]
    options = _options_of(sources)
    if not weights or not options:
        lacking = " and ".join(kind for kind, found in (("options", options), ("HDF5 weights", weights)) if not found)
        raise ValueError(Errors.EL020.format(path=where, reason=f"it has no {lacking}", wanted=_WANTED))
    return TFFiles(
        _only(options, where, "options", ["options.json"]),
        _only(weights, where, "HDF5 weights", ["weights.hdf5"]),
        next((source for name in VOCAB_NAMES for source in sources if source.name == name), None),
        next(iter(embeddings), None),
    )


def _options_of(sources: Iterable[Source]) -> List[Source]:
    return [source for source in sources if source.name.endswith("options.json")]


def _first_file(folder: Path, names: Iterable[str]) -> Optional[Source]:
    return next((Source(folder / name) for name in names if (folder / name).is_file()), None)


def _only(found: Sequence[Source], where: str, kind: str, wanted: Iterable[str]) -> Source:
    if not found:
        reason = f"it is an HDF5 file, but there are no {kind} beside it"
        names = f"{' or '.join(wanted)}, or a file that `options=...` (`--options`) names"
        raise ValueError(Errors.EL020.format(path=where, reason=reason, wanted=names))
    if len(found) > 1:
        names = ", ".join(source.name for source in found)
        raise ValueError(Errors.EL021.format(path=where, n=len(found), kind=kind, names=names))
    return found[0]
