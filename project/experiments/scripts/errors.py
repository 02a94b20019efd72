"""Errors of kept pipelines with and without ELMo, by the kind of word, entity or category they are made on."""

import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any, Dict, Iterable, List, Sequence, Set, Tuple

import spacy
import typer
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training import Corpus, Example
from spacy.vocab import Vocab
from wasabi import msg

from spacy_elmo.analysis import Answer, DocAnswers, read_answers

sys.path.append(str(Path(__file__).parents[2] / "scripts"))  # of the example: data.py, shared.py
from choice import PIPELINES_DIR
from datasets import prepare
from paper_run import MULTILABEL, load_kept
from shared import ASSETS, report_errors, write_json
from stored import RESULTS_DIR

N_SHOWN = 10  # confusions
N_WORDS = 3  # examples of a confusion
UNKNOWN, SEVERAL, ONE = (f"{kind} in the training data" for kind in ("not", "with several tags", "with one tag"))
SEEN, NEW = "in the training data", "not in the training data"
MISSED, LABEL, BOUNDARIES, SPURIOUS = "missed", "wrong label", "wrong boundaries", "spurious"
SIZES = ((0, 500), (500, 1500), (1500, None))  # training texts of a category, from and to
Counts = Dict[str, Any]
# Experiment and data set of each task, and what the errors are counted on.
TASKS = {
    "wnut17": ("gains-wnut17", "wnut17", "entities"),
    "ewt-tags": ("gains-ewt-tags", "ud_en_ewt", "words"),
    "goemotions": ("gains-goemotions", "goemotions", "categories"),
    "sample": ("sample", "sample", "entities"),
}


@report_errors("Cannot count errors")
def errors_cli(
    task: str = typer.Argument(..., help=f"Task: {', '.join(TASKS)}"),
    seed: int = typer.Option(0, "--seed", "-s", help="Seed of the runs whose pipelines are compared"),
    pipelines: Path = typer.Option(PIPELINES_DIR, "--pipelines", "-p", help="Folder given to `paper.py --keep`"),
    assets_dir: str = ASSETS,
    results: Path = typer.Option(RESULTS_DIR, "--results", "-r", help="Folder for errors-<task>.json", file_okay=False),
) -> None:
    """Count the errors of the pipelines with and without ELMo on the test data, by kind."""
    if task not in TASKS:
        raise ValueError(f"The errors of '{task}' cannot be counted. Known tasks: {', '.join(TASKS)}.")
    experiment, dataset, kind = TASKS[task]
    folders = [pipelines / f"{task}-{condition}-100pct-seed{seed}" for condition in ("elmo", "baseline")]
    stored = [load_kept(folder) for folder in folders]
    if missing := [folder.name for folder, result in zip(folders, stored) if result is None]:
        raise FileNotFoundError(
            f"There is no '{', '.join(missing)}' in '{pipelines}'. Train both pipelines with `paper.py {experiment} "
            f"--seed {seed} --keep FOLDER`."
        )
    ours, theirs = map(_load, folders, stored)
    with tempfile.TemporaryDirectory() as folder:
        prepare(dataset, Path(folder), assets_dir)
        counts = count_errors(kind, Path(folder), ours, theirs)
    identity = {name: stored[0]["settings"][name] for name in ("bilm", "bilm_digest")}
    path = results / f"errors-{task}.json"
    write_json(path, {"task": task, "seed": seed, "kind": kind, **identity, **counts})
    msg.good(str(path))


def _load(folder: Path, result: Dict[str, Any]) -> Language:
    """RETURNS (Language): A kept pipeline, with the threshold of its categories that its run has chosen."""
    nlp = spacy.load(folder)
    if "threshold" in result:
        nlp.get_pipe(MULTILABEL).cfg["threshold"] = result["threshold"]
    return nlp


def count_errors(kind: str, corpus_dir: Path, ours: Language, theirs: Language) -> Counts:
    """RETURNS (Counts): Errors on the test data, by kind: "words", "entities" or "categories"."""
    train: List[Doc] = list(DocBin().from_disk(corpus_dir / "train.spacy").get_docs(Vocab()))
    test = corpus_dir / "test.spacy"
    if kind == "categories":
        return count_categories(train, *(_score_categories(nlp, list(Corpus(test)(nlp))) for nlp in (ours, theirs)))
    count = count_words if kind == "words" else count_entities
    return count(train, *(read_answers(nlp, test) for nlp in (ours, theirs)))


def _score_categories(nlp: Language, examples: List[Example]) -> Dict[str, Any]:
    scores: Dict[str, Any] = nlp.evaluate(examples)["cats_f_per_type"]
    return {label: {key: round(value, 5) for key, value in by_key.items()} for label, by_key in scores.items()}


