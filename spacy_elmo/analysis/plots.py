"""One style for all pictures: colours that colour-blind readers can distinguish, curves with bands, atomic saving.

All pictures go through this module; other modules call it: layer weights, probes, senses. Perplexities
of pretraining are drawn here.
"""

import math
import os
import re
import sys
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import srsly

from ..files import AnyPath, atomic_file
from ..pipeline.surprisal import Surprisal
from ..util import DIRECTIONS, has_matplotlib, require_package

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito (2008), black left out, the light ones last.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442")
MILLION = 1e6
# The validations of a run, in order: "n_tokens", and "forward" and "backward" where the biLM has this direction.
Validations = Sequence[Dict[str, Any]]
PICTURE_SUFFIXES = (".png", ".svg", ".pdf")
WIDTH = 7.0  # inches
CM = 2.54  # of an inch
DPI = 120
SMALLEST = 0.75  # of the size of texts, in narrow pictures
WORDS_OF_PANEL = 24
ABOVE = 1 + 1e-9  # above the rounding error of a length in inches
UNKNOWN_LABEL = "outside the vocabulary (<UNK>): too low"  # in the legend of surprisal
TITLE_WIDTH = 80  # characters of a line
# Curves differ in these, too, so that they can be distinguished in grey.
MARKERS = "osD^vp*"
STYLES = ("-", "--", "-.", ":")
HATCHES = ("", "///", "...", "\\\\\\", "xxx", "---", "ooo")  # of bars
FONTS: Any = {"pdf.fonttype": 42, "hatch.linewidth": 0.6}  # TrueType, since journals refuse fonts of type 3


@dataclass(frozen=True)
class Look:
    """How a picture differs from the defaults, for instance for a paper.

    title (Optional[str]): Instead of the finding; "" for no title.
    width (Optional[float]), height (Optional[float]): In cm.
    dpi (int): Resolution of .png files.
    labels (Mapping[str, str]): Other texts for labels of the picture, for instance in another language.
    """

    title: Optional[str] = None
    width: Optional[float] = None
    height: Optional[float] = None
    dpi: int = DPI
    labels: Mapping[str, str] = field(default_factory=dict)


class Curve(NamedTuple):
    """A curve, or single points with bars if it is not a course.

    label (str): In the legend; "" for none.
    places (Sequence[float]), values (Sequence[float]): Coordinates of the points.
    lows (Optional[Sequence[float]]), highs (Optional[Sequence[float]]): Bounds of a band around it.
    style (Optional[int]): Number of its colour, marker and line style; None for its number among the curves.
    """

    label: str
    places: Sequence[float]
    values: Sequence[float]
    lows: Optional[Sequence[float]] = None
    highs: Optional[Sequence[float]] = None
    style: Optional[int] = None


def check_picture(path: Path) -> None:
    """path (Path): File that a picture will be written to.
    RAISES (ValueError): For another suffix than .png, .svg or .pdf, or without matplotlib.
    """
    if path.suffix.lower() not in PICTURE_SUFFIXES:
        suffixes = ", ".join(PICTURE_SUFFIXES)
        raise ValueError(f"A picture cannot be written to '{path}': its suffix should be one of {suffixes}. Change it.")
    require_package(has_matplotlib, "A picture", "matplotlib", "`pip install matplotlib`")
    _load_matplotlib()


def _load_matplotlib() -> None:
    """Import it, also if the environment variable MPLBACKEND names a backend that is missing here, as in a program that
    a notebook starts. Files need no backend. An import that has failed cannot be repeated.
    """
    if "matplotlib" in sys.modules or "MPLBACKEND" not in os.environ:
        return
    backend = os.environ.pop("MPLBACKEND")
    try:
        from matplotlib import rcParams
    finally:
        os.environ["MPLBACKEND"] = backend
    with suppress(ValueError):  # the backend is missing
        rcParams.update({"backend": backend} if backend else {})


