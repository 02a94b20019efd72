"""Pictures of the documentation: sample efficiency, score against speed."""

from pathlib import Path
from statistics import mean, stdev
from typing import Any, Dict, List, Sequence

from spacy_elmo.analysis.plots import Curve, add_legend, draw_curves, draw_points, new_figure, save_figure, set_title

LOG_TICKS = (1, 1.5, 2, 3, 5, 7)  # of each power of ten
# Scores of the seeds in percent, by share of the training data in percent.
Scores = Dict[int, Sequence[float]]
# "label", "words_per_s", and "score" (0 to 1) or None.
Row = Dict[str, Any]
Record = Dict[str, Any]


def draw_sample_efficiency(
    task: str, with_elmo: Scores, without: Scores, path: Path, *, score: str = "Score", source: str = ""
) -> str:
    """Draw the mean with and without ELMo, each in a band of one standard deviation over the seeds, at least one for
    each share. RETURNS (str): The title.
    """
    figure, (axes,) = new_figure(height=4.0)
    draw_curves(axes, [_share_curve("with ELMo", with_elmo, 0), _share_curve("without ELMo", without, 4)])
    axes.set(xscale="log", xlabel="Training docs (%)", ylabel=f"{score}, test data (mean ± std. dev.)")
    shares = sorted({*with_elmo, *without})
    axes.set_xticks(shares, [f"{share:g}" for share in shares])
    axes.minorticks_off()
    title = efficiency_title(task, with_elmo, without)
    set_title(figure, title)
    add_legend(figure, axes, n_columns=2)
    save_figure(figure, path, source=source)
    return title


def efficiency_title(task: str, with_elmo: Scores, without: Scores) -> str:
    """RETURNS (str): The finding, if the difference is positive at every share that both have; otherwise the axes."""
    gains: List[float] = [mean(with_elmo[share]) - mean(without[share]) for share in with_elmo.keys() & without.keys()]
    if gains and min(gains) > 0:
        return f"{task}: higher with ELMo at every measured share"
    return f"{task} by share of the training data"


def _share_curve(label: str, scores: Scores, number: int) -> Curve:
    shares = sorted(scores)
    means = [mean(scores[share]) for share in shares]
    spreads = [stdev(scores[share]) if len(scores[share]) > 1 else 0.0 for share in shares]
    lows, highs = zip(*((value - spread, value + spread) for value, spread in zip(means, spreads)))
    return Curve(label, shares, means, lows, highs, number)


def draw_speeds(rows: Sequence[Row], path: Path, *, title: str, source: str = "") -> None:
    """Draw the score of each pipeline over its words per second; one without a score is a line."""
    figure, (axes,) = new_figure(height=4.4)
    for number, row in enumerate(rows):
        if row["score"] is None:
            axes.axvline(row["words_per_s"], linestyle="--", color="grey", label=row["label"])
        else:
            draw_points(axes, [Curve(row["label"], [row["words_per_s"]], [100 * row["score"]], number=number)])
    axes.set(xlabel="Words per second, whole pipeline, one CPU thread", ylabel="Score on the test data")
    use_log_scale(axes)
    set_title(figure, title)
    add_legend(figure, axes, n_columns=2)
    save_figure(figure, path, source=source)


def use_log_scale(axes: Any) -> None:
    """Make the horizontal axis logarithmic, with whole numbers at its ticks."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=LOG_TICKS))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def from_percent(record: Record) -> Record:
    """record (Record): Senses by layer, as `project/scripts/layers.py` writes them: in percent, the baseline a row.
    RETURNS (Record): The same as `spacy_elmo.analysis.probes.probe_data` returns it.
    """
    scores = {row["layer"]: {key: row[key] / 100 for key in ("value", "low", "high")} for row in record["rows"]}
    baseline = scores.pop("first sense")
    rows = [{"layer": layer, "nearest": score} for layer, score in scores.items()]
    return {**record, "attr": "sense", "metric": "F1", "baselines": {"most frequent sense": baseline}, "layers": rows}
