"""The recipes as modules, and a tiny biLM for them."""

import sys
from pathlib import Path

import pytest
from bare_imports import scripts_of
from examples.writing import write_jsonl
from nn.tiny import make_bilm

from spacy_elmo import save_bilm

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.fixture
def load_recipe():
    with scripts_of(EXAMPLES) as import_by_name:
        yield import_by_name


@pytest.fixture
def run_recipe(load_recipe, monkeypatch, capsys):
    """Runs a recipe with arguments as on the command line, and returns what it printed."""

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, arguments)])
        load_recipe(name).main()
        return capsys.readouterr().out

    return run


@pytest.fixture
def end_of(run_recipe, load_recipe, monkeypatch):
    """Runs a recipe that must end with a message before layers are computed, and returns the message."""

    def run(name, *arguments):
        common = load_recipe("_common")
        monkeypatch.setattr(common.Elmo, "encode", lambda *_: pytest.fail("layers are computed"))
        with pytest.raises(SystemExit) as error:
            run_recipe(name, "--seeds", 1, *arguments)
        return str(error.value)

    return run


@pytest.fixture
def read_lines(load_recipe, tmp_path):
    """Reads lines from a file with a reader of a recipe, and returns the items."""

    def run(reader, lines):
        write_jsonl(tmp_path / "lines.jsonl.gz", lines)
        return load_recipe("_records").read_items(tmp_path / "lines.jsonl.gz", reader)

    return run


@pytest.fixture
def tiny_bilm(tmp_path):
    save_bilm(make_bilm(), tmp_path / "bilm")
    return tmp_path / "bilm"
