"""A file is replaced as a whole, or not at all."""

from pathlib import Path
from typing import Any, Callable

import pytest
import srsly


@pytest.fixture
def script(import_script: Callable[[str], Any]) -> Any:
    return import_script("atomic_files")


@pytest.mark.issue(16)
def test_error_keeps_the_older_file_and_no_other(script: Any, tmp_path: Path) -> None:
    path = tmp_path / "results" / "a.json"
    script.write_json(path, {"value": 1})
    with pytest.raises(KeyError), script.replace_file(path) as part:
        part.write_text("half")
        raise KeyError
    with pytest.raises(TypeError):
        script.write_json(path, {"value": object()})
    assert srsly.read_json(path) == {"value": 1} and list(path.parent.iterdir()) == [path]


def test_failed_training_keeps_the_older_pipeline(script: Any, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(KeyError), script.keep_pipeline(tmp_path / "run") as folder:
        folder.mkdir()
        raise KeyError
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
