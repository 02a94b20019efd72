"""Pictures of the documentation that are drawn from results: sample efficiency, score against speed."""

from pathlib import Path
from statistics import mean, stdev
from typing import Any, Dict, List, Optional, Sequence, Tuple

from tables import (
    COLUMNS,
    SHARE_TASKS,
    SYSTEMS,
    Result,
    find_best,
    find_speed,
    first_score,
    measured_shares,
    percents,
    select,
)

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

LOG_TICKS = (1, 2, 3, 5)  # of each power of ten
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
            {share: scores for share in shares if (scores := percents(select(results, task, condition, share), key))}
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


def draw_choice(results: List[Result], measured: List[Record], image_dir: Path) -> Optional[Tuple[str, str]]:
    """Draw the score of each system on WNUT-17 over its words per second.

    measured (List[Record]): As choice.py writes it.
    RETURNS (Optional[Tuple[str, str]]): Title and file name; None if fewer than two systems have both.
    """
    column = next(iter(COLUMNS))
    groups = {system.replace("`", ""): find_best(results, system, column) for system in SYSTEMS}
    speeds = {system: find_speed(group, measured) for system, group in groups.items()}
    points = {
        system: (speed["words_per_s"], mean(percents(groups[system], COLUMNS[column][1])))
        for system, speed in speeds.items()
        if speed is not None
    }
    if len(points) < 2:
        return None
    path, title = image_dir / "choice_wnut17.png", _name_best(points)
    check_picture(path)
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    figure, (axes,) = new_figure(height=4.4)
    draw_points(axes, [Curve(system, [speed], [score]) for system, (speed, score) in points.items()])
    axes.set(xlabel="Words per second, whole pipeline, one CPU thread", ylabel="F on the test data", xscale="log")
    axes.xaxis.set_major_locator(LogLocator(subs=LOG_TICKS))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    set_title(figure, title)
    add_legend(figure, axes, n_columns=2)
    save_figure(figure, path)
    return title, path.name


def _name_best(points: Dict[str, Tuple[float, float]]) -> str:
    """RETURNS (str): The best score, and what it costs against the fastest system."""
    fastest, best = (max(points, key=lambda system: points[system][axis]) for axis in (0, 1))
    if best == fastest:
        return f"WNUT-17: {best} is best and fastest"
    factor = points[fastest][0] / points[best][0]
    return f"WNUT-17: highest F with {best}; {fastest} is {factor:.1f} times as fast"


def from_percent(record: Record) -> Record:
    """record (Record): Senses by layer, as layers.py writes them: in percent, the baseline a row.
    RETURNS (Record): The same as `spacy_elmo.analysis.probes.probe_data` returns it.
    """
    scores = {row["layer"]: {key: row[key] / 100 for key in ("value", "low", "high")} for row in record["rows"]}
    baseline = scores.pop("first sense")
    rows = [{"layer": layer, "nearest": score} for layer, score in scores.items()]
    return {**record, "attr": "sense", "metric": "F1", "baselines": {"most frequent sense": baseline}, "layers": rows}
