"""Pictures of the documentation that only the project draws: sample efficiency, score against speed."""

from pathlib import Path
from typing import Any, Callable

import pytest

from spacy_elmo.analysis import plots
from spacy_elmo.analysis.probes import describe_probe

pytest.importorskip("matplotlib", reason="pictures need matplotlib")
SPEEDS = [{"label": "a", "words_per_s": 9.0, "score": 0.5}, {"label": "b", "words_per_s": 5.0, "score": None}]


@pytest.fixture
def drawn(import_script: Callable[[str], Any]) -> Any:
    return import_script("analysis_plots")


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_pictures_are_drawn(drawn: Any, tmp_path: Path, suffix: str) -> None:
    paths = [tmp_path / f"{i}{suffix}" for i in range(2)]
    drawn.draw_sample_efficiency("X", {1: [3.0, 4.0], 10: [5.0]}, {1: [1.0]}, paths[0])
    drawn.draw_speeds(SPEEDS, paths[1], title="T")
    assert sorted(tmp_path.iterdir()) == paths and all(path.stat().st_size > 5000 for path in paths)


def test_titles_say_the_finding(drawn: Any) -> None:
    title = drawn.efficiency_title
    assert title("X", {1: [2.0], 5: [3.0]}, {1: [1.0]}) == "X: higher with ELMo at every measured share"
    assert title("X", {1: [2.0], 5: [3.0]}, {1: [1.0], 5: [4.0]}) == "X by share of the training data"


def test_stored_senses_become_a_record(drawn: Any) -> None:
    percent = {"value": 70.0, "low": 69.0, "high": 71.0}
    rows = [{"layer": "first sense", **percent}, {"layer": 0, **percent, "value": 50.0, "high": 51.0}]
    record = drawn.from_percent({"n_test": 3, "rows": rows})
    assert record["baselines"]["most frequent sense"]["value"] == pytest.approx(0.7)
    finding = "Word senses by the nearest mean: token layer scores highest, 50.0 %, 20.0 points below"
    assert describe_probe(record).startswith(finding)


def test_a_logarithmic_axis_has_whole_numbers(drawn: Any) -> None:
    figure, (axes,) = plots.new_figure(height=2.0)
    axes.plot([7400, 23700], [1, 2])
    drawn.use_log_scale(axes)
    figure.canvas.draw()
    low, high = axes.get_xlim()
    shown = [label.get_text() for label, x in zip(axes.get_xticklabels(), axes.get_xticks()) if low <= x <= high]
    assert shown[-3:] == ["10,000", "15,000", "20,000"]
    assert not any(label.get_text() for label in axes.get_xticklabels(minor=True))
