"""Pictures of pretraining: held-out perplexity over the tokens seen."""

from itertools import accumulate
from pathlib import Path
from typing import Any, Dict, List, Sequence

import srsly

from .plots import Curve, add_legend, draw_curves, new_figure, save_figure, set_title

DIRECTIONS = ("forward", "backward")
MILLION = 1e6
# The validations of a run, in order: "n_tokens", and "forward" and "backward" where the biLM has this direction.
Run = Sequence[Dict[str, Any]]


def read_validations(log: Path) -> Run:
    """log (Path): `log.jsonl` of a run.
    RETURNS (Run): Its rows with a perplexity.
    """
    rows: List[Dict[str, Any]] = list(srsly.read_jsonl(log))
    return [row for row in rows if any(row.get(name) is not None for name in DIRECTIONS)]


def draw_perplexities(runs: Sequence[Run], path: Path, *, source: str = "") -> None:
    """Draw a curve per direction; it is interrupted between runs, whose held-out texts may differ.

    runs (Sequence[Run]): Runs that continue each other, each with a validation; their tokens are added up.
    path (Path): File to write, .png or .svg.
    source (str): See `save_figure`.
    """
    figure, (axes,) = new_figure(height=4.0)
    n_before = 0
    for run in runs:
        draw_curves(axes, [_make_curve(run, name, n_before, is_first=not n_before) for name in DIRECTIONS])
        n_before += run[-1]["n_tokens"]
    ends = [run[-1]["n_tokens"] for run in runs[:-1]]
    for i, n_tokens in enumerate(accumulate(ends)):
        axes.axvline(n_tokens / MILLION, color="grey", linestyle=":", label=None if i else "next run")
    axes.set(xlabel="tokens seen (millions)", ylabel="held-out perplexity", yscale="log")
    axes.yaxis.set_major_formatter("{x:.0f}")
    axes.yaxis.set_minor_formatter("{x:.0f}")
    axes.grid(which="both", alpha=0.3)
    set_title(figure, make_title(runs))
    add_legend(figure, axes, n_columns=3)
    save_figure(figure, path, source=source)


def make_title(runs: Sequence[Run]) -> str:
    """RETURNS (str): The finding: whether the perplexity falls, and where it ends."""
    pairs = [(_mean(run[0]), _mean(run[-1])) for run in runs]
    n_tokens = sum(run[-1]["n_tokens"] for run in runs) / MILLION
    falls = all(last < first for first, last in pairs)
    if len(runs) > 1:
        change = "falls in each" if falls else "does not fall in each"
        return f"Held-out perplexity {change} of {len(runs)} runs, to {pairs[-1][1]:.0f} after {n_tokens:.1f} M tokens"
    change = "falls" if falls else "does not fall"
    return f"Held-out perplexity {change}: from {pairs[0][0]:.0f} to {pairs[0][1]:.0f} after {n_tokens:.1f} M tokens"


def _make_curve(run: Run, name: str, n_before: int, *, is_first: bool) -> Curve:
    rows = [row for row in run if row.get(name) is not None]
    places = [(n_before + row["n_tokens"]) / MILLION for row in rows]
    number = DIRECTIONS.index(name)
    return Curve(name if is_first else "", places, [row[name] for row in rows], number=number)


def _mean(row: Dict[str, Any]) -> float:
    values = [row[name] for name in DIRECTIONS if row.get(name) is not None]
    return float(sum(values) / len(values))
