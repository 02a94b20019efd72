"""The report on a training: files that it left, scores with and without ELMo, and the rest of its page as values.

Notes state the limits of the numbers, hints what would complete the page.
"""

import os
import platform
import re
import shlex
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from math import isclose
from pathlib import Path
from statistics import mean
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

import spacy
import srsly
from spacy.language import Language
from spacy.util import load_config

from ..errors import Errors
from ..files import AnyPath
from ..pipeline.component import find_models
from ..pipeline.layer_weights import TaskMix, find_task_mixes
from ..pipeline.model import get_bilm
from ..pipeline.task_layers import has_elmo
from ..util import is_number
from ..weights.contents import hash_weights
from .answers import (
    QUESTIONS,
    DocAnswers,
    Outcome,
    answer_kind,
    find_category_question,
    find_kinds,
    get_question,
    read_answers,
    score_answers,
)
from .intervals import compare_means
from .layer_weight_plots import read_course
from .report_advice import Difference, find_advice

METRICS, META, TIMING = "metrics.json", "meta.json", "timing.json"
PIPELINES = ("model-best", "model-last")
PACKAGES = ("spacy-elmo", "spacy", "thinc", "torch", "numpy")
MEAN_NAMES = {"cats": "TEXTCAT", "nel": "NEL"}
RATIOS = {"ents": "NER", "sents": "SENT", "spans_sc": "SPAN"}  # scores with a precision and a recall
ONCE_SCORED = ("cats", "nel")  # kinds of answers that one component of a pipeline is scored on
# Factories of trained components that have no answers.
SHARED_FACTORIES = ("elmo", "tok2vec", "transformer", "elmo_surprisal")
# Scores by their name in the table of `spacy evaluate`, the most important first; others keep their names.
SCORE_NAMES: Dict[str, str] = {question.score: question.score_name for question in QUESTIONS.values()}
SCORE_NAMES |= {f"{key}_{m}": f"{name} {m.upper()}" for key, name in RATIOS.items() for m in "pr"}
SCORE_NAMES |= {"cats_score": "TEXTCAT", "nel_score": "NEL"}
SPANS_SCORE = re.compile(r"spans_(.+)_([prf])")
MEAN_SCORE = re.compile(r"(cats|nel)_(micro|macro)_(p|r|f|auc)")
# Equal to the accuracy, with one label per token.
REPEATED = ("tag_micro_", "pos_micro_", "morph_micro_", "lemma_micro_")
NUMBER = re.compile(r"[-_]?\d+$")  # at the end of the name of a folder, of a seed or another
ReportRow = Dict[str, Any]
Fact = Tuple[str, object]
# By name for people: shares from 0 to 1 of the seeds of a training, and of its baseline.
Scores = Dict[str, Tuple[List[float], ...]]


