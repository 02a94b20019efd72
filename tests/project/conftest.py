"""The project's scripts as modules, and a copy of the project to run in."""

import importlib
import shutil
import sys
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
import typer
from typer.testing import CliRunner

from spacy_elmo.bilm.config import BiLMConfig, CharCNNConfig
from spacy_elmo.bilm.model import BiLMNetwork
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.weights import save_bilm

ROOT = Path(__file__).parents[2]
PROJECT_DIR = ROOT / "project"
MADE = shutil.ignore_patterns("corpus", "training", "metrics", "packages", "downloaded", "project.lock", "__pycache__")


@pytest.fixture
def import_script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Import a script of the project by name; scripts import each other by bare name, which ends with the test."""
    names = {path.stem for path in (PROJECT_DIR / "scripts").glob("*.py")}
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    monkeypatch.syspath_prepend(str(PROJECT_DIR / "scripts"))
    yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(before)


@pytest.fixture
def invoke() -> Callable[..., Any]:
    """Call a command, a typer app or its function, with arguments of any type."""

    def call(command: Any, *arguments: object) -> Any:
        app = command if isinstance(command, typer.Typer) else typer.Typer()
        if app is not command:
            app.command()(command)
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return call


@pytest.fixture
def project_copy(tmp_path: Path) -> Path:
    """A fresh copy of project/ and configs/ side by side; the project's folder."""
    for name in ("project", "configs"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=MADE)
    return tmp_path / "project"


@pytest.fixture(scope="session")
def tiny_bilm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A biLM with random weights, in native files."""
    config = BiLMConfig(
        char_cnn=CharCNNConfig(embedding_width=4, filters=((1, 8), (2, 8)), n_highway=1),
        n_layers=2,
        cell_width=16,
        projection_width=8,
    )
    path = tmp_path_factory.mktemp("bilm") / "tiny"
    save_bilm(BiLM(BiLMNetwork(config).eval()), path)
    return path
