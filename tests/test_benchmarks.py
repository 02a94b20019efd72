"""Both sides of `benchmarks/against.py`: what is installed, and what is compared; no measurement."""

import importlib
import json
import math
import os
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


@pytest.mark.issue(42)
def test_vectors_of_texts_find_a_text_and_its_group(benchmarks, capsys, tmp_path):
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    text_vectors = importlib.import_module("text_vectors")
    verbs, times = ("Call", "Ask", "Meet", "Forget"), ("now", "today", "on Monday", "after lunch", "at nine", "soon")
    lines = [{"text": f"{verb} Ada {time}.", "label": verb} for verb in verbs for time in times]
    for part in ("train", "test"):
        (tmp_path / "small").mkdir(exist_ok=True)
        (tmp_path / "small" / f"{part}.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf8")
    pairs = [f"{line['text']}\tAsk Ada now.\t{5.0 - i}" for i, line in enumerate(lines[6:9])]
    (tmp_path / "pairs.tsv").write_text("\n".join(pairs), encoding="utf8")
    text_vectors.main([tmp_path / "small"], tmp_path / "pairs.tsv", "en_elmo_sm")
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["similarity", "small:", "search", "clustering"]
    assert [row[:24].strip() for row in rows] == list(text_vectors.SYSTEMS)
    for row in rows:
        similarity, search, clustering = map(float, row[24:].split())
        assert -100 <= similarity <= 100 and search == 100.0 and 0 <= clustering <= 100, row


@pytest.mark.slow
@pytest.mark.issue(39)
def test_threads_share_a_bilm_and_a_pipeline(shared_data):
    """Half a minute, or SPACY_ELMO_SOAK minutes: no wrong vector, and memory does not grow."""
    minutes = os.environ.get("SPACY_ELMO_SOAK", "0.5")
    script = Path(__file__).parents[1] / "benchmarks" / "serving.py"
    command = [sys.executable, str(script), "--soak", minutes, "--threads", "1", "--shared", str(shared_data.parent)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and " 0 wrong vectors" in done.stdout, done.stdout + done.stderr