@dataclass(frozen=True)
class SeedScores:
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
    seeds (Tuple[SeedScores, ...]): The folder first, then other seeds: folders beside it whose names differ in the
        number at the end. Only those with scores in a metrics.json.
    dev_seeds (Tuple[SeedScores, ...]): The same folders, with the scores on the development data that `spacy train`
        writes into the meta.json of a pipeline. Only those with such scores.
    has_metrics (bool): Whether the folder itself has scores in a metrics.json.
    score_log (Tuple[ReportRow, ...]): A row per evaluation: step, score, scores. Empty without a log of this training.
    has_other_log (bool): Whether the folder has the log of another training, which spaCy's logger does not replace.
    weight_log (Dict[Tuple[str, int], List[ReportRow]]): See `read_course`. Empty without a log.
    """

    path: Path
    pipeline: Path
    config: Dict[str, Any]
    meta: Dict[str, Any]
    seeds: Tuple[SeedScores, ...]
    dev_seeds: Tuple[SeedScores, ...]
    has_metrics: bool
    score_log: Tuple[ReportRow, ...]
    has_other_log: bool
    weight_log: Dict[Tuple[str, int], List[ReportRow]]

    @property
    def is_unfinished(self) -> bool:
        """RETURNS (bool): Whether the training ended before an evaluation after its first update: `spacy train` has
        left a model-last, without scores, or the model-best of update 0.
        """
        if self.score_log:
            return not any(row["step"] for row in self.score_log)
        return self.pipeline.name == PIPELINES[1] and "performance" not in self.meta


def read_output(path: Path) -> TrainingOutput:
    """path (Path): The output folder of `spacy train`, or a pipeline.
    RAISES (ValueError): EL430 if there is no pipeline, EL431 for a damaged file.
    """
    pipeline = _look_for_pipeline(path)
    if pipeline is None:
        names = sorted(file.name for file in path.iterdir()) if path.is_dir() else []
        problem = "it is a file" if path.is_file() else f"the folder contains {', '.join(names[:5]) or 'nothing'}"
        raise ValueError(Errors.EL430.format(path=path, problem=problem if path.exists() else "it does not exist"))
    folders = [path, *_find_seeds(path)]
    meta, (score_log, weight_log) = _read_object(pipeline / META), _read_logs(path)
    has_other_log = _is_of_another(score_log, meta)
    seeds = [_read_seed(folder) for folder in folders if (folder / METRICS).is_file()]
    seeds = [seed for seed in seeds if seed.scores]
    return TrainingOutput(
        path=path,
        pipeline=pipeline,
        config=_read_config(pipeline),
        meta=meta,
        seeds=tuple(seeds),
        dev_seeds=tuple(seed for seed in map(_read_dev_seed, folders) if seed is not None),
        has_metrics=bool(seeds) and seeds[0].name == path.resolve().name,
        score_log=() if has_other_log else score_log,
        has_other_log=has_other_log,
        weight_log=weight_log,
    )


def _look_for_pipeline(path: Path) -> Optional[Path]:
    for folder in (*(path / name for name in PIPELINES), path):
        if (folder / "config.cfg").is_file() and (folder / META).is_file():
            return folder
    return None


def _find_seeds(path: Path) -> List[Path]:
    """Folders beside a folder that differ from it in the number at the end, which one of them may lack, or in a second
    number. Where they have configs, these differ in nothing but the seed, and in loggers and their folder.
    """
    folder = path.resolve()
    stems = dict.fromkeys((re.sub(NUMBER, "", folder.name), folder.name))
    names = re.compile(f"(?:{'|'.join(map(re.escape, stems))})(?:[-_]?(\\d+))?")
    beside = [(names.fullmatch(other.name), other) for other in folder.parent.iterdir()]
    numbered = sorted((int(name[1] or -1), other) for name, other in beside if name is not None and other.is_dir())
    experiment, seed = _read_experiment(folder)
    seeds, others = [seed], []
    for other in (other for _, other in numbered if other != folder):
        other_experiment, seed = _read_experiment(other)
        if other_experiment is None or (other_experiment == experiment and seed not in seeds):
            seeds.append(seed)
            others.append(other)
    return others


def _read_experiment(folder: Path) -> Tuple[Optional[Dict[str, Any]], List[object]]:
    """RETURNS (Tuple[Optional[Dict[str, Any]], List[object]]): The config of a training, without seeds, loggers and
    their folder, and its seeds; None without a config.
    """
    pipeline = _look_for_pipeline(folder)
    if pipeline is None:
        return None, []
    config = _read_config(pipeline)
    seeds = [config.get(block, {}).pop("seed", None) for block in ("system", "training")]
    for block, name in (("training", "logger"), ("paths", "logs")):
        config.get(block, {}).pop(name, None)
    return config, seeds


def _read_seed(folder: Path) -> SeedScores:
    """Scores of `spacy evaluate`, which writes null where there are no annotations."""
    record = _read_object(folder / METRICS)
    return _make_seed(folder, record, [name for name, value in record.items() if value is None])


def _read_dev_seed(folder: Path) -> Optional[SeedScores]:
    """Scores of `spacy train`, which writes 0 where there are no annotations, for scores whose weight is null."""
    pipeline = _look_for_pipeline(folder)
    if pipeline is None:
        return None
    performance = _read_object(pipeline / META).get("performance")
    record = performance if isinstance(performance, dict) else {}
    weights = _read_config(pipeline).get("training", {}).get("score_weights", {})
    unscored = [name for name, value in record.items() if value is None or (not value and weights.get(name, 0) is None)]
    seed = _make_seed(folder, record, unscored)
    return seed if seed.scores else None


def _make_seed(folder: Path, record: Dict[str, Any], unscored: Sequence[str]) -> SeedScores:
    """Speed, tokenization and losses are not scores of a component."""
    names = [
        name for name in record if name != "speed" and not name.startswith("token_") and not name.endswith("_loss")
    ]
    scores = {name: float(record[name]) for name in names if is_number(record[name]) and name not in unscored}
    timing = _read_object(folder / TIMING) if (folder / TIMING).is_file() else {}
    elapsed_s = timing.get("elapsed_s")
    elapsed_s = float(elapsed_s) if is_number(elapsed_s) else None
    return SeedScores(folder.resolve().name, scores, elapsed_s, tuple(name for name in SCORE_NAMES if name in unscored))


def _read_config(pipeline: Path) -> Dict[str, Any]:
    return dict(_read_input(pipeline / "config.cfg", "a config", load_config, dict))


def _read_object(path: Path) -> Dict[str, Any]:
    return dict(_read_input(path, "JSON", srsly.read_json, dict))


def _read_input(path: Path, kind: str, read: Callable[[Path], Any], content_type: type) -> Any:
    content: Any = None
    try:
        content = read(path)
        problem = f"it contains a {type(content).__name__} instead of an object {{...}}"
    except ValueError as error:
        problem = str(error)
    if not isinstance(content, content_type):
        raise ValueError(Errors.EL431.format(path=path, kind=kind, problem=problem))
    return content


def _read_logs(path: Path) -> Tuple[Tuple[ReportRow, ...], Dict[Tuple[str, int], List[ReportRow]]]:
    """The logs in a folder, known by their first line: of `spacy.ConsoleLogger.v3`, and of the layer weights."""
    scores: Tuple[ReportRow, ...] = ()
    weights: Dict[Tuple[str, int], List[ReportRow]] = {}
    for file in sorted(path.glob("*.jsonl")):
        rows = _read_input(file, "JSON lines", lambda log: list(srsly.read_jsonl(log)), list)
        if not all(isinstance(row, dict) for row in rows):
            continue
        if rows and {"step", "component", "number", "shares"} <= rows[0].keys():
            weights = read_course(file)
        elif rows and all(map(_is_score_row, rows)):
            scores = tuple(rows)
    return scores, weights


def _is_score_row(row: ReportRow) -> bool:
    return all(is_number(row.get(name)) for name in ("step", "score")) and isinstance(row.get("scores"), dict)


def _is_of_another(score_log: Sequence[ReportRow], meta: Dict[str, Any]) -> bool:
    """RETURNS (bool): Whether no evaluation of a log has the scores that `spacy train` wrote into the meta.json of the
    pipeline; False where they have none in common.
    """
    performance = meta.get("performance")
    kept = performance if isinstance(performance, dict) else {}
    matches = [
        [
            isclose(percent, 100 * kept[name], abs_tol=0.01)
            for name, percent in row["scores"].items()
            if name != "speed" and is_number(percent) and is_number(kept.get(name))
        ]
        for row in score_log
    ]
    return any(matches) and not any(row and all(row) for row in matches)


def name_score(score: str, categories: Optional[str] = None) -> str:
    """score (str): A score in the file of `spacy evaluate`.
    categories (Optional[str]): See `TrainingReport`.
    RETURNS (str): Its name in the table of `spacy evaluate`, or in the same form; unknown scores keep their names.
    """
    if score == "cats_score" and categories is not None:
        return get_question(categories).score_name
    if match := MEAN_SCORE.fullmatch(score):
        return f"{MEAN_NAMES[match[1]]} ({match[2]} {match[3].upper()})"
    match = SPANS_SCORE.fullmatch(score)
    if match and score not in SCORE_NAMES:
        return f"SPAN {match[2].upper()} ({match[1]})"
    return SCORE_NAMES.get(score, score)


def order_scores(scores: Iterable[str], categories: Optional[str] = None) -> List[str]:
    """RETURNS (List[str]): The scores, the most important first, each once: spaCy has the overall score of text
    categories under two names, and of tags and single categories the accuracy under four.
    """
    names, repeated = set(scores), [*REPEATED, "nel_score"]
    if categories is not None and "cats_score" in names:
        repeated.append(categories)
    if categories is not None and categories != "cats_macro_auc":
        repeated += ["cats_micro_p", "cats_micro_r"]  # equal to cats_micro_f
    names = {score for score in names if not score.startswith(tuple(repeated))}
    return [*(score for score in SCORE_NAMES if score in names), *sorted(names - SCORE_NAMES.keys())]


def compare_scores(
    ours: Sequence[SeedScores], theirs: Sequence[SeedScores], categories: Optional[str] = None
) -> Scores:
    """categories (Optional[str]): See `TrainingReport`.
    RETURNS (Scores): The scores over seeds that a training or its baseline has, or could have with more annotations,
    the most important first.
    """
    names = {name for seed in (*ours, *theirs) for name in (*seed.scores, *seed.unscored)}
    scores: Scores = {}
    for name in order_scores(names, categories):
        values = ([seed.scores[name] for seed in seeds if name in seed.scores] for seeds in (ours, theirs))
        scores[name_score(name, categories)] = tuple(values)
    return scores


@dataclass(frozen=True)
class TrainingReport:
    """What the page shows.

    output (TrainingOutput), baseline (Optional[TrainingOutput]): Folders of the training, and of one without ELMo.
    data (Optional[Path]): The Docs on which they were run.
    code (Optional[Path]): Python file that the pipelines need.
    seeds (Sequence[SeedScores]), baseline_seeds (Sequence[SeedScores]): With the scores of `source`.
    source (str): "metrics.json" where both have one, else "meta.json", with scores on the development data.
    scores (Scores): From `source`, over seeds.
    docs (List[DocAnswers]): Answers of the pipeline on the data, for the words around an error.
    bilms (List[Fact]): What is known of those in the pipeline.
    categories (Optional[str]): Name of the question whose score is the pipeline's score of text categories.
    versions (Dict[str, str]): Versions of the packages that wrote the report.
    advice (Sequence[str]): Where ELMo is not significantly above the baseline, and what to try, in sentences.
    notes (Sequence[str]): Limits of the numbers, in sentences; lines after the first are commands.
    hints (Sequence[str]): What would add to the page, in sentences, the most important first.
    """

    output: TrainingOutput
    baseline: Optional[TrainingOutput]
    data: Optional[Path]
    code: Optional[Path]
    seeds: Sequence[SeedScores]
    baseline_seeds: Sequence[SeedScores]
    source: str
    scores: Scores
    outcomes: List[Outcome]
    docs: List[DocAnswers]
    mixes: List[TaskMix]
    bilms: List[Fact]
    categories: Optional[str]
    versions: Dict[str, str]
    advice: Sequence[str] = ()
    notes: Sequence[str] = ()
    hints: Sequence[str] = ()


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
    RETURNS (TrainingReport): All that is there, with a hint for each thing that is not.
    RAISES (ValueError): See `read_output` and `read_answers`; if the baseline is the pipeline.
    """
    output = read_output(Path(os.fsdecode(path)))
    other = None if baseline is None else read_output(Path(os.fsdecode(baseline)))
    data = None if data is None else Path(os.fsdecode(data))
    if other is not None and other.pipeline.resolve() == output.pipeline.resolve():
        raise ValueError(
            f"The baseline '{other.path}' is the trained pipeline itself. Give the folder of a training without "
            "ELMo as `baseline`, or leave it out."
        )
    nlp = spacy.load(output.pipeline)
    their_nlp = None if other is None else spacy.load(other.pipeline)
    docs, their_docs = ([] if data is None or pipe is None else read_answers(pipe, data) for pipe in (nlp, their_nlp))
    outputs = [output] if other is None else [output, other]
    is_tested = all(folder.has_metrics for folder in outputs) or not any(folder.dev_seeds for folder in outputs)
    scored_seeds = [folder.seeds if is_tested else folder.dev_seeds for folder in outputs]
    seeds, their_seeds = scored_seeds + ([()] if other is None else [])
    categories = find_category_question(nlp)
    report = TrainingReport(
        output=output,
        baseline=other,
        data=data,
        code=None if code is None else Path(os.fsdecode(code)),
        seeds=seeds,
        baseline_seeds=their_seeds,
        source=METRICS if is_tested else META,
        scores=compare_scores(seeds, their_seeds, categories),
        outcomes=score_answers(docs, None if their_nlp is None else their_docs),
        docs=docs,
        mixes=find_task_mixes(nlp),
        bilms=_describe_bilms(nlp),
        categories=categories,
        versions=_find_versions(),
    )
    return replace(
        report,
        advice=list(_advise(report, nlp, their_nlp)),
        notes=[*_find_notes(report, nlp), *_note_unscored(report, nlp), *_note_baseline(report, nlp, their_nlp)],
        hints=list(_find_hints(report)),
    )


