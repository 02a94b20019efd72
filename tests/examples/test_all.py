"""What holds for every recipe: length, its row and its command in the README."""

import re
import shlex
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
RECIPES = sorted(path.stem for path in EXAMPLES.glob("*.py") if not path.stem.startswith("_"))
README = (EXAMPLES / "README.md").read_text(encoding="utf8")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_recipe_is_short(path):
    assert len(path.read_text(encoding="utf8").splitlines()) <= 250


def test_readme_has_every_recipe():
    assert sorted(re.findall(r"^\| \[(\w+)\.py\]\(\1\.py\) \|", README, flags=re.M)) == RECIPES


def _commands():
    blocks = re.findall(r"^```bash\n(.*?)^```$", README, flags=re.M | re.S)
    return [shlex.split(line, comments=True) for block in blocks for line in block.splitlines() if line]


@pytest.mark.parametrize("command", _commands(), ids=" ".join)
def test_options_of_the_readme_exist(command, load_recipe, monkeypatch, capsys):
    assert command[0] == "python" and command[1].startswith("examples/")
    monkeypatch.setattr(sys, "argv", [Path(command[1]).name, "--help"])
    with pytest.raises(SystemExit):
        load_recipe(Path(command[1]).stem).main()
    known = set(re.findall(r"--[\w-]+", capsys.readouterr().out))
    assert {argument for argument in command if argument.startswith("--")} <= known
