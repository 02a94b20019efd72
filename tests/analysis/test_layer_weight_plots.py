"""Pictures of layer weights and of their course, from a log that is checked."""

import pytest
import srsly

from spacy_elmo.analysis import layer_weight_plots
from spacy_elmo.analysis.layer_weight_plots import check_log, draw_course, draw_layer_weights, read_course
from spacy_elmo.pipeline.layer_weights import TaskMix

pytest.importorskip("matplotlib", reason="pictures need matplotlib")
MIXES = [TaskMix("ner", 1, (0.2, 0.3, 0.5), (0.0, 0.0, 0.0), 1.0), TaskMix("tagger", 1, (0.6, 0.4), (0.0, 0.0), 1.0)]
ROWS = [{"step": i, "component": "ner", "number": 1, "shares": [0.4 - i / 10, 0.6 + i / 10]} for i in range(3)]


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


def test_a_course_is_drawn_from_its_log(saved, tmp_path):
    srsly.write_jsonl(tmp_path / "log.jsonl", ROWS)
    draw_course(tmp_path / "log.jsonl", tmp_path / "a.png")
    lines = saved[0].axes[0].get_lines()
    assert list(lines[0].get_ydata()) == pytest.approx([row["shares"][0] for row in ROWS]) and len(lines) == 2
    assert "layer 1 gains most: 20.0 points" in saved[0].get_suptitle().replace("\n", " ")
    check_log(tmp_path / "log.jsonl", "model", [TaskMix("ner", 1, (0.4, 0.6), (0.0, 0.0), 1.0)])
    with pytest.raises(ValueError, match=r"other mixes \(ner \(1\) with 2 layers\) than the pipeline 'model' has"):
        check_log(tmp_path / "log.jsonl", "model", MIXES)


@pytest.mark.parametrize(
    "rows, problem",
    [
        ([], "it is empty"),
        ([*ROWS, {**ROWS[0], "shares": [1.0]}], "in line 4, shares has 1 numbers, should have 2"),
        (
            [{**ROWS[0], "shares": [2.0], "number": 0}],
            r"in line 1, number is 0, should be at least 1; shares\[0\] is 2.0",
        ),
        ([{"step": 1}], "in line 1, component is missing"),
    ],
)
def test_a_damaged_log_is_named_with_its_line(tmp_path, rows, problem):
    srsly.write_jsonl(tmp_path / "log.jsonl", rows)
    with pytest.raises(ValueError, match=f"log.jsonl' is not a log of layer weights: {problem}"):
        read_course(tmp_path / "log.jsonl")
