"""A run whose text is read ahead in another process equals one that reads between updates, bit for bit."""

import gc
import gzip
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from pretraining.small_run import environment, make_run, rows, train

from spacy_elmo import load_bilm
from spacy_elmo.pretraining import data
from spacy_elmo.pretraining.run_folder import list_checkpoints

pytestmark = [
    pytest.mark.issue(41),
    pytest.mark.skipif(not data.ReadAhead.is_possible(), reason="processes cannot be forked"),
]
VARIABLE = "SPACY_ELMO_READ_AHEAD"
TRANSFORMER = {
    "bilm": {"cell_width": 4096, "encoder": "transformer", "transformer": {"feedforward_width": 16, "n_heads": 2}},
    "unroll_steps": 16,
    "max_sentence_tokens": 15,
}
SETTINGS = {"adam": {}, "accumulated": {"accumulate": 3}, "transformer": TRANSFORMER}


def _children():
    """Processes that read text for a run of this process, by id."""
    return [child.pid for child in multiprocessing.active_children() if child.name == "spacy_elmo text"]


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_results_are_those_of_reading_between_updates(text, tmp_path, monkeypatch, settings):
    monkeypatch.setenv(VARIABLE, "0")
    train(make_run(tmp_path / "plain", text, **settings))
    monkeypatch.setenv(VARIABLE, "1")
    train(make_run(tmp_path / "ahead", text, **settings))
    assert rows(tmp_path / "ahead") == rows(tmp_path / "plain")
    for n_reports in (10, 1, 15):
        train(make_run(tmp_path / "parts", text, **settings), n_reports, resume=True)
    monkeypatch.setenv(VARIABLE, "0")
    train(make_run(tmp_path / "parts", text, **settings), resume=True)
    assert rows(tmp_path / "parts") == rows(tmp_path / "plain")
    weights = [load_bilm(tmp_path / name / "model-last").network.state_dict() for name in ("plain", "ahead", "parts")]
    assert all(torch.equal(weights[0][name], other[name]) for other in weights[1:] for name in other)


def test_checkpoints_are_those_of_reading_between_updates(text, tmp_path, monkeypatch):
    """Also when words are forgotten at other updates than those of the checkpoints."""
    monkeypatch.setattr(data, "MAX_WORDS", 8)
    found = []
    for value in "01":
        monkeypatch.setenv(VARIABLE, value)
        run = make_run(tmp_path / value, text)
        run.begin()
        states = []
        for _ in range(12):
            run.trainer.update()
            states += [run.trainer.snapshot(), run.trainer.snapshot()]
        run.trainer.release()
        states.append(run.trainer.snapshot())
        run.trainer.update()
        states.append(run.trainer.snapshot())
        run.trainer.release()
        found.append(states)
    for one, other in zip(*found, strict=True):
        assert one.record == other.record
        assert all(torch.equal(one.tensors[name], other.tensors[name]) for name in one.tensors | other.tensors)


@pytest.mark.parametrize("how", ["to the end", "abandoned", "forgotten"])
def test_the_process_ends_with_the_run(text, tmp_path, monkeypatch, how):
    monkeypatch.setenv(VARIABLE, "1")
    run = make_run(tmp_path / "run", text, max_tokens=32 * 12)
    run.begin()
    reports = run.reports()
    next(reports)
    assert len(_children()) == 1
    if how == "to the end":
        list(reports)
    elif how == "abandoned":
        reports.close()
    else:
        del run, reports
        gc.collect()
    assert not _children()


def test_a_run_that_is_killed_leaves_no_process(text, tmp_path):
    command = [sys.executable, Path(__file__).with_name("small_run.py"), tmp_path / "run", text, "--kill-at", "5"]
    result = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env={**environment(), VARIABLE: "1"}
    )
    assert result.returncode == -signal.SIGKILL, result.stderr  # its pipes are closed: no process holds them


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_all_processes_leaves_the_decision_to_the_run(text, tmp_path, monkeypatch, number):
    monkeypatch.setenv(VARIABLE, "1")
    run = make_run(tmp_path / "run", text)
    run.begin()
    for report in run.reports():
        if report.step == 10:
            os.kill(_children()[0], number)
            time.sleep(0.1)
            run.stop()
    assert run.is_stopped and rows(tmp_path / "run")[-1]["step"] == 10
    assert list_checkpoints(tmp_path / "run")[0].name == "step-00000010" and not _children()


