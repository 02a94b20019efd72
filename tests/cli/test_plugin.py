"""The entry point in spaCy's command line: registered, fast to import, and safe."""

import subprocess
import sys
from pathlib import Path

import pytest
from cli.calls import call
from click import Context
from typer.main import get_command
from typer.testing import CliRunner

from spacy_elmo.cli._app import COMMANDS, app

ROOT = Path(__file__).parents[2]
LIGHT = """
import sys
import spacy.cli
before = set(sys.modules)
import spacy_elmo.cli.plugin
print(sorted(name for name in set(sys.modules) - before))
"""
BROKEN = """
import sys
for name in ("torch", "h5py", "safetensors"):
    sys.modules[name] = None
import spacy_elmo.cli.plugin
from spacy.cli import app
from typer.main import get_command
from typer.testing import CliRunner
result = CliRunner().invoke(app, ["elmo", "--help"])
assert result.exit_code == 0, result.output
assert "perplexity" in result.output
print("works")
"""


def _python(source):
    result = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.slow
def test_plugin_imports_only_itself():
    added = _python(LIGHT)
    assert "spacy_elmo.cli.plugin" in added
    for name in ("torch", "h5py", "safetensors", "spacy_elmo.weights", "spacy_elmo.pipeline", "spacy_elmo.inference"):
        assert f"'{name}'" not in added


@pytest.mark.slow
def test_help_works_while_libraries_are_broken():
    assert "works" in _python(BROKEN)


def test_plugin_adds_elmo_to_spacy_once():
    from spacy.cli import app as spacy_app

    from spacy_elmo.cli.plugin import add_to, elmo

    add_to(spacy_app)
    groups = [group for group in spacy_app.registered_groups if group.typer_instance is elmo]
    assert len(groups) == 1
    result = CliRunner().invoke(spacy_app, ["elmo", "--help"])
    assert result.exit_code == 0
    assert all(name in result.output for name in COMMANDS)


def test_app_lists_all_commands_with_a_sentence_each():
    shown = call("--help").stdout
    assert all(name in shown and text.endswith(".") for name, text in COMMANDS.items())
    call("transmogrify", code=2)


@pytest.mark.issue(18)
@pytest.mark.parametrize("name", COMMANDS)
def test_options_mean_the_same_in_all_commands(name):
    assert "Usage" in call(name, "--help").stdout
    group = get_command(app)
    options = {flag: option for option in group.get_command(Context(group), name).params for flag in option.opts}
    assert "--json" not in options or options["--json"].is_flag
    assert "-l" not in options or options["-l"].opts[0] in ("--lang", "--list")  # `download --list` has no language
