"""Plots of the sample efficiency: test score by share of the training data, with and without ELMo."""

from pathlib import Path
from statistics import mean, stdev
from typing import Any, Dict, List, Tuple

from paper_tables import SHARE_TASKS, Result, measured_shares, percents, select

from spacy_elmo.analysis.plots import COLOURS, check_picture, new_figure, save_figure

CURVES = (("elmo", "with ELMo", COLOURS[0], "o"), ("baseline", "without ELMo", COLOURS[4], "s"))
Points = Dict[int, Tuple[float, float]]


def draw_shares(results: List[Result], image_dir: Path) -> List[Tuple[str, str]]:
    """Write one image per task with at least two shares. RETURNS (List[Tuple[str, str]]): Title and file name."""
    drawn = []
    for task, title, label, key in SHARE_TASKS:
        shares = measured_shares(results, task)
        curves = {name: _points(results, task, name, key, shares) for name, *_ in CURVES}
        if min(len(points) for points in curves.values()) < 2:
            continue
        heading = make_title(f"{title}, {label}", curves)
        _draw(heading, f"{label}, test data (mean ± std. dev.)", curves, image_dir / _name(task))
        drawn.append((heading, _name(task)))
    return drawn


def make_title(task: str, curves: Dict[str, Points]) -> str:
    """RETURNS (str): The finding, if the difference is positive at every measured share; otherwise the axes."""
    shared = sorted(set(curves["elmo"]) & set(curves["baseline"]))
    gains = [curves["elmo"][share][0] - curves["baseline"][share][0] for share in shared]
    if gains and min(gains) > 0:
        return f"{task}: higher with ELMo at every measured share"
    return f"{task} by share of the training data"


def _points(results: List[Result], task: str, condition: str, key: str, shares: List[int]) -> Points:
    found = {share: percents(select(results, task, condition, share), key) for share in shares}
    return {share: (mean(v), stdev(v) if len(v) > 1 else 0.0) for share, v in found.items() if v}


def _draw(title: str, label: str, curves: Dict[str, Points], path: Path) -> None:
    check_picture(path)
    figure, (axes,) = new_figure(height=4.0)
    for name, text, colour, marker in CURVES:
        points: Any = sorted(curves[name].items())
        means, spreads = zip(*(values for _, values in points), strict=True)
        shares = [share for share, _ in points]
        axes.errorbar(shares, means, spreads, label=text, color=colour, marker=marker, capsize=3)
    axes.set(xscale="log", xlabel="Training docs (%)", ylabel=label, title=title)
    ticks = sorted({share for points in curves.values() for share in points})
    axes.set_xticks(ticks, [str(share) for share in ticks])
    axes.minorticks_off()
    axes.legend()
    save_figure(figure, path)


def _name(task: str) -> str:
    return f"shares_{task}.png"