def count_words(train: Iterable[Doc], ours: Sequence[DocAnswers], theirs: Sequence[DocAnswers]) -> Counts:
    """UPOS of words by what the training data says of them; tokens that the tokenizer divides otherwise are left out.

    RETURNS (Counts): "rows": kind, n, right answers without and with ELMo; "confusions": of the pipeline with ELMo,
        right tag, its tag, n, frequent words.
    """
    tags: Dict[str, Set[str]] = defaultdict(set)
    for doc in train:
        for token in doc:
            tags[token.text].add(token.pos_)
    rows = {kind: Counter(n=0, without=0, **{"with": 0}) for kind in (UNKNOWN, SEVERAL, ONE)}
    confused: Dict[Tuple[str, str], Counter[str]] = defaultdict(Counter)
    for one, other in zip(ours, theirs):
        tag_with, tag_without = (dict(_by_place(doc.predicted["pos"])) for doc in (one, other))
        for place, tag in _by_place(one.gold["pos"]):
            if place not in tag_with:
                continue
            word = one.words[place]
            known = tags.get(word, ())
            kind = UNKNOWN if not known else SEVERAL if len(known) > 1 else ONE
            rows[kind].update({"n": 1, "without": tag_without.get(place) == tag, "with": tag_with[place] == tag})
            if tag_with[place] != tag:
                confused[tag, tag_with[place]][word] += 1
    worst = sorted(confused.items(), key=lambda item: (-item[1].total(), item[0]))[:N_SHOWN]
    confusions = [
        {"right": right, "found": wrong, "n": words.total(), "words": [word for word, _ in words.most_common(N_WORDS)]}
        for (right, wrong), words in worst
    ]
    return {"rows": [{"kind": kind, **counts} for kind, counts in rows.items()], "confusions": confusions}


def count_entities(train: Iterable[Doc], ours: Sequence[DocAnswers], theirs: Sequence[DocAnswers]) -> Counts:
    """Entities that the training data has with the same text and label, or has not, and kinds of errors.

    RETURNS (Counts): "rows": kind, n, found without and with ELMo; "errors": kind, n without and with ELMo.
    """
    seen = {(ent.text, ent.label_) for doc in train for ent in doc.ents}
    rows = {kind: Counter(n=0, without=0, **{"with": 0}) for kind in (SEEN, NEW)}
    errors = {kind: Counter({"without": 0, "with": 0}) for kind in (MISSED, LABEL, BOUNDARIES, SPURIOUS)}
    for one, other in zip(ours, theirs):
        gold = one.gold["ents"]
        for start, end, label in gold:
            answer = (start, end, label)
            kind = SEEN if (" ".join(one.words[start:end]), label) in seen else NEW
            is_right = {"without": answer in other.predicted["ents"], "with": answer in one.predicted["ents"]}
            rows[kind].update({"n": 1, **is_right})
        for name, doc in (("without", other), ("with", one)):
            for kind in _find_errors(gold, doc.predicted["ents"]):
                errors[kind][name] += 1
    tables = {"rows": rows, "errors": errors}
    return {name: [{"kind": kind, **counts} for kind, counts in table.items()] for name, table in tables.items()}


def count_categories(train: Iterable[Doc], ours: Dict[str, Any], theirs: Dict[str, Any]) -> Counts:
    """Mean F of categories by the number of their training texts, from "p", "r" and "f" of each with both pipelines.

    RETURNS (Counts): "rows": training texts from and to (None: no limit), number of categories, mean F (0 to 1)
        without and with ELMo; "categories": the same for each, with its precision and recall.
    """
    n_texts = Counter(label for doc in train for label, value in doc.cats.items() if value)
    categories = [
        {"category": label, "n_train": n_texts[label], "without": theirs[label], "with": ours[label]}
        for label in sorted(ours, key=lambda label: (-n_texts[label], label))
    ]
    rows = []
    for low, high in SIZES:
        chosen = [row for row in categories if low <= row["n_train"] and (high is None or row["n_train"] < high)]
        if chosen:
            means = {name: round(fmean(row[name]["f"] for row in chosen), 5) for name in ("without", "with")}
            rows.append({"from": low, "to": high, "n": len(chosen), **means})
    return {"rows": rows, "categories": categories}


def _find_errors(gold: Set[Answer], predicted: Set[Answer]) -> Iterable[str]:
    """Each wrong answer, and each right one without an overlapping answer, is one error."""
    labels = {(start, end) for start, end, _ in gold}
    for start, end, _ in predicted - gold:
        yield LABEL if (start, end) in labels else BOUNDARIES if _overlaps(start, end, gold) else SPURIOUS
    for start, end, _ in gold:
        if not _overlaps(start, end, predicted):
            yield MISSED


def _overlaps(start: int, end: int, answers: Set[Answer]) -> bool:
    return any(other_start < end and start < other_end for other_start, other_end, _ in answers)


def _by_place(answers: Iterable[Answer]) -> List[Tuple[int, str]]:
    return [(start, label) for start, _, label in sorted(answers)]


if __name__ == "__main__":
    typer.run(errors_cli)
