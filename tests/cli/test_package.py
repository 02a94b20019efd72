from pathlib import Path
from typing import List

import pytest
import spacy
from typer.testing import CliRunner

from spacy_elmo.cli._app import app
from spacy_elmo.weights import load_bilm


def test_package_writes_a_pipeline(bilm_path: Path, tmp_path: Path) -> None:
    arguments = ["package", str(bilm_path), str(tmp_path / "out"), "--name", "tiny", "--build", "none"]
    result = CliRunner().invoke(app, [*arguments, "--version", "2.0"])
    assert result.exit_code == 0, result.output
    assert "xx_elmo_tiny-2.0" in result.stderr.replace("\n", "") and result.stdout == ""
    nlp = spacy.load(tmp_path / "out" / "xx_elmo_tiny-2.0" / "xx_elmo_tiny" / "xx_elmo_tiny-2.0")
    doc = nlp("the cat")
    wanted = load_bilm(bilm_path).embed([["the", "cat"]])[0].mean(axis=0)
    assert abs(doc._.elmo - wanted).max() < 1e-6
    result = CliRunner().invoke(app, [*arguments, "--version", "2.0"])
    assert result.exit_code == 1 and "EL025" in result.stderr and "--force" in result.stderr


@pytest.mark.parametrize(
    "options, code",
    [
        (["--name", "Ti-ny"], "is not a valid"),
        (["--name", "a", "--version", "x"], "is not a valid"),
        (["--name", "a", "--lang", "zz"], "There is no tokenizer"),
    ],
)
def test_package_refuses_bad_names_before_it_reads_weights(options: List[str], code: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["package", str(tmp_path / "absent"), str(tmp_path / "out"), *options])
    assert result.exit_code == 1 and code in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_package_takes_the_language_of_the_bilm(tmp_path: Path) -> None:
    arguments = ["package", "en_elmo_sm", str(tmp_path), "--name", "sm", "--build", "none", "--precision", "int8"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    folder = tmp_path / "en_elmo_sm-1.0.0"
    assert (folder / "setup.py").is_file()
    (model,) = folder.glob("*/*/elmo/model")
    assert model.stat().st_size < 20e6
