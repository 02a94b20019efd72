"""Print the scores with and without ELMo: a row per seed, then means with standard deviations, and the difference."""

from pathlib import Path
from typing import Dict, List

import srsly
import typer
from shared import report_errors, summarize
from wasabi import msg

# Column title and name of the score in the output of `spacy evaluate`; only the scores that a pipeline has are shown.
SCORES = {
    "Tag acc": "tag_acc",
    "UPOS acc": "pos_acc",
    "Morph acc": "morph_acc",
    "NER P": "ents_p",
    "NER R": "ents_r",
    "NER F": "ents_f",
    "Text acc": "cats_micro_f",  # one category a text
}
SECONDS = "Seconds"  # of the training
VARIANTS = {"elmo": "with ELMo", "baseline": "without ELMo"}
Row = Dict[str, float]  # scores in percent and seconds, by title
Runs = Dict[str, Dict[int, Row]]  # by label of the variant and seed


@report_errors("Nothing to compare")
def compare_cli(
    dataset: str = typer.Argument(..., help="Data set, for the title"),
    training_dir: Path = typer.Argument(..., help="Folder with <variant>-<seed>/metrics.json and timing.json"),
) -> None:
    """Print one table of all results of a data set."""
    groups = group_rows(read_runs(training_dir))
    columns = [title for title in [*SCORES, SECONDS] if any(title in row for rows in groups.values() for row in rows)]
    body = []
    for label, rows in groups.items():
        values = [[row[title] for row in rows if title in row] for title in columns]
        body.append([label, *(summarize(column, n_seeds=len(column)) for column in values)])
    msg.divider(f"Test scores on '{dataset}'")
    msg.table(body, header=["", *columns], divider=True, aligns=["l", *("r" for _ in columns)])


def read_runs(training_dir: Path) -> Runs:
    """RETURNS (Runs): All that are there. RAISES (FileNotFoundError): If there is no score file."""
    runs: Runs = {label: {} for label in VARIANTS.values()}
    for variant, label in VARIANTS.items():
        for path in training_dir.glob(f"{variant}-*/metrics.json"):  # from `spacy evaluate`
            scores, timing = srsly.read_json(path), path.with_name("timing.json")  # from train.py
            row = {title: 100 * scores[key] for title, key in SCORES.items() if scores.get(key) is not None}
            seconds = {SECONDS: srsly.read_json(timing)["elapsed_s"]} if timing.exists() else {}
            runs[label][int(path.parent.name.rpartition("-")[2])] = {**row, **seconds}
    if not any(runs.values()):
        raise FileNotFoundError(
            f"There are no scores below '{training_dir.resolve()}'. Run `python -m spacy project run all` first."
        )
    return runs


def group_rows(runs: Runs) -> Dict[str, List[Row]]:
    """RETURNS (Dict[str, List[Row]]): What each row of the table is the mean of: a seed; several seeds; the differences
    of the same seeds where both variants have results.
    """
    groups = {f"{label}, seed {seed}": [rows[seed]] for label, rows in runs.items() for seed in sorted(rows)}
    groups |= {f"{label}, mean ± std. dev.": [*rows.values()] for label, rows in runs.items() if len(rows) > 1}
    ours, theirs = runs.values()
    pairs = [(ours[seed], theirs[seed]) for seed in ours if seed in theirs]
    if pairs:
        groups["difference"] = [
            {key: one[key] - other[key] for key in one.keys() & other.keys()} for one, other in pairs
        ]
    return groups


if __name__ == "__main__":
    typer.run(compare_cli)
