import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
import srsly
from safetensors.numpy import load_file, save_file
from typer.testing import CliRunner

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.model import BiLMNetwork
from spacy_elmo.cli._app import app
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.text.vocabulary import Vocabulary
from spacy_elmo.weights import formats, save_bilm
from spacy_elmo.weights.contents import read_contents


def test_inspect_prints_sizes_parts_and_vocabulary(bilm_path: Path) -> None:
    result = CliRunner().invoke(app, ["inspect", str(bilm_path)])
    assert result.exit_code == 0, result.output
    for text in ("projection_width", "LSTM layer 2", "highway 1", "characters: filters", "9 words", "forget"):
        assert text in result.output


def test_inspect_prints_json(bilm_path: Path) -> None:
    result = CliRunner().invoke(app, ["inspect", str(bilm_path), "--json"])
    assert srsly.json_loads(result.output)["settings"]["char_cnn.embedding_width"] == 4


def test_inspect_prints_results_on_stdout_and_statements_on_stderr(bilm: BiLM, tmp_path: Path) -> None:
    save_bilm(BiLM(bilm.network), tmp_path / "bilm")
    result = CliRunner().invoke(app, ["inspect", str(tmp_path / "bilm")])
    assert "LSTM layer 2" in result.stdout and "LSTM layer 2" not in result.stderr
    for text in ("no vocabulary", "can be used"):
        assert text in result.stderr and text not in result.stdout


def test_inspect_reports_broken_weights(bilm_path: Path) -> None:
    (bilm_path / "weights.safetensors").write_bytes(b"nothing")
    result = CliRunner().invoke(app, ["inspect", str(bilm_path)])
    assert result.exit_code == 1
    assert "weights.safetensors" in result.output


@pytest.mark.issue(15)
def test_inspect_lists_problems_line_by_line(bilm_path: Path) -> None:
    arrays = load_file(bilm_path / "weights.safetensors")
    del arrays["bilm.lstm.0.bias"], arrays["softmax.bias"]
    save_file(arrays, bilm_path / "weights.safetensors")
    result = CliRunner().invoke(app, ["inspect", str(bilm_path)])
    assert result.exit_code == 1
    assert "- missing: bilm.lstm.0.bias [2, 64]\n" in result.stderr
    assert "- missing: softmax.bias [9]\n" in result.stderr


def test_inspect_counts_every_parameter_once(bilm: BiLM) -> None:
    counts = dict(read_contents(bilm).n_parameters)
    # The mask row of the character table is no parameter of the paper.
    assert counts.pop("biLM") == sum(parameter.numel() for parameter in bilm.network.parameters()) - 4
    assert counts.pop("softmax (not needed for vectors)") == 9 * 8 + 9
    assert counts["characters: embedding"] == 261 * 4


def test_inspect_shows_highways_between_layers() -> None:
    config = BiLMConfig(n_words=9, cell_width=8, projection_width=4, has_skip=False, highway_between=True)
    report = read_contents(BiLM(BiLMNetwork(config), vocabulary=Vocabulary(["<S>", "</S>", "<UNK>", *"abcdef"])))
    assert report.n_parameters["highway around LSTM layer 2"] == 2 * (4 * 4 + 4)
    openings = [opening for part, _, opening in report.gates if part.startswith("highway around LSTM layer 2")]
    assert len(openings) == 2 and all(abs(opening - 0.119) < 1e-3 for opening in openings)


def test_inspect_knows_the_forget_bias(bilm: BiLM) -> None:
    forget = {opening for _, gate, opening in read_contents(bilm).gates if gate == "forget"}
    assert all(abs(opening - 0.731) < 1e-3 for opening in forget), "bias 0 in the file means 1"


def test_inspect_names_what_is_missing(bilm: BiLM) -> None:
    problems = read_contents(BiLM(bilm.network)).problems
    assert len(problems) == 2 and "vocabulary" in problems[0] and "softmax" in problems[1]


