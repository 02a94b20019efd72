"""Find the files of a bilm-tf model: in a folder, in a zip, or an HDF5 file with its options in the same folder."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterable, List, Optional, Sequence

from ...errors import Errors
from ..sources import Source, list_sources

HDF5_SUFFIXES = (".hdf5", ".h5")
TOKEN_EMBEDDINGS_NAME = "token_embeddings.hdf5"
VOCAB_NAME = "vocab.txt"  # in zips of NLPL with .gz
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
        return _pick(str(path), list_sources(path))
    source, kind = Source(path), Source(path).kind()
    if kind == "hdf5" or source.name.endswith(HDF5_SUFFIXES):
        return _beside_weights(source)
    if source.name.endswith("options.json"):
        return _beside_options(source)
    # By name, too, since zipfile does not recognize a truncated zip.
    return _pick(str(path), list_sources(path)) if kind == "zip" or path.suffix == ".zip" else None


def find_options(sources: Iterable[Source]) -> List[Source]:
    """RETURNS (List[Source]): The files whose names end in options.json."""
    return [source for source in sources if source.name.endswith("options.json")]


def _beside_weights(weights: Source) -> TFFiles:
    """The options with the same prefix as the weights, else options.json, else the only options in the folder."""
    stem = Path(weights.name).stem
    prefix = re.sub(r"(weights|model)$", "", stem)
    beside = list_sources(weights.path.parent)
    names = [f"{prefix}options.json", f"{stem}_options.json", f"{stem}.json", "options.json"]
    options = next((beside[name] for name in names if name in beside), None)
    if options is None:
        options = _only(find_options(beside.values()), str(weights), "options", names)
    vocab = beside.get(f"{prefix}{VOCAB_NAME}", beside.get(VOCAB_NAME))
    return TFFiles(options, weights, vocab, beside.get(TOKEN_EMBEDDINGS_NAME))


def _beside_options(options: Source) -> Optional[TFFiles]:
    """The files in the folder of the options: those with the same prefix, if weights are among them."""
    prefix = options.name.removesuffix("options.json")
    beside = list_sources(options.path.parent)
    others = {name: source for name, source in beside.items() if not name.endswith("options.json")}
    named = {name: others[name] for name in others if name.startswith(prefix) or not name.endswith(HDF5_SUFFIXES)}
    is_named = any(name.endswith(HDF5_SUFFIXES) for name in named)
    return _pick(str(options), {options.name: options, **(named if is_named else others)})


def _pick(where: str, sources: Dict[str, Source]) -> Optional[TFFiles]:
    """Exactly one options file and one weights file among the files of a folder or zip, or None."""
    found = sources.values()
    options = find_options(found)
    others = [source for source in found if not source.name.endswith(TOKEN_EMBEDDINGS_NAME)]
    named = [source for source in others if source.name.endswith(HDF5_SUFFIXES)]
    weights = [source for source in named if source.kind() in ("hdf5", "")]  # damaged ones, too, for their error
    if options and not weights:  # another suffix
        weights = [source for source in others if source.kind() == "hdf5"]
    if not weights or not options:
        return None
    return TFFiles(
        _only(options, where, "options", ["options.json"]),
        _only(weights, where, "HDF5 weights", ["weights.hdf5"]),
        next((source for source in found if source.name == VOCAB_NAME), None),
        next((source for source in found if source.name == TOKEN_EMBEDDINGS_NAME), None),
    )


def _only(found: Sequence[Source], where: str, kind: str, wanted: Iterable[str]) -> Source:
    if not found:
        reason = f"it is an HDF5 file without {kind} in the same folder"
        names = f"{' or '.join(wanted)}, or a file given by `options=...` (`--options`)"
        raise ValueError(Errors.EL020.format(path=where, reason=reason, wanted=names))
    if len(found) > 1:
        names = ", ".join(source.name for source in found)
        raise ValueError(Errors.EL021.format(path=where, n=len(found), kind=kind, names=names))
    return found[0]
