"""All pictures have one style, and say what they show."""

import math
from pathlib import Path

import pytest
from own_process import run_script

from spacy_elmo.analysis import plots
from spacy_elmo.analysis.layer_weight_plots import draw_layer_weights
from spacy_elmo.analysis.probes import draw_probe
from spacy_elmo.pipeline.layer_weights import TaskMix
from spacy_elmo.pipeline.surprisal import Surprisal

pytest.importorskip("matplotlib", reason="pictures need matplotlib")
RUN = [{"n_tokens": 1_000_000, "forward": 200.0}, {"n_tokens": 2_000_000, "forward": 100.0, "backward": 90.0}]
BEGINNINGS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
MIXES = [TaskMix("ner", 1, (0.2, 0.3, 0.5), (0.0, 0.0, 0.0), 1.0), TaskMix("tagger", 1, (0.6, 0.4), (0.0, 0.0), 1.0)]


def _score(value, spread=0.01):
    return {"value": value, "low": value - spread, "high": value + spread}


def _record(**best):
    """Layers 0, 1 and mean, of which 1 is best."""
    rows = [
        {"layer": layer, "probe": _score(value), "nearest": _score(value), "control": control}
        for layer, value, control in ((0, 0.5, [0.2, 0.3]), (1, 0.8, []), ("mean", 0.9, [0.1]))
    ]
    baselines = {"majority": _score(0.1), "word": _score(best.get("word", 0.6))}
    return {"attr": "pos", "metric": "accuracy", "n_test": 9, "baselines": baselines, "layers": rows}


DRAWINGS = {
    "layer weights": lambda path: draw_layer_weights(MIXES, path),
    "perplexities": lambda path: plots.draw_perplexities([RUN, RUN], path),
    "probe": lambda path: draw_probe(_record(), path),
    "surprisal": lambda path: plots.draw_surprisal(
        [("$x_{$", Surprisal(1, math.nan, 1, False))] * 30, path, title="$x_{$"
    ),
}


@pytest.mark.parametrize("name, suffix", [*((name, ".png") for name in DRAWINGS), ("probe", ".svg"), ("probe", ".pdf")])
def test_pictures_are_drawn(name, suffix, tmp_path):
    path = tmp_path / "out" / f"a{suffix}"
    path.parent.mkdir()
    DRAWINGS[name](path)
    assert path.read_bytes().startswith(BEGINNINGS[suffix])
    assert not list(path.parent.glob(".*part*"))


def test_curves_differ_in_more_than_colour():
    figure, (axes,) = plots.new_figure(height=2)
    curves = [plots.Curve(f"curve {i}", [0, 1], [i, i], [i - 1, i - 1], [i + 1, i + 1]) for i in range(4)]
    plots.draw_curves(axes, curves)
    looks = [(line.get_color(), line.get_marker(), line.get_linestyle()) for line in axes.get_lines()]
    assert all(len(set(values)) == 4 for values in zip(*looks))
    bands = [band.get_paths()[0].get_extents() for band in axes.collections]
    assert [(band.y0, band.y1) for band in bands] == [(i - 1, i + 1) for i in range(4)]


def test_pictures_take_a_title_a_size_and_labels(tmp_path):
    path = tmp_path / "a.svg"
    labels = {"token layer": "Tokenschicht $", "ner": "Namen"}
    with plots_as_text():
        draw_layer_weights(MIXES, path, look=plots.Look("Schichten <1>", 8, 6, labels=labels))
    text = path.read_text(encoding="utf8")
    assert all(word in text for word in ("Schichten &lt;1&gt;", "Tokenschicht $", "Namen", "layer 1", "tagger"))
    assert "token layer" not in text and 'width="226.77' in text and 'height="170.07' in text  # points
    with plots_as_text():
        draw_layer_weights(MIXES, path, look=plots.Look("", labels={"layer 1": "layer 2", "layer 2": "layer 1"}))
    assert "Tasks use" not in path.read_text(encoding="utf8")
    png = tmp_path / "a.png"
    draw_probe(_record(), png, look=plots.Look(width=10, height=8, dpi=254))
    assert [int.from_bytes(png.read_bytes()[i : i + 4], "big") for i in (16, 20)] == [1000, 800]
    with pytest.raises(ValueError, match="no label 'layer 9'.*token layer, layer 1, layer 2"):
        draw_layer_weights(MIXES, path, look=plots.Look(labels={"layer 9": "x"}))
    with pytest.raises(ValueError, match="too small for its labels"):
        draw_layer_weights(MIXES, path, look=plots.Look("word " * 100, 3, 3))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.png", "a.svg"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(plots, "has_matplotlib", False)
        with pytest.raises(ValueError, match="A picture needs matplotlib"):
            plots.check_picture(Path("a.png"))


