"""One style for all pictures: colours that colour-blind readers can tell apart, curves with bands, atomic saving.

All pictures go through this module; those beside it know what they show: layer weights, probes, senses. Perplexities
of pretraining are drawn here.
"""

import os
from itertools import accumulate
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import srsly

from ..util import AnyPath, atomic_file, has_matplotlib

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito (2008), black left out, the light ones last.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442")
DIRECTIONS = ("forward", "backward")
MILLION = 1e6
# The validations of a run, in order: "n_tokens", and "forward" and "backward" where the biLM has this direction.
Run = Sequence[Dict[str, Any]]
SUFFIXES = (".png", ".svg")
WIDTH = 7.0  # inches
DPI = 120
TITLE_WIDTH = 80  # characters of a line
# Curves differ in these, too, so that they can be told apart in grey.
MARKERS = "osD^vp*"
STYLES = ("-", "--", "-.", ":")


class Curve(NamedTuple):
    """A curve, or single points with bars if it is not a course.

    label (str): In the legend; "" for none.
    places (Sequence[float]), values (Sequence[float]): Coordinates of the points.
    lows (Optional[Sequence[float]]), highs (Optional[Sequence[float]]): Bounds of a band around it.
    number (Optional[int]): Of its colour, marker and line style; None for its number among the curves.
    """

    label: str
    places: Sequence[float]
    values: Sequence[float]
    lows: Optional[Sequence[float]] = None
    highs: Optional[Sequence[float]] = None
    number: Optional[int] = None


def check_picture(path: Path) -> None:
    """path (Path): File that a picture will be written to.
    RAISES (ValueError): For another suffix than .png or .svg, or without matplotlib.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(
            f"A picture cannot be written to '{path}': its suffix should be {' or '.join(SUFFIXES)}. Change "
            "the file name."
        )
    if not has_matplotlib:
        raise ValueError("A picture needs matplotlib, which is not installed. Install it: `pip install matplotlib`.")


def new_figure(*, height: float, n_panels: int = 1) -> "Tuple[Figure, List[Any]]":
    """height (float): In inches.
    n_panels (int): Panels below each other.
    RETURNS (Tuple[Figure, List[Axes]]): The figure and its panels.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    panels = list(figure.subplots(n_panels, squeeze=False, sharex=True)[:, 0])
    for axes in panels:
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels


def draw_curves(axes: Any, curves: Sequence[Curve]) -> None:
    """axes (Axes): Panel to draw into.
    curves (Sequence[Curve]): Each with its colour, marker and line style, and its band.
    """
    for i, curve in enumerate(curves):
        number = i if curve.number is None else curve.number
        colour = COLOURS[number % len(COLOURS)]
        look = {"color": colour, "marker": MARKERS[number % len(MARKERS)], "linestyle": STYLES[number % len(STYLES)]}
        axes.plot(curve.places, curve.values, label=curve.label or None, markersize=4, **look)
        if curve.lows is not None and curve.highs is not None:
            axes.fill_between(curve.places, curve.lows, curve.highs, color=colour, alpha=0.2, linewidth=0)


def draw_points(axes: Any, curves: Sequence[Curve]) -> None:
    """axes (Axes): Panel to draw into.
    curves (Sequence[Curve]): Points that are no course: each with a bar from its low to its high.
    """
    for i, curve in enumerate(curves):
        number = i if curve.number is None else curve.number
        bars = None
        if curve.lows is not None and curve.highs is not None:
            bounds = zip(curve.values, curve.lows, curve.highs)
            bars = list(zip(*((value - low, high - value) for value, low, high in bounds)))
        look = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
        points = (curve.places, curve.values, bars)
        axes.errorbar(*points, label=curve.label or None, linestyle="", markersize=5, capsize=3, **look)


def set_title(figure: "Figure", title: str) -> None:
    """figure (Figure): Its title is set.
    title (str): The finding, in a sentence.
    """
    figure.suptitle(fill(title, TITLE_WIDTH), fontsize=10.5)


def add_legend(figure: "Figure", axes: Any, *, n_columns: int) -> None:
    """figure (Figure): Its legend is below all panels.
    axes (Axes): Where the labels are.
    n_columns (int): Labels in a row.
    """
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=n_columns, frameon=False)


def save_figure(figure: "Figure", path: AnyPath, *, source: str = "") -> None:
    """figure (Figure): What to save.
    path (AnyPath): Where; the file is complete or not there. SVG files hold no date.
    source (str): What the picture was drawn from, noted in the file.
    """
    path = Path(os.fsdecode(path))
    noted = {"Source": source} if source else {}
    is_svg = path.suffix.lower() == ".svg"
    with atomic_file(path) as part:
        figure.savefig(part, dpi=DPI, metadata={**noted, "Date": None} if is_svg else noted)


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
        draw_curves(axes, [_perplexity_curve(run, name, n_before, is_first=not n_before) for name in DIRECTIONS])
        n_before += run[-1]["n_tokens"]
    ends = [run[-1]["n_tokens"] for run in runs[:-1]]
    for i, n_tokens in enumerate(accumulate(ends)):
        axes.axvline(n_tokens / MILLION, color="grey", linestyle=":", label=None if i else "next run")
    axes.set(xlabel="tokens seen (millions)", ylabel="held-out perplexity", yscale="log")
    axes.yaxis.set_major_formatter("{x:.0f}")
    axes.yaxis.set_minor_formatter("{x:.0f}")
    axes.grid(which="both", alpha=0.3)
    set_title(figure, perplexity_title(runs))
    add_legend(figure, axes, n_columns=3)
    save_figure(figure, path, source=source)


def perplexity_title(runs: Sequence[Run]) -> str:
    """RETURNS (str): The finding: whether the perplexity falls, and where it ends."""
    pairs = [(_mean(run[0]), _mean(run[-1])) for run in runs]
    n_tokens = sum(run[-1]["n_tokens"] for run in runs) / MILLION
    falls = all(last < first for first, last in pairs)
    if len(runs) > 1:
        change = "falls in each" if falls else "does not fall in each"
        return f"Held-out perplexity {change} of {len(runs)} runs, to {pairs[-1][1]:.0f} after {n_tokens:.1f} M tokens"
    change = "falls" if falls else "does not fall"
    return f"Held-out perplexity {change}: from {pairs[0][0]:.0f} to {pairs[0][1]:.0f} after {n_tokens:.1f} M tokens"


def _perplexity_curve(run: Run, name: str, n_before: int, *, is_first: bool) -> Curve:
    rows = [row for row in run if row.get(name) is not None]
    places = [(n_before + row["n_tokens"]) / MILLION for row in rows]
    number = DIRECTIONS.index(name)
    return Curve(name if is_first else "", places, [row[name] for row in rows], number=number)


def _mean(row: Dict[str, Any]) -> float:
    values = [row[name] for name in DIRECTIONS if row.get(name) is not None]
    return float(sum(values) / len(values))