def _advise(report: TrainingReport, nlp: Language, their_nlp: Optional[Language]) -> Iterator[str]:
    if their_nlp is None or _find_readers(their_nlp) or _is_unfinished(report) or any(_note_settings(report)):
        return
    differences = [difference for difference in _find_differences(report, nlp) if difference.is_learned]
    yield from find_advice(differences, nlp, report.code)


def _is_unfinished(report: TrainingReport) -> bool:
    return any(folder is not None and folder.is_unfinished for folder in (report.output, report.baseline))


def _find_trained(nlp: Language) -> List[str]:
    """RETURNS (List[str]): Components that the training of the pipeline changed, without shared layers."""
    frozen = nlp.config["training"]["frozen_components"]
    names = [name for name, pipe in nlp.pipeline if getattr(pipe, "is_trainable", False) and name not in frozen]
    return [name for name in names if nlp.get_pipe_meta(name).factory not in SHARED_FACTORIES]


def _find_trained_kinds(nlp: Language) -> Set[str]:
    """RETURNS (Set[str]): Kinds of answers that trained components give."""
    kinds = find_kinds(nlp)
    return {kind for name in _find_trained(nlp) for kind in kinds[name]}


def _find_readers(nlp: Language) -> List[str]:
    """RETURNS (List[str]): Trained components that read a biLM."""
    models: Dict[str, Any] = {name: getattr(nlp.get_pipe(name), "model", None) for name in _find_trained(nlp)}
    return [name for name, model in models.items() if hasattr(model, "walk") and has_elmo(model)]


