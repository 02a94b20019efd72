"""The data of a workflow is checked before its first training."""

from pathlib import Path
from typing import Any, Callable, Dict, List, Set

import pytest
import srsly
import typer
from typer.testing import CliRunner

PROJECT_DIR = Path(__file__).parents[2] / "project"
PROJECT = srsly.read_yaml(PROJECT_DIR / "project.yml")
SCRIPTS: Dict[str, List[str]] = {command["name"]: command["script"] for command in PROJECT["commands"]}


@pytest.fixture
def script(import_script: Callable[[str], Any]) -> Any:
    return import_script("check_data")


def _invoke(script: Any, *arguments: object) -> Any:
    app = typer.Typer()
    app.command()(script.check_cli)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def _find_used(import_script: Callable[[str], Any], workflow: str) -> Set[str]:
    """The data sets of every line of a workflow."""
    lines = [line.split() for name in PROJECT["workflows"][workflow] for line in SCRIPTS[name]]
    experiments = import_script("paper_experiments").EXPERIMENTS
    found: Set[str] = set()
    for _, path, *words in lines:
        file = Path(path).name
        if file == "paper.py":
            found.update(run.dataset for run in experiments[words[0]])
        elif file == "errors.py":
            found.add(import_script("errors").TASKS[words[0]].dataset)
        elif file == "choice.py":
            found.add(import_script("choice").DATASETS[words[1]])
        elif file == "layers.py":
            found.add(import_script("layers").DATASETS[words[0]])
        elif file == "language_bilm.py":
            found.add(words[0])
        elif file == "contexts.py":
            found.add("contexts")
    return found


@pytest.mark.issue(16)
@pytest.mark.parametrize("workflow", ["paper", "paper-more"])
def test_workflows_check_all_their_data_first(import_script: Callable[[str], Any], workflow: str) -> None:
    first, *others = PROJECT["workflows"][workflow]
    assert first == f"check-{workflow}" and not any(name.startswith("check-") for name in others)
    (line,) = SCRIPTS[first]
    names = line.partition(" --")[0].split()[2:]
    assert set(names) == _find_used(import_script, workflow) and len(set(names)) == len(names)
    assert "--assets-dir '${vars.assets_dir}'" in line
    assert ("--raw-text '${vars.raw_text}'" in line) == (workflow == "paper-more")


@pytest.mark.issue(16)
def test_all_that_is_missing_is_named(script: Any, tmp_path: Path) -> None:
    folder = tmp_path / "ner" / "wnut17"
    folder.mkdir(parents=True)
    for split in ("train", "dev", "test"):
        (folder / f"{split}.iob2").touch()
    assert _invoke(script, "wnut17", "sample", "--assets-dir", tmp_path).exit_code == 0
    result = _invoke(script, "wnut17", "wikigold", "semcor", "--assets-dir", tmp_path, "--raw-text", "")
    assert result.exit_code == 1 and result.output.count("[P002]") == 2
    assert "'wikigold'" in result.output and "'semcor'" in result.output and "wnut17" not in result.output
    assert "[P030]" in result.output and "--vars.raw_text" in result.output


@pytest.mark.issue(16)
def test_raw_text_needs_a_sentence(script: Any, tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("The bank floods .\n", encoding="utf8")
    assert _invoke(script, "sample", "--raw-text", text).exit_code == 0
    assert _invoke(script, "sample", "--raw-text", tmp_path / "b.txt").exit_code == 1