@pytest.mark.issue(17)
@pytest.mark.parametrize("format", ["native", "bilm-tf"])
def test_inspect_shows_format_files_and_checksums(format: str, bilm: BiLM, tmp_path: Path) -> None:
    save_bilm(bilm, tmp_path / "bilm", format=format)
    record = srsly.json_loads(CliRunner().invoke(app, ["inspect", str(tmp_path / "bilm"), "--json"]).stdout)
    assert record["provenance"]["format"] == format
    files = {Path(file["name"]).name: file for file in record["provenance"]["files"]}
    assert set(files) == {path.name for path in (tmp_path / "bilm").iterdir()}
    for path in (tmp_path / "bilm").iterdir():
        assert files[path.name]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
        assert files[path.name]["n_bytes"] == path.stat().st_size
    printed = CliRunner().invoke(app, ["inspect", str(tmp_path / "bilm")]).stdout
    assert f"Format: {format}" in printed and all(file["sha256"] in printed for file in files.values())


@pytest.mark.issue(17)
def test_inspect_shows_weights_and_options_given_apart(bilm: BiLM, tmp_path: Path) -> None:
    save_bilm(bilm, tmp_path / "bilm", format="bilm-tf")
    (tmp_path / "bilm" / "options.json").rename(tmp_path / "settings.json")
    arguments = ["inspect", str(tmp_path / "bilm" / "weights.hdf5"), "--options", str(tmp_path / "settings.json")]
    record = srsly.json_loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    names = [Path(file["name"]).name for file in record["provenance"]["files"]]
    assert names == ["weights.hdf5", "settings.json"]


@pytest.mark.issue(17)
def test_inspect_shows_the_record_of_the_download(bilm_path: Path) -> None:
    srsly.write_json(bilm_path / "origin.json", {"name": "small", "licence": "a licence of its own", "paper": None})
    printed = CliRunner().invoke(app, ["inspect", str(bilm_path)]).stdout
    assert "a licence of its own" in printed and "unknown" in printed


@pytest.mark.issue(17)
def test_inspect_says_what_can_be_done(bilm: BiLM) -> None:
    uses = {use.name: use for use in read_contents(bilm).capabilities}
    assert all(use.is_possible for use in uses.values() if use.name != "computation in float16")
    assert uses["export to native"].reason == "float32, float16, int8"
    assert "slower than float32" in uses["computation in float16"].reason
    assert uses["contextual vectors"].reason == "3 layers of 16 dimensions"
    bare = {use.name: use for use in read_contents(BiLM(bilm.network)).capabilities}
    assert not bare["perplexity"].is_possible and bare["perplexity"].reason == "it lacks: softmax, vocabulary"
    assert bare["further training"].reason == "with a new vocabulary and a new softmax"


@pytest.mark.issue(17)
def test_inspect_says_what_cannot_be_done() -> None:
    config = BiLMConfig(n_words=9, cell_width=8, projection_width=4, has_skip=False, highway_between=True)
    report = read_contents(BiLM(BiLMNetwork(config), vocabulary=Vocabulary(["<S>", "</S>", "<UNK>", *"abcdef"])))
    uses = {use.name: use for use in report.capabilities}
    assert not uses["export to bilm-tf"].is_possible and "highways" in uses["export to bilm-tf"].reason
    assert not uses["vectors of unknown words"].is_possible
    assert uses["export to native"].is_possible
    assert report.architecture == "biLM of 2 LSTM layer(s) of width 4, forward and backward, over a table of words"


@pytest.mark.issue(17)
def test_uses_are_written_for_any_format(bilm: BiLM, monkeypatch: pytest.MonkeyPatch) -> None:
    other = replace(formats.NATIVE, name="other", refuses=lambda bilm: "no reason")
    only_read = replace(formats.NATIVE, name="only-read", write=None)
    monkeypatch.setattr("spacy_elmo.weights.formats.FORMATS", (*formats.FORMATS, other, only_read))
    uses = {use.name: use for use in read_contents(bilm).capabilities}
    assert not uses["export to other"].is_possible and uses["export to other"].reason == "no reason"
    assert "export to only-read" not in uses