def _find_differences(report: TrainingReport, nlp: Language) -> List[Difference]:
    """RETURNS (List[Difference]): One score of each kind that was trained, for text categories the score that
    `spacy evaluate` prints; with intervals on the data, else by Student's t over seeds.
    """
    trained, differences = _find_trained_kinds(nlp), []
    if report.outcomes:
        for outcome in report.outcomes:
            question, kind, score = get_question(outcome.name), answer_kind(outcome.name), outcome.score
            if question.has_list and kind in trained:
                is_learned, bounds = bool(outcome.ours or outcome.theirs), (score.low, score.high)
                differences.append(Difference(question.score_name, kind, score.value, *bounds, is_learned))
        return differences
    listed = [item for item in QUESTIONS.items() if item[1].has_list and item[1].score != "cats_score"]
    kinds = {question.score_name: answer_kind(name) for name, question in listed}
    if report.categories is not None:
        kinds[name_score("cats_score", report.categories)] = "cats"
    for name, (ours, theirs) in report.scores.items():
        kind = kinds.get(name, "")
        if kind not in trained or not ours or not theirs:
            continue
        low = high = None
        if len(ours) > 1 and len(theirs) > 1:
            score = compare_means(ours, theirs)
            low, high = score.low, score.high
        differences.append(Difference(name, kind, mean(ours) - mean(theirs), low, high, any((*ours, *theirs))))
    return differences


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


