"""Checkpoints: the complete state of a run on disk, from which it resumes with identical results.

A checkpoint is a folder `step-00001000` with `state.safetensors` (all tensors), `state.json` (everything else) and
`checksums.json` (sha256 of both). It is written atomically, by one rename.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple, Union

from safetensors.torch import load_file, save_file
from torch import Tensor

from ..errors import Errors
from ..util import atomic_folder, hash_file

FOLDER = "checkpoints"
TENSORS, RECORD, CHECKSUMS = "state.safetensors", "state.json", "checksums.json"
NAMES = (TENSORS, RECORD, CHECKSUMS)
# Keys that every `state.json` has; those that were added later are optional.
KEYS = frozenset(
    ("step", "n_tokens", "words", "stream", "optimizer", "loss_scale", "n_ranks", "settings", "bilm", "vocabulary")
    + ("best", "losses", "elapsed_s", "log_bytes")
)


@dataclass(frozen=True)
class Snapshot:
    """The state of a run after an update.

    tensors (Dict[str, Tensor]): Weights, optimizer moments, recurrent states and random number generators, by name.
    record (Dict[str, Any]): Plain JSON types: counters, the position in the corpus, settings.
    """

    tensors: Dict[str, Tensor]
    record: Dict[str, Any]
    path: Optional[Path] = None


def save_checkpoint(output: Path, step: int, snapshot: Snapshot) -> Path:
    """Write a checkpoint into the folder of a run, and return its own folder.

    RAISES (ValueError): If it cannot be written, for example on a full disk; older checkpoints are kept.
    """
    path = output / FOLDER / f"step-{step:08d}"
    try:
        with atomic_folder(path, force=True, own_names=NAMES) as folder:
            tensors = {name: tensor.detach().contiguous() for name, tensor in snapshot.tensors.items()}
            save_file(tensors, folder / TENSORS)
            _write_json(folder / RECORD, snapshot.record)
            _write_json(folder / CHECKSUMS, {name: hash_file(folder / name) for name in (TENSORS, RECORD)})
    # safetensors raises its own error class for errors of the operating system.
    except Exception as error:
        newest = next(iter(list_checkpoints(output)), None)
        raise ValueError(
            f"The checkpoint '{path}' could not be written: {error}. Newest complete checkpoint: "
            f"{newest or 'none'}. Free disk space, then run the same command with --resume."
        ) from error
    return path


def prune_checkpoints(output: Path, *, keep: int) -> None:
    """Remove all but the newest `keep` checkpoints."""
    for old in list_checkpoints(output)[keep:]:
        shutil.rmtree(old)


def list_checkpoints(output: Path) -> List[Path]:
    """RETURNS (List[Path]): Folders of the checkpoints of a run, the newest first."""
    found = [path for path in (output / FOLDER).glob("step-*") if path.name[5:].isdecimal()]
    return sorted(found, key=lambda path: int(path.name[5:]), reverse=True)


def load_checkpoint(output: Path) -> Tuple[Optional[Snapshot], List[str]]:
    """Read the newest intact checkpoint, None if the run has none, and the problems of newer, damaged ones.

    RAISES (ValueError): EL129 if all checkpoints are damaged.
    """
    damaged: List[str] = []
    for path in list_checkpoints(output):
        problem = _problem(path)
        snapshot = _read(path) if problem is None else problem
        if isinstance(snapshot, Snapshot):
            return snapshot, damaged
        damaged.append(f"{path.name}: {snapshot}")
    if damaged:
        raise ValueError(Errors.EL129.format(path=output / FOLDER, problems="; ".join(damaged)))
    return None, damaged


def _read(path: Path) -> Union[Snapshot, str]:
    """The checkpoint, or its problems if it is invalid despite correct checksums."""
    try:
        record = _read_json(path / RECORD)
        tensors = load_file(path / TENSORS)
    # safetensors has its own error class, deeply nested JSON raises RecursionError.
    except Exception as error:
        return f"it cannot be read: {error}"
    if not isinstance(record, dict):
        return f"{RECORD} is not a JSON object"
    missing = ", ".join(sorted(KEYS - set(record)))
    return f"{RECORD} has no {missing}" if missing else Snapshot(tensors, record, path)


def _problem(path: Path) -> Optional[str]:
    missing = [name for name in NAMES if not (path / name).is_file()]
    if missing:
        return f"{', '.join(missing)} missing"
    try:
        sums = _read_json(path / CHECKSUMS)
    except (ValueError, RecursionError):
        return f"{CHECKSUMS} is not valid JSON"
    if not isinstance(sums, dict):
        return f"{CHECKSUMS} is not a JSON object"
    changed = [name for name in (TENSORS, RECORD) if sums.get(name) != hash_file(path / name)]
    return f"checksum of {', '.join(changed)} differs" if changed else None


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf8"))


def _write_json(path: Path, record: Any) -> None:
    """Write floats exactly; srsly writes ten decimals, which would turn an epsilon of 1e-12 into zero."""
    path.write_text(json.dumps(record, allow_nan=False), encoding="utf8")
