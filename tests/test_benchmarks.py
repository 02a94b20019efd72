"""Interleaving and batch sizes of `benchmarks/inference.py`, and the two sides of `against.py`; no measurement."""

import importlib
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
TEXT = [[["a", "b"], ["c"]]]
OWN = ["machine", "BiLM.embed", "nlp.pipe", "plain loop", "allennlp", "allennlp-cached"]
OF_ANY_SIZE = ["roberta-base", "roberta-6-layers", "tok2vec"]
BILMS = OWN[1:]


@pytest.fixture
def rounds(monkeypatch):
    """The module; benchmarks import each other by bare name, which ends with the test."""
    names = {path.stem for path in BENCHMARKS.glob("*.py")}
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("inference")
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(before)


@pytest.fixture
def make_bench(rounds, monkeypatch, tmp_path):
    """A bench whose processes do not start: `rate` says how fast a job would be; `jobs` are those that were run."""

    def make(rate=lambda job: float(job.batch_size), *, sizes=("small", "original"), skipped=(), check=lambda job: 1.0):
        jobs = []

        def run(bench, job):
            jobs.append(job)
            checked = {"check": [1.0, check(job)]} if job.system in BILMS else {}
            return {"system": job.system, "size": job.size, "tokens_per_s": rate(job), **checked}

        monkeypatch.setattr(rounds.Bench, "run", run)
        places = rounds.Places(tmp_path, tmp_path, Path("allennlp"), Path("curated"))
        texts = rounds.make_texts(TEXT, search_sentences=1, short_sentences=2, long_tokens=10)
        sizes = dict.fromkeys(sizes, 1)
        return rounds.Bench(places, sizes, texts, threads=1, skipped=skipped, verbose=False), jobs

    return make


@pytest.mark.parametrize(
    "rates, best, n_tried",
    [
        ([1, 2, 3, 4, 5], 512, 5),
        ([5, 4, 3, 9, 9], 32, 3),  # two slower ones in a row: enough
        ([5, 4, 6, 5, 7], 512, 5),
        ([5, 4, 6, 5, 4], 128, 5),
        ([5, 5, 5, 6, 6], 32, 3),
    ],
)
def test_best_batch_size(rounds, make_bench, rates, best, n_tried):
    by_size = dict(zip(rounds.SENTENCES, rates))
    bench, jobs = make_bench(lambda job: by_size.get(job.batch_size, 0), sizes=["small"])
    bench.rounds("batch", 1)
    searched = [job for job in jobs if job.system == "allennlp" and job.text == "search"]
    assert [job.batch_size for job in searched] == list(rounds.SENTENCES[:n_tried])
    assert [job.batch_size for job in jobs if job.system == "allennlp" and job.text == "batch"] == [best]


@pytest.mark.parametrize("share, is_refused", [(0.9, False), (1.1, True)])
def test_bilms_that_differ_are_not_compared(rounds, make_bench, share, is_refused):
    bench, _ = make_bench(check=lambda job: 1.0 + share * rounds.TOLERANCE * (job.system == "allennlp"))
    if not is_refused:
        bench.rounds("batch", 1)
        return
    with pytest.raises(rounds.Failed, match="allennlp and BiLM.embed differ by 0.0011"):
        bench.rounds("batch", 1)


def test_peers_do_not_see_our_libraries(rounds, make_bench, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "ours")
    bench, _ = make_bench()
    ours, peer = (bench._job_environ(rounds.Job(name, "small", 1, "batch")) for name in ("nlp.pipe", "allennlp"))
    assert ours["PYTHONPATH"] == "ours"
    assert "PYTHONPATH" not in peer
    assert ours["OMP_NUM_THREADS"] == peer["OMP_NUM_THREADS"] == "1"


@pytest.mark.issue(38)
def test_a_side_is_installed_without_old_builds(rounds, monkeypatch, tmp_path):
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
def test_perplexities_are_compared_as_losses(rounds, monkeypatch):
    side = importlib.import_module("against_side")
    score = SimpleNamespace(forward=130.0, backward=131.0)
    monkeypatch.setattr(side, "documents", lambda: [[["a"]]])
    monkeypatch.setattr(side, "bilm_of", lambda weights: SimpleNamespace(perplexity=lambda *args, **kwargs: score))
    found = side.perplexities("none")
    assert list(found) == ["carry", "reset", "steady"]
    assert all(losses.tolist() == pytest.approx([math.log(130), math.log(131)]) for losses in found.values())


@pytest.mark.slow
@pytest.mark.issue(39)
def test_threads_share_a_bilm_and_a_pipeline(shared_data):
    """Half a minute, or SPACY_ELMO_SOAK minutes: no wrong vector, and memory does not grow."""
    minutes = os.environ.get("SPACY_ELMO_SOAK", "0.5")
    script = Path(__file__).parents[1] / "benchmarks" / "serving.py"
    command = [sys.executable, str(script), "--soak", minutes, "--threads", "1", "--shared", str(shared_data.parent)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and " 0 wrong vectors" in done.stdout, done.stdout + done.stderr