def _find_hints(report: TrainingReport) -> Iterator[str]:
    output = report.output
    folders = [folder for folder in (output, report.baseline) if folder is not None]
    if report.baseline is None:
        yield (
            "--baseline FOLDER, the same training without ELMo, adds what ELMo changes: differences of scores, with "
            "--data also their 95 % intervals and the errors fixed and introduced."
        )
    if report.data is None:
        yield "--data DOCS.spacy adds scores on annotated Docs with 95 % intervals, and errors in their sentences."
    for folder in folders:
        if not folder.has_metrics:
            command = _write_command(folder, "TEST.spacy", report.code)
            yield f"Scores on test data instead of development data, also over seeds: {command}"
    if not any(folder.score_log or folder.has_other_log for folder in folders):
        yield f"A curve of the scores. '{output.path}' has no scores.jsonl. {_find_log(output)}"
    if any(not mix.is_concatenated for mix in report.mixes) and not output.weight_log:
        yield "Layer weights over the training, not only at its end: the logger spacy-elmo.LayerWeightsLogger.v1."


def _write_command(output: TrainingOutput, data: object, code: Optional[Path]) -> str:
    words = ["python", "-m", "spacy", "evaluate", output.pipeline, data, "--output", output.path / METRICS]
    return _join_command(words, code)


