from pathlib import Path

import pytest
import srsly
from typer.testing import CliRunner

from spacy_elmo.cli._app import app
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.weights import save_bilm


@pytest.fixture
def int8_path(bilm: BiLM, tmp_path: Path) -> Path:
    save_bilm(bilm, tmp_path / "int8", dtype="int8")
    return tmp_path / "int8"


def test_equal_models_exit_with_zero(bilm: BiLM, bilm_path: Path, tmp_path: Path) -> None:
    save_bilm(bilm, tmp_path / "tf", format="bilm-tf")
    result = CliRunner().invoke(app, ["compare", str(bilm_path), str(tmp_path / "tf")])
    assert result.exit_code == 0, result.output
    assert "equal within 2e-05" in result.stderr and "All settings are the same" in result.stdout
    assert "same" in result.stdout and "Mean cosine" in result.stdout


def test_other_models_exit_with_one(bilm_path: Path, int8_path: Path) -> None:
    result = CliRunner().invoke(app, ["compare", str(bilm_path), str(int8_path)])
    assert result.exit_code == 1, result.output
    assert "The vectors differ" in result.stderr and "The first layer that differs is layer" in result.stdout
    assert "different" in result.stdout and "encoder.layers.0" in result.stdout
    result = CliRunner().invoke(app, ["compare", str(bilm_path), str(int8_path), "--tolerance", "1"])
    assert result.exit_code == 0, result.output


def test_json_has_all_tensors_and_layers(bilm_path: Path, int8_path: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("the cat sat\n\non the mat .\n", encoding="utf8")
    arguments = ["compare", str(bilm_path), str(int8_path), str(tmp_path / "text.txt"), "--json"]
    result = CliRunner().invoke(app, arguments)
    record = srsly.json_loads(result.stdout)
    assert result.exit_code == 1 and record["is_equal"] is False and record["n_tokens"] == 7
    assert [layer["layer"] for layer in record["layers"]] == [0, 1, 2]
    assert record["first_different_layer"] in (0, 1)
    assert {tensor["status"] for tensor in record["tensors"]} == {"same", "different"}
    assert record["layers"][2]["token"] in "<S> the cat sat on mat . </S>".split()


def test_errors_exit_with_two(bilm_path: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["compare", str(bilm_path), str(tmp_path / "nothing")])
    assert result.exit_code == 2 and "EL020" in result.stderr
    (tmp_path / "empty.txt").write_text("\n\n", encoding="utf8")
    result = CliRunner().invoke(app, ["compare", str(bilm_path), str(bilm_path), str(tmp_path / "empty.txt")])
    assert result.exit_code == 2 and "no sentences to compare" in result.stderr
    assert CliRunner().invoke(app, ["compare", str(bilm_path)]).exit_code == 2
