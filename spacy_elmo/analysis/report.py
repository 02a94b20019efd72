"""The report on a training: files that it left, scores with and without ELMo, and the rest of its page as values.

Notes state the limits of the numbers, hints what would complete the page.
"""

import os
import platform
import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import spacy
import srsly
from spacy.language import Language
from spacy.util import load_config

from ..errors import Errors
from ..files import AnyPath
from ..pipeline.elmo import find_models
from ..pipeline.layer_weights import TaskMix, find_task_mixes
from ..pipeline.model import get_bilm
from ..util import is_number
from ..weights.identity import hash_weights
from .answers import QUESTIONS, DocAnswers, Outcome, read_answers, score_answers
from .layer_weights import read_course

METRICS, META, TIMING = "metrics.json", "meta.json", "timing.json"
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
Fact = Tuple[str, object]
# By name for people: shares from 0 to 1 of the seeds of a training, and of its baseline.
Scores = Dict[str, Tuple[List[float], ...]]


@dataclass(frozen=True)
class Run:
    """The scores of one seed, in a folder: shares from 0 to 1; the seconds of its training, from timing.json; and names
    of scores for which the data have no annotations.
    """

    name: str
    scores: Dict[str, float]
    elapsed_s: Optional[float] = None
    unscored: Tuple[str, ...] = ()


@dataclass(frozen=True)
class TrainingOutput:
    """A folder of a training.

    pipeline (Path): The trained pipeline in it: model-best, model-last or the folder itself.
    config (Dict[str, Any]): Its config, variables not filled in.
    runs (Tuple[Run, ...]): The folder first, then other seeds: folders beside it whose names differ in the number at
        the end. Only those with a metrics.json.
    dev_runs (Tuple[Run, ...]): The same folders, with the scores on the development data that `spacy train` writes into
        the meta.json of a pipeline. Only those with such scores.
    has_metrics (bool): Whether the folder itself has a metrics.json.
    score_log (Tuple[Row, ...]): A row per evaluation: step, score, scores. Empty without a log.
    weight_log (Dict[Tuple[str, int], List[Row]]): See `read_course`. Empty without a log.
    """

    path: Path
    pipeline: Path
    config: Dict[str, Any]
    meta: Dict[str, Any]
    runs: Tuple[Run, ...]
    dev_runs: Tuple[Run, ...]
    has_metrics: bool
    score_log: Tuple[Row, ...]
    weight_log: Dict[Tuple[str, int], List[Row]]


def read_output(path: Path) -> TrainingOutput:
    """path (Path): The output folder of `spacy train`, or a pipeline.
    RAISES (ValueError): EL430 if there is no pipeline, EL431 for a damaged file.
    """
    pipeline = _find_pipeline(path)
    folders = [path, *_find_seeds(path)]
    score_log, weight_log = _read_logs(path)
    return TrainingOutput(
        path=path,
        pipeline=pipeline,
        config=_read_config(pipeline),
        meta=_read_object(pipeline / META),
        runs=tuple(_read_run(folder, folder / METRICS) for folder in folders if (folder / METRICS).is_file()),
        dev_runs=tuple(run for run in map(_read_dev_run, folders) if run is not None),
        has_metrics=(path / METRICS).is_file(),
        score_log=score_log,
        weight_log=weight_log,
    )


def _find_pipeline(path: Path) -> Path:
    if not path.is_dir():
        problem = "it is a file" if path.exists() else "the folder does not exist"
        raise ValueError(Errors.EL430.format(path=path, problem=problem))
    pipeline = _look_for_pipeline(path)
    if pipeline is not None:
        return pipeline
    names = ", ".join(sorted(file.name for file in path.iterdir())[:5]) or "nothing"
    raise ValueError(Errors.EL430.format(path=path, problem=f"the folder contains {names}"))


def _look_for_pipeline(path: Path) -> Optional[Path]:
    for folder in (*(path / name for name in PIPELINES), path):
        if (folder / "config.cfg").is_file() and (folder / META).is_file():
            return folder
    return None


