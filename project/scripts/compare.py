"""Print the scores with and without ELMo side by side: one row per seed, then means, spread and difference."""

from pathlib import Path
from statistics import mean, stdev
from typing import Callable, Dict, Optional, Sequence

import srsly
import typer
from data import report_errors
from wasabi import msg

# Column title and name of the score in the output of `spacy evaluate`; only the scores that a pipeline has are shown.
SCORES = {
    "Tag acc": "tag_acc",
    "UPOS acc": "pos_acc",
    "Morph acc": "morph_acc",
    "NER P": "ents_p",
    "NER R": "ents_r",
    "NER F": "ents_f",
}
VARIANTS = {"elmo": "with ELMo", "baseline": "without ELMo"}
METRICS = "metrics.json"  # from `spacy evaluate`
TIMING = "timing.json"  # from train.py
Row = Dict[str, float]


@report_errors("Nothing to compare")
def compare_cli(
    # fmt: off
    dataset: str = typer.Argument(..., help="Data set, for the title"),
    training_dir: Path = typer.Argument(..., help="Folder with <variant>-<seed>/metrics.json and timing.json"),
    # fmt: on
) -> None:
    """Print one table of all results of a data set."""
    rows = read_results(training_dir)
    columns = [title for title in [*SCORES, "Seconds"] if any(title in row for row in rows.values())]
    msg.divider(f"Test scores on '{dataset}'")
    body = [[name, *(_format(title, row.get(title)) for title in columns)] for name, row in with_means(rows).items()]
    msg.table(body, header=["", *columns], divider=True, aligns=["l", *("r" for _ in columns)])


def read_results(training_dir: Path) -> Dict[str, Row]:
    """RETURNS (Dict[str, Row]): Scores in percent and seconds by "<variant>, seed <seed>", in the order of both.
    RAISES (FileNotFoundError): If there is no score file.
    """
    rows = {}
    for variant, label in VARIANTS.items():
        runs = {
            int(path.parent.name.rpartition("-")[2]): path.parent
            for path in training_dir.glob(f"{variant}-*/{METRICS}")
        }
        rows.update({f"{label}, seed {seed}": _read_row(runs[seed]) for seed in sorted(runs)})
    if not rows:
        raise FileNotFoundError(
            f"There are no scores below '{training_dir.resolve()}'. Run `python -m spacy project run all` first."
        )
    return rows


def with_means(rows: Dict[str, Row]) -> Dict[str, Row]:
    """RETURNS (Dict[str, Row]): The rows; for a variant of several seeds the mean and the sample standard deviation;
    the difference of the means where both variants have results.
    """
    result, means = dict(rows), []
    for label in VARIANTS.values():
        members = [row for name, row in rows.items() if name.startswith(label)]
        if members:
            means.append(_combine(members, mean))
        if len(members) > 1:
            result[f"{label}, mean of {len(members)}"] = means[-1]
            result[f"{label}, std. dev."] = _combine(members, stdev)
    if len(means) == len(VARIANTS):
        with_elmo, without_elmo = means
        result["difference"] = {key: with_elmo[key] - without_elmo[key] for key in with_elmo if key in without_elmo}
    return result


def _read_row(run_dir: Path) -> Row:
    scores = srsly.read_json(run_dir / METRICS)
    row = {title: scores[key] * 100 for title, key in SCORES.items() if scores.get(key) is not None}
    if (run_dir / TIMING).exists():
        row["Seconds"] = srsly.read_json(run_dir / TIMING)["elapsed_s"]
    return row


def _combine(rows: Sequence[Row], statistic: Callable[[Sequence[float]], float]) -> Row:
    return {key: statistic([row[key] for row in rows]) for key in rows[0] if all(key in row for row in rows)}


def _format(title: str, value: Optional[float]) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if title == "Seconds" else f"{value:.2f}"


if __name__ == "__main__":
    typer.run(compare_cli)
