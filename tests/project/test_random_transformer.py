"""A transformer with random weights: optional packages, an existing folder, a pipeline that can be loaded."""

from pathlib import Path
from typing import Any, Callable

import pytest
import spacy
import typer
from typer.testing import CliRunner


@pytest.fixture
def script(import_script: Callable[[str], Any]) -> Any:
    return import_script("random_transformer")


def _invoke(script: Any, *arguments: object) -> Any:
    app = typer.Typer()
    app.command()(script.transformer_cli)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_missing_packages_and_existing_folder_are_named(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "find_spec", lambda name: None)
    missing = _invoke(script, "text.txt", "--output", tmp_path / "out")
    assert missing.exit_code == 1 and "P043" in missing.output and "tokenizers" in missing.output
    monkeypatch.setattr(script, "find_spec", lambda name: True)
    exists = _invoke(script, "text.txt", "--output", tmp_path)
    assert exists.exit_code == 1 and "P033" in exists.output


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.jit, inside of curated-transformers
def test_pipeline_can_be_loaded(script: Any, tmp_path: Path) -> None:
    for name in script.MODULES:
        pytest.importorskip(name)
    (tmp_path / "text.txt").write_text("The bank of the river .\n" * 20)
    script.make_transformer([str(tmp_path / "text.txt")], tmp_path / "out", n_layers=1)
    assert len(spacy.load(tmp_path / "out")("The bank")) == 2
