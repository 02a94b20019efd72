"""Charts as SVG: axes with round values, escaped labels, well-formed XML."""

import math
from xml.etree import ElementTree

import pytest

from spacy_elmo.analysis.pages import choose_ticks, draw_key, draw_lines, draw_shares, to_html

HOSTILE = '"><script>alert(1)</script>&'


@pytest.mark.parametrize(
    "values, ticks",
    [
        ([0.0, 91.3], [0, 20, 40, 60, 80, 100]),
        ([30.4, 37.3], [30, 32, 34, 36, 38]),
        ([50.0, 50.0], [50, 51]),
        ([], [0, 20, 40, 60, 80, 100]),
        ([math.nan, 12.0, 13.5], [12, 13, 14]),
        ([0.0, 4000.0], [0, 1000, 2000, 3000, 4000]),
    ],
)
def test_axis_has_round_values(values: "list[float]", ticks: "list[float]") -> None:
    assert choose_ticks(values) == ticks


def test_lines_are_well_formed_and_escaped() -> None:
    chart = draw_lines([(HOSTILE, [(0, 10.0), (50, math.nan), (100, 20.0)]), ("none", [])], label=HOSTILE)
    root = ElementTree.fromstring(chart)
    assert root.get("aria-label") == HOSTILE and len(root.findall("polyline")) == 1
    points = [tuple(map(float, point.split(","))) for point in root.findall("polyline")[0].get("points", "").split()]
    assert len(points) == 2 and points[0][0] < points[1][0] and points[0][1] > points[1][1]


def test_shares_fill_the_bar() -> None:
    root = ElementTree.fromstring(draw_shares([0.05, 0.35, 0.6], label="shares"))
    widths = [float(bar.get("width", "0")) for bar in root.findall("rect")]
    assert sum(widths) == pytest.approx(360, abs=0.2) and [text.text for text in root.findall("text")] == ["35%", "60%"]


def test_key_names_the_lines() -> None:
    key = draw_key(["a", HOSTILE], is_lines=True)
    root = ElementTree.fromstring(key)
    assert "".join(root.itertext()).split() == ["a", *HOSTILE.split()]
    assert len({line.get("stroke") for line in root.iter("polyline")}) == 2


def test_text_has_no_controls() -> None:
    assert to_html("a\u202e\x00<b>\ud800\n\u05d0") == "a\ufffd\ufffd&lt;b&gt;\ufffd\n\u05d0"
