"""Pictures of score against speed: what the vectors of a pipeline cost."""

from pathlib import Path
from typing import Any, Dict, Sequence

from .plots import Curve, add_legend, draw_points, new_figure, save_figure, set_title

# "label", "words_per_s", and "score" (0 to 1) or None.
Row = Dict[str, Any]
TICKS = (1, 1.5, 2, 3, 5, 7)  # of each power of ten


def draw_speeds(rows: Sequence[Row], path: Path, *, title: str, source: str = "") -> None:
    """Draw the score of each pipeline over its words per second; one without a score is a line.

    rows (Sequence[Row]): The pipelines.
    path (Path): File to write, .png or .svg.
    title (str): The finding.
    source (str): See `save_figure`.
    """
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    figure, (axes,) = new_figure(height=4.4)
    for number, row in enumerate(rows):
        if row["score"] is None:
            axes.axvline(row["words_per_s"], linestyle="--", color="grey", label=row["label"])
        else:
            draw_points(axes, [Curve(row["label"], [row["words_per_s"]], [100 * row["score"]], number=number)])
    axes.set(xscale="log", xlabel="Words per second, whole pipeline, one CPU thread", ylabel="Score on the test data")
    axes.xaxis.set_major_locator(LogLocator(subs=TICKS))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    set_title(figure, title)
    add_legend(figure, axes, n_columns=2)
    save_figure(figure, path, source=source)
