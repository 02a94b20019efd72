"""Small charts as SVG text, for pages that need no other file and no plotting library. Colours are those of `plots`."""

from html import escape
from math import ceil, floor, isfinite
from typing import Callable, Iterable, List, Sequence, Tuple

from .plots import COLOURS

WIDTH, HEIGHT = 360, 210  # units of the view box; the page scales it
LEFT, RIGHT, TOP, BOTTOM = 44, 10, 8, 34  # margins for the labels of the axes
DASHES = ("", "6 3", "2 3", "8 3 2 3")  # lines can be told apart without colours, too
TEXT = 'font-size="11" fill="#333"'
DARK = {"#0072B2"}  # colours that need white text

STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # between the values of an axis
MAX_TICKS = 6

Points = Sequence[Tuple[float, float]]
Place = Callable[[float, float], Tuple[float, float]]


def draw_lines(lines: Sequence[Tuple[str, Points]], *, label: str, x_label: str = "training steps") -> str:
    """Draw curves in percent.

    lines (Sequence[Tuple[str, Points]]): Name and points (x, y) of each; other than finite numbers are left out.
    label (str): What the chart shows, for readers who do not see it.
    x_label (str): Below the axis.
    RETURNS (str): An SVG element; names are in `draw_key`.
    """
    kept = [[(x, y) for x, y in points if isfinite(x) and isfinite(y)] for _, points in lines]
    ticks = choose_ticks(y for points in kept for _, y in points)
    last = max((x for points in kept for x, _ in points), default=0.0) or 1.0

    def place(x: float, y: float) -> Tuple[float, float]:
        across = LEFT + x / last * (WIDTH - LEFT - RIGHT)
        return across, TOP + (ticks[-1] - y) / (ticks[-1] - ticks[0]) * (HEIGHT - TOP - BOTTOM)

    parts = [*_draw_grid(ticks, last, place), _write(WIDTH - RIGHT, HEIGHT - 4, x_label, "end")]
    parts += [_draw_line(points, number, place) for number, points in enumerate(kept) if points]
    return _wrap(parts, HEIGHT, label)


def draw_shares(shares: Sequence[float], *, label: str) -> str:
    """Draw one bar, divided by shares.

    shares (Sequence[float]): They sum to one.
    label (str): What the bar shows, for readers who do not see it.
    RETURNS (str): An SVG element.
    """
    parts, x = [], 0.0
    for number, share in enumerate(shares):
        colour, width = COLOURS[number % len(COLOURS)], share * WIDTH
        parts.append(f'<rect x="{x:.1f}" y="0" width="{width:.1f}" height="26" fill="{colour}"/>')
        if share >= 0.09:
            text = "white" if colour in DARK else "black"
            middle = f'x="{x + width / 2:.1f}" y="18" text-anchor="middle"'
            parts.append(f'<text {middle} font-size="13" fill="{text}">{share:.0%}</text>')
        x += width
    return _wrap(parts, 26, label)


def draw_key(names: Sequence[str], *, is_lines: bool) -> str:
    """names (Sequence[str]): In the order of the lines or shares.
    is_lines (bool): Show dashes as in `draw_lines`.
    RETURNS (str): An HTML paragraph that names the colours.
    """
    items: List[str] = []
    for number, name in enumerate(names):
        shape = _draw_mark(number) if is_lines else f'<rect width="24" height="12" fill="{_colour(number)}"/>'
        mark = f'<svg viewBox="0 0 24 12" width="24" height="12" aria-hidden="true">{shape}</svg>'
        items.append(f"<span>{mark} {escape(name)}</span>")
    return f'<p class="key">{" ".join(items)}</p>'


def choose_ticks(values: Iterable[float]) -> List[float]:
    """values (Iterable[float]): Percent; other than finite numbers are left out.
    RETURNS (List[float]): Round values of an axis that contains them all, evenly spaced, at most six.
    """
    kept = [value for value in values if isfinite(value)] or [0.0, 100.0]
    for step in STEPS:
        low, high = floor(min(kept) / step), ceil(max(kept) / step)
        if high - low < MAX_TICKS:
            break
    return [number * step for number in range(low, max(high, low + 1) + 1)]


def _draw_grid(ticks: Sequence[float], last: float, place: Place) -> List[str]:
    parts = []
    for tick in ticks:
        left, y = place(0.0, tick)
        parts.append(f'<path d="M{left:.1f} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(_write(left - 5, y + 4, f"{tick:g} %", "end"))
    for x_value, anchor in ((0.0, "start"), (last / 2, "middle"), (last, "end")):
        x, y = place(x_value, ticks[0])
        parts.append(_write(x, y + 15, f"{x_value:,.0f}", anchor))
    return parts


def _draw_line(points: Points, number: int, place: Place) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
    dashes = f' stroke-dasharray="{DASHES[number % len(DASHES)]}"' if number % len(DASHES) else ""
    return f'<polyline points="{path}" fill="none" stroke="{_colour(number)}" stroke-width="2"{dashes}/>'


def _draw_mark(number: int) -> str:
    return _draw_line([(0.0, 6.0), (24.0, 6.0)], number, lambda x, y: (x, y))


def _write(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {TEXT}>{escape(text)}</text>'


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _wrap(parts: Sequence[str], height: int, label: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'