def _find_seeds(path: Path) -> List[Path]:
    """Folders beside a folder that differ from it in the number at the end, which one of them may lack, without those
    whose configs differ in more than seeds and paths.
    """
    folder = path.resolve()
    stem = re.fullmatch(r"(.*?)[-_]?\d*", folder.name)
    names = re.compile(re.escape("" if stem is None else stem[1]) + r"[-_]?(\d*)")
    beside = [(names.fullmatch(other.name), other) for other in folder.parent.iterdir()]
    seeds = sorted((int(name[1] or -1), other) for name, other in beside if name is not None and other.is_dir())
    others = [other for _, other in seeds if other != folder]
    ours = _experiment_of(folder)
    return [other for other in others if _experiment_of(other) in (None, ours)]


def _experiment_of(folder: Path) -> Any:
    """The config of a training without seeds and paths; None without a config."""
    pipeline = _look_for_pipeline(folder)
    if pipeline is None:
        return None
    config = _read_config(pipeline)
    for block, names in (("system", ("seed",)), ("training", ("seed",)), ("paths", tuple(config.get("paths", {})))):
        for name in names:
            config.get(block, {}).pop(name, None)
    return config


def _read_dev_run(path: Path) -> Optional[Run]:
    pipeline = _look_for_pipeline(path)
    run = None if pipeline is None else _read_run(path, pipeline / META)
    return run if run is not None and run.scores else None


def _read_run(path: Path, file: Path) -> Run:
    record = _read_object(file)
    if file.name == META:
        record = record["performance"] if isinstance(record.get("performance"), dict) else {}
    # Speed, tokenization and losses are no scores of a component.
    names = [
        name for name in record if name != "speed" and not name.startswith("token_") and not name.endswith("_loss")
    ]
    # Without annotations `spacy evaluate` writes null; `spacy train` writes 0 for scores whose weight is null.
    unscored = {name for name in names if record[name] is None}
    if file.name == META:
        weights = _read_config(file.parent).get("training", {}).get("score_weights", {})
        unscored |= {name for name in names if not record[name] and weights.get(name, 0) is None}
    scores = {name: float(record[name]) for name in names if is_number(record[name]) and name not in unscored}
    timing = _read_object(path / TIMING) if (path / TIMING).is_file() else {}
    elapsed_s: Any = timing.get("elapsed_s")
    elapsed_s = float(elapsed_s) if is_number(elapsed_s) else None
    return Run(path.resolve().name, scores, elapsed_s, tuple(name for name in TITLES if name in unscored))


def _read_config(pipeline: Path) -> Dict[str, Any]:
    return _read(pipeline / "config.cfg", "a config", lambda file: dict(load_config(file)))  # type: ignore[no-any-return]


def _read_object(path: Path) -> Dict[str, Any]:
    content = _read(path, "JSON", srsly.read_json)
    if not isinstance(content, dict):
        problem = f"it contains a {type(content).__name__} instead of an object {{...}}"
        raise ValueError(Errors.EL431.format(path=path, kind="JSON", problem=problem))
    return content


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


def compare_scores(ours: Sequence[Run], theirs: Sequence[Run]) -> Scores:
    """RETURNS (Scores): The scores over seeds that a training or its baseline has, or could have with more annotations,
    those in `TITLES` first.
    """
    both = (*ours, *theirs)
    names = {name for run in both for name in (*run.scores, *run.unscored) if not name.startswith(REPEATED)}
    ordered = [*(name for name in TITLES if name in names), *sorted(names - TITLES.keys())]
    scores: Scores = {}
    for name in ordered:
        values = ([run.scores[name] for run in runs if name in run.scores] for runs in (ours, theirs))
        scores[TITLES.get(name, name)] = tuple(values)
    return scores


