"""Pictures of score against speed: what the vectors of a pipeline cost."""

from pathlib import Path
from typing import Any, Dict, Sequence

from .plots import Curve, add_legend, draw_points, new_figure, save_figure, set_title, use_log_scale

# "label", "words_per_s", and "score" (0 to 1) or None.
Row = Dict[str, Any]


def draw_speeds(rows: Sequence[Row], path: Path, *, title: str, source: str = "") -> None:
    """Draw the score of each pipeline over its words per second; one without a score is a line.

    rows (Sequence[Row]): The pipelines.
    path (Path): File to write, .png or .svg.
    title (str): The finding.
    source (str): See `save_figure`.
    """
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
