from pathlib import Path
from typing import List

import numpy as np
import pytest
import srsly
from export.running import largest_difference, needs_onnx, open_graph, run_graph
from typer.testing import CliRunner

from spacy_elmo.bilm.lm_head import AdaptiveHead
from spacy_elmo.cli._app import app
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.weights import load_bilm, save_bilm


@pytest.mark.parametrize("to", ["native", "bilm-tf"])
def test_convert_keeps_the_vectors(bilm_path: Path, tmp_path: Path, to: str) -> None:
    result = CliRunner().invoke(app, ["convert", str(bilm_path), str(tmp_path / "out"), "--to", to])
    assert result.exit_code == 0, result.output
    before, after = (load_bilm(path).embed([["the", "cat"]])[0] for path in (bilm_path, tmp_path / "out"))
    assert np.array_equal(before, after)


def test_convert_counts_as_inspect_does(bilm_path: Path, tmp_path: Path) -> None:
    report = srsly.json_loads(CliRunner().invoke(app, ["inspect", str(bilm_path), "--json"]).stdout)
    result = CliRunner().invoke(app, ["convert", str(bilm_path), str(tmp_path / "out")])
    assert f"{report['n_parameters']['biLM']:,} parameters" in " ".join(result.output.split())


@pytest.mark.filterwarnings("default")
def test_convert_shows_warnings_without_source_lines(bilm: BiLM, tmp_path: Path) -> None:
    head = AdaptiveHead(9, 8, [3], 2.0).eval()
    save_bilm(BiLM(bilm.network, vocabulary=bilm.vocabulary, head=head), tmp_path / "bilm")
    result = CliRunner().invoke(app, ["convert", str(tmp_path / "bilm"), str(tmp_path / "out"), "--to", "bilm-tf"])
    assert result.exit_code == 0, result.output
    told = " ".join(result.stderr.split())
    assert "is not saved" in told and "`--to native`" in told
    assert "UserWarning" not in told and ".py" not in told and result.stdout == ""


def test_convert_rounds_to_half_precision(bilm_path: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["convert", str(bilm_path), str(tmp_path / "out"), "--dtype", "float16"])
    assert result.exit_code == 0, result.output
    sizes = [(path / "weights.safetensors").stat().st_size for path in (bilm_path, tmp_path / "out")]
    assert sizes[1] < 0.7 * sizes[0]


def test_convert_rounds_to_int8_in_our_own_format_only(bilm_path: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["convert", str(bilm_path), str(tmp_path / "out"), "--dtype", "int8"])
    assert result.exit_code == 0, result.output
    key = "input_weight"
    networks = [load_bilm(path).network for path in (bilm_path, tmp_path / "out")]
    weight, rounded = (getattr(network.encoder.layers[0], key) for network in networks)
    assert 0 < (weight - rounded).abs().max() <= weight.abs().max() / 200
    result = CliRunner().invoke(
        app, ["convert", str(bilm_path), str(tmp_path / "tf"), "--to", "bilm-tf", "--dtype", "int8"]
    )
    assert result.exit_code == 1 and "but should be one of" in result.stderr and not (tmp_path / "tf").exists()


def test_convert_does_not_overwrite_without_force(bilm_path: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("keep", encoding="utf8")
    arguments = ["convert", str(bilm_path), str(tmp_path / "out")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "already" in result.output and "--force" in result.output
    assert CliRunner().invoke(app, [*arguments, "--force"]).exit_code == 0
    assert (tmp_path / "out" / "notes.txt").is_file()


@pytest.mark.issue(17)
def test_convert_does_not_replace_what_it_reads(bilm_path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    assert CliRunner().invoke(app, ["convert", str(bilm_path), str(folder), "--to", "bilm-tf"]).exit_code == 0
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    for source in (folder, folder / "weights.hdf5"):
        for kind in ("native", "bilm-tf"):
            result = CliRunner().invoke(app, ["convert", str(source), str(folder), "--to", kind, "--force"])
            assert result.exit_code == 1 and "would be replaced by it" in result.stderr
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


def test_convert_says_what_a_missing_path_should_be(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["convert", str(tmp_path / "nothing"), str(tmp_path / "out")])
    assert result.exit_code == 1
    assert "no biLM" in result.output.replace("\n", " ") or "No biLM" in result.output


def test_convert_takes_options_from_elsewhere(bilm_path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tf"
    assert CliRunner().invoke(app, ["convert", str(bilm_path), str(folder), "--to", "bilm-tf"]).exit_code == 0
    (folder / "options.json").rename(tmp_path / "settings.json")
    weights = str(folder / "weights.hdf5")
    arguments = ["convert", weights, str(tmp_path / "out"), "--options", str(tmp_path / "settings.json")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output


def test_convert_writes_an_onnx_graph(bilm_path: Path, tmp_path: Path) -> None:
    needs_onnx()
    output = tmp_path / "elmo.onnx"
    arguments = ["convert", str(bilm_path), str(output), "--to", "onnx"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    bilm = load_bilm(bilm_path)
    found = run_graph(open_graph(output), bilm, [["the", "cat"], ["sat"]])
    assert largest_difference(found, bilm.embed([["the", "cat"], ["sat"]])) < 2e-5
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1 and "EL025" in result.stderr and "--force" in result.stderr
    assert CliRunner().invoke(app, [*arguments, "--force"]).exit_code == 0


@pytest.mark.parametrize(
    "output, options, code",
    [
        ("elmo.onnx", ["--to", "onnx", "--dtype", "float16"], "should be float32"),
        ("elmo.onnx", ["--to", "onnx", "--dtype", "int8"], "should be float32"),
        ("elmo", ["--to", "onnx"], "EL354"),
        ("elmo.onnx", [], "EL354"),
    ],
)
def test_convert_refuses_what_onnx_does_not_have(
    bilm_path: Path, tmp_path: Path, output: str, options: List[str], code: str
) -> None:
    result = CliRunner().invoke(app, ["convert", str(bilm_path), str(tmp_path / output), *options])
    assert result.exit_code == 1 and code in result.stderr
    assert not (tmp_path / output).exists()
