import re
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any, Dict

import pytest
import spacy
import srsly
from spacy.training import Example
from typer.testing import CliRunner

from spacy_elmo.analysis.layer_weights import draw_course, read_course
from spacy_elmo.cli._app import app
from spacy_elmo.cli.layer_weights import shorten
from spacy_elmo.pipeline.layer_weights import find_task_mixes
from spacy_elmo.pipeline.model import make_random_bilm

CHAR_CNN = {"embedding_width": 4, "filters": [[1, 8]], "n_highway": 1}
BILM = {"char_cnn": CHAR_CNN, "cell_width": 16, "projection_width": 8}
LISTENER = {"@architectures": "spacy-elmo.ElmoListener.v1"}
ROW = '{"step": 0, "component": "tagger", "number": 1, "shares": [0.5, 0.3, 0.2]}\n'


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    """A tagger that listens to a tiny biLM, on disk."""
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo").initialize(lambda: [], loader=lambda: make_random_bilm(BILM, 0))
    nlp.config["initialize"]["components"]["elmo"] = {"loader": {"@misc": "spacy-elmo.RandomBiLM.v1", "bilm": BILM}}
    listener = {**LISTENER, "initial_weights": [0.0, 1.0, 2.0], "initial_gamma": 0.5}
    nlp.add_pipe("tagger", config={"model": {"tok2vec": listener}}).add_label("NOUN")
    nlp.initialize(lambda: [Example.from_dict(nlp.make_doc("bank"), {"tags": ["NOUN"]})])
    nlp.to_disk(tmp_path / "pipeline")
    return tmp_path / "pipeline"


@pytest.mark.issue(16)
def test_table_has_shares_and_gamma(pipeline: Path) -> None:
    result = CliRunner().invoke(app, ["layer-weights", str(pipeline)])
    assert result.exit_code == 0, result.output
    for text in ("tagger", "token layer", "layer 1", "layer 2", "9.0%", "24.5%", "66.5%", "0.500"):
        assert text in result.stdout
    assert "LSTM" not in result.stdout, "the biLM may be a transformer"


@pytest.mark.issue(16)
def test_json_has_what_the_pipeline_has(pipeline: Path) -> None:
    result = CliRunner().invoke(app, ["layer-weights", str(pipeline), "--json"])
    (row,) = srsly.json_loads(result.stdout)["mixes"]
    (mix,) = find_task_mixes(spacy.load(pipeline))
    assert row["shares"] == pytest.approx(mix.shares) and list(row) == list(asdict(mix))
    assert row["weights"] == [0.0, 1.0, 2.0]


