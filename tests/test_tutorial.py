"""The notebooks of docs/tutorial run, print what is stored, and say what they print."""

import json
import re
from pathlib import Path
from typing import Any, Dict

import pytest
from notebooks import CLAIM, run_notebook

FOLDER = Path(__file__).parent.parent / "docs" / "tutorial"
NAMES = sorted(path.name for path in FOLDER.glob("*.ipynb"))
# A result in a text: a decimal number, a share, or so many of so many.
RESULT = r"\d+\.\d+|\d+ of \d+|\d ?%"


def _read(name: str) -> Dict[str, Any]:
    return dict(json.loads((FOLDER / name).read_text(encoding="utf8")))


def _texts(name: str) -> str:
    return "\n\n".join("".join(cell["source"]) for cell in _read(name)["cells"] if cell["cell_type"] == "markdown")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_notebook_runs_and_says_what_it_prints(name: str) -> None:
    run = run_notebook(FOLDER / name)
    assert run.problems == []
    assert run.n_claims > 5


@pytest.mark.parametrize("name", NAMES)
def test_every_result_in_a_text_is_computed(name: str) -> None:
    assert re.findall(RESULT, CLAIM.sub("", _texts(name))) == []


def test_page_of_the_tutorial_has_every_notebook() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf8")
    assert set(re.findall(r"\]\(([^)]+\.ipynb)\)", page)) == set(NAMES) and NAMES