def new_figure(
    *, height: float, n_panels: int = 1, look: Optional[Look] = None, share_x: bool = True
) -> "Tuple[Figure, List[Any]]":
    """height (float): In inches, for the default width, if `look` has none.
    n_panels (int): Panels below each other.
    look (Optional[Look]): Its size; its other settings are for `save_figure`.
    share_x (bool): Panels have the same horizontal axis.
    """
    _load_matplotlib()
    from matplotlib.figure import Figure

    look = look or Look()
    width = look.width / CM if look.width else WIDTH
    height = look.height / CM if look.height else height * min(1.0, max(SMALLEST, width / WIDTH))
    # The number of pixels, size times resolution, is cut off: 8 cm of 254 dpi must not be 799.99999.
    figure = Figure(figsize=(width * ABOVE, height * ABOVE), layout="constrained")
    panels = list(figure.subplots(n_panels, squeeze=False, sharex=share_x)[:, 0])
    for axes in panels:
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels


def draw_curves(axes: Any, curves: Sequence[Curve]) -> None:
    """curves (Sequence[Curve]): Each with its colour, marker and line style, and its band."""
    for i, curve in enumerate(curves):
        style = i if curve.style is None else curve.style
        colour = COLOURS[style % len(COLOURS)]
        look = {"color": colour, "marker": MARKERS[style % len(MARKERS)], "linestyle": STYLES[style % len(STYLES)]}
        axes.plot(curve.places, curve.values, label=curve.label or None, markersize=4, **look)
        if curve.lows is not None and curve.highs is not None:
            axes.fill_between(curve.places, curve.lows, curve.highs, color=colour, alpha=0.2, linewidth=0)


def draw_points(axes: Any, curves: Sequence[Curve]) -> None:
    """curves (Sequence[Curve]): Points that are no course: each with a bar from its low to its high."""
    for i, curve in enumerate(curves):
        style = i if curve.style is None else curve.style
        bars = None
        if curve.lows is not None and curve.highs is not None:
            bounds = zip(curve.values, curve.lows, curve.highs)
            bars = list(zip(*((value - low, high - value) for value, low, high in bounds)))
        look = {"color": COLOURS[style % len(COLOURS)], "marker": MARKERS[style % len(MARKERS)]}
        points = (curve.places, curve.values, bars)
        axes.errorbar(*points, label=curve.label or None, linestyle="", markersize=5, capsize=3, **look)


def set_title(figure: "Figure", title: str) -> None:
    """Set the finding, in a sentence, as the title."""
    figure.suptitle(wrap(figure, title), fontsize=10.5)


def wrap(figure: "Figure", text: str, width: int = TITLE_WIDTH) -> str:
    """RETURNS (str): A text for a figure in lines, with `width` characters where the figure has its default width. Its
    dollar signs are no formulas.
    """
    return fill(text, max(10, int(width * figure.get_figwidth() / WIDTH))).replace("$", r"\$")


def add_legend(figure: "Figure", axes: Any, *, n_columns: int, **look: Any) -> None:
    """Set a legend of the labels of `axes` below all panels, `n_columns` in a row, fewer in a narrow figure."""
    n_columns = max(1, min(n_columns, round(n_columns * figure.get_figwidth() / WIDTH)))
    place = {"loc": "outside lower center", "ncols": n_columns, "frameon": False}
    figure.legend(*axes.get_legend_handles_labels(), **{**place, **look})