@pytest.mark.issue(16)
@pytest.mark.parametrize("suffix, beginning", [(".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_picture_is_written_once(pipeline: Path, tmp_path: Path, suffix: str, beginning: bytes) -> None:
    path = tmp_path / "pictures" / f"weights{suffix}"
    arguments = ["layer-weights", str(pipeline), "--picture", str(path)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert path.read_bytes().startswith(beginning)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    again = CliRunner().invoke(app, arguments)
    assert again.exit_code == 1 and "EL134" in again.stderr
    assert CliRunner().invoke(app, [*arguments, "--force"]).exit_code == 0


@pytest.mark.issue(16)
def test_course_is_drawn_from_the_log(pipeline: Path, tmp_path: Path) -> None:
    log, path = tmp_path / "log.jsonl", tmp_path / "course.png"
    log.write_text(ROW + ROW.replace("0.5, 0.3", "0.4, 0.4").replace('"step": 0', '"step": 200'), encoding="utf8")
    result = CliRunner().invoke(app, ["layer-weights", str(pipeline), "--log", str(log), "--picture", str(path)])
    assert result.exit_code == 0, result.output
    assert path.stat().st_size > 5000


@pytest.mark.issue(16)
@pytest.mark.parametrize("text", ["", "[1]\n", '{"step": 1}\n', "no json\n"])
def test_other_file_than_a_log_is_refused(pipeline: Path, tmp_path: Path, text: str) -> None:
    log, path = tmp_path / "log.jsonl", tmp_path / "course.png"
    log.write_text(text, encoding="utf8")
    result = CliRunner().invoke(app, ["layer-weights", str(pipeline), "--log", str(log), "--picture", str(path)])
    assert result.exit_code == 1 and "not a log of layer weights" in result.stderr
    assert not path.exists()


@pytest.mark.issue(16)
@pytest.mark.parametrize(
    "change, problem",
    [
        ({"shares": "abc"}, "shares is 'abc', should be a list of numbers from 0 to 1"),
        ({"shares": [None, 0.5, 0.5]}, "shares is [None, 0.5, 0.5], should be"),
        ({"shares": []}, "shares is [], should be"),
        ({"shares": [0.5, 0.5, 1.5]}, "shares is [0.5, 0.5, 1.5], should be"),
        ({"shares": [0.5, 0.5]}, "shares has 2 numbers, should have 3, as in the first row"),
        ({"step": "x"}, "step is 'x', should be a whole number of 0 or more"),
        ({"step": True}, "step is True, should be"),
        ({"step": 1.5}, "step is 1.5, should be"),
        ({"step": -1}, "step is -1, should be"),
        ({"component": None}, "component is None, should be a text"),
        ({"component": ["tagger"]}, "component is ['tagger'], should be a text"),
        ({"number": {}}, "number is {}, should be a whole number of 1 or more"),
        ({"place": 3}, "place is 3, should be a text or null"),
        ({"step": "x", "shares": 1}, "shares is 1, should be a list of numbers from 0 to 1; step is 'x'"),
    ],
)
def test_malformed_rows_are_named_with_their_line(tmp_path: Path, change: Dict[str, Any], problem: str) -> None:
    row = srsly.json_loads(ROW)
    srsly.write_jsonl(tmp_path / "log.jsonl", [row, {**row, "step": 1, **change}])
    with pytest.raises(ValueError, match=re.escape(problem)) as caught:
        read_course(tmp_path / "log.jsonl")
    assert (
        "not a log of layer weights" in str(caught.value)
        and "log.jsonl" in str(caught.value)
        and "line 2" in str(caught.value)
    )


@pytest.mark.issue(16)
def test_log_of_another_number_of_layers_is_refused(pipeline: Path, tmp_path: Path) -> None:
    log, path = tmp_path / "log.jsonl", tmp_path / "course.png"
    log.write_text(ROW.replace("0.2]", "0.1, 0.1]"), encoding="utf8")
    result = CliRunner().invoke(app, ["layer-weights", str(pipeline), "--log", str(log), "--picture", str(path)])
    told = " ".join(result.stderr.split())
    assert result.exit_code == 1 and "layer weights of other mixes" in told and not path.exists()
    assert "tagger (1) with 4 layers" in told and "tagger (1) with 3 layers" in told


@pytest.mark.issue(16)
def test_course_of_bilms_of_different_depth_is_drawn(tmp_path: Path) -> None:
    row = srsly.json_loads(ROW)
    other = {**row, "component": "ner", "shares": [0.4, 0.2, 0.2, 0.2]}
    later = {**other, "step": 1, "shares": [0.1, 0.2, 0.2, 0.5]}
    srsly.write_jsonl(tmp_path / "log.jsonl", [row, other, {**row, "step": 1}, later])
    draw_course(tmp_path / "log.jsonl", tmp_path / "course.svg")
    assert "layer 3 gains most" in (tmp_path / "course.svg").read_text(encoding="utf8")


@pytest.mark.issue(16)
def test_bad_arguments_are_refused_before_loading(pipeline: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(ROW, encoding="utf8")
    for arguments, code in (
        (["--log", str(log)], "--log needs a file"),
        (["--picture", "weights.doc"], "A picture cannot be written"),
    ):
        result = CliRunner().invoke(app, ["layer-weights", str(pipeline), *arguments])
        assert result.exit_code == 1 and code in result.stderr


@pytest.mark.issue(16)
def test_pipeline_without_elmo_is_an_error(tmp_path: Path) -> None:
    spacy.blank("en").to_disk(tmp_path / "blank")
    result = CliRunner().invoke(app, ["layer-weights", str(tmp_path / "blank")])
    assert result.exit_code == 1 and "EL230" in result.stderr


@pytest.mark.issue(16)
def test_pipeline_that_is_not_trained_is_an_error(tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    listener = {"@architectures": "spacy-elmo.ElmoListener.v1"}
    nlp.add_pipe("tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}})
    nlp.to_disk(tmp_path / "untrained")
    result = CliRunner().invoke(app, ["layer-weights", str(tmp_path / "untrained")])
    told = " ".join(result.stderr.split())
    assert (
        result.exit_code == 1
        and "are not trained, so that they" in told
        and "are not trained" in told
        and "tagger" in told
    )


@pytest.mark.issue(16)
def test_arguments_that_do_not_fit_are_told(pipeline: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(ROW.replace("tagger", "ner"), encoding="utf8")
    drawn = ["--log", str(log), "--picture", str(tmp_path / "a.svg")]
    expected = {
        "so it is not a pipeline": [str(tmp_path)],
        "is named twice": [str(pipeline), str(tmp_path / "x" / ".." / "pipeline")],
        "layer weights of other mixes": [str(pipeline), *drawn],
    }
    for code, arguments in expected.items():
        result = CliRunner().invoke(app, ["layer-weights", *arguments])
        assert result.exit_code == 1 and code in result.stderr
    told = CliRunner().invoke(app, ["layer-weights", str(tmp_path)]).stderr
    assert str(pipeline) in told.replace("\n", ""), "what may be meant"
    assert not (tmp_path / "a.svg").exists()


@pytest.mark.issue(18)
def test_several_pipelines_are_named_by_what_differs(pipeline: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "model-best"
    shutil.copytree(pipeline, other)
    one = shutil.copytree(pipeline, tmp_path / "one" / "model-best")
    result = CliRunner().invoke(app, ["layer-weights", str(one), str(other), "--json"])
    assert [row["pipeline"] for row in srsly.json_loads(result.stdout)["mixes"]] == ["one", "other"]
    result = CliRunner().invoke(app, ["layer-weights", str(one), str(other), "--picture", str(tmp_path / "a.svg")])
    assert result.exit_code == 0 and "one: tagger" in result.stdout and "other: tagger" in result.stdout
    assert shorten(["a"]) == [""] and shorten(["a", "a"]) == ["a", "a"] and shorten(["x/a", "a"]) == ["x/a", "a"]
    far = shutil.copytree(pipeline, tmp_path / ("a" * 40) / "model-best")  # the columns stay aligned
    lines = CliRunner().invoke(app, ["layer-weights", str(one), str(far)]).stdout.strip().splitlines()
    assert len({len(line.rstrip()) for line in lines}) == 1
    log = tmp_path / "log.jsonl"
    log.write_text(ROW, encoding="utf8")
    arguments = ["--log", str(log), "--picture", str(tmp_path / "b.svg")]
    result = CliRunner().invoke(app, ["layer-weights", str(one), str(other), *arguments])
    assert result.exit_code == 1 and "--log draws the course of one pipeline" in result.stderr
