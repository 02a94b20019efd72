"""Both sides of `benchmarks/against.py`: what is installed, and what is compared; no measurement."""

import importlib
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def benchmarks(monkeypatch):
    """Importable; benchmarks import each other by bare name, which ends with the test."""
    names = {path.stem for path in BENCHMARKS.glob("*.py")}
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(before)


@pytest.mark.issue(38)
def test_a_side_is_installed_without_old_builds(benchmarks, monkeypatch, tmp_path):
    against = importlib.import_module("against")
    for name in (".gitignore", "setup.py", "package/old.py", "package/new.py", "build/lib/package/gone.py"):
        (tmp_path / "checkout" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "checkout" / name).write_text("build/\n", encoding="utf8")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path / "checkout", check=True)
    subprocess.run(["git", "add", ".gitignore", "setup.py", "package/old.py"], cwd=tmp_path / "checkout", check=True)
    (tmp_path / "checkout" / "setup.py").unlink()
    monkeypatch.setattr(against, "ROOT", tmp_path / "checkout")
    copy = against.export_here(tmp_path / "copy")
    found = {path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_file()}
    assert found == {".gitignore", "package/old.py", "package/new.py"}


@pytest.mark.issue(38)
def test_perplexities_are_compared_as_losses(benchmarks, monkeypatch):
    side = importlib.import_module("against_side")
    score = SimpleNamespace(forward=130.0, backward=131.0)
    monkeypatch.setattr(side, "documents", lambda: [[["a"]]])
    monkeypatch.setattr(side, "bilm_of", lambda weights: SimpleNamespace(perplexity=lambda *args, **kwargs: score))
    found = side.perplexities("none")
    assert list(found) == ["carry", "reset", "steady"]
    assert all(losses.tolist() == pytest.approx([math.log(130), math.log(131)]) for losses in found.values())
