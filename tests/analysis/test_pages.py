"""Charts as HTML: round axes, escaped text, well-formed XML."""

import math
import re
from xml.etree import ElementTree

from spacy_elmo.analysis.pages import choose_ticks, draw_key, draw_lines, render_surprisal, to_html
from spacy_elmo.pipeline.surprisal import Surprisal

HOSTILE = '"><script>alert(1)</script>&'


def test_lines_are_well_formed_and_escaped():
    chart = draw_lines([(HOSTILE, [(0, 10.0), (50, math.nan), (100, 20.0)]), ("none", [])], label=HOSTILE)
    root = ElementTree.fromstring(chart)
    assert root.get("aria-label") == HOSTILE and len(root.findall("polyline")) == 1
    points = [tuple(map(float, point.split(","))) for point in root.findall("polyline")[0].get("points", "").split()]
    assert len(points) == 2 and points[0][0] < points[1][0] and points[0][1] > points[1][1]
    assert [choose_ticks(values) for values in ([0.0, 91.3], [30.4, 37.3], [math.nan, 12.0, 13.5], [50.0, 50.0])] == [
        [0, 20, 40, 60, 80, 100],
        [30, 32, 34, 36, 38],
        [12, 13, 14],
        [50, 51],
    ]


def test_page_of_a_forward_model_has_no_nan():
    page = render_surprisal([("bank", "", Surprisal(4.0, math.nan, 4.0, False))])
    assert "4.0 bits (forward 4.0, backward none)" in page and "nan" not in page


def test_text_has_no_controls():
    assert to_html("a\u202e\x00<b>\ud800\n\u05d0") == "a\ufffd\ufffd&lt;b&gt;\ufffd\n\u05d0"


def test_bars_differ_in_more_than_colour():
    key = draw_key([f"layer {i}" for i in range(7)], is_lines=False)
    shapes = [re.sub('fill="[^"]*"', "", shape) for shape in re.findall(r"<svg.*?</svg>", key)]
    assert len(set(shapes)) == 7