@pytest.mark.parametrize("is_unk", [False, True])
def test_curve_of_surprisal_marks_words_outside_the_vocabulary(is_unk, tmp_path, monkeypatch):
    saved = []
    tokens = [(f"word {i}", Surprisal(1.0 + i, 2.0 + i, 1.5 + i, is_unk and i == 30)) for i in range(40)]
    monkeypatch.setattr(plots, "save_figure", lambda figure, *_, **__: saved.append(figure))
    plots.draw_surprisal(tokens, tmp_path / "a.png", title="")
    open_markers = [
        line for axes in saved[0].axes for line in axes.get_lines() if line.get_markerfacecolor() == "white"
    ]
    points = [tuple(point) for line in open_markers for point in line.get_xydata()]
    assert points == ([(10, 31), (10, 32)] if is_unk else [])  # in the second panel
    names = [text.get_text() for text in saved[0].legends[0].get_texts()]
    assert any("<UNK>" in name for name in names) == is_unk


def plots_as_text():
    """RETURNS (ContextManager): SVG files with their texts as texts, not as paths."""
    from matplotlib import rc_context

    return rc_context({"svg.fonttype": "none"})


def test_svg_has_its_source_and_pdf_the_fonts_that_journals_take(tmp_path):
    draw_probe(_record(), tmp_path / "a.svg", source="a.json 0123")
    text = (tmp_path / "a.svg").read_text(encoding="utf8")
    assert "a.json 0123" in text and "dc:date" not in text
    DRAWINGS["probe"](tmp_path / "a.pdf")
    content = (tmp_path / "a.pdf").read_bytes()
    assert b"/Type3" not in content and b"/FontFile2" in content and b"/CreationDate" not in content


@pytest.mark.parametrize("backend", ["module://no_such_package.backend_inline", "svg"])
def test_a_picture_needs_no_backend(backend, tmp_path):
    """A notebook names its backend to the programs that it starts; their environment may lack it."""
    code = (
        "import sys; from spacy_elmo.analysis.plots import Curve, draw_curves, new_figure, save_figure\n"
        "figure, (axes,) = new_figure(height=3); draw_curves(axes, [Curve('a', [1, 2], [1, 2])])\n"
        "save_figure(figure, sys.argv[1]); import os, matplotlib\n"
        "print(os.environ['MPLBACKEND'], matplotlib.get_backend())"
    )
    name, chosen = run_script(code, str(tmp_path / "a.png"), MPLBACKEND=backend).split()
    assert name == backend and (backend != "svg" or chosen == "svg")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_curve_of_surprisal_is_interrupted_between_sentences(tmp_path, monkeypatch):
    """As if the words belonged together, a line ran through the full stop; a panel does not begin with a gap."""
    saved = []
    monkeypatch.setattr(plots, "save_figure", lambda figure, *_, **__: saved.append(figure))
    tokens = [(f"word {i}", Surprisal(1.0 + i, 2.0 + i, 1.5 + i, False)) for i in range(40)]
    plots.draw_surprisal(tokens, tmp_path / "a.png", title="", starts=[0, 3, 20, 22])
    first, second = ([axes.get_lines()[0].get_ydata(), axes] for axes in saved[0].axes)
    assert [i for i, value in enumerate(first[0]) if math.isnan(value)] == [3] and list(first[0][:3]) == [1, 2, 3]
    assert [i for i, value in enumerate(second[0]) if math.isnan(value)] == [2]
    names = [text.get_text() for text in first[1].get_xticklabels()]
    assert names == [f"word {i}" for i in range(20)] and list(first[1].get_xticks())[2:4] == [2, 4]
    assert first[1].get_xlim() == second[1].get_xlim()
