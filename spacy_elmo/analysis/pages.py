"""Pages of HTML: escaped text, tables, small SVG charts, the frame with its style, and the page of a text's surprisal.

A page needs no other file and no plotting library, and runs no script but its own. Colours are those of `plots`, light
or dark as the reader's system is; in print light.
"""

import math
import re
from html import escape
from typing import Callable, Iterable, List, Sequence, Tuple

from ..pipeline.surprisal import Surprisal
from .plots import COLOURS

# Control characters, also those that change the direction of a text, and halves of surrogate pairs.
UNSAFE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
# Of every page, with the names and values of `explorer.css`.
PALETTE = """
:root { --ink: #1c2126; --soft: #59636e; --paper: #ffffff; --card: #f4f6f8; --line: #c9d1d9; --mark: #fff0b8;
  color-scheme: light dark; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e8edf2; --soft: #a3afbb; --paper: #14181c;
  --card: #1e252b; --line: #46515c; --mark: #5a4a00; } }
@media print { :root { color-scheme: light; } }
body { color: var(--ink); background: var(--paper); }
"""
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem;
  overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0.5rem 0; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 0.6rem; padding-top: 0.8rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.4rem 0 0.4rem; }
p, ul { margin: 0.5rem 0; }
.small, figcaption { font-size: 0.85rem; color: var(--soft); }
.finding { font-size: 1.1rem; }
.notes { background: var(--card); border-left: 4px solid #E69F00; padding: 0.5rem 1rem; }
.notes ul { margin: 0.3rem 0; padding-left: 1.2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.95rem; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th, td { padding: 0.25rem 0.7rem 0.25rem 0; text-align: right; vertical-align: top; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
thead th { border-bottom: 1px solid var(--soft); font-weight: 600; }
tbody tr + tr td { border-top: 1px solid var(--line); }
table.facts td { text-align: left; white-space: normal; overflow-wrap: anywhere; }
table.facts td:first-child { min-width: 7rem; color: var(--soft); }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 1rem 1.5rem; }
figure { margin: 0; break-inside: avoid; }
figure svg { width: 100%; height: auto; display: block; }
figcaption { margin-bottom: 0.3rem; color: var(--ink); }
figure text { fill: var(--ink); }
figure .grid { stroke: var(--line); }
.key { font-size: 0.85rem; display: flex; flex-wrap: wrap; gap: 0.2rem 1rem; margin: 0.3rem 0; }
.key svg { vertical-align: -1px; }
ol.places { list-style: none; padding: 0; margin: 0.4rem 0; }
ol.places li { border-left: 3px solid var(--line); padding: 0.1rem 0 0.1rem 0.8rem; margin: 0.9rem 0;
  break-inside: avoid; }
ol.fixed li { border-color: #009E73; }
ol.introduced li { border-color: #D55E00; }
.context { unicode-bidi: isolate; }
mark { background: var(--mark); color: inherit; padding: 0 0.15em; border-radius: 0.2em; }
dl { display: grid; grid-template-columns: auto 1fr; gap: 0 0.8rem; margin: 0.2rem 0 0; font-size: 0.9rem; }
dt { color: var(--soft); }
dd { margin: 0; unicode-bidi: isolate; }
.wrong { text-decoration: underline wavy #D55E00 1px; text-underline-offset: 3px; }
.label { font-size: 0.8em; font-weight: 600; color: var(--soft); }
summary { cursor: pointer; margin-top: 0.8rem; }
pre { font-size: 0.8rem; line-height: 1.4; white-space: pre-wrap; background: var(--card); padding: 0.8rem; }
@media (max-width: 32rem) { table { font-size: 0.85rem; } th { white-space: normal; }
  th, td { padding-right: 0.4rem; } td:first-child { white-space: normal; } }
@media print { body { max-width: none; padding: 0; font-size: 11pt; } details:not([open]) { display: none; }
  h2, h3, .key { break-after: avoid; } }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
SCRIPT_POLICY = f"{POLICY}; script-src 'unsafe-inline'"
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
DASHES = ("", "6 3", "2 3", "8 3 2 3")  # lines can be told apart without colours, too
DARK = {"#0072B2"}  # colours that need white text
STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # between the values of an axis
MAX_TICKS = 6
Points = Sequence[Tuple[float, float]]
Place = Callable[[float, float], Tuple[float, float]]
FULL_COLOUR = 16.0  # bits from which the colour is full
DARK_SHARE = 0.87  # share of the colour on white from which white text has more contrast than dark text
RGB = "0, 114, 178"  # blue of `plots.COLOURS`
TEXT_STYLE = """
body { font: 18px/2 system-ui, sans-serif; max-width: 45em; margin: 2em auto; padding: 0 1em; }
.token { padding: 0.15em 0; border-radius: 0.2em; color: var(--ink); }
.strong { color: white; }
.unknown { border-bottom: 2px dotted; }
.legend { font-size: 14px; color: var(--soft); }
p { white-space: pre-wrap; overflow-wrap: anywhere; }
.token:focus::after { content: attr(title); position: fixed; left: 0; right: 0; bottom: 0; padding: 0.2em 1em;
  background: var(--ink); color: var(--paper); font-size: 16px; }
details { font-size: 16px; line-height: 1.5; }
summary { cursor: pointer; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.1em 1em 0.1em 0; text-align: right; vertical-align: top; }
th:first-child, td:first-child { text-align: left; min-width: 7em; overflow-wrap: anywhere; }
"""


def to_html(text: object) -> str:
    """RETURNS (str): A text, escaped; characters that a page should not have become U+FFFD."""
    return escape(UNSAFE.sub("\ufffd", str(text)))


def make_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, kind: str = "") -> str:
    """header (Sequence[str]): Titles of the columns, HTML; empty for none.
    rows (Sequence[Sequence[str]]): Cells, HTML.
    kind (str): A class of the style: "facts" for names and texts.
    RETURNS (str): A table that scrolls where it is too wide.
    """
    head = f"<thead><tr>{''.join(f'<th>{cell}</th>' for cell in header)}</tr></thead>" if header else ""
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide"><table class="{kind}">{head}<tbody>{body}</tbody></table></div>'


def make_section(title: str, *parts: str) -> str:
    """RETURNS (str): A section of parts (HTML) with a title (plain text); empty without parts."""
    content = "\n".join(part for part in parts if part)
    return f"<section>\n<h2>{to_html(title)}</h2>\n{content}\n</section>" if content else ""


def make_page(title: str, parts: Sequence[str], *, style: str = STYLE, script: str = "") -> str:
    """title (str): Plain text.
    parts (Sequence[str]): HTML.
    style (str): CSS, with the variables of `PALETTE`.
    script (str): JavaScript that runs at the end; without it the page may run none.
    RETURNS (str): The page. Its Content-Security-Policy lets it fetch nothing.
    """
    policy = SCRIPT_POLICY if script else POLICY
    end = f"<script>{script}</script>" if script else ""
    body = "\n".join(part for part in (*parts, end) if part)
    return PAGE.format(policy=policy, title=to_html(title), style=PALETTE + style, body=body)


def draw_lines(lines: Sequence[Tuple[str, Points]], *, label: str, x_label: str = "training steps") -> str:
    """Draw curves in percent.

    lines (Sequence[Tuple[str, Points]]): Name and points (x, y) of each; other than finite numbers are left out.
    label (str): What the chart shows, for readers who do not see it.
    x_label (str): Below the axis.
    RETURNS (str): An SVG element; names are in `draw_key`.
    """
    kept = [[(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)] for _, points in lines]
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
        parts.append(_draw_bar(number, x, width, 26))
        if share >= 0.09:
            text = "white" if colour in DARK else "black"
            middle = f'x="{x + width / 2:.1f}" y="18" text-anchor="middle"'
            halo = f'paint-order="stroke" stroke="{colour}" stroke-width="5"'  # over the lines
            parts.append(f'<text {middle} font-size="13" style="fill: {text}" {halo}>{share:.0%}</text>')
        x += width
    return _wrap(parts, 26, label)


def draw_key(names: Sequence[str], *, is_lines: bool) -> str:
    """names (Sequence[str]): In the order of the lines or shares.
    is_lines (bool): Show dashes as in `draw_lines`.
    RETURNS (str): An HTML paragraph that names the colours.
    """
    items: List[str] = []
    for number, name in enumerate(names):
        line = _draw_line([(0.0, 6.0), (24.0, 6.0)], number, lambda x, y: (x, y))
        shape = line if is_lines else _draw_bar(number, 0, 24, 12)
        mark = f'<svg viewBox="0 0 24 12" width="24" height="12" aria-hidden="true">{shape}</svg>'
        items.append(f"<span>{mark} {escape(name)}</span>")
    return f'<p class="key">{" ".join(items)}</p>'


def choose_ticks(values: Iterable[float]) -> List[float]:
    """values (Iterable[float]): Percent; other than finite numbers are left out.
    RETURNS (List[float]): Round values of an axis that contains them all, evenly spaced, at most six.
    """
    kept = [value for value in values if math.isfinite(value)] or [0.0, 100.0]
    for step in STEPS:
        low, high = math.floor(min(kept) / step), math.ceil(max(kept) / step)
        if high - low < MAX_TICKS:
            break
    return [number * step for number in range(low, max(high, low + 1) + 1)]


def _draw_grid(ticks: Sequence[float], last: float, place: Place) -> List[str]:
    parts = []
    for tick in ticks:
        left, y = place(0.0, tick)
        parts.append(f'<path d="M{left:.1f} {y:.1f}H{WIDTH - RIGHT}" class="grid"/>')
        parts.append(_write(left - 5, y + 4, f"{tick:g} %", "end"))
    for x_value, anchor in ((0.0, "start"), (last / 2, "middle"), (last, "end")):
        x, y = place(x_value, ticks[0])
        parts.append(_write(x, y + 15, f"{x_value:,.0f}", anchor))
    return parts


def _draw_line(points: Points, number: int, place: Place) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
    dashes = f' stroke-dasharray="{DASHES[number % len(DASHES)]}"' if number % len(DASHES) else ""
    return f'<polyline points="{path}" fill="none" stroke="{_colour(number)}" stroke-width="2"{dashes}/>'


def _draw_bar(number: int, x: float, width: float, height: int) -> str:
    """A bar with `number` white lines along it, so that bars differ by more than their colour."""
    lines = "".join(f"M{x:.1f} {height * (i + 1) / (number + 1):.1f}h{width:.1f}" for i in range(number))
    bar = f'<rect x="{x:.1f}" width="{width:.1f}" height="{height}" fill="{_colour(number)}"/>'
    return bar + (f'<path d="{lines}" stroke="white"/>' if lines else "")


def _write(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="11">{escape(text)}</text>'


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _wrap(parts: Sequence[str], height: int, label: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def render_surprisal(tokens: Iterable[Tuple[str, str, Surprisal]], *, title: str = "Surprisal") -> str:
    """tokens (Iterable[Tuple[str, str, Surprisal]]): Text, the white space after it, and surprisal of each token.
    title (str): Title of the page.
    RETURNS (str): A page of HTML without outside assets; all text is escaped. The numbers are in tooltips, at the
        bottom of the window for a token that is focused (Tab, or a finger), and in a table below the text.
    """
    found = list(tokens)
    spans = "".join(_render_token(text, bits) + to_html(space) for text, space, bits in found)
    rows = [
        [to_html(text), *map(_format_bits, bits[:3]), to_html("<UNK>") if bits.is_unk else ""]
        for text, _, bits in found
        if not math.isnan(bits.mean)
    ]
    table = make_table(("token", "forward", "backward", "mean", ""), rows)
    swatches = " ".join(f"<span {_shade(bits)}> {bits} </span>" for bits in (0, 4, 8, 12, 16))
    legend = f"Bits from {swatches}. Dotted: outside the vocabulary, predicted as &lt;UNK&gt;."
    parts = [
        f"<h1>{to_html(title)}</h1>",
        f"<p>{spans}</p>",
        f'<p class="legend">{legend}</p>',
        f"<details>\n<summary>Numbers in bits</summary>\n{table}\n</details>",
    ]
    return make_page(title, parts, style=TEXT_STYLE)


def _render_token(text: str, found: Surprisal) -> str:
    if math.isnan(found.mean):
        return to_html(text)
    forward, backward, bits = map(_format_bits, found[:3])
    hint = f"{bits} bits (forward {forward}, backward {backward})"
    look = _shade(found.mean, kind=" unknown" if found.is_unk else "")
    return f'<span {look} title="{hint}" tabindex="0">{to_html(text)}</span>'


def _format_bits(bits: float) -> str:
    return "none" if math.isnan(bits) else f"{bits:.1f}"


def _shade(bits: float, *, kind: str = "") -> str:
    share = min(max(bits / FULL_COLOUR, 0.0), 1.0)
    strong = " strong" if share > DARK_SHARE else ""
    return f'class="token{kind}{strong}" style="background: rgba({RGB}, {share:.2f})"'
