"""`elmo layer-weights`: the table, its pictures, logs, several pipelines, and mistakes."""

import io
import shutil
from dataclasses import asdict

import pytest
import spacy
from cli.calls import call, call_json, refused
from report_outputs import LISTENER, LOADER, write_classifier
from spacy.training import Example

from spacy_elmo.pipeline.layer_weights import LayerWeightsLogger, find_task_mixes

ROW = '{"step": 0, "component": "tagger", "number": 1, "shares": [0.5, 0.3, 0.2]}\n'
pytestmark = pytest.mark.issue(16)


@pytest.fixture
def pipeline(tmp_path):
    """A tagger that listens to a tiny biLM, on disk."""
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    nlp.config["initialize"]["components"]["elmo"] = {"loader": LOADER}
    listener = {**LISTENER, "initial_weights": [0.0, 1.0, 2.0], "initial_gamma": 0.5}
    nlp.add_pipe("tagger", config={"model": {"tok2vec": listener}})
    nlp.initialize(lambda: [Example.from_dict(nlp.make_doc("bank"), {"tags": ["NOUN"]})])
    nlp.to_disk(tmp_path / "pipeline")
    return tmp_path / "pipeline"


@pytest.fixture
def log(tmp_path):
    """A log of the shares, at two steps."""
    later = ROW.replace("0.5, 0.3", "0.4, 0.4").replace('"step": 0', '"step": 200')
    (tmp_path / "log.jsonl").write_text(ROW + later, encoding="utf8")
    return tmp_path / "log.jsonl"


def test_table_and_json_have_shares_and_gamma(pipeline):
    shown = call("layer-weights", pipeline).stdout
    for text in ("tagger", "token layer", "layer 1", "layer 2", "9.0%", "24.5%", "66.5%", "0.500"):
        assert text in shown
    assert "LSTM" not in shown, "the biLM may be a transformer"
    (row,) = call_json("layer-weights", pipeline)["mixes"]
    (mix,) = find_task_mixes(spacy.load(pipeline))
    assert row["shares"] == pytest.approx(mix.shares) and list(row) == list(asdict(mix))
    assert row["weights"] == [0.0, 1.0, 2.0]


def test_pictures_are_written_once(pipeline, log, tmp_path):
    for name, beginning, options in (("a.png", b"\x89PNG", []), ("b.svg", b"<?xml", ["--log", log])):
        path = tmp_path / "pictures" / name
        arguments = ["layer-weights", pipeline, "--picture", path, *options]
        call(*arguments)
        assert path.read_bytes().startswith(beginning)
        assert "--force" in refused(*arguments)
        call(*arguments, "--force")
    assert sorted(file.name for file in path.parent.iterdir()) == ["a.png", "b.svg"]


def test_logs_of_other_trainings_are_refused(pipeline, log, tmp_path):
    drawn = ("--log", log, "--picture", tmp_path / "a.svg")
    log.write_text(ROW.replace("0.2]", "0.1, 0.1]"), encoding="utf8")
    shown = refused("layer-weights", pipeline, *drawn)
    assert "other mixes" in shown and "tagger (1) with 4 layers" in shown and "tagger (1) with 3 layers" in shown
    log.write_text(ROW.replace("tagger", "ner"), encoding="utf8")
    assert "layer weights of other mixes" in refused("layer-weights", pipeline, *drawn)
    for text in ("", "[1]\n", "no json\n"):
        log.write_text(text, encoding="utf8")
        assert "not a log of layer weights" in refused("layer-weights", pipeline, *drawn)
    assert not (tmp_path / "a.svg").exists()


@pytest.mark.issue(18)
@pytest.mark.parametrize(
    "paths, names",
    [(("one/best", "two/best"), ["one", "two"]), (("x/a", "y"), ["x/a", "y"])],
)
def test_several_pipelines_are_named_by_what_differs(paths, names, pipeline, tmp_path):
    copies = [shutil.copytree(pipeline, tmp_path / "copies" / path, dirs_exist_ok=True) for path in paths]
    found = call_json("layer-weights", *copies)["mixes"]
    assert [row["pipeline"] for row in found] == names
    far = shutil.copytree(pipeline, tmp_path / ("a" * 40) / "model-best")
    shown = call("layer-weights", *copies, far, "--picture", tmp_path / "a.svg").stdout
    lines = shown.strip().splitlines()
    assert len({len(line.rstrip()) for line in lines}) == 1, "the columns stay aligned"


@pytest.mark.issue(59)
def test_concatenated_layers_have_no_weights(pipeline, tmp_path):
    """Not a third each: the table, JSON, pictures and the logger say that there are none."""
    alone = write_classifier(tmp_path / "texts") / "model-best"
    text = "layers are concatenated: no weights (gamma 0.100)"
    assert call("layer-weights", alone).stdout == f"textcat: {text}\n"
    (row,) = call_json("layer-weights", alone)["mixes"]
    assert (row["component"], row["shares"], row["weights"], row["gamma"]) == ("textcat", [], [], pytest.approx(0.1))
    both = call("layer-weights", alone, pipeline, "--picture", tmp_path / "both.svg").stdout
    assert "66.5%" in both and f"textcat: {text}" in both and "33." not in both
    drawn = (tmp_path / "both.svg").read_text(encoding="utf8")
    assert "tagger" in drawn or "pipeline" in drawn
    assert "textcat" not in drawn
    shown = refused("layer-weights", alone, "--picture", tmp_path / "none.svg")
    assert text in shown and "Leave out --picture" in shown and not (tmp_path / "none.svg").exists()
    stdout, path = io.StringIO(), tmp_path / "weights.jsonl"
    nlp = spacy.load(alone)
    for logger in (LayerWeightsLogger(), LayerWeightsLogger(path)):
        log_step, finalize = logger(nlp, stdout, io.StringIO())
        for step in range(2):
            log_step({"step": step, "epoch": 0, "score": 0.5})
        finalize()
    assert stdout.getvalue() == f"Layer weights of textcat: {text}\n" and not path.exists()
