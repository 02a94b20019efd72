"""Pictures of the documentation that are drawn from results: sample efficiency, score against speed."""

from pathlib import Path
from statistics import mean, stdev
from typing import Any, Dict, List, Sequence, Tuple

from tables import SHARE_TASKS, Result, first_score, measured_shares, percents, select

from spacy_elmo.analysis.plots import (
    Curve,
    add_legend,
    check_picture,
    draw_curves,
    draw_points,
    new_figure,
    save_figure,
    set_title,
)

LOG_TICKS = (1, 1.5, 2, 3, 5, 7)  # of each power of ten
# Scores of the seeds in percent, by share of the training data in percent.
Scores = Dict[int, Sequence[float]]
Record = Dict[str, Any]


def draw_shares(results: List[Result], image_dir: Path) -> List[Tuple[str, str]]:
    """Draw the test score by share of the training data, with and without ELMo, for each task with at least two shares:
    the mean, in a band of one standard deviation over the seeds.

    RETURNS (List[Tuple[str, str]]): Title and file name.
    """
    drawn = []
    for task in SHARE_TASKS:
        (title, key), shares = first_score(task), measured_shares(results, task)
        with_elmo, without = (
            {share: found for share in shares if (found := percents(select(results, task, condition, share), key))}
            for condition in ("elmo", "baseline")
        )
        if min(len(with_elmo), len(without)) < 2:
            continue
        path = image_dir / f"shares_{task}.png"
        check_picture(path)
        figure, (axes,) = new_figure(height=4.0)
        draw_curves(axes, [_share_curve("with ELMo", with_elmo, 0), _share_curve("without ELMo", without, 4)])
        label = title.rpartition(", ")[2]
        axes.set(xscale="log", xlabel="Training docs (%)", ylabel=f"{label}, test data (mean ± std. dev.)")
        ticks = sorted({*with_elmo, *without})
        axes.set_xticks(ticks, [f"{share:g}" for share in ticks])
        axes.minorticks_off()
        gains = [mean(with_elmo[share]) - mean(without[share]) for share in with_elmo.keys() & without.keys()]
        is_higher = gains and min(gains) > 0  # the finding, otherwise the axes
        title += ": higher with ELMo at every measured share" if is_higher else " by share of the training data"
        set_title(figure, title)
        add_legend(figure, axes, n_columns=2)
        save_figure(figure, path)
        drawn.append((title, path.name))
    return drawn


def _share_curve(label: str, scores: Scores, number: int) -> Curve:
    shares = sorted(scores)
    means = [mean(scores[share]) for share in shares]
    spreads = [stdev(scores[share]) if len(scores[share]) > 1 else 0.0 for share in shares]
    lows, highs = zip(*((value - spread, value + spread) for value, spread in zip(means, spreads)))
    return Curve(label, shares, means, lows, highs, number)


def draw_choice(record: Record, image_dir: Path) -> Tuple[str, str]:
    """Draw the score of each pipeline over its words per second; one without a score is a line.

    record (Record): As choice.py writes it.
    RETURNS (Tuple[str, str]): Title and file name.
    """
    path, title = image_dir / f"choice_{record['task']}.png", _name_best(record)
    check_picture(path)
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    figure, (axes,) = new_figure(height=4.4)
    for number, row in enumerate(record["rows"]):
        if row["score"] is None:
            axes.axvline(row["words_per_s"], linestyle="--", color="grey", label=row["label"])
        else:
            draw_points(axes, [Curve(row["label"], [row["words_per_s"]], [100 * row["score"]], number=number)])
    axes.set(xlabel="Words per second, whole pipeline, one CPU thread", ylabel="Score on the test data", xscale="log")
    axes.xaxis.set_major_locator(LogLocator(subs=LOG_TICKS))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    set_title(figure, title)
    add_legend(figure, axes, n_columns=2)
    save_figure(figure, path)
    return title, path.name


def _name_best(record: Record) -> str:
    """RETURNS (str): The best score, and what it costs against the fastest pipeline with a score."""
    scored = [row for row in record["rows"] if row["score"] is not None]
    best, fastest = (max(scored, key=lambda row: float(row[key])) for key in ("score", "words_per_s"))
    title, _ = first_score(record["task"])
    if best is fastest:
        return f"{title}: {best['label']} is best and fastest"
    factor = fastest["words_per_s"] / best["words_per_s"]
    return f"{title}: {best['label']} scores highest; {fastest['label']} is {factor:.1f} times as fast"


def from_percent(record: Record) -> Record:
    """record (Record): Senses by layer, as `project/scripts/layers.py` writes them: in percent, the baseline a row.
    RETURNS (Record): The same as `spacy_elmo.analysis.probes.probe_data` returns it.
    """
    scores = {row["layer"]: {key: row[key] / 100 for key in ("value", "low", "high")} for row in record["rows"]}
    baseline = scores.pop("first sense")
    rows = [{"layer": layer, "nearest": score} for layer, score in scores.items()]
    return {**record, "attr": "sense", "metric": "F1", "baselines": {"most frequent sense": baseline}, "layers": rows}
