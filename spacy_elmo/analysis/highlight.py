"""Highlighted text: a page of HTML in which the colour behind each token shows its surprisal."""

import math
from typing import Iterable, List, Sequence, Tuple

from ..ml.surprisal import Surprisal
from .page_parts import make_page, make_table, to_html

FULL_COLOUR = 16.0  # bits from which the colour is full
DARK = 0.87  # share of the colour from which white text has more contrast than dark text
RGB = "0, 114, 178"  # blue of `plots.COLOURS`
STYLE = """
body { font: 18px/2 system-ui, sans-serif; max-width: 45em; margin: 2em auto; padding: 0 1em; color: #222; }
.token { padding: 0.15em 0; border-radius: 0.2em; }
.unknown { border-bottom: 2px dotted #222; }
.legend { font-size: 14px; color: #555; }
p { white-space: pre-wrap; overflow-wrap: anywhere; }
.token:focus::after { content: attr(title); position: fixed; left: 0; right: 0; bottom: 0; padding: 0.2em 1em;
  background: #222; color: white; font-size: 16px; }
details { font-size: 16px; line-height: 1.5; }
summary { cursor: pointer; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.1em 1em 0.1em 0; text-align: right; vertical-align: top; }
th:first-child, td:first-child { text-align: left; min-width: 7em; overflow-wrap: anywhere; }
"""


def render_surprisal(tokens: Iterable[Tuple[str, str, Surprisal]], *, title: str = "Surprisal") -> str:
    """tokens (Iterable[Tuple[str, str, Surprisal]]): Text, the white space after it, and surprisal of each token.
    title (str): Title of the page.
    RETURNS (str): A page of HTML without outside assets; all text is escaped. The numbers are in tooltips, at the
        bottom of the window for a token that is focused (Tab, or a finger), and in a table below the text.
    """
    found = list(tokens)
    spans = "".join(_render_token(text, bits) + to_html(space) for text, space, bits in found)
    rows = [_make_row(text, bits) for text, _, bits in found if not math.isnan(bits.mean)]
    table = make_table(("token", "forward", "backward", "mean", ""), rows)
    legend = f"Bits from {_swatches((0, 4, 8, 12, 16))}. Dotted: outside the vocabulary, predicted as &lt;UNK&gt;."
    parts = [
        f"<h1>{to_html(title)}</h1>",
        f"<p>{spans}</p>",
        f'<p class="legend">{legend}</p>',
        f"<details>\n<summary>Numbers in bits</summary>\n{table}\n</details>",
    ]
    return make_page(title, parts, style=STYLE)


def _render_token(text: str, found: Surprisal) -> str:
    if math.isnan(found.mean):
        return to_html(text)
    classes = "token unknown" if found.is_unk else "token"
    forward, backward, bits = map(_format, found[:3])
    hint = f"{bits} bits (forward {forward}, backward {backward})"
    style = _style(found.mean)
    return f'<span class="{classes}" style="{style}" title="{hint}" tabindex="0">{to_html(text)}</span>'


def _make_row(text: str, found: Surprisal) -> List[str]:
    return [to_html(text), *map(_format, found[:3]), to_html("<UNK>") if found.is_unk else ""]


def _format(bits: float) -> str:
    return "none" if math.isnan(bits) else f"{bits:.1f}"


def _swatches(values: Sequence[float]) -> str:
    parts: List[str] = [f'<span class="token" style="{_style(bits)}"> {bits:g} </span>' for bits in values]
    return " ".join(parts)


def _style(bits: float) -> str:
    share = min(max(bits / FULL_COLOUR, 0.0), 1.0)
    text = "white" if share > DARK else "#222"
    return f"background: rgba({RGB}, {share:.2f}); color: {text}"
