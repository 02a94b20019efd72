"""The report on a training: files that it left, scores with and without ELMo, and the rest of its page as values.

Notes say what is missing, and what the numbers cannot tell.
"""

import hashlib
import os
import platform
import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import spacy
import srsly
from spacy.language import Language
from spacy.util import load_config

from .._choices import AnyPath
from ..errors import Errors
from ..pipeline.elmo import find_models
from ..pipeline.layer_weights import TaskMix, find_task_mixes
from ..pipeline.model import get_bilm
from ..util import is_number
from ..weights.identity import N_DIGITS, digest_bilm
from ..weights.native import bilm_to_bytes
from .answers import QUESTIONS, Changes, DocAnswers, compare_answers, read_answers
from .layer_weights import read_course

METRICS, TIMING = "metrics.json", "timing.json"
PIPELINES = ("model-best", "model-last")
PACKAGES = ("spacy-elmo", "spacy", "thinc", "torch", "numpy")
# Factories of trained components whose answers `QUESTIONS` covers, and of those that have no answers.
COMPARED = ("ner", "crf_ner", "tagger", "morphologizer", "elmo", "tok2vec", "elmo_surprisal")
# Names of scores for people, the most important first; other scores keep their names.
TITLES: Dict[str, str] = {
    "ents_f": "Entities F1",
    "ents_p": "Entities precision",
    "ents_r": "Entities recall",
    "tag_acc": "Tag accuracy",
    "pos_acc": "UPOS accuracy",
    "morph_acc": "Morphology accuracy",
    "lemma_acc": "Lemma accuracy",
    "dep_uas": "UAS",
    "dep_las": "LAS",
    "sents_f": "Sentences F1",
    "cats_score": "Text categories",
}
# Equal to the accuracy, with one label per token.
REPEATED = ("tag_micro_", "pos_micro_", "morph_micro_")
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
    RAISES (ValueError): EL430 if there is no pipeline, EL431 for a damaged file.
    """
    pipeline = _find_pipeline(path)
    own = _read_run(path)
    runs = [run for run in (own, *(_read_run(other) for other in _find_seeds(path))) if run is not None]
    score_log, weight_log = _read_logs(path)
    return TrainingOutput(
        path=path,
        pipeline=pipeline,
        config=_read(pipeline / "config.cfg", "a config", lambda file: dict(load_config(file))),
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
    names = re.compile(re.escape(found[1]) + r"(\d+)")
    beside = [(names.fullmatch(other.name), other) for other in folder.parent.iterdir()]
    seeds = {int(name[1]): other for name, other in beside if name is not None and other.is_dir()}
    return [seeds[seed] for seed in sorted(seeds) if seeds[seed] != folder]


def _read_run(path: Path) -> Optional[Run]:
    if not (path / METRICS).is_file():
        return None
    found = _read_object(path / METRICS)
    # Speed and tokenization are no scores of a component.
    scores = {name: value for name, value in found.items() if name != "speed" and not name.startswith("token_")}
    scores = {name: float(value) for name, value in scores.items() if is_number(value)}
    timing = _read_object(path / TIMING) if (path / TIMING).is_file() else {}
    elapsed_s: Any = timing.get("elapsed_s")
    return Run(path.resolve().name, scores, float(elapsed_s) if is_number(elapsed_s) else None)


def _read_object(path: Path) -> Dict[str, Any]:
    found = _read(path, "JSON", srsly.read_json)
    if not isinstance(found, dict):
        problem = f"it contains a {type(found).__name__} instead of an object {{...}}"
        raise ValueError(Errors.EL431.format(path=path, kind="JSON", problem=problem))
    return found


def _read(path: Path, kind: str, read: Callable[[Path], Any]) -> Any:
    try:
        return read(path)
    except ValueError as error:
        raise ValueError(Errors.EL431.format(path=path, kind=kind, problem=error)) from error


def _read_logs(path: Path) -> Tuple[Tuple[Row, ...], Dict[Tuple[str, int], List[Row]]]:
    """The logs in a folder, known by their first line: of `spacy.ConsoleLogger.v3`, and of the layer weights."""
    scores: Tuple[Row, ...] = ()
    weights: Dict[Tuple[str, int], List[Row]] = {}
    for file in sorted(path.glob("*.jsonl")):
        rows = _read(file, "JSON lines", lambda log: list(srsly.read_jsonl(log)))
        if not all(isinstance(row, dict) for row in rows):
            continue
        if rows and {"step", "component", "number", "shares"} <= rows[0].keys():
            weights = read_course(file)
        elif rows and all(map(_is_score_row, rows)):
            scores = tuple(rows)
    return scores, weights


def _is_score_row(row: Row) -> bool:
    return all(is_number(row.get(name)) for name in ("step", "score")) and isinstance(row.get("scores"), dict)


@dataclass(frozen=True)
class Spread:
    """A score over seeds, from 0 to 1.

    mean (float): Over all seeds.
    std (Optional[float]): Sample standard deviation, None with one seed.
    n (int): Number of seeds.
    """

    mean: float
    std: Optional[float]
    n: int


@dataclass(frozen=True)
class ScoreRow:
    """One score.

    name (str): For people.
    ours (Optional[Spread]), theirs (Optional[Spread]): Of the training and of the baseline; None if not measured.
    """

    name: str
    ours: Optional[Spread]
    theirs: Optional[Spread]

    @property
    def difference(self) -> Optional[float]:
        """RETURNS (Optional[float]): Of the means."""
        return None if self.ours is None or self.theirs is None else self.ours.mean - self.theirs.mean


def make_score_rows(ours: Sequence[Run], theirs: Sequence[Run]) -> List[ScoreRow]:
    """RETURNS (List[ScoreRow]): The scores over seeds that a training or its baseline has, known ones first."""
    names = {name for run in (*ours, *theirs) for name in run.scores if not name.startswith(REPEATED)}
    ordered = [*(name for name in TITLES if name in names), *sorted(names - TITLES.keys())]
    return [ScoreRow(TITLES.get(name, name), _spread(name, ours), _spread(name, theirs)) for name in ordered]


def _spread(name: str, runs: Sequence[Run]) -> Optional[Spread]:
    values = [run.scores[name] for run in runs if name in run.scores]
    return Spread(mean(values), stdev(values) if len(values) > 1 else None, len(values)) if values else None


@dataclass(frozen=True)
class BiLMFacts:
    """A biLM inside a pipeline.

    component (str): Where it is.
    name (str): What its meta data call it.
    source (str): Where the training read it from, empty if the config does not say.
    source_digest (str): sha256 of the weights that are there now, its first digits; empty if there are none.
    digest (str): sha256 of the biLM in the pipeline, in native format, its first digits.
    n_parameters (int): Without softmax.
    meta (Dict[str, Any]): Its meta data.
    """

    component: str
    name: str
    source: str
    source_digest: str
    digest: str
    n_parameters: int
    meta: Dict[str, Any]


@dataclass(frozen=True)
class TrainingReport:
    """What the page shows.

    output (TrainingOutput), baseline (Optional[TrainingOutput]): Of the training, and of that without ELMo.
    data (Optional[Path]): The Docs on which both were run.
    scores (List[ScoreRow]): From metrics.json, over seeds.
    changes (List[Changes]): Of errors on the data.
    docs (List[DocAnswers]): Of the pipeline on the data, for the words around an error.
    mixes (List[TaskMix]): Layer weights.
    bilms (List[BiLMFacts]): In the pipeline.
    versions (Dict[str, str]): Of the packages that wrote the report.
    notes (List[str]): What is missing, in sentences.
    """

    output: TrainingOutput
    baseline: Optional[TrainingOutput]
    data: Optional[Path]
    scores: List[ScoreRow]
    changes: List[Changes]
    docs: List[DocAnswers]
    mixes: List[TaskMix]
    bilms: List[BiLMFacts]
    versions: Dict[str, str]
    notes: List[str]


def make_report(path: AnyPath, *, baseline: Optional[AnyPath] = None, data: Optional[AnyPath] = None) -> TrainingReport:
    """path (AnyPath): The output folder of a training.
    baseline (Optional[AnyPath]): That of the same training without ELMo.
    data (Optional[AnyPath]): Annotated Docs to run both pipelines on.
    RETURNS (TrainingReport): With a note for each thing that is missing.
    RAISES (ValueError): See `read_output` and `read_answers`; if the baseline is the pipeline.
    """
    output = read_output(Path(os.fsdecode(path)))
    other = None if baseline is None else read_output(Path(os.fsdecode(baseline)))
    data = None if data is None else Path(os.fsdecode(data))
    if other is not None and other.pipeline.resolve() == output.pipeline.resolve():
        raise ValueError(
            f"The baseline '{other.path}' is the trained pipeline itself. Give the folder of a training without "
            "ELMo with --baseline, or leave it out."
        )
    nlp = spacy.load(output.pipeline)
    their_nlp = None if other is None else spacy.load(other.pipeline)
    docs = [] if data is None or their_nlp is None else read_answers(nlp, data)
    their_docs = [] if data is None or their_nlp is None else read_answers(their_nlp, data)
    report = TrainingReport(
        output=output,
        baseline=other,
        data=data,
        scores=make_score_rows(output.runs, () if other is None else other.runs),
        changes=compare_answers(docs, their_docs) if their_docs else [],
        docs=docs,
        mixes=find_task_mixes(nlp),
        bilms=list(_find_bilms(nlp)),
        versions=_find_versions(),
        notes=[],
    )
    report.notes.extend([*_note_gaps(report, nlp), *_note_baseline(report, their_nlp)])
    return report


def _find_bilms(nlp: Language) -> Iterator[BiLMFacts]:
    config = nlp.config.interpolate()
    for name, model in find_models(nlp):
        bilm = get_bilm(model)
        if bilm is None:
            continue
        loader = config["initialize"]["components"].get(name, {}).get("loader") or {}
        block = config["components"].get(name, {})
        source = str(loader.get("weights") or loader.get("path") or block.get("weights") or "")
        try:
            now = digest_bilm(source) if source else ""
        except (ValueError, OSError):  # the weights are on another machine, or gone
            now = ""
        meta = dict(bilm.meta or {})
        digest = hashlib.sha256(bilm_to_bytes(bilm)).hexdigest()[:N_DIGITS]
        n_parameters = sum(weight.numel() for weight in bilm.network.parameters())
        yield BiLMFacts(name, str(meta.get("name", "")), source, now, digest, n_parameters, meta)


def _find_versions() -> Dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed as a package"
    return found


def _note_gaps(report: TrainingReport, nlp: Language) -> Iterator[str]:
    output = report.output
    if output.pipeline.name == "model-last":
        yield "There is no model-best: the report is on model-last."
    if not output.has_metrics:
        yield _note_metrics(output)
    if not output.score_log:
        yield (
            "There is no log of the training, and so no curve. With output_file in [training.logger] (for instance "
            f"{output.path}/scores.jsonl) spaCy writes one."
        )
    if report.mixes and not output.weight_log:
        yield (
            "There is no log of the layer weights: they are shown at the end of the training only. The logger "
            "spacy-elmo.LayerWeightsLogger.v1 writes one."
        )
    if not report.mixes:
        yield "No component of this pipeline mixes the layers of a biLM: there are no layer weights."
    trained = [name for name, pipe in nlp.components if getattr(pipe, "is_trainable", False)]
    others = [name for name in trained if nlp.get_pipe_meta(name).factory not in COMPARED]
    if report.changes and others:
        yield f"Errors are compared for entities and tags only, not for: {', '.join(others)}."


def _note_metrics(output: TrainingOutput) -> str:
    command = f"python -m spacy evaluate {output.pipeline} TEST.spacy --output {output.path}/metrics.json"
    return f"'{output.path}' has no metrics.json, and so no scores in the table of seeds. This writes it: {command}"


def _note_baseline(report: TrainingReport, their_nlp: Optional[Language]) -> Iterator[str]:
    if report.baseline is None or their_nlp is None:
        yield "No baseline was given (--baseline): the report cannot say what ELMo changes."
        if report.data is not None:
            yield f"The data '{report.data}' were not read: they are for the comparison with a baseline."
        return
    if not report.baseline.has_metrics:
        yield _note_metrics(report.baseline)
    if next(_find_bilms(their_nlp), None) is not None:
        yield "The baseline has a biLM, too: differences are not those between with and without ELMo."
    if report.data is None:
        yield "No data was given (--data): errors are not compared, and differences have no interval."
    elif not report.changes:
        asked = ", ".join(question.title.lower() for question in QUESTIONS.values())
        yield f"There is nothing to compare: the Docs and both pipelines have none of these in common: {asked}."
    n_ours, n_theirs = len(report.output.runs), len(report.baseline.runs)
    if n_ours == n_theirs == 1:
        yield "There is one seed each. Another seed can change a score as much as ELMo does: train several."
    elif n_ours != n_theirs and n_ours and n_theirs:
        yield f"The means are over different numbers of seeds: {n_ours} with ELMo, {n_theirs} without."
    yield from _note_contradictions(report)


def _note_contradictions(report: TrainingReport) -> Iterator[str]:
    for change in report.changes:
        score = QUESTIONS[change.name].score
        for output, found in ((report.output, change.ours), (report.baseline, change.theirs)):
            stored = output.runs[0].scores.get(score) if output is not None and output.has_metrics else None
            if output is not None and stored is not None and abs(stored - found) > 1e-4:
                yield (
                    f"metrics.json of '{output.path}' says {stored:.2%} for {score}, but the pipeline has "
                    f"{found:.2%} on '{report.data}': they are of different data or of different pipelines."
                )
