"""Errors in their contexts and charts as HTML: what is shown of many, round axes, escaped text, well-formed XML."""

import math
import re
from xml.etree import ElementTree

import pytest

from spacy_elmo.analysis.answers import DocAnswers, score_answers
from spacy_elmo.analysis.pages import choose_ticks, draw_key, draw_lines, render_surprisal, to_html
from spacy_elmo.analysis.report_page import N_AROUND, N_SHOWN, render_errors, render_outcomes
from spacy_elmo.pipeline.surprisal import Surprisal


def _compare(n_docs):
    """Docs of one entity, found by the first pipeline only."""
    ours, theirs = [], []
    for i in range(n_docs):
        gold = {"ents": {(0, 1, "L")}}
        ours.append(DocAnswers((f"<w{i}>", "is"), (0,), gold, gold))
        theirs.append(DocAnswers((f"<w{i}>", "is"), (0,), gold, {"ents": set()}))
    outcomes = score_answers(ours, theirs)
    return render_outcomes(outcomes, ours, "<data>"), render_errors(outcomes, ours)


def test_many_errors_are_shown_evenly():
    table, errors = _compare(10 * N_SHOWN)
    assert f"{10 * N_SHOWN} errors fixed by ELMo, {N_SHOWN} of them shown" in errors
    assert "No error was introduced" in errors
    assert errors.count("<li>") == N_SHOWN
    assert all(f"<mark>&lt;w{10 * i}&gt;</mark>" in errors for i in range(N_SHOWN))
    assert "On &lt;data&gt;" in table and "<td>+100.00</td>" in table and "+100.00 to +100.00" in table


@pytest.mark.parametrize(
    "starts, words",
    [((0, 100, 103), {100, 101, 102}), ((0,), set(range(101 - N_AROUND, 102 + N_AROUND)))],
)
def test_context_is_the_sentence_or_a_part_of_it(starts, words):
    gold = {"ents": {(101, 102, "L")}}
    doc = DocAnswers(tuple(f"w{i}" for i in range(200)), starts, gold, gold)
    outcomes = score_answers([doc], [DocAnswers(doc.words, starts, gold, {"ents": set()})])
    errors = render_errors(outcomes, [doc])
    assert {i for i in range(200) if f"w{i} " in errors or f"w{i}<" in errors} == words
    assert ("\u2026" in errors) == (len(words) > 3)


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


@pytest.mark.issue(18)
def test_page_of_a_forward_model_has_no_nan():
    page = render_surprisal([("bank", "", Surprisal(4.0, math.nan, 4.0, False))])
    assert "4.0 bits (forward 4.0, backward none)" in page and "nan" not in page


def test_text_has_no_controls():
    assert to_html("a\u202e\x00<b>\ud800\n\u05d0") == "a\ufffd\ufffd&lt;b&gt;\ufffd\n\u05d0"


@pytest.mark.issue(40)
def test_bars_differ_in_more_than_colour():
    key = draw_key([f"layer {i}" for i in range(7)], is_lines=False)
    shapes = [re.sub('fill="[^"]*"', "", shape) for shape in re.findall(r"<svg.*?</svg>", key)]
    assert len(set(shapes)) == 7
