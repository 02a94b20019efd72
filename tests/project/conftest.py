"""The project's scripts as modules, and a copy of the project to run in."""

import shutil
from pathlib import Path

import pytest
import typer
from bare_imports import scripts_of
from nn.tiny import make_bilm
from typer.testing import CliRunner

from spacy_elmo.weights import save_bilm

ROOT = Path(__file__).parents[2]
PROJECT_DIR = ROOT / "project"
MADE = shutil.ignore_patterns("corpus", "training", "packages", "downloaded", "results", "project.lock", "__pycache__")


@pytest.fixture
def import_script():
    """Import a script of the three projects by name."""
    with scripts_of(*(PROJECT_DIR / name / "scripts" for name in ("", "english", "experiments"))) as import_by_name:
        yield import_by_name


@pytest.fixture
def script(request, import_script):
    """The script that the file of the test names."""
    return import_script(request.module.SCRIPT)


@pytest.fixture
def invoke():
    """Call a command, a typer app or its function, with arguments of any type; its exit code is checked."""

    def call(command, *arguments, code=0):
        app = command if isinstance(command, typer.Typer) else typer.Typer()
        if app is not command:
            app.command()(command)
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == code, (result.output, result.exception)
        return result

    return call


@pytest.fixture
def project_copy(tmp_path):
    """A fresh copy of project/ and configs/ side by side; the project's folder."""
    for name in ("project", "configs"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=MADE)
    return tmp_path / "project"


@pytest.fixture(scope="session")
def tiny_bilm(tmp_path_factory):
    """A biLM with random weights, in native files."""
    path = tmp_path_factory.mktemp("bilm") / "tiny"
    save_bilm(make_bilm(), path)
    return path
