"""The report on a training: everything that its page shows, as values.

Notes say what is missing, and what the numbers cannot tell.
"""

import hashlib
import os
import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

import spacy
from spacy.language import Language

from .._choices import AnyPath
from ..errors import Errors
from ..ml.task_mixes import TaskMix, find_task_mixes
from ..ml.torch_bilm import TorchBiLM
from ..weights.identity import N_DIGITS, digest_bilm
from ..weights.native import bilm_to_bytes
from .answers import QUESTIONS, DocAnswers, read_answers
from .error_changes import Changes, compare_answers
from .score_table import ScoreRow, make_score_rows
from .training_output import TrainingOutput, read_output

PACKAGES = ("spacy-elmo", "spacy", "thinc", "torch", "numpy")
# Factories of trained components whose answers `QUESTIONS` covers, and of those that have no answers.
COMPARED = ("ner", "crf_ner", "tagger", "morphologizer", "elmo", "tok2vec", "elmo_surprisal")


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
    RAISES (ValueError): EL430 or EL431 for folders without a pipeline or with damaged files, EL432 for other data,
        EL433 if the baseline is the pipeline.
    """
    output = read_output(Path(os.fsdecode(path)))
    other = None if baseline is None else read_output(Path(os.fsdecode(baseline)))
    data = None if data is None else Path(os.fsdecode(data))
    if other is not None and other.pipeline.resolve() == output.pipeline.resolve():
        raise ValueError(Errors.EL433.format(baseline=baseline))
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
    for name, pipe in nlp.components:
        model: Any = getattr(pipe, "model", None)
        nodes = model.walk() if hasattr(model, "walk") else ()
        for shim in (shim for node in nodes for shim in node.shims if isinstance(shim, TorchBiLM)):
            if shim.bilm is not None:
                yield _describe_bilm(name, shim.bilm, _find_source(nlp, name))


def _describe_bilm(component: str, bilm: Any, source: str) -> BiLMFacts:
    meta = dict(bilm.meta or {})
    digest = hashlib.sha256(bilm_to_bytes(bilm)).hexdigest()[:N_DIGITS]
    n_parameters = sum(weight.numel() for weight in bilm.network.parameters())
    return BiLMFacts(component, str(meta.get("name", "")), source, _digest(source), digest, n_parameters, meta)


def _find_source(nlp: Language, component: str) -> str:
    config = nlp.config.interpolate()
    loader = config["initialize"]["components"].get(component, {}).get("loader") or {}
    block = config["components"].get(component, {})
    return str(loader.get("weights") or loader.get("path") or block.get("weights") or "")


def _digest(source: str) -> str:
    try:
        return digest_bilm(source) if source else ""
    except (ValueError, OSError):  # the weights are on another machine, or gone
        return ""


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
