"""All pictures have one style, and say what they show."""

import ast
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest
import srsly

from spacy_elmo.analysis import plots
from spacy_elmo.analysis.layer_weights import draw_course, draw_layer_weights, join_mixes, name_layer
from spacy_elmo.analysis.perplexity_curve import draw_perplexities, read_validations
from spacy_elmo.analysis.perplexity_curve import make_title as perplexity_title
from spacy_elmo.analysis.probe_curve import draw_probe, from_percent
from spacy_elmo.analysis.probe_curve import make_title as probe_title
from spacy_elmo.analysis.sample_efficiency import draw_sample_efficiency
from spacy_elmo.analysis.sample_efficiency import make_title as efficiency_title
from spacy_elmo.analysis.speed_plot import draw_speeds
from spacy_elmo.ml.task_mixes import TaskMix

pytest.importorskip("matplotlib", reason="pictures need matplotlib")
ROOT = Path(__file__).parents[2]
BEGINNINGS = {".png": b"\x89PNG", ".svg": b"<?xml"}
RUN = [{"n_tokens": 1_000_000, "forward": 200.0}, {"n_tokens": 2_000_000, "forward": 100.0, "backward": 90.0}]
MIXES = [TaskMix("ner", 1, (0.2, 0.3, 0.5), (0.0, 0.0, 0.0), 1.0), TaskMix("tagger", 1, (0.6, 0.4), (0.0, 0.0), 1.0)]


def _score(value: float, spread: float = 0.01) -> Dict[str, float]:
    return {"value": value, "low": value - spread, "high": value + spread}


def _record(**best: Any) -> Dict[str, Any]:
    """Layers 0, 1 and mean, of which 1 is best."""
    rows: List[Dict[str, Any]] = [
        {"layer": layer, "probe": _score(value), "nearest": _score(value), "control": control}
        for layer, value, control in ((0, 0.5, [0.2, 0.3]), (1, 0.8, []), ("mean", 0.9, [0.1]))
    ]
    baselines = {"majority": _score(0.1), "word": _score(best.get("word", 0.6))}
    return {"attr": "pos", "metric": "accuracy", "n_test": 9, "baselines": baselines, "layers": rows}


def _draw_course(path: Path) -> None:
    log = path.parent / "log.jsonl"
    rows = [{"step": i, "component": "ner", "number": 1, "shares": [0.4 - i / 10, 0.6 + i / 10]} for i in range(3)]
    srsly.write_jsonl(log, rows)
    draw_course(log, path)


DRAWINGS: Dict[str, Callable[[Path], Any]] = {
    "layer weights": lambda path: draw_layer_weights(MIXES, path),
    "course": _draw_course,
    "perplexities": lambda path: draw_perplexities([RUN, RUN], path),
    "probe": lambda path: draw_probe(_record(), path),
    "efficiency": lambda path: draw_sample_efficiency("X", {1: [3.0, 4.0], 10: [5.0]}, {1: [1.0]}, path),
    "speed": lambda path: draw_speeds(
        [{"label": "a", "words_per_s": 9.0, "score": 0.5}, {"label": "b", "words_per_s": 5.0, "score": None}],
        path,
        title="T",
    ),
}


