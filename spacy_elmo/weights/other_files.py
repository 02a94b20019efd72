"""Files that are not weights, though this package writes them: what they are, and what to give instead."""

from pathlib import Path
from shlex import quote
from typing import Optional

import h5py

from ..errors import Errors
from .sources import Source, list_sources

# Names of files that other packages of ours write: a pretraining run, an index, the vectors of a corpus.
CHECKPOINT_FILES = ("state.safetensors", "checksums.json")
LOG, CHECKPOINTS, MODELS = "log.jsonl", "checkpoints", ("model-best", "model-last")
INDEX = "tokens.sqlite"
MANIFESTS = ("embed.json", "_embed.json")
FIRST_VECTORS = ("0", "sentence_to_index")  # datasets of vectors in HDF5, also of AllenNLP and bilm-tf
WORD_TABLE = "embedding"  # the only dataset of token embeddings
WANTED = "weights of a biLM in any known format"
VECTORS = "it is a file of vectors, as `elmo embed` writes it. Give the biLM that computes them"
TOKEN_EMBEDDINGS = (
    "it has token embeddings, one vector per word. Give the weights of the biLM, and this file as token_embeddings=... "
    "(`--token-embeddings`)"
)


def refuse_other_file(path: Path) -> None:
    """RAISES (ValueError): EL020 for a file that has a known content other than weights."""
    if not path.is_file():
        return
    if (kind := _kind_of_file(path)) is not None:
        raise _no_bilm(path, kind)
    if path.name in CHECKPOINT_FILES:
        refuse_other_folder(path.parent)


def refuse_other_folder(path: Path) -> None:
    """RAISES (ValueError): EL020 for a folder without weights that has a known content, such as a pretraining run."""
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
    return ValueError(Errors.EL020.format(path=path, reason=reason, wanted=WANTED))


def _bilm_of(run: Path) -> str:
    """How to get the biLM of a pretraining run."""
    models = [f"'{run / name}'" for name in MODELS if (run / name).is_dir()]
    if models:
        return f"Give its biLM: {' or '.join(models)}"
    return (
        f"It has no biLM yet: '{run / MODELS[-1]}' is written at each validation and when the run is stopped. Continue "
        f"it: `python -m spacy elmo pretrain CONFIG {quote(str(run))} --resume`, with the options of the first time"
    )


def _kind_of_file(path: Path) -> Optional[str]:
    source = Source(path)
    head, kind = source.read_head(), source.kind()
    if path.suffix == ".onnx" or (head.startswith(b"\x08") and b"spacy-elmo" in head[:32]):
        return "it is an ONNX graph, which is written for other programs, not read. Give the weights it was made from"
    if path.suffix == ".spacy":
        return "it is a file of spaCy Docs. Give the biLM that computes their vectors"
    if path.suffix == ".whl":
        return "it is a package. Install it with pip, and pass its name to `spacy.load`"
    if head.startswith(b"PAR1") or (kind == "zip" and _is_npz(path)):
        return VECTORS
    return kind_of_hdf5(path) if kind == "hdf5" else None


def kind_of_hdf5(path: Path) -> Optional[str]:
    """RETURNS (Optional[str]): What an HDF5 file is that has no weights of a biLM; None for all others."""
    try:
        with h5py.File(path) as file:
            if any(name in file for name in FIRST_VECTORS):
                return VECTORS
            return TOKEN_EMBEDDINGS if len(file) == 1 and WORD_TABLE in file else None
    except OSError:  # damaged or compressed: its reader says so
        return None


def _is_npz(path: Path) -> bool:
    try:
        names = list_sources(path)
    except ValueError:  # as above
        return False
    return bool(names) and all(name.endswith(".npy") for name in names)