@dataclass(frozen=True)
class TrainingReport:
    """What the page shows.

    output (TrainingOutput), baseline (Optional[TrainingOutput]): Of the training, and of that without ELMo.
    data (Optional[Path]): The Docs on which they were run.
    code (Optional[Path]): Python file that the pipelines need.
    runs (Sequence[Run]), baseline_runs (Sequence[Run]): With the scores of `source`.
    source (str): "metrics.json" where both have one, else "meta.json", with scores on the development data.
    scores (Scores): From `source`, over seeds.
    docs (List[DocAnswers]): Of the pipeline on the data, for the words around an error.
    bilms (List[Fact]): What is known of those in the pipeline.
    versions (Dict[str, str]): Of the packages that wrote the report.
    notes (List[str]): Limits of the numbers, in sentences.
    hints (List[str]): What would add to the page, in sentences, the most important first.
    """

    output: TrainingOutput
    baseline: Optional[TrainingOutput]
    data: Optional[Path]
    code: Optional[Path]
    runs: Sequence[Run]
    baseline_runs: Sequence[Run]
    source: str
    scores: Scores
    outcomes: List[Outcome]
    docs: List[DocAnswers]
    mixes: List[TaskMix]
    bilms: List[Fact]
    versions: Dict[str, str]
    notes: List[str]
    hints: List[str]


