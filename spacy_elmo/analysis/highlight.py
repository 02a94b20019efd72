"""Highlighted text: a page of HTML in which the colour behind each token shows its surprisal."""

import math
from html import escape
from typing import Iterable, List, Sequence, Tuple

from ..ml.surprisal import Surprisal

FULL_COLOUR = 16.0  # bits from which the colour is full
DARK = 0.87  # share of the colour from which white text has more contrast than dark text
RGB = "0, 114, 178"  # blue of `plots.COLOURS`
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 18px/2 system-ui, sans-serif; max-width: 45em; margin: 2em auto; padding: 0 1em; color: #222; }}
.token {{ padding: 0.15em 0; border-radius: 0.2em; }}
.unknown {{ border-bottom: 2px dotted #222; }}
.legend {{ font-size: 14px; color: #555; }}
p {{ white-space: pre-wrap; overflow-wrap: anywhere; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{text}</p>
<p class="legend">Bits from {swatches}. Dotted: outside the vocabulary, read as &lt;UNK&gt;.</p>
</body>
</html>
"""


def render_surprisal(tokens: Iterable[Tuple[str, str, Surprisal]], *, title: str = "Surprisal") -> str:
    """tokens (Iterable[Tuple[str, str, Surprisal]]): Text, the white space after it, and surprisal of each token.
    title (str): Title of the page.
    RETURNS (str): A page of HTML without outside assets; all text is escaped. The numbers are in tooltips.
    """
    spans = "".join(_render_token(text, found) + escape(space) for text, space, found in tokens)
    return PAGE.format(title=escape(title), text=spans, swatches=_swatches((0, 4, 8, 12, 16)))


def _render_token(text: str, found: Surprisal) -> str:
    if math.isnan(found.mean):
        return escape(text)
    classes = "token unknown" if found.is_unk else "token"
    hint = f"{found.mean:.1f} bits (forward {found.forward:.1f}, backward {found.backward:.1f})"
    return f'<span class="{classes}" style="{_style(found.mean)}" title="{escape(hint)}">{escape(text)}</span>'


def _swatches(values: Sequence[float]) -> str:
    parts: List[str] = [f'<span class="token" style="{_style(bits)}"> {bits:g} </span>' for bits in values]
    return " ".join(parts)


def _style(bits: float) -> str:
    share = min(max(bits / FULL_COLOUR, 0.0), 1.0)
    text = "white" if share > DARK else "#222"
    return f"background: rgba({RGB}, {share:.2f}); color: {text}"
