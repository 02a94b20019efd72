"""Find the files of a bilm-tf model: in a folder, in a zip, or an HDF5 file with its options in the same folder."""

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable, List, Optional, Sequence

from ...errors import Errors
from ..sources import Source, decoding

ZIP_MAGIC = b"PK\x03\x04"
HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
HDF5_SUFFIXES = (".hdf5", ".h5")
TOKEN_EMBEDDINGS_NAME = "token_embeddings.hdf5"
VOCAB_NAMES = ("vocab.txt", "vocab.txt.gz")  # zips of NLPL have the latter
WANTED = "a folder with options.json and one .hdf5 file; an .hdf5 file next to its options.json; a .zip with both"


@dataclass(frozen=True)
class TFFiles:
    """The files of a bilm-tf model.

    options (Source): options.json.
    weights (Source): The HDF5 file.
    vocab (Optional[Source]): Vocabulary, one word per line.
    token_embeddings (Optional[Source]): Precomputed word vectors, under the name that our exporter uses.
    """

    options: Source
    weights: Source
    vocab: Optional[Source] = None
    token_embeddings: Optional[Source] = None


def detect_bilm_tf(path: Path) -> Optional[TFFiles]:
    """path (Path): A folder or file that exists.
    RETURNS (Optional[TFFiles]): The files; None for a file or folder in another format, or without options or weights.
    RAISES (ValueError): EL020 for an HDF5 file without options, EL021 if there are several candidates, EL022 for a
        damaged zip.
    """
    if path.is_dir():
        files = [Source(own) for own in sorted(path.iterdir()) if own.is_file()]
        return _pick(str(path), files)
    if path.suffix in HDF5_SUFFIXES or _has_magic(path, HDF5_MAGIC):
        return _beside_weights(path)
    if path.name.endswith("options.json"):
        return _beside_options(path)
    return _in_zip(path) if _is_meant_as_zip(path) else None


def _is_meant_as_zip(path: Path) -> bool:
    """By name or first bytes, since zipfile does not recognize a truncated zip."""
    return path.suffix == ".zip" or _has_magic(path, ZIP_MAGIC)


def _has_magic(path: Path, magic: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(magic)) == magic


def _is_readable_hdf5(path: Path) -> bool:
    try:
        return _has_magic(path, HDF5_MAGIC)
    except OSError:  # a file that the user may not read
        return False


def _in_zip(path: Path) -> Optional[TFFiles]:
    with decoding(path, "zip"), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    members = [name for name in names if not name.endswith("/") and not name.startswith("__MACOSX")]
    return _pick(str(path), [Source(path, member) for member in sorted(members)])


def _beside_weights(weights: Path) -> TFFiles:
    """The options with the same prefix as the weights, else options.json, else the only options in the folder."""
    prefix = re.sub(r"(weights|model)$", "", weights.stem)
    names = [f"{prefix}options.json", f"{weights.stem}_options.json", f"{weights.stem}.json", "options.json"]
    options = _first_file(weights.parent, names)
    if options is None:
        found = _options_of([Source(path) for path in sorted(weights.parent.glob("*.json"))])
        options = _only(found, str(weights), "options", names)
    vocab = _first_file(weights.parent, [f"{prefix}vocab.txt", *VOCAB_NAMES])
    embeddings = _first_file(weights.parent, [TOKEN_EMBEDDINGS_NAME])
    return TFFiles(options, Source(weights), vocab, embeddings)


def _beside_options(options: Path) -> Optional[TFFiles]:
    """The files in the folder of the options: those with the same prefix, if weights are among them."""
    prefix = options.name.removesuffix("options.json")
    others = [path for path in sorted(options.parent.iterdir()) if path.is_file()]
    others = [path for path in others if not path.name.endswith("options.json")]
    named = [path for path in others if path.name.startswith(prefix) or path.suffix not in HDF5_SUFFIXES]
    is_named = any(path.suffix in HDF5_SUFFIXES for path in named)
    return _pick(str(options), [Source(path) for path in (options, *(named if is_named else others))])


def _pick(where: str, sources: Sequence[Source]) -> Optional[TFFiles]:
    """Exactly one options file and one weights file among the files of a folder or zip, or None."""
    embeddings = [source for source in sources if source.name == TOKEN_EMBEDDINGS_NAME]
    weights = [source for source in sources if source.name.endswith(HDF5_SUFFIXES) and source not in embeddings]
    options = _options_of(sources)
    if options and not weights:  # another suffix
        plain = [source for source in sources if source.member is None and source not in embeddings]
        weights = [source for source in plain if _is_readable_hdf5(source.path)]
    if not weights or not options:
        return None
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
        reason = f"it is an HDF5 file without {kind} in the same folder"
        names = f"{' or '.join(wanted)}, or a file given by `options=...` (`--options`)"
        raise ValueError(Errors.EL020.format(path=where, reason=reason, wanted=names))
    if len(found) > 1:
        names = ", ".join(source.name for source in found)
        raise ValueError(Errors.EL021.format(path=where, n=len(found), kind=kind, names=names))
    return found[0]
