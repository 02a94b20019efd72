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


@pytest.mark.issue(16)
def test_scores_of_layers_leave_no_temporary_file(
    import_script: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers = import_script("layers")
    (tmp_path / "wsd").mkdir()
    for split in ("train", "test"):
        (tmp_path / "wsd" / f"semcor-noad-{split}.jsonl.gz").touch()
    layers.load_bilm, layers.digest_bilm, layers.score = str, str, lambda *arguments: {}

    def fill_the_disk(path: Path, content: Any) -> None:
        path.touch()
        raise OSError("No space left on device")

    monkeypatch.setattr(srsly, "write_json", fill_the_disk)
    with pytest.raises(OSError):
        layers.store_scores("senses", tmp_path / "out" / "a.json", assets_dir=str(tmp_path))
    assert not list(tmp_path.glob("out/*"))
