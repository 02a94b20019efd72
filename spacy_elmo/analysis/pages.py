"""Pages of HTML: escaped text, tables, small SVG charts, the frame with its style, and the page of a text's surprisal.

A page needs no other file and no plotting library, and runs no script but its own. It has the colours of `plots`, light
or dark as the reader's system is; in print light.
"""

import math
import re
from html import escape
from pathlib import Path
from typing import Callable, Iterable, List, Sequence, Tuple

from ..pipeline.surprisal import Surprisal
from .plots import COLOURS

# Control characters, also those that change the direction of a text, and halves of surrogate pairs.
UNSAFE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
PAGE_FILES = Path(__file__).parent / "static"
PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
SCRIPT_POLICY = f"{PAGE_POLICY}; script-src 'unsafe-inline'"
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""
WIDTH, HEIGHT = 360, 210  # units of the view box; the page scales it
LEFT, RIGHT, TOP, BOTTOM = 44, 10, 8, 34  # margins for the labels of the axes
DASHES = ("", "6 3", "2 3", "8 3 2 3")  # lines can be distinguished without colours, too
DARK = {"#0072B2"}  # colours that need white text
AXIS_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # between the values of an axis
MAX_TICKS = 6
Points = Sequence[Tuple[float, float]]
ToCoordinates = Callable[[float, float], Tuple[float, float]]
FULL_COLOUR = 16.0  # bits from which the colour is full
DARK_SHARE = 0.935  # share of the colour on white from which white text has a contrast of 4.5, below it black text
RGB = "0, 114, 178"  # blue of `plots.COLOURS`


def to_html(text: object) -> str:
    """RETURNS (str): A text, escaped; characters that a page should not have become U+FFFD."""
    return escape(UNSAFE.sub("\ufffd", str(text)))


def make_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, kind: str = "") -> str:
    """RETURNS (str): A table of HTML cells that scrolls where it is too wide; `kind` is a class of the style, "facts"
    for names and texts.
    """
    head = f"<thead><tr>{''.join(f'<th>{cell}</th>' for cell in header)}</tr></thead>" if header else ""
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide"><table class="{kind}">{head}<tbody>{body}</tbody></table></div>'


def make_section(title: str, *elements: str) -> str:
    """RETURNS (str): A section of parts (HTML) with a title (plain text); empty without parts."""
    content = "\n".join(element for element in elements if element)
    return f"<section>\n<h2>{to_html(title)}</h2>\n{content}\n</section>" if content else ""


def make_page(title: str, elements: Sequence[str], *, kind: str) -> str:
    """title (str): Plain text.
    elements (Sequence[str]): HTML.
    kind (str): "report", "senses" or "surprisal": its style in `static`, and its script, if it has one.
    RETURNS (str): The page. Its Content-Security-Policy lets it fetch nothing.
    """
    style = "".join((PAGE_FILES / f"{name}.css").read_text(encoding="utf8") for name in ("page", kind))
    script = PAGE_FILES / f"{kind}.js"
    end = f"<script>\n{script.read_text(encoding='utf8')}</script>" if script.is_file() else ""
    body = "\n".join(element for element in (*elements, end) if element)
    policy = SCRIPT_POLICY if end else PAGE_POLICY
    return PAGE.format(policy=policy, title=to_html(title), style=f"\n{style}", body=body)


def draw_lines(lines: Sequence[Tuple[str, Points]], *, label: str, x_label: str = "training steps") -> str:
    """Draw curves in percent.

    lines (Sequence[Tuple[str, Points]]): Name and points (x, y) of each; other than finite numbers are left out.
    label (str): What the chart shows, for readers who do not see it.
    x_label (str): Below the axis.
    RETURNS (str): An SVG element; names are in `draw_key`.
    """
    finite = [[(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)] for _, points in lines]
    ticks = choose_ticks(y for points in finite for _, y in points)
    last = max((x for points in finite for x, _ in points), default=0.0) or 1.0

    def to_point(x: float, y: float) -> Tuple[float, float]:
        across = LEFT + x / last * (WIDTH - LEFT - RIGHT)
        return across, TOP + (ticks[-1] - y) / (ticks[-1] - ticks[0]) * (HEIGHT - TOP - BOTTOM)

    elements = [*_draw_grid(ticks, last, to_point), _write_label(WIDTH - RIGHT, HEIGHT - 4, x_label, "end")]
    elements += [_draw_line(points, i, to_point) for i, points in enumerate(finite) if points]
    return _wrap(elements, HEIGHT, label)


def draw_share_bar(shares: Sequence[float], *, label: str) -> str:
    """RETURNS (str): An SVG element: one bar, divided by shares that sum to one; `label` is for readers who do not see
    it.
    """
    elements, x = [], 0.0
    for i, share in enumerate(shares):
        colour, width = COLOURS[i % len(COLOURS)], share * WIDTH
        elements.append(_draw_bar(i, x, width, 26))
        if share >= 0.09:
            text = "white" if colour in DARK else "black"
            middle = f'x="{x + width / 2:.1f}" y="18" text-anchor="middle"'
            halo = f'paint-order="stroke" stroke="{colour}" stroke-width="5"'  # over the lines
            elements.append(f'<text {middle} font-size="13" style="fill: {text}" {halo}>{share:.0%}</text>')
        x += width
    return _wrap(elements, 26, label)


