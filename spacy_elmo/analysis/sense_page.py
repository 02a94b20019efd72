"""A page of HTML with the map of a word's uses: no outside assets, all text escaped, readable without a mouse."""

from typing import List, Optional, Sequence, Tuple

import numpy as np

from .page_parts import make_page, to_html
from .plots import COLOURS
from .sense_map import SenseMap, describe, shorten
from .token_store import Use

SIZE, MARGIN = 560.0, 20.0  # of the drawing
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62em; margin: 1.5em auto; padding: 0 1em; color: #222; }
svg { width: 100%; max-width: 40em; border: 1px solid #ccc; border-radius: 4px; }
circle { stroke: white; stroke-width: 1; cursor: pointer; }
circle:focus, circle.shown { stroke: black; stroke-width: 3; outline: none; }
#shown { min-height: 4.5em; padding: 0.5em; background: #f4f4f4; border-radius: 4px; overflow-wrap: anywhere; }
.swatch { display: inline-block; width: 0.9em; height: 0.9em; border-radius: 50%; }
b { background: #fff3b0; }
small { color: #555; }
li { overflow-wrap: anywhere; }
"""
SCRIPT = """
"use strict";
const points = Array.from(document.querySelectorAll("circle"));
const shown = document.getElementById("shown");
function show(point) {
  for (const other of points) { other.classList.toggle("shown", other === point); }
  const use = document.getElementById("use-" + point.dataset.use);
  shown.replaceChildren(...Array.from(use.childNodes, (node) => node.cloneNode(true)));
}
const steps = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1};
points.forEach((point, i) => {
  point.addEventListener("mouseenter", () => show(point));
  point.addEventListener("click", () => show(point));
  point.addEventListener("focus", () => show(point));
  point.addEventListener("keydown", (event) => {
    if (!(event.key in steps)) { return; }
    event.preventDefault();
    const next = points[(i + steps[event.key] + points.length) % points.length];
    point.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
});
"""
HELP = (
    "<p>Each point is one use. Near points are similar to the biLM. Point at one, or select one with Tab and walk "
    "with the arrow keys.</p>"
)


def render_senses(uses: Sequence[Use], found: SenseMap, *, n_uses: Optional[int] = None) -> str:
    """uses (Sequence[Use]): The uses of a word.
    found (SenseMap): Their clusters and map.
    n_uses (Optional[int]): Number of all uses, if these are a sample of them.
    RETURNS (str): The page. Every sentence stands in a list too, group by group.
    """
    order = np.argsort(found.labels, kind="stable").tolist()
    places = _scale(found)
    points = "\n".join(_render_point(number, use, places[use], found, uses) for number, use in enumerate(order))
    groups = "\n".join(_render_group(label, uses, found) for label in range(len(found.sizes)))
    title = describe(uses, found, n_uses=n_uses)
    box = f'viewBox="0 0 {SIZE:.0f} {SIZE:.0f}" role="group" aria-label="Map of the uses"'
    parts = [
        f"<h1>{to_html(title)}</h1>",
        HELP,
        f"<svg {box}>\n{points}\n</svg>",
        '<p id="shown" aria-live="polite">No use is selected.</p>',
        groups,
    ]
    return make_page(title, parts, style=STYLE, script=SCRIPT)


def _scale(found: SenseMap) -> List[Tuple[float, float]]:
    low, high = found.points.min(axis=0), found.points.max(axis=0)
    scaled = (found.points - low) / np.where(high > low, high - low, 1) * (SIZE - 2 * MARGIN) + MARGIN
    return [(float(x), SIZE - float(y)) for x, y in scaled]


def _render_point(number: int, use: int, point: Tuple[float, float], found: SenseMap, uses: Sequence[Use]) -> str:
    (x, y), label = point, int(found.labels[use])
    name = to_html(f"Group {label + 1}: {shorten(uses[use])}")
    colour, focus = COLOURS[label % len(COLOURS)], 0 if number == 0 else -1
    place = f'cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{colour}" data-use="{use}"'
    return f'<circle {place} tabindex="{focus}" role="img" aria-label="{name}"></circle>'


def _render_group(label: int, uses: Sequence[Use], found: SenseMap) -> str:
    members = np.flatnonzero(found.labels == label).tolist()
    swatch = f'<span class="swatch" style="background: {COLOURS[label % len(COLOURS)]}"></span>'
    title = f"<h2>{swatch} Group {label + 1}: {found.sizes[label]} uses</h2>"
    exemplar = f"<p>Most typical: {_render_use(uses[found.exemplars[label]])}</p>"
    items = "\n".join(f'<li id="use-{use}">{_render_use(uses[use])}</li>' for use in members)
    return f"{title}\n{exemplar}\n<details><summary>Its uses</summary>\n<ul>\n{items}\n</ul></details>"


def _render_use(use: Use) -> str:
    left, right = " ".join(use.words[: use.position]), " ".join(use.words[use.position + 1 :])
    sentence = f"{to_html(left)} <b>{to_html(use.word)}</b> {to_html(right)}"
    return f"<bdi>{sentence}</bdi> <small><bdi>{to_html(use.document)}</bdi></small>"
