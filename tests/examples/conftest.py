"""The recipes as modules, and a tiny biLM for them."""

import importlib
import sys
from pathlib import Path

import pytest
from nn.tiny import make_bilm

from spacy_elmo import save_bilm

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.fixture
def load_recipe(monkeypatch):
    """Imports a recipe by name; recipes import each other by bare name, which ends with the test."""
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(before)


@pytest.fixture
def run_recipe(load_recipe, monkeypatch, capsys):
    """Runs a recipe with arguments as on the command line, and returns what it printed."""

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, arguments)])
        load_recipe(name).main()
        return capsys.readouterr().out

    return run


@pytest.fixture
def tiny_bilm(tmp_path):
    """Path of a biLM with random weights."""
    save_bilm(make_bilm(), tmp_path / "bilm")
    return tmp_path / "bilm"