@pytest.mark.issue(18)
@pytest.mark.parametrize("suffix", BEGINNINGS)
@pytest.mark.parametrize("name", DRAWINGS)
def test_pictures_are_drawn(name: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / "out" / f"a{suffix}"
    path.parent.mkdir()
    DRAWINGS[name](path)
    assert path.read_bytes().startswith(BEGINNINGS[suffix])
    assert not list(path.parent.glob(".*part*"))


@pytest.mark.issue(18)
def test_svg_holds_no_date_and_the_source(tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    draw_probe(_record(), path, source="a.json 0123")
    assert "a.json 0123" in path.read_text(encoding="utf8") and "dc:date" not in path.read_text(encoding="utf8")


@pytest.mark.issue(18)
def test_curves_differ_in_more_than_colour() -> None:
    figure, (axes,) = plots.new_figure(height=2)
    curves = [plots.Curve(f"curve {i}", [0, 1], [i, i], [i - 1, i - 1], [i + 1, i + 1]) for i in range(4)]
    plots.draw_curves(axes, curves)
    looks = [(line.get_color(), line.get_marker(), line.get_linestyle()) for line in axes.get_lines()]
    assert all(len(set(values)) == 4 for values in zip(*looks))
    bands = [band.get_paths()[0].get_extents() for band in axes.collections]
    assert [(band.y0, band.y1) for band in bands] == [(i - 1, i + 1) for i in range(4)]


@pytest.mark.issue(18)
def test_titles_say_the_finding() -> None:
    title = "UPOS by linear probe: layer 1 scores highest, 80.0 %, "
    assert probe_title(_record()) == title + "20.0 points above the word baseline"
    assert probe_title(_record(word=0.79)) == title + "not significantly other than the word baseline"
    assert probe_title(_record(word=0.95)) == title + "15.0 points below the word baseline"
    assert perplexity_title([RUN]) == "Held-out perplexity falls: from 200 to 95 after 2.0 M tokens"
    assert "does not fall" in perplexity_title([RUN[::-1]]) and "each of 2 runs" in perplexity_title([RUN, RUN])
    assert efficiency_title("X", {1: [2.0], 5: [3.0]}, {1: [1.0]}) == "X: higher with ELMo at every measured share"
    assert efficiency_title("X", {1: [2.0], 5: [3.0]}, {1: [1.0], 5: [4.0]}) == "X by share of the training data"


@pytest.mark.issue(18)
def test_stored_senses_become_a_record() -> None:
    percent = {"value": 70.0, "low": 69.0, "high": 71.0}
    rows = [{"layer": "first sense", **percent}, {"layer": 0, **percent, "value": 50.0, "high": 51.0}]
    record = from_percent({"n_test": 3, "rows": rows})
    assert record["baselines"]["most frequent sense"]["value"] == pytest.approx(0.7)
    assert probe_title(record).startswith(
        "Word senses by the nearest mean: token layer scores highest, 50.0 %, 20.0 points below"
    )


@pytest.mark.issue(18)
def test_names_of_layers_and_pipelines() -> None:
    assert [name_layer(layer) for layer in (0, 2, "mean")] == ["token layer", "layer 2", "mean of all layers"]
    mixes, names = join_mixes([("a", MIXES[:1]), ("", MIXES[1:])])
    assert mixes == MIXES and names == ["a: ner", "tagger"]


@pytest.mark.issue(18)
def test_log_rows_without_perplexity_are_left_out(tmp_path: Path) -> None:
    srsly.write_jsonl(tmp_path / "log.jsonl", [{"n_tokens": 5}, *RUN])
    assert read_validations(tmp_path / "log.jsonl") == RUN


@pytest.mark.issue(18)
def test_bad_pictures_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="EL232.*.png or .svg"):
        plots.check_picture(Path("a.jpg"))
    monkeypatch.setattr(plots, "has_matplotlib", False)
    with pytest.raises(ValueError, match="EL233"):
        plots.check_picture(Path("a.png"))


def test_a_logarithmic_axis_has_whole_numbers() -> None:
    figure, (axes,) = plots.new_figure(height=2.0)
    axes.plot([7400, 23700], [1, 2])
    plots.use_log_scale(axes)
    figure.canvas.draw()
    low, high = axes.get_xlim()
    shown = [label.get_text() for label, x in zip(axes.get_xticklabels(), axes.get_xticks()) if low <= x <= high]
    assert shown[-3:] == ["10,000", "15,000", "20,000"]
    assert not any(label.get_text() for label in axes.get_xticklabels(minor=True))


@pytest.mark.issue(18)
def test_only_one_module_imports_matplotlib() -> None:
    found = [
        path.relative_to(ROOT).as_posix()
        for folder in ("spacy_elmo", "project/scripts", "benchmarks", "examples")
        for path in (ROOT / folder).rglob("*.py")
        if "matplotlib" in {name.split(".")[0] for name in _imported(path)}
    ]
    assert found == ["spacy_elmo/analysis/plots.py"]


def _imported(path: Path) -> List[str]:
    text = path.read_text(encoding="utf8")
    nodes = ast.walk(ast.parse(text if "matplotlib" in text else ""))
    imports = [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = [alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names]
    return names + [node.module or "" for node in imports if isinstance(node, ast.ImportFrom)]
