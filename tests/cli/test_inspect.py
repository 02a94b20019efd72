from pathlib import Path

import pytest
import srsly
from safetensors.numpy import load_file, save_file
from typer.testing import CliRunner

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.model import BiLMNetwork
from spacy_elmo.cli._app import app
from spacy_elmo.cli.inspect import inspect
from spacy_elmo.encoding.facade import BiLM
from spacy_elmo.text.vocabulary import Vocabulary
from spacy_elmo.weights import save_bilm


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
    counts = dict(inspect(bilm).n_parameters)
    # The mask row of the character table is no parameter of the paper.
    assert counts.pop("biLM") == sum(parameter.numel() for parameter in bilm.network.parameters()) - 4
    assert counts.pop("softmax (not needed for vectors)") == 9 * 8 + 9
    assert counts["characters: embedding"] == 261 * 4


def test_inspect_shows_highways_between_layers() -> None:
    config = BiLMConfig(n_words=9, cell_width=8, projection_width=4, has_skip=False, highway_between=True)
    report = inspect(BiLM(BiLMNetwork(config), vocabulary=Vocabulary(["<S>", "</S>", "<UNK>", *"abcdef"])))
    assert report.n_parameters["highway around LSTM layer 2"] == 2 * (4 * 4 + 4)
    openings = [opening for part, _, opening in report.gates if part.startswith("highway around LSTM layer 2")]
    assert len(openings) == 2 and all(abs(opening - 0.119) < 1e-3 for opening in openings)


def test_inspect_knows_the_forget_bias(bilm: BiLM) -> None:
    forget = {opening for _, gate, opening in inspect(bilm).gates if gate == "forget"}
    assert all(abs(opening - 0.731) < 1e-3 for opening in forget), "bias 0 in the file means 1"


def test_inspect_names_what_is_missing(bilm: BiLM) -> None:
    problems = inspect(BiLM(bilm.network)).problems
    assert len(problems) == 2 and "vocabulary" in problems[0] and "softmax" in problems[1]
