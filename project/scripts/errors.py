"""Errors of kept pipelines with and without ELMo, by kind; stored for docs/results.md."""

import tempfile
from pathlib import Path
from typing import Any, Dict, List, NamedTuple

import spacy
import srsly
import typer
from atomic_files import RESULT, load_kept, write_json
from choice import PIPELINES_DIR
from error_counts import COUNT, count_categories, score_categories
from messages import Messages
from paper import RESULTS_DIR
from paper_run import MULTILABEL
from prepare_data import prepare
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training import Corpus
from spacy.vocab import Vocab
from wasabi import msg

from spacy_elmo.analysis.answers import read_answers


class Task(NamedTuple):
    """Experiment and data set, and what the errors are counted on: "words", "entities" or "categories"."""

    experiment: str
    dataset: str
    kind: str


TASKS = {
    "wnut17": Task("gains-wnut17", "wnut17", "entities"),
    "ewt-tags": Task("gains-ewt-tags", "ud_en_ewt", "words"),
    "goemotions": Task("gains-goemotions", "goemotions", "categories"),
    "sample": Task("sample", "sample", "entities"),
}


def errors_cli(
    # fmt: off
    task: str = typer.Argument(..., help=f"Task: {', '.join(TASKS)}"),
    seed: int = typer.Option(0, "--seed", "-s", help="Seed of the runs whose pipelines are compared"),
    pipelines: Path = typer.Option(PIPELINES_DIR, "--pipelines", "-p", help="Folder given to `paper.py --keep`"),
    assets_dir: str = typer.Option("", "--assets-dir", "-a", help="Folder with local copies; empty for downloads"),
    results: Path = typer.Option(RESULTS_DIR, "--results", "-r", help="Folder for errors-<task>.json", file_okay=False),
    # fmt: on
) -> None:
    """Count the errors of the pipelines with and without ELMo on the test data, by kind."""
    try:
        path = store_errors(task, seed, pipelines, assets_dir=assets_dir, results=results)
    except (ValueError, OSError) as e:
        msg.fail("Cannot count errors", str(e), exits=1)
    msg.good(str(path))


def store_errors(task: str, seed: int, pipelines: Path, *, assets_dir: str = "", results: Path = RESULTS_DIR) -> Path:
    """Run both pipelines on the test data, count, and write the counts.

    RETURNS (Path): The file.
    RAISES (ValueError): P044 for an unknown task.
    RAISES (FileNotFoundError): P045 if one of both pipelines was not kept.
    """
    if task not in TASKS:
        raise ValueError(Messages.P044.format(name=task, known=", ".join(TASKS)))
    folders = [pipelines / f"{task}-{condition}-100pct-seed{seed}" for condition in ("elmo", "baseline")]
    kept = {folder: load_kept(folder) for folder in folders}
    missing = [folder.name for folder, result in kept.items() if result is None]
    if missing:
        told = Messages.P045.format(
            missing=", ".join(missing), folder=pipelines, experiment=TASKS[task].experiment, seed=seed
        )
        raise FileNotFoundError(told)
    ours, theirs = (load_pipeline(folder, result) for folder, result in kept.items() if result)
    with tempfile.TemporaryDirectory() as folder:
        prepare(TASKS[task].dataset, Path(folder), assets_dir)
        counts = count_errors(TASKS[task].kind, Path(folder), ours, theirs)
    settings = srsly.read_json(folders[0] / RESULT)["settings"]
    used = {name: settings[name] for name in ("bilm", "bilm_digest")}
    path = results / f"errors-{task}.json"
    write_json(path, {"task": task, "seed": seed, "kind": TASKS[task].kind, **used, **counts})
    return path


def load_pipeline(folder: Path, result: Dict[str, Any]) -> Language:
    """RETURNS (Language): A kept pipeline, with the threshold of its categories that its run has chosen."""
    nlp = spacy.load(folder)
    if "threshold" in result:
        nlp.get_pipe(MULTILABEL).cfg["threshold"] = result["threshold"]
    return nlp


def count_errors(kind: str, corpus_dir: Path, ours: Language, theirs: Language) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Counts of the test data; see error_counts.py."""
    train: List[Doc] = list(DocBin().from_disk(corpus_dir / "train.spacy").get_docs(Vocab()))
    test = corpus_dir / "test.spacy"
    if kind == "categories":
        scores = [score_categories(nlp, list(Corpus(test)(nlp))) for nlp in (ours, theirs)]
        return count_categories(train, *scores)
    return COUNT[kind](train, *(read_answers(nlp, test) for nlp in (ours, theirs)))


if __name__ == "__main__":
    typer.run(errors_cli)