def save_figure(figure: "Figure", path: AnyPath, *, source: str = "", look: Optional[Look] = None) -> None:
    """path (AnyPath): Where; the file is complete or not there. SVG and PDF files hold no date.
    source (str): What the picture was drawn from, noted in the file.
    look (Optional[Look]): Its title, labels and resolution.
    RAISES (ValueError): For labels that the picture does not have, or a picture that is too small for its labels.
    """
    from matplotlib import rc_context
    from matplotlib.text import Text

    path, look = Path(os.fsdecode(path)), look or Look()
    if look.labels:
        _rename(figure, look.labels)
    if look.title is not None:
        set_title(figure, look.title)
        figure.suptitle(figure.get_suptitle()).set_in_layout(bool(look.title))
    note, date = {".svg": ("Source", "Date"), ".pdf": ("Subject", "CreationDate")}.get(
        path.suffix.lower(), ("Source", "")
    )
    noted = {**({note: source} if source else {}), **({date: None} if date else {})}
    for text in figure.findobj(Text):
        text.set_fontsize(float(text.get_fontsize()) * min(1.0, max(SMALLEST, figure.get_figwidth() / WIDTH)))
    with atomic_file(path) as target, rc_context(FONTS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # characters that the font lacks are drawn as boxes
        warnings.filterwarnings("error", message="constrained_layout not applied")
        try:
            figure.savefig(target, dpi=look.dpi, metadata=noted)
        except UserWarning as error:
            raise ValueError(
                "The picture is too small for its labels. Choose a larger size, or shorter labels."
            ) from error


def _rename(figure: "Figure", labels: Mapping[str, str]) -> None:
    """Replace labels: names of curves and groups, of axes, and of positions on them. The text after a colon, a
    parenthesis or a line break in a label stays.
    """
    from matplotlib.ticker import FixedLocator

    names = "|".join(map(re.escape, sorted(labels, key=len, reverse=True)))
    pattern = re.compile(rf"({names})(?=$|\n|: | \()")
    unused = dict.fromkeys(labels)
    known: Dict[str, None] = {}

    def change(text: str) -> str:
        known.setdefault(re.split(r"\n|: | \(", text)[0])
        match = pattern.match(text)
        if not match:
            return text
        unused.pop(match[1], None)
        return labels[match[1]].replace("$", r"\$") + text[match.end() :]

    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(axis.get_major_locator(), FixedLocator):  # names, no numbers
                axis.set_ticklabels([change(label.get_text()) for label in axis.get_ticklabels()])
        for text in (axes.title, axes.xaxis.label, axes.yaxis.label):
            text.set_text(change(text.get_text()))
    for text in [text for legend in figure.legends for text in legend.get_texts()]:
        text.set_text(change(text.get_text()))
    if unused:
        raise ValueError(
            f"The picture has no label '{next(iter(unused))}'. Its labels: {', '.join(filter(None, known))}. Choose "
            "one of these labels; the title has its own option."
        )


def read_validations(log: Path) -> Validations:
    """RETURNS (Validations): The rows with a perplexity in the `log.jsonl` of a run."""
    rows: List[Dict[str, Any]] = list(srsly.read_jsonl(log))
    return [row for row in rows if any(row.get(name) is not None for name in DIRECTIONS)]


def draw_perplexities(runs: Sequence[Validations], path: Path, *, source: str = "") -> None:
    """Draw a curve per direction; it is interrupted between runs, whose held-out texts may differ.

    runs (Sequence[Validations]): Runs that continue each other, each with a validation; their tokens are added up.
    path (Path): File to write: .png, .svg or .pdf.
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
    set_title(figure, _perplexity_title(runs))
    add_legend(figure, axes, n_columns=3)
    save_figure(figure, path, source=source)


def _perplexity_title(runs: Sequence[Validations]) -> str:
    pairs = [(_mean_directions(run[0]), _mean_directions(run[-1])) for run in runs]
    n_tokens = sum(run[-1]["n_tokens"] for run in runs) / MILLION
    falls = all(last < first for first, last in pairs)
    if len(runs) > 1:
        change = "falls in each" if falls else "does not fall in each"
        return f"Held-out perplexity {change} of {len(runs)} runs, to {pairs[-1][1]:.0f} after {n_tokens:.1f} M tokens"
    change = "falls" if falls else "does not fall"
    return f"Held-out perplexity {change}: from {pairs[0][0]:.0f} to {pairs[0][1]:.0f} after {n_tokens:.1f} M tokens"


def _perplexity_curve(run: Validations, name: str, n_before: int, *, is_first: bool) -> Curve:
    rows = [row for row in run if row.get(name) is not None]
    places = [(n_before + row["n_tokens"]) / MILLION for row in rows]
    style = DIRECTIONS.index(name)
    return Curve(name if is_first else "", places, [row[name] for row in rows], style=style)


def _mean_directions(row: Dict[str, Any]) -> float:
    values = [row[name] for name in DIRECTIONS if row.get(name) is not None]
    return float(sum(values) / len(values))


WordSurprisals = Sequence[Tuple[str, Surprisal]]
GAP = ("", Surprisal(math.nan, math.nan, math.nan, is_unk=False))  # a place between sentences


def draw_surprisal(
    tokens: WordSurprisals, path: Path, *, title: str, look: Optional[Look] = None, starts: Sequence[int] = ()
) -> None:
    """Draw a curve per direction over the words of a text, `WORDS_OF_PANEL` in a panel, interrupted between sentences.
    Words outside the vocabulary have open markers.

    tokens (Sequence[Tuple[str, Surprisal]]): Words with their surprisal.
    path (Path), title (str), look (Optional[Look]): See `save_figure`.
    starts (Sequence[int]): The first words of sentences.
    """
    lines = _divide_words(tokens, starts)
    highest = max((bits for _, surprisal in tokens for bits in surprisal[:2] if bits > 0), default=0.0)
    figure, panels = new_figure(height=0.8 + 2.2 * len(lines), n_panels=len(lines), look=look, share_x=False)
    for axes, line in zip(panels, lines):
        _draw_words(figure, axes, line)
        axes.set(ylabel="surprisal (bits)", xlim=(-0.5, max(map(len, lines)) - 0.5), ylim=(0, 1.08 * highest or 1))
    if any(surprisal.is_unk for _, surprisal in tokens):
        panels[0].plot([], [], linestyle="", marker="o", label=UNKNOWN_LABEL, **_open_marker("grey"))
    set_title(figure, title)
    add_legend(figure, panels[0], n_columns=3)
    save_figure(figure, path, look=look)


def _divide_words(tokens: WordSurprisals, starts: Sequence[int]) -> List[List[Tuple[str, Surprisal]]]:
    """RETURNS (List[List[Tuple[str, Surprisal]]]): The words of each panel, with gaps before sentences."""
    n_panels = max(1, -(-len(tokens) // WORDS_OF_PANEL))
    n_words = -(-len(tokens) // n_panels)
    lines: List[List[Tuple[str, Surprisal]]] = [[] for _ in range(n_panels)]
    for i, token in enumerate(tokens):
        line = lines[i // n_words]
        line += [GAP, token] if i in starts and line else [token]
    return lines


def _draw_words(figure: "Figure", axes: Any, line: WordSurprisals) -> None:
    draw_curves(
        axes, [Curve(name, range(len(line)), [bits[k] for _, bits in line]) for k, name in enumerate(DIRECTIONS)]
    )
    unknown = [place for place, (_, surprisal) in enumerate(line) if surprisal.is_unk]
    for curve in list(axes.get_lines()):
        values, look = [curve.get_ydata()[place] for place in unknown], _open_marker(curve.get_color())
        axes.plot(unknown, values, linestyle="", marker=curve.get_marker(), markersize=7, **look)
    words = [(place, wrap(figure, word, 1000)) for place, (word, _) in enumerate(line) if word]
    axes.set_xticks([place for place, _ in words], [word for _, word in words], rotation=45, ha="right")


def _open_marker(colour: str) -> Dict[str, Any]:
    return {"markerfacecolor": "white", "markeredgecolor": colour, "markeredgewidth": 1.5}
