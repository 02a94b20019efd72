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


@pytest.mark.parametrize("name", NAMES)
def test_notebook_has_the_form_of_the_format(name: str) -> None:
    notebook = _read(name)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5) and notebook["metadata"]["kernelspec"]
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    for cell in notebook["cells"]:
        wanted = {"cell_type", "id", "metadata", "source"}
        is_code = cell["cell_type"] == "code"
        assert cell.keys() == (wanted | {"execution_count", "outputs"} if is_code else wanted)
        assert not is_code or all(output["name"] == "stdout" for output in cell["outputs"])


def test_a_false_statement_and_another_output_are_found(tmp_path: Path) -> None:
    code = {"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "source": ["print(1)"]}
    text = {"cell_type": "markdown", "id": "b", "metadata": {}, "source": ["It is **2**<!-- 1 + 2 -->."]}
    (tmp_path / "x.ipynb").write_text(json.dumps({"cells": [code, text]}), encoding="utf8")
    run = run_notebook(tmp_path / "x.ipynb")
    assert run.problems == ["x.ipynb, a prints\n1\n", "x.ipynb says 2, but it is 3"] and run.n_claims == 1
    assert run.notebook["cells"][1]["source"] == ["It is **3**<!-- 1 + 2 -->."]


def test_page_of_the_tutorial_has_every_notebook() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf8")
    assert set(re.findall(r"\]\(([^)]+\.ipynb)\)", page)) == set(NAMES) and NAMES