def _join_command(words: Sequence[object], code: Optional[Path]) -> str:
    """RETURNS (str): A command for a shell, in which paths may have spaces."""
    return shlex.join(map(str, [*words, *([] if code is None else ["--code", code])]))


def _find_log(output: TrainingOutput) -> str:
    """RETURNS (str): Where the log of the scores may be, or how it is written."""
    logs, command = output.config.get("paths", {}).get("logs"), _join_command(["--paths.logs", output.path], None)
    logger = output.config.get("training", {}).get("logger", {})
    loggers = [logger, *(block for block in logger.values() if isinstance(block, dict))]  # a chain has several
    files = [block["output_file"] for block in loggers if block.get("output_file")]
    if not files:
        return (
            f"{logger.get('@loggers')} in [training.logger] of its config does not write it: train with "
            f'spacy.ConsoleLogger.v3 and output_file = "{output.path}/scores.jsonl", as `init-config --baseline` '
            "writes them."
        )
    if logs is None or Path(logs).resolve() == output.path.resolve():
        return f"Its training writes {files[0]} at each evaluation."
    return f"[paths] logs of its training is '{logs}': copy it from there, or train with {command}."


def _find_notes(report: TrainingReport, nlp: Language) -> Iterator[str]:
    for folder in (report.output, report.baseline):
        if folder is not None and folder.is_unfinished:
            yield (
                f"The training of '{folder.path}' ended before its first evaluation after an update: the scores of "
                f"its {folder.pipeline.name} say nothing about ELMo. Train longer."
            )
        elif folder is not None and folder.pipeline == folder.path / PIPELINES[1]:
            yield f"There is no model-best in '{folder.path}': the report is on model-last."
        if folder is not None and folder.has_other_log:
            yield (
                f"No evaluation in the log of '{folder.path}' has the scores of its {folder.pipeline.name}: it is the "
                "log of another training, and is not drawn. The logger of spaCy does not replace a log: move it away "
                "before you train in the same folder."
            )
    if not report.mixes:
        yield "No component of this pipeline mixes the layers of a biLM: there are no layer weights."
    titles = ", ".join(dict.fromkeys(question.title.lower() for question in QUESTIONS.values()))
    if report.data is not None and not report.outcomes:
        others = [name for name in _find_trained(nlp) if not find_kinds(nlp)[name]]
        command = f" Scores of {', '.join(others)}: {_write_command(report.output, report.data, report.code)}"
        yield (
            f"'{report.data}' is not scored here: the Docs and the pipelines have none of these in common: {titles}."
            f"{command if others else ''}"
        )
    baseline = report.baseline
    if baseline is not None and bool(report.output.score_log) != bool(baseline.score_log):
        missing = baseline if report.output.score_log else report.output
        if not missing.has_other_log:
            yield f"There are curves of one training only: '{missing.path}' has no scores.jsonl. {_find_log(missing)}"
    yield from _note_contradictions(report)


