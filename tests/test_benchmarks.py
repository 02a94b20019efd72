"""Both sides of `benchmarks/against.py`: what is installed, and what is compared; no measurement."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.slow
@pytest.mark.issue(39)
def test_threads_share_a_bilm_and_a_pipeline(shared_data):
    """Half a minute, or SPACY_ELMO_SOAK minutes: no wrong vector, and memory does not grow."""
    minutes = os.environ.get("SPACY_ELMO_SOAK", "0.5")
    script = Path(__file__).parents[1] / "benchmarks" / "serving.py"
    command = [sys.executable, str(script), "--soak", minutes, "--threads", "1", "--shared", str(shared_data.parent)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and " 0 wrong vectors" in done.stdout, done.stdout + done.stderr
