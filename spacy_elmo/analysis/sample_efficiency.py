"""Pictures of sample efficiency (Peters et al. 2018, fig. 1): test score by share of the training data."""

from pathlib import Path
from statistics import mean, stdev
from typing import Dict, List, Sequence

from .plots import Curve, add_legend, draw_curves, new_figure, save_figure, set_title

# Scores of the seeds in percent, by share of the training data in percent.
Scores = Dict[int, Sequence[float]]


def draw_sample_efficiency(
    task: str, with_elmo: Scores, without: Scores, path: Path, *, score: str = "Score", source: str = ""
) -> str:
    """Draw the mean with and without ELMo, each in a band of one standard deviation over the seeds.

    task (str): For the title.
    with_elmo (Scores), without (Scores): At least one score for each share.
    path (Path): File to write, .png or .svg.
    score (str): Name of the score.
    source (str): See `save_figure`.
    RETURNS (str): The title.
    """
    figure, (axes,) = new_figure(height=4.0)
    draw_curves(axes, [_make_curve("with ELMo", with_elmo, 0), _make_curve("without ELMo", without, 4)])
    axes.set(xscale="log", xlabel="Training docs (%)", ylabel=f"{score}, test data (mean ± std. dev.)")
    shares = sorted({*with_elmo, *without})
    axes.set_xticks(shares, [f"{share:g}" for share in shares])
    axes.minorticks_off()
    title = make_title(task, with_elmo, without)
    set_title(figure, title)
    add_legend(figure, axes, n_columns=2)
    save_figure(figure, path, source=source)
    return title


def make_title(task: str, with_elmo: Scores, without: Scores) -> str:
    """RETURNS (str): The finding, if the difference is positive at every share that both have; otherwise the axes."""
    gains: List[float] = [mean(with_elmo[share]) - mean(without[share]) for share in with_elmo.keys() & without.keys()]
    if gains and min(gains) > 0:
        return f"{task}: higher with ELMo at every measured share"
    return f"{task} by share of the training data"


def _make_curve(label: str, scores: Scores, number: int) -> Curve:
    shares = sorted(scores)
    means = [mean(scores[share]) for share in shares]
    spreads = [stdev(scores[share]) if len(scores[share]) > 1 else 0.0 for share in shares]
    lows, highs = zip(*((value - spread, value + spread) for value, spread in zip(means, spreads)))
    return Curve(label, shares, means, lows, highs, number)
