"""The notebooks of docs/tutorial run, print what is stored, and say what they print."""

import json
import re
from pathlib import Path

import pytest
from notebooks import CLAIM, run_notebook

FOLDER = Path(__file__).parent.parent / "docs" / "tutorial"
NAMES = sorted(path.name for path in FOLDER.glob("*.ipynb"))
# A result in a text: a decimal number, a share, or so many of so many.
RESULT = r"\d+\.\d+|\d+ of \d+|\d ?%"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_notebook_runs_and_says_what_it_prints(name: str) -> None:
    run = run_notebook(FOLDER / name)
    assert run.problems == []
    assert run.n_claims > 5


def test_page_of_the_tutorial_has_every_notebook_and_every_result_in_a_text_is_computed() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf8")
    assert set(re.findall(r"\]\(([^)]+\.ipynb)\)", page)) == set(NAMES) and NAMES
    for name in NAMES:
        cells = json.loads((FOLDER / name).read_text(encoding="utf8"))["cells"]
        texts = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        assert re.findall(RESULT, CLAIM.sub("", texts)) == [], name