def _note_unscored(report: TrainingReport, nlp: Language) -> Iterator[str]:
    """Trained components that have no score on the data, with the reason."""
    if not report.outcomes:  # there is a note on all of them
        return
    scored = {answer_kind(outcome.name) for outcome in report.outcomes}
    assigned = find_kinds(nlp)
    for name, pipe in nlp.pipeline:
        factory = nlp.get_pipe_meta(name).factory
        if not getattr(pipe, "is_trainable", False) or factory in SHARED_FACTORIES or assigned[name] & scored:
            continue
        titles = [question.title.lower() for kind, question in QUESTIONS.items() if answer_kind(kind) in assigned[name]]
        if titles:
            missing = " or ".join(dict.fromkeys(titles))
            pipelines = "" if report.baseline is None else ", or the baseline sets none"
            yield f"'{name}' is not scored on '{report.data}', which has no {missing}{pipelines}."
        else:
            command = _write_command(report.output, report.data, report.code)
            yield f"'{name}' ({factory}) is not scored here, but by its own scorer: {command}"
    for kind in ONCE_SCORED:
        names = [name for name, pipe in nlp.pipeline if kind in assigned[name] and getattr(pipe, "is_trainable", False)]
        if kind in scored and len(names) > 1:
            yield f"Of {', '.join(names)} only '{names[-1]}' is scored, as by `spacy evaluate`."


def _note_baseline(report: TrainingReport, nlp: Language, their_nlp: Optional[Language]) -> Iterator[str]:
    if their_nlp is None:
        return
    if _find_readers(their_nlp):
        is_swapped = not _find_readers(nlp)
        problem = "and the pipeline does not: exchange the folders" if is_swapped else "too"
        yield f"The baseline reads a biLM, {problem}. The differences do not measure the effect of ELMo."
    yield from _note_settings(report)
    ours, learned = find_kinds(nlp), _find_trained_kinds(their_nlp)
    missing = [name for name in _find_trained(nlp) if ours[name] and not ours[name] & learned]
    if missing:
        yield f"The baseline has not learned what {', '.join(missing)} predicts: it is another training."
    zero = [difference.name for difference in _find_differences(report, nlp) if not difference.is_learned]
    if zero and not _is_unfinished(report):
        yield f"Neither training has learned anything that is scored as {', '.join(zero)}: both have 0. Train longer."
    n_ours, n_theirs = len(report.seeds), len(report.baseline_seeds)
    if n_ours == n_theirs == 1:
        commands = [*_write_trainings(report, (nlp, their_nlp))]
        configs = " CONFIG is the name of the config of this training." if "CONFIG.cfg" in commands[0] else ""
        sentence = (
            "There is one seed each. Another seed can change a score as much as ELMo does. Train a second, and more"
        )
        yield "\n".join([f"{sentence} in the same way, with other numbers:{configs}", *commands])
    elif n_ours != n_theirs and n_ours and n_theirs:
        yield f"The means are over different numbers of seeds: {n_ours} with ELMo, {n_theirs} without."


