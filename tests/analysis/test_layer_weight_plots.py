"""Pictures of layer weights and of their course, from a log that is checked."""

import re

import pytest
import srsly

from spacy_elmo.analysis import layer_weight_plots
from spacy_elmo.analysis.layer_weight_plots import draw_course, draw_layer_weights, read_course
from spacy_elmo.pipeline.layer_weights import TaskMix

pytest.importorskip("matplotlib", reason="pictures need matplotlib")
MIXES = [TaskMix("ner", 1, (0.2, 0.3, 0.5), (0.0, 0.0, 0.0), 1.0), TaskMix("tagger", 1, (0.6, 0.4), (0.0, 0.0), 1.0)]


@pytest.fixture
def saved(monkeypatch):
    """Figures in place of files."""
    figures = []
    monkeypatch.setattr(layer_weight_plots, "save_figure", lambda figure, *_, **__: figures.append(figure))
    return figures


def test_a_bar_is_divided_by_the_shares_and_differs_in_more_than_colour(saved, tmp_path):
    draw_layer_weights(MIXES, tmp_path / "a.png")
    containers = saved[0].axes[0].containers
    widths = [bar.get_width() for bars in containers for bar in bars]
    assert widths == pytest.approx([0.2, 0.6, 0.3, 0.4, 0.5, 0.0])
    bars = [container.patches[0] for container in containers]
    assert len({bar.get_facecolor() for bar in bars}) == len({bar.get_hatch() for bar in bars}) == len(bars) == 3
    with pytest.raises(ValueError, match="There are no layer weights to draw"):
        draw_layer_weights([TaskMix("ner", 1, (), (), 1.0)], tmp_path / "a.png")


def test_rows_of_a_log_may_differ_in_depth_and_malformed_ones_are_named(saved, tmp_path):
    log = tmp_path / "log.jsonl"
    row = {"step": 0, "component": "tagger", "number": 1, "place": None, "shares": [0.5, 0.3, 0.2], "gamma": 1.0}
    for change, problem in (
        ({"shares": [0.5, 0.5, 1.5]}, "shares[2] is 1.5, should be at most 1"),
        ({"shares": [0.5, 0.5]}, "shares has 2 numbers, should have 3, as in the first row"),
        ({"component": None}, "component is None, should be a valid string"),
        ({"place": 3}, "place is 3, should be a valid string"),
        ({"step": "x", "shares": 1}, "step is 'x', should be a valid integer; shares is 1, should be a valid list"),
    ):
        srsly.write_jsonl(log, [row, {**row, "step": 1, **change}])
        with pytest.raises(ValueError, match=f"log.jsonl.*line 2.*{re.escape(problem)}"):
            read_course(log)
    other = {**row, "component": "ner", "shares": [0.4, 0.2, 0.2, 0.2]}
    srsly.write_jsonl(log, [row, other, {**row, "step": 1}, {**other, "step": 1, "shares": [0.1, 0.2, 0.2, 0.5]}])
    draw_course(log, tmp_path / "course.png")
    assert "layer 3 gains most: 30.0 points" in saved[0].get_suptitle().replace("\n", " ")
    lines = saved[0].axes[1].get_lines()
    assert len(lines) == 4 and list(lines[3].get_ydata()) == [0.2, 0.5]
