"""Checks of the structure of a checkpoint. Whether it belongs to the run is checked when it is loaded.

A schema is a type, [schema] for a list of any length, or a dictionary with the schemas of the required keys.
"""

from typing import Any, Iterator, List, Mapping

import numpy as np
from torch import Tensor

NUMBER = (int, float)
MAX_NAMED = 5

STREAM = {
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
RECORD = {
    "step": int,
    "n_tokens": int,
    "words": [str],
    "stream": STREAM,
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


def record_problems(record: Any) -> List[str]:
    """record (Any): Content of `state.json`.
    RETURNS (List[str]): Violations of the schema, at most `MAX_NAMED`; other problems if there are none.
    """
    problems = list(_misfits(record, RECORD, "state"))
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