def _note_settings(report: TrainingReport) -> Iterator[str]:
    """RETURNS (Iterator[str]): A note on each setting that changes scores and differs from the baseline's: the limit of
    updates, and data whose files still exist.
    """
    configs = [folder.config for folder in (report.output, report.baseline) if folder is not None]
    for key, kind in (("train", "training"), ("dev", "development")):
        files = [config.get("paths", {}).get(key) for config in configs]
        if all(file is not None and Path(file).exists() for file in files) and not os.path.samefile(*files):
            yield f"The {kind} data are '{files[0]}' with ELMo, '{files[1]}' without, which changes scores as well."
    limits = [config.get("training", {}).get("max_steps") for config in configs]
    if limits[0] != limits[-1]:
        yield f"max_steps is {limits[0]} with ELMo, {limits[-1]} without, which can change scores as well."


def _write_trainings(report: TrainingReport, pipelines: Sequence[Language]) -> Iterator[str]:
    """RETURNS (Iterator[str]): Commands that train both pipelines with the next seed, into folders that the report
    takes for seeds, and score them where these are scored.
    """
    folders = [folder for folder in (report.output, report.baseline) if folder is not None]
    configs = [nlp.config.interpolate() for nlp in pipelines]
    seeds = [config["training"]["seed"] for config in configs]
    paths = [folder.path if folder.path.name.strip(".") else folder.path.resolve() for folder in folders]
    separator = "-" if re.search(r"-\d+$", paths[0].name) else "_"
    # A number that is not the seed, for instance of training texts, belongs to the name.
    ends = [re.compile(rf"[-_]?(?<!\d)0*{seed}$") for seed in seeds]
    stems = [end.sub("", str(path)) + separator for end, path in zip(ends, paths)]
    seed = 1
    while seed in seeds or any(Path(f"{stem}{seed}").exists() for stem in stems):
        seed += 1
    for folder, config, stem, name in zip(folders, configs, stems, ("CONFIG.cfg", "CONFIG_baseline.cfg")):
        words: List[object] = [folder.pipeline / "config.cfg"]
        if config["training"]["frozen_components"]:  # their weights are not read by the saved config, without `source`
            data = [(f"--paths.{key}", config["paths"].get(key)) for key in ("train", "dev")]
            words = [name, *(word for option in data if option[1] is not None for word in option)]
        words += ["--output", f"{stem}{seed}", "--training.seed", seed]
        words += ["--paths.logs", f"{stem}{seed}"] if "logs" in config["paths"] else []
        yield _join_command(["python", "-m", "spacy", "train", *words], report.code)
        if report.source == METRICS:
            new = replace(folder, path=Path(f"{stem}{seed}"), pipeline=Path(f"{stem}{seed}", PIPELINES[0]))
            yield _write_command(new, report.data or "TEST.spacy", report.code)


def _note_contradictions(report: TrainingReport) -> Iterator[str]:
    scores = [(report.output, outcome.name, outcome.ours) for outcome in report.outcomes]
    if report.baseline is not None:
        theirs = ((outcome.name, outcome.theirs) for outcome in report.outcomes)
        scores += [(report.baseline, name, value) for name, value in theirs if value is not None]
    for output, name, value in scores:
        score = get_question(name).score
        stored = output.seeds[0].scores.get(score) if output.has_metrics else None
        if stored is not None and abs(stored - value) > 1e-4:
            yield (
                f"metrics.json of '{output.path}' has {stored:.2%} for {get_question(name).score_name}, but the "
                f"pipeline has {value:.2%} on '{report.data}': they are of different data or of different pipelines."
            )
