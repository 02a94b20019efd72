"""One style for all pictures: colours that colour-blind readers can tell apart, sizes, atomic saving."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, List, Tuple

from .._compat import has_matplotlib
from ..errors import Errors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito (2008), black left out, the light ones last.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442")
SUFFIXES = (".png", ".svg")
WIDTH = 7.0  # inches
DPI = 120


def check_picture(path: Path) -> None:
    """path (Path): File that a picture will be written to.
    RAISES (ValueError): EL232 for another suffix than .png or .svg, EL233 without matplotlib.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(Errors.EL232.format(path=path, suffixes=" or ".join(SUFFIXES)))
    if not has_matplotlib:
        raise ValueError(Errors.EL233)


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


def save_figure(figure: "Figure", path: Path) -> None:
    """figure (Figure): What to save.
    path (Path): Where; the file is complete or not there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.stem}.part{path.suffix}")
    figure.savefig(part, dpi=DPI)
    part.replace(path)