def draw_key(names: Sequence[str], *, is_lines: bool) -> str:
    """RETURNS (str): An HTML paragraph that names the colours of shares, or with `is_lines` of lines, in order."""
    items: List[str] = []
    for i, name in enumerate(names):
        line = _draw_line([(0.0, 6.0), (24.0, 6.0)], i, lambda x, y: (x, y))
        shape = line if is_lines else _draw_bar(i, 0, 24, 12)
        mark = f'<svg viewBox="0 0 24 12" width="24" height="12" aria-hidden="true">{shape}</svg>'
        items.append(f"<span>{mark} {escape(name)}</span>")
    return f'<p class="key">{" ".join(items)}</p>'


def choose_ticks(values: Iterable[float]) -> List[float]:
    """values (Iterable[float]): Percent; other than finite numbers are left out.
    RETURNS (List[float]): Round values of an axis that contains them all, evenly spaced, at most six.
    """
    finite = [value for value in values if math.isfinite(value)] or [0.0, 100.0]
    for step in AXIS_STEPS:
        low, high = math.floor(min(finite) / step), math.ceil(max(finite) / step)
        if high - low < MAX_TICKS:
            break
    return [k * step for k in range(low, max(high, low + 1) + 1)]


def _draw_grid(ticks: Sequence[float], last: float, to_point: ToCoordinates) -> List[str]:
    elements = []
    for tick in ticks:
        left, y = to_point(0.0, tick)
        elements.append(f'<path d="M{left:.1f} {y:.1f}H{WIDTH - RIGHT}" class="grid"/>')
        elements.append(_write_label(left - 5, y + 4, f"{tick:g} %", "end"))
    for x_value, anchor in ((0.0, "start"), (last / 2, "middle"), (last, "end")):
        x, y = to_point(x_value, ticks[0])
        elements.append(_write_label(x, y + 15, f"{x_value:,.0f}", anchor))
    return elements


def _draw_line(points: Points, style: int, to_point: ToCoordinates) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (to_point(*point) for point in points))
    dashes = f' stroke-dasharray="{DASHES[style % len(DASHES)]}"' if style % len(DASHES) else ""
    return f'<polyline points="{path}" fill="none" stroke="{_colour(style)}" stroke-width="2"{dashes}/>'


def _draw_bar(style: int, x: float, width: float, height: int) -> str:
    """A bar with `style` white lines along it, so that bars differ by more than their colour."""
    lines = "".join(f"M{x:.1f} {height * (i + 1) / (style + 1):.1f}h{width:.1f}" for i in range(style))
    bar = f'<rect x="{x:.1f}" width="{width:.1f}" height="{height}" fill="{_colour(style)}"/>'
    return bar + (f'<path d="{lines}" stroke="white"/>' if lines else "")


def _write_label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="11">{escape(text)}</text>'


def _colour(style: int) -> str:
    return COLOURS[style % len(COLOURS)]


def _wrap(elements: Sequence[str], height: int, label: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">{"".join(elements)}</svg>'


def render_surprisal(tokens: Iterable[Tuple[str, str, Surprisal]], *, title: str = "Surprisal") -> str:
    """tokens (Iterable[Tuple[str, str, Surprisal]]): Text, the white space after it, and surprisal of each token.
    title (str): Title of the page.
    RETURNS (str): A page of HTML without outside assets; all text is escaped. The numbers are in tooltips, at the
        bottom of the window for a token that is focused (Tab, or a finger), and in a table below the text.
    """
    named = list(tokens)
    spans = "".join(_render_token(text, bits) + to_html(space) for text, space, bits in named)
    rows = [
        [to_html(text), *map(_format_bits, bits[:3]), to_html("<UNK>") if bits.is_unk else ""]
        for text, _, bits in named
        if not math.isnan(bits.mean)
    ]
    table = make_table(("token", "forward", "backward", "mean", "note"), rows)
    swatches = " ".join(f"<span {_shade(bits)}> {bits} </span>" for bits in (0, 4, 8, 12, 16))
    legend = f"Bits from {swatches}. Dotted: outside the vocabulary, predicted as &lt;UNK&gt;."
    elements = [
        f"<h1>{to_html(title)}</h1>" if title else "",
        f"<p>{spans}</p>",
        f'<p class="legend">{legend}</p>',
        f"<details>\n<summary>Numbers in bits</summary>\n{table}\n</details>",
    ]
    return make_page(title or "Surprisal", elements, kind="surprisal")


def _render_token(text: str, surprisal: Surprisal) -> str:
    if math.isnan(surprisal.mean):
        return to_html(text)
    forward, backward, bits = map(_format_bits, surprisal[:3])
    hint = f"{bits} bits (forward {forward}, backward {backward})"
    look = _shade(surprisal.mean, kind=" unknown" if surprisal.is_unk else "")
    return f'<span {look} title="{hint}" tabindex="0">{to_html(text)}</span>'


def _format_bits(bits: float) -> str:
    return "none" if math.isnan(bits) else f"{bits:.1f}"


def _shade(bits: float, *, kind: str = "") -> str:
    share = min(max(bits / FULL_COLOUR, 0.0), 1.0)
    strong = " strong" if share > DARK_SHARE else ""
    return f'class="token{kind}{strong}" style="background: rgba({RGB}, {share:.2f})"'
