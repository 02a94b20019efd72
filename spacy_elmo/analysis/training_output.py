"""What a training left on disk: pipeline, config, scores of its seeds, and logs. Nothing is loaded into spaCy here."""

import re
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import srsly
from spacy.util import load_config

from ..errors import Errors
from .layer_weights import read_course

METRICS, TIMING = "metrics.json", "timing.json"
PIPELINES = ("model-best", "model-last")
Row = Dict[str, Any]


@dataclass(frozen=True)
class Run:
    """The scores of one seed.

    name (str): Its folder.
    scores (Dict[str, float]): What `spacy evaluate --output` measured, shares between 0 and 1.
    elapsed_s (Optional[float]): Seconds of the training, from timing.json.
    """

    name: str
    scores: Dict[str, float]
    elapsed_s: Optional[float] = None


@dataclass(frozen=True)
class TrainingOutput:
    """A folder of a training.

    path (Path): The folder.
    pipeline (Path): The trained pipeline in it: model-best, model-last or the folder itself.
    config (Dict[str, Any]): Its config, variables not filled in.
    meta (Dict[str, Any]): Its meta.json.
    runs (Tuple[Run, ...]): The folder first, then other seeds: folders beside it whose names differ in the number at
        the end. Only those with a metrics.json.
    has_metrics (bool): Whether the folder itself has a metrics.json.
    score_log (Tuple[Row, ...]): A row per evaluation: step, score, scores. Empty without a log.
    weight_log (Dict[Tuple[str, int], List[Row]]): See `read_course`. Empty without a log.
    """

    path: Path
    pipeline: Path
    config: Dict[str, Any]
    meta: Dict[str, Any]
    runs: Tuple[Run, ...]
    has_metrics: bool
    score_log: Tuple[Row, ...]
    weight_log: Dict[Tuple[str, int], List[Row]]


def read_output(path: Path) -> TrainingOutput:
    """path (Path): The output folder of `spacy train`, or a pipeline.
    RETURNS (TrainingOutput): What is there.
    RAISES (ValueError): EL430 if there is no pipeline, EL431 for a damaged file, EL231 for a log of layer weights.
    """
    pipeline = _find_pipeline(path)
    own = _read_run(path)
    runs = [run for run in (own, *(_read_run(other) for other in _find_seeds(path))) if run is not None]
    score_log, weight_log = _read_logs(path)
    return TrainingOutput(
        path=path,
        pipeline=pipeline,
        config=_read_config(pipeline / "config.cfg"),
        meta=_read_object(pipeline / "meta.json"),
        runs=tuple(runs),
        has_metrics=own is not None,
        score_log=score_log,
        weight_log=weight_log,
    )


def _find_pipeline(path: Path) -> Path:
    if not path.is_dir():
        problem = "it is a file" if path.exists() else "the folder does not exist"
        raise ValueError(Errors.EL430.format(path=path, problem=problem))
    for folder in (*(path / name for name in PIPELINES), path):
        if (folder / "config.cfg").is_file() and (folder / "meta.json").is_file():
            return folder
    names = ", ".join(sorted(file.name for file in path.iterdir())[:5]) or "nothing"
    raise ValueError(Errors.EL430.format(path=path, problem=f"the folder contains {names}"))


def _find_seeds(path: Path) -> List[Path]:
    """Folders beside a folder that ends in a number, with other numbers."""
    folder = path.resolve()
    found = re.fullmatch(r"(.*\D)(\d+)", folder.name)
    if found is None:
        return []
    seeds = {int(other.name[len(found[1]) :]): other for other in folder.parent.iterdir() if _is_seed(other, found[1])}
    return [seeds[seed] for seed in sorted(seeds) if seeds[seed] != folder]


def _is_seed(path: Path, stem: str) -> bool:
    return path.name.startswith(stem) and path.name[len(stem) :].isdecimal() and path.is_dir()


def _read_run(path: Path) -> Optional[Run]:
    if not (path / METRICS).is_file():
        return None
    found = _read_object(path / METRICS)
    scores = {name: float(value) for name, value in found.items() if _is_score(name, value)}
    timing = _read_object(path / TIMING) if (path / TIMING).is_file() else {}
    elapsed_s: Any = timing.get("elapsed_s")
    return Run(path.resolve().name, scores, float(elapsed_s) if _is_number(elapsed_s) else None)


def _is_score(name: str, value: Any) -> bool:
    """Whether a metric is a score of a component: speed and tokenization are not."""
    return _is_number(value) and name != "speed" and not name.startswith("token_")


def _read_object(path: Path) -> Dict[str, Any]:
    try:
        found = srsly.read_json(path)
    except ValueError as error:
        raise ValueError(Errors.EL431.format(path=path, kind="JSON", problem=error)) from error
    if not isinstance(found, dict):
        problem = f"it contains a {type(found).__name__} instead of an object {{...}}"
        raise ValueError(Errors.EL431.format(path=path, kind="JSON", problem=problem))
    return found


def _read_config(path: Path) -> Dict[str, Any]:
    try:
        return dict(load_config(path))
    except ValueError as error:
        raise ValueError(Errors.EL431.format(path=path, kind="a config", problem=error)) from error


def _read_logs(path: Path) -> Tuple[Tuple[Row, ...], Dict[Tuple[str, int], List[Row]]]:
    """The logs in a folder, known by their first line: of `spacy.ConsoleLogger.v3`, and of the layer weights."""
    scores: Tuple[Row, ...] = ()
    weights: Dict[Tuple[str, int], List[Row]] = {}
    for file in sorted(path.glob("*.jsonl")):
        rows = _read_rows(file)
        if rows and {"step", "component", "number", "shares"} <= rows[0].keys():
            weights = read_course(file)
        elif rows and all(_is_score_row(row) for row in rows):
            scores = tuple(rows)
    return scores, weights


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)


def _is_score_row(row: Row) -> bool:
    return all(_is_number(row.get(name)) for name in ("step", "score")) and isinstance(row.get("scores"), dict)


def _read_rows(path: Path) -> List[Row]:
    try:
        rows = list(srsly.read_jsonl(path))
    except ValueError as error:
        raise ValueError(Errors.EL431.format(path=path, kind="JSON lines", problem=error)) from error
    return rows if all(isinstance(row, dict) for row in rows) else []