@pytest.mark.slow
def test_a_process_that_exits_without_the_end_of_its_run_is_not_held_up(text, tmp_path):
    code = f"import sys; from small_run import make_run; r = make_run('{tmp_path}/run', '{text}'); r.begin()\n"
    code += "sys.kept = r.reports(); next(sys.kept)"
    path = os.pathsep.join([str(Path(__file__).parent), environment()["PYTHONPATH"]])
    variables = {**environment(), "PYTHONPATH": path, VARIABLE: "1"}
    subprocess.run([sys.executable, "-c", code], check=True, env=variables, timeout=200)


@pytest.mark.slow
def test_an_error_is_the_same(tmp_path, monkeypatch):
    numbers = random.Random(0).choices(range(99), k=200_000)  # more than a buffer of the file
    content = gzip.compress("\n".join(f"{n} {n % 7}" for n in numbers).encode())
    path = tmp_path / "cut.txt.gz"
    messages = []
    for value in "01":
        path.write_bytes(content)
        monkeypatch.setenv(VARIABLE, value)
        run = make_run(tmp_path / value, path, batch_size=128, unroll_steps=100, max_tokens=10**6, eval_every=10**6)
        path.write_bytes(content[: len(content) // 2])
        run.begin()
        with pytest.raises(ValueError, match="EL108") as error:
            for _ in run.reports():
                pass
        messages.append((str(error.value), run.trainer.step))
        assert not _children()
    assert messages[0] == messages[1] and messages[0][1] > 0


def test_a_killed_process_is_named_with_a_remedy(text, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "1")
    run = make_run(tmp_path / "run", text)
    run.begin()
    with pytest.raises(RuntimeError, match="exit code -9.*SPACY_ELMO_READ_AHEAD to 0"):
        for number, _ in enumerate(run.reports()):
            if number == 3:
                os.kill(_children()[0], signal.SIGKILL)
                time.sleep(0.1)
    assert not _children()


class Numbers:
    """A reader of numbers, slow and large, that fails at one of them."""

    def __init__(self, seconds=0.0, fails_at=0):
        self.n, self.seconds, self.fails_at = 0, seconds, fails_at
        self.stream = SimpleNamespace(counts=None, epoch=0)

    def read(self):
        time.sleep(self.seconds)
        if self.n + 1 == self.fails_at:
            raise ValueError("a damaged file")
        self.n += 1
        return data.Batch([self.n, bytes(3_000_000)], None, 0)

    def position(self):
        n = self.n
        return SimpleNamespace(state_dict=lambda: ({}, {"n": n}))

    def load_state_dict(self, arrays, record):
        self.n = record["n"]


def test_an_interrupt_while_it_waits_loses_nothing():
    ahead = data.ReadAhead(Numbers(seconds=0.3))
    assert ahead.read().chunks[0] == 1
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            for _ in range(data.N_AHEAD + 1):
                ahead.read()
    finally:
        signal.signal(signal.SIGALRM, before)
    n_read = ahead.state_dict()[1]["n"]
    assert ahead.read().chunks[0] == n_read + 1
    ahead.close()
    assert ahead.reader.n == n_read + 1 and not _children()


def test_an_error_is_raised_again_until_a_state_is_loaded():
    ahead = data.ReadAhead(Numbers(fails_at=3))
    assert [ahead.read().chunks[0] for _ in range(2)] == [1, 2]
    for call in (ahead.read, ahead.read, ahead.state_dict):
        with pytest.raises(ValueError, match="damaged"):
            call()
    ahead.load_state_dict({}, {"n": 1})
    assert ahead.read().chunks[0] == 2
    ahead.close()


def _fail_while_reading():
    ahead = data.ReadAhead(Numbers())
    ahead.read()
    raise SystemExit(ahead.read().chunks[0])  # the reader is referenced by the traceback


def test_a_process_that_ends_with_an_error_is_not_held_up():
    process = multiprocessing.get_context("fork").Process(target=_fail_while_reading)
    process.start()
    process.join(60)
    code = process.exitcode
    process.kill()
    assert code == 2


def test_a_forked_process_does_not_end_the_reader_of_its_parent():
    ahead = data.ReadAhead(Numbers())
    ahead.read()
    process = multiprocessing.get_context("fork").Process(target=gc.collect)
    process.start()
    process.join()
    assert ahead.read().chunks[0] == 2
    ahead.close()
