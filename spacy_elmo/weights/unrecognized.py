"""Paths without a biLM: which files are missing, or what they have instead, of what this package writes."""

from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import List, Optional, Sequence, Tuple

from ..errors import Errors
from .archive import File, Listing
from .bilm_tf import VECTORS, describe_other_hdf5

# Names of files that other packages of ours write: a pretraining run, an index, the vectors of a corpus.
CHECKPOINT_FILES = ("state.safetensors", "checksums.json")
LOG, CHECKPOINTS, MODELS = "log.jsonl", "checkpoints", ("model-best", "model-last")
INDEX = "tokens.sqlite"
MANIFESTS = ("embed.json", "_embed.json")
WANTED = "weights of a biLM in any known format"
MAX_NAMES = 2000  # files considered
Lines = Sequence[Tuple[str, Sequence[str], str]]  # of formats: name, patterns of required files, description


def refuse_other_file(listing: Listing) -> None:
    """ValueError EL020 for a file that has a known content other than weights."""
    if (content := _content_of(listing)) is not None:
        raise _no_bilm(listing.path, content)
    if listing.path.name in CHECKPOINT_FILES:
        reject_other_folder(listing.path.parent)


def reject_other_folder(path: Path) -> None:
    """ValueError EL020 for a folder without weights that has a known content, such as a pretraining run."""
    if all((path / name).is_file() for name in CHECKPOINT_FILES) or any(path.glob(f"step-*/{CHECKPOINT_FILES[0]}")):
        run = next((folder.parent for folder in (path, path.parent) if folder.name == CHECKPOINTS), None)
        where = "Give the biLM of the run, in its folder model-best or model-last" if run is None else _bilm_of(run)
        raise _no_bilm(path, f"it has checkpoints of a pretraining run, which only `elmo pretrain` reads. {where}")
    if (path / LOG).is_file() and (path / CHECKPOINTS).is_dir():
        raise _no_bilm(path, f"it is the folder of a pretraining run. {_bilm_of(path)}")
    if (path / INDEX).is_file():
        raise _no_bilm(path, "it is an index of tokens. Give the biLM that it was built with")
    if any((path / name).is_file() for name in MANIFESTS):
        raise _no_bilm(path, "it is a folder of vectors, as `elmo embed` writes it. Give the biLM that computes them")


def _no_bilm(path: Path, reason: str) -> ValueError:
    return ValueError(Errors.EL020.format(path=path, reason=reason, expected=WANTED))


def _bilm_of(run: Path) -> str:
    """How to get the biLM of a pretraining run."""
    models = [f"'{run / name}'" for name in MODELS if (run / name).is_dir()]
    if models:
        return f"Give its biLM: {' or '.join(models)}"
    return (
        f"It has no biLM yet: '{run / MODELS[-1]}' is written at each validation and when the run is stopped. Continue "
        f"it: `python -m spacy elmo pretrain CONFIG {quote(str(run))} --resume`, with the options of the first time"
    )


def _content_of(listing: Listing) -> Optional[str]:
    path, head = listing.path, File(listing.path).read_head()
    suffix = path.suffix.lower()
    if suffix == ".onnx" or (head.startswith(b"\x08") and b"spacy-elmo" in head[:32]):
        return "it is an ONNX graph, which is written for other programs, not read. Give the weights it was made from"
    if suffix == ".spacy":
        return "it is a file of spaCy Docs. Give the biLM that computes their vectors"
    if suffix == ".whl":
        return "it is a package. Install it with pip, and pass its name to `spacy.load`"
    is_npz = listing.kind == "zip" and listing.files and all(name.endswith(".npy") for name in listing.files)
    if head.startswith(b"PAR1") or is_npz:
        return VECTORS
    return describe_other_hdf5(path) if listing.kind == "hdf5" else None


def describe_missing(listing: Listing, formats: Lines, packaged: str) -> str:
    """The message of EL020 for a path in no format, with the files that are missing for each of the formats; `packaged`
    is its last line.
    """
    path = listing.path
    names = list(listing.deep_files)[:MAX_NAMES] if listing.file is None else None
    if names is not None and listing.kind != "folder":  # folders in an archive do not matter
        names = [PurePosixPath(name).name for name in names]
    reason = "it is in no known format" if names is not None else "it is a file in no known format"
    lines = [f"{name}: {_describe_files(names, required)}{text}" for name, required, text in formats]
    packed = [name for name, required, _ in formats if path.is_file() and has_all(names or [], required)]
    if packed:
        tool, folder = "zipfile" if listing.kind == "zip" else "tarfile", f"{path}_files"
        reason = (
            f"it is an archive with the files of {' or '.join(packed)}, which is not read in place. Unpack it, and "
            f"pass the folder with these files: `python -m {tool} -e {quote(str(path))} {quote(folder)}`"
        )
    return Errors.EL020.format(path=path, reason=reason, expected="".join(f"\n- {line}" for line in [*lines, packaged]))


def has_all(names: Sequence[str], required: Sequence[str]) -> bool:
    """Whether each of the patterns has a name."""
    return all(_match_names(pattern, names) for pattern in required)


def _describe_files(names: Optional[Sequence[str]], required: Sequence[str]) -> str:
    """For each file of a format that it is there, or that it is missing."""
    if names is None:
        return ""
    here, texts = [name for name in names if "/" not in name], []
    for pattern in required:
        matching = _match_names(pattern, here)
        texts.append(f"{matching[0]} is there" if matching else f"{pattern.replace('|', ' or ')} is missing")
    return f"{', '.join(texts)}; it is "


def _match_names(pattern: str, names: Sequence[str]) -> List[str]:
    return [name for name in names if any(fnmatch(name, each) for each in pattern.split("|"))]