def make_report(
    path: AnyPath,
    *,
    baseline: Optional[AnyPath] = None,
    data: Optional[AnyPath] = None,
    code: Optional[AnyPath] = None,
) -> TrainingReport:
    """path (AnyPath): The output folder of a training.
    baseline (Optional[AnyPath]): That of the same training without ELMo.
    data (Optional[AnyPath]): Annotated Docs to run the pipelines on.
    code (Optional[AnyPath]): Python file that the caller has imported for the pipelines, for commands in the hints.
    RETURNS (TrainingReport): Of what is there, with a hint for each thing that is not.
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
    docs, their_docs = ([] if data is None or pipe is None else read_answers(pipe, data) for pipe in (nlp, their_nlp))
    outputs = [output] if other is None else [output, other]
    is_tested = all(folder.has_metrics for folder in outputs) or not any(folder.dev_runs for folder in outputs)
    scored_runs = [folder.runs if is_tested else folder.dev_runs for folder in outputs]
    runs, their_runs = scored_runs + ([()] if other is None else [])
    report = TrainingReport(
        output=output,
        baseline=other,
        data=data,
        code=None if code is None else Path(os.fsdecode(code)),
        runs=runs,
        baseline_runs=their_runs,
        source=METRICS if is_tested else META,
        scores=compare_scores(runs, their_runs),
        outcomes=score_answers(docs, None if their_nlp is None else their_docs),
        docs=docs,
        mixes=find_task_mixes(nlp),
        bilms=_describe_bilms(nlp),
        versions=_find_versions(),
        notes=[],
        hints=[],
    )
    report.notes.extend([*_find_notes(report), *_note_baseline(report, their_nlp)])
    report.hints.extend(_find_hints(report, nlp))
    return report


def _describe_bilms(nlp: Language) -> List[Fact]:
    """For each biLM in a pipeline: its size and digest, the weights that the training read and their
    digest now, and facts from its meta data.
    """
    config, facts = nlp.config.interpolate(), []
    for name, model in find_models(nlp):
        bilm = get_bilm(model)
        if bilm is None:
            continue
        loader = config["initialize"]["components"].get(name, {}).get("loader") or {}
        block = config["components"].get(name, {})
        source = str(loader.get("weights") or loader.get("path") or block.get("weights") or "")
        try:
            now = f", whose weights are sha256 {hash_weights(source)} now" if source else ""
        except (ValueError, OSError):  # the weights are on another machine, or gone
            now = ""
        meta: Dict[str, Any] = dict(bilm.meta or {})
        corpus = meta.get("corpus") or {}
        trained_on = corpus if isinstance(corpus, str) else corpus.get("name", "not known")
        tokens = corpus.get("tokens") if isinstance(corpus, dict) else None
        n_parameters = sum(weight.numel() for weight in bilm.network.parameters())
        size = f"{n_parameters:,} parameters, digest {bilm.digest}"
        version = meta.get("version", "not known")
        facts += [
            (f"biLM of '{name}'", f"{meta.get('name') or 'without a name'}, version {version}: {size}"),
            ("Read from", f"{source or 'not known'}{now}"),
            ("Pretrained on", f"{trained_on}{f', {tokens:,} tokens' if isinstance(tokens, int) else ''}"),
            ("Licence", meta.get("license", "not known")),
        ]
    return facts


def _find_versions() -> Dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed as a package"
    return versions


def _find_hints(report: TrainingReport, nlp: Language) -> Iterator[str]:
    output = report.output
    if report.baseline is None:
        yield (
            "--baseline FOLDER, the same training without ELMo, adds what ELMo changes: differences of scores, with "
            "--data also their 95 % intervals and the errors fixed and introduced."
        )
    if report.data is None:
        yield "--data DOCS.spacy adds scores on annotated Docs with 95 % intervals, and errors in their sentences."
    for folder in (output, report.baseline):
        if folder is not None and not folder.has_metrics:
            command = _write_command(folder, "TEST.spacy", report.code)
            yield f"Scores on test data instead of development data, also over seeds: {command}"
    if not output.score_log and (report.baseline is None or not report.baseline.score_log):
        yield f"A curve of the scores. '{output.path}' has no scores.jsonl. {_find_log(output)}"
    if report.mixes and not output.weight_log:
        yield "Layer weights over the training, not only at its end: the logger spacy-elmo.LayerWeightsLogger.v1."
    trained = [name for name, pipe in nlp.components if getattr(pipe, "is_trainable", False)]
    others = [name for name in trained if nlp.get_pipe_meta(name).factory not in COMPARED]
    if report.docs and others:
        yield f"Errors are listed for entities and tags only, not for: {', '.join(others)}."


def _write_command(output: TrainingOutput, data: object, code: Optional[Path]) -> str:
    command = f"python -m spacy evaluate {output.pipeline} {data} --output {output.path}/{METRICS}"
    return command if code is None else f"{command} --code {code}"


def _find_log(output: TrainingOutput) -> str:
    """RETURNS (str): Where the log of the scores may be, or how it is written."""
    logs = output.config.get("paths", {}).get("logs")
    if logs is None:
        return f"Set output_file in [training.logger], for instance to {output.path}/scores.jsonl."
    return f"[paths] logs of its training is '{logs}': copy it from there, or train with --paths.logs {output.path}."


def _find_notes(report: TrainingReport) -> Iterator[str]:
    if report.output.pipeline.name == "model-last":
        yield "There is no model-best: the report is on model-last."
    if not report.mixes:
        yield "No component of this pipeline mixes the layers of a biLM: there are no layer weights."
    titles = ", ".join(question.title.lower() for question in QUESTIONS.values())
    if report.data is not None and not report.outcomes:
        yield (
            f"'{report.data}' is not scored here: the Docs and the pipelines have none of these in common: {titles}. "
            f"Scores of other components: {_write_command(report.output, report.data, report.code)}"
        )
    baseline = report.baseline
    if baseline is not None and bool(report.output.score_log) != bool(baseline.score_log):
        missing = baseline if report.output.score_log else report.output
        yield f"The curves are those of one training: '{missing.path}' has no scores.jsonl. {_find_log(missing)}"
    yield from _note_contradictions(report)


def _note_baseline(report: TrainingReport, their_nlp: Optional[Language]) -> Iterator[str]:
    if their_nlp is None:
        return
    if any(get_bilm(model) is not None for _, model in find_models(their_nlp)):
        yield "The baseline has a biLM, too, so the differences do not measure the effect of ELMo."
    n_ours, n_theirs = len(report.runs), len(report.baseline_runs)
    if n_ours == n_theirs == 1:
        yield (
            "There is one seed each. Another seed can change a score as much as ELMo does: train several, with other "
            f"values of --training.seed, into {report.output.path.name}_1 and so on."
        )
    elif n_ours != n_theirs and n_ours and n_theirs:
        yield f"The means are over different numbers of seeds: {n_ours} with ELMo, {n_theirs} without."


def _note_contradictions(report: TrainingReport) -> Iterator[str]:
    scores = [(report.output, outcome.name, outcome.ours) for outcome in report.outcomes]
    if report.baseline is not None:
        theirs = ((outcome.name, outcome.theirs) for outcome in report.outcomes)
        scores += [(report.baseline, name, value) for name, value in theirs if value is not None]
    for output, name, value in scores:
        score = QUESTIONS[name].score
        stored = output.runs[0].scores.get(score) if output.has_metrics else None
        if stored is not None and abs(stored - value) > 1e-4:
            yield (
                f"metrics.json of '{output.path}' has {stored:.2%} for {score}, but the pipeline has "
                f"{value:.2%} on '{report.data}': they are of different data or of different pipelines."
            )
