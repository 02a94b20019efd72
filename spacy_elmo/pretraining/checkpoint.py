"""Checkpoints: the complete state of a run on disk, from which it resumes with identical results.

A checkpoint is a folder `step-00001000` with `state.safetensors` (all tensors), `state.json` (everything else) and
`checksums.json` (sha256 of both). It is written atomically, by one rename.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union

import numpy as np
from safetensors.torch import load_file, save_file
from torch import Tensor

from .._compat import hash_file
from ..errors import Errors
from ..weights.atomic import atomic_folder

FOLDER = "checkpoints"
TENSORS, RECORD, CHECKSUMS = "state.safetensors", "state.json", "checksums.json"
NAMES = (TENSORS, RECORD, CHECKSUMS)
# Structure of `state.json`. A schema is a type, [schema] for a list of any length, or a dictionary with the schemas of
# the required keys.
NUMBER = (int, float)
MAX_NAMED = 5

STREAM_SCHEMA = {
    "layout": {},
    "epoch": int,
    "order": [int],
    "n_shards": int,
    "n_records": int,
    "waiting": [[str]],
    "is_empty": bool,
    "counts": dict.fromkeys(("n_sentences", "n_tokens", "n_empty", "n_long", "n_undecodable"), int),
    "buffer": {"blocks": [[[str]]], "random": list},
}
RECORD_SCHEMA = {
    "step": int,
    "n_tokens": int,
    "words": [str],
    "stream": STREAM_SCHEMA,
    "optimizer": {"name": str, "n_trained": int},
    "loss_scale": {"factor": NUMBER, "n_steady": int},
    "n_ranks": int,
    "settings": {},
    "bilm": {},
    "vocabulary": str,
    "best": {"mean": (int, float, type(None)), "step": int, "n_worse": int},
    "losses": [NUMBER],
    "elapsed_s": NUMBER,
    "log_bytes": int,
}


@dataclass(frozen=True)
class Snapshot:
    """The state of a run after an update.

    tensors (Dict[str, Tensor]): Weights, optimizer moments, recurrent states and random number generators, by name.
    record (Dict[str, Any]): Plain JSON types: counters, the position in the corpus, settings.
    path (Optional[Path]): Folder that it was read from.
    """

    tensors: Dict[str, Tensor]
    record: Dict[str, Any]
    path: Optional[Path] = None


def save_checkpoint(output: Path, step: int, snapshot: Snapshot) -> Path:
    """Write a checkpoint.

    output (Path): Folder of the run.
    step (int): Updates done.
    RETURNS (Path): Its folder.
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
    """Remove the oldest checkpoints.

    output (Path): Folder of the run.
    keep (int): Number of newest checkpoints to keep.
    """
    for old in list_checkpoints(output)[keep:]:
        shutil.rmtree(old)


def list_checkpoints(output: Path) -> List[Path]:
    """RETURNS (List[Path]): Folders of the checkpoints of a run, the newest first."""
    found = [path for path in (output / FOLDER).glob("step-*") if path.name[5:].isdecimal()]
    return sorted(found, key=lambda path: int(path.name[5:]), reverse=True)


def load_checkpoint(output: Path) -> Tuple[Optional[Snapshot], List[str]]:
    """Read the newest intact checkpoint.

    output (Path): Folder of the run.
    RETURNS (Tuple[Optional[Snapshot], List[str]]): The checkpoint, None if the run has none; problems of
        newer, damaged ones.
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
    problems = record_problems(record)
    return "; ".join(problems) if problems else Snapshot(tensors, record, path)


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


def record_problems(record: Any) -> List[str]:
    """record (Any): Content of `state.json`.
    RETURNS (List[str]): Violations of the schema, at most `MAX_NAMED`; other problems if there are none.
    """
    problems = list(_misfits(record, RECORD_SCHEMA, "state"))
    if problems:
        return problems[:MAX_NAMED]
    stream = record["stream"]
    if "text" in record:  # older checkpoints have none
        problems += _misfits(record["text"], {"files": {}}, "state.text")
    if set(record["best"]) != {"mean", "step", "n_worse"}:
        problems.append("state.best has other keys")
    if sorted(stream["order"]) != list(range(len(stream["order"]))):
        problems.append("state.stream.order should have each number below its length once")
    if stream["n_shards"] > len(stream["order"]):
        problems.append("state.stream.n_shards is above the number of files")
    return problems


def lane_problems(lanes: Mapping[str, Tensor], *, n_lanes: int, n_words: int) -> List[str]:
    """lanes (Mapping[str, Tensor]): State of the lanes by name.
    n_lanes (int): B.
    n_words (int): Number of words in the word table.
    RETURNS (List[str]): All problems.
    """
    names = {"now", "free_at", "n_blocks", "lengths", "rows"}
    if set(lanes) != names or any(tensor.is_floating_point() for tensor in lanes.values()):
        return [f"the lanes should have integers under {', '.join(sorted(names))}"]
    found = {name: tensor.numpy() for name, tensor in lanes.items()}
    rows, lengths = found["rows"], found["lengths"]
    checks = {
        "free_at": found["free_at"].shape == (n_lanes, 2) and sorted(found["free_at"][:, 1]) == list(range(n_lanes)),
        "now": found["now"].shape == (1,) and found["now"].min() >= 0,
        "n_blocks": found["n_blocks"].shape == (n_lanes,) and found["n_blocks"].sum() == len(lengths),
        "lengths": lengths.ndim == 1 and bool(np.all(lengths > 0)),
        "rows": rows.ndim == 2 and rows.shape == (5, lengths.sum()) and _are_below(rows[:4], n_words),
    }
    return [f"lanes.{name} does not fit" for name, is_fine in checks.items() if not is_fine]


def _are_below(numbers: Any, limit: int) -> bool:
    return numbers.size == 0 or bool(numbers.min() >= 0 and numbers.max() < limit)


def _misfits(value: Any, schema: Any, name: str) -> Iterator[str]:
    if isinstance(schema, dict):
        if not isinstance(value, dict):
            yield f"{name} is a {type(value).__name__}, should be an object"
            return
        for key, inner in schema.items():
            if key not in value:
                yield f"{name}.{key} is missing"
            else:
                yield from _misfits(value[key], inner, f"{name}.{key}")
    elif isinstance(schema, list):
        if not isinstance(value, list):
            yield f"{name} is a {type(value).__name__}, should be a list"
            return
        for item in value:
            yield from _misfits(item, schema[0], f"an item of {name}")
    elif not isinstance(value, schema) or (isinstance(value, bool) and schema is not bool):
        yield f"{name} is a {type(value).__name__}"
    elif schema is int and value < 0:
        yield f"{name} is {value}, below 0"
