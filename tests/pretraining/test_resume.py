"""A run that is stopped and resumed equals a run without a stop, bit for bit."""

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from pretraining.small_run import BILM, environment, make_run, rows, train

from spacy_elmo import load_bilm
from spacy_elmo.pretraining import run_folder
from spacy_elmo.pretraining.run_folder import RECORD, TENSORS, list_checkpoints, load_checkpoint

RUNNER = Path(__file__).parent / "small_run.py"

pytestmark = pytest.mark.usefixtures("one_thread")


def _same_models(output, other):
    for name in ("model-last", "model-best"):
        first, second = (load_bilm(folder / name) for folder in (output, other))
        weights, others = first.network.state_dict(), second.network.state_dict()
        assert all(torch.equal(weights[key], others[key]) for key in weights)
        assert torch.equal(first.steady_state.h, second.steady_state.h)


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": {"name": "adamw", "weight_decay": 0.1, "learn_rate": 0.02, "unfreeze_tokens": 32 * 8}},
        {"optimizer": {"sparse": True}, "precision": "bfloat16", "accumulate": 2},
    ],
    ids=["adamw", "sparse"],
)
def test_resumed_in_one_process(text, tmp_path, settings):
    train(make_run(tmp_path / "whole", text, **settings))
    for n_reports in (10, 15):
        train(make_run(tmp_path / "parts", text, **settings), n_reports, resume=True)
    last = train(make_run(tmp_path / "parts", text, **settings), resume=True)
    assert rows(tmp_path / "parts") == rows(tmp_path / "whole")
    assert len(rows(tmp_path / "whole")) == last.trainer.step
    _same_models(tmp_path / "whole", tmp_path / "parts")


def test_a_run_that_is_ended_by_its_settings_is_validated_and_saved(text, tmp_path):
    """Stopped between two validations, then told to stop there: the model is that of the checkpoint."""
    output = tmp_path / "run"
    stopped = make_run(output, text, report_every=1)
    stopped.begin()
    for report in stopped.reports():
        if report.step == 36:  # validated at 30, checkpoint at 35
            break
    ended = train(make_run(output, text, max_tokens=32), resume=True)
    assert ended.trainer.step == 35 and load_bilm(output / "model-last").meta["training"]["n_updates"] == 35
    row = rows(output)[-1]
    assert row["step"] == 35 and row["forward"] > 1 and row["learn_rate"] is None
    n_rows = len(rows(output))
    train(make_run(output, text, max_tokens=32), resume=True)  # nothing is left to do, nor to validate
    assert len(rows(output)) == n_rows


def test_a_damaged_checkpoint_is_passed_over(text, tmp_path):
    train(make_run(tmp_path / "run", text), 40)
    newest, older = list_checkpoints(tmp_path / "run")
    tensors = (newest / TENSORS).read_bytes()
    for name, content in (
        (TENSORS, tensors[: len(tensors) // 2]),
        (TENSORS, tensors[:-1] + bytes([tensors[-1] ^ 1])),
        (RECORD, None),
        ("checksums.json", b"{"),
    ):
        copy = shutil.copytree(tmp_path / "run", tmp_path / "copy", dirs_exist_ok=True)
        damaged = copy / "checkpoints" / newest.name / name
        damaged.unlink() if content is None else damaged.write_bytes(content)
        run = train(make_run(copy, text), 1, resume=True)
        assert run.trainer.step == int(older.name[5:]) + 1
        assert len(run.warnings) == 1 and newest.name in run.warnings[0]
        shutil.rmtree(copy)


def test_other_settings_cannot_be_resumed(text, tmp_path):
    train(make_run(tmp_path / "run", text), 10)
    with pytest.raises(ValueError, match="EL146.*unroll_steps: 8 then, 9 now"):
        make_run(tmp_path / "run", text, unroll_steps=9).begin(resume=True)
    sizes = {"char_cnn": {**BILM["char_cnn"], "n_highway": 2}}
    run = make_run(tmp_path / "run", text, bilm=sizes, optimizer={"learn_rate": 0.01, "beta1": 0.8})
    with pytest.raises(ValueError, match="EL146.*optimizer.beta1: 0.9 then, 0.8 now; bilm.char_cnn.n_highway: 1 "):
        run.begin(resume=True)


def _names(output):
    return sorted(str(path.relative_to(output)) for path in output.glob("**/*") if path.parent.name[:5] != "model")


@pytest.mark.parametrize("begin", [{"resume": True}, {"force": True}], ids=["resume", "force"])
def test_what_a_kill_left_half_written_is_removed(text, tmp_path, begin):
    """As after a kill in the first checkpoint and in a model: there is nothing to resume yet."""
    for name in ("checkpoints/.step-00000007.abc.part", ".model-last.def.part", ".model-best.old"):
        (tmp_path / "run" / name).mkdir(parents=True)
        (tmp_path / "run" / name / "state.json").write_text("{")
    (tmp_path / "run" / "log.jsonl").write_text("{}\n")
    run = train(make_run(tmp_path / "run", text, max_tokens=32 * 8), **begin)
    assert run.trainer.step == 8 and not list((tmp_path / "run").glob("**/.*"))


def test_whatever_is_left_of_a_run_guards_it_until_force_removes_that_and_nothing_else(text, tmp_path):
    output, made = tmp_path / "run", ("log.jsonl", "checkpoints", "model-last", "model-best")
    train(make_run(output, text, max_tokens=32 * 8))
    for left in made:
        copy = shutil.copytree(output, tmp_path / "copy", ignore=lambda _, names, left=left: {*made, "text"} - {left})
        before = _names(copy)
        with pytest.raises(ValueError, match=f"EL104.*: {left}.*`resume=True`"):
            make_run(copy, text).begin()
        assert _names(copy) == before
        shutil.rmtree(copy)
    (output / "perplexity.png").write_bytes(b"")
    (output / "tensorboard").mkdir(exist_ok=True)
    (output / "tensorboard" / "events.old").write_bytes(b"")
    (output / "notes.txt").write_text("mine")
    make_run(output, text).begin(force=True)
    names = {*_names(output)}
    assert not list_checkpoints(output) and not (output / "log.jsonl").read_bytes() and "notes.txt" in names
    assert not names & {"model-last", "model-best", "perplexity.png", "tensorboard/events.old"}


@pytest.mark.parametrize("n_bytes", [None, 0, 100])
def test_a_log_that_has_lost_lines_is_not_filled_up(text, tmp_path, n_bytes):
    train(make_run(tmp_path / "run", text), 20)
    log = tmp_path / "run" / "log.jsonl"
    if n_bytes is None:
        log.unlink()
    else:
        log.write_bytes(log.read_bytes()[:n_bytes])
    run = train(make_run(tmp_path / "run", text), 2, resume=True)
    assert len(run.warnings) == 1 and "log.jsonl" in run.warnings[0] and f"{n_bytes or 0} bytes" in run.warnings[0]
    assert [row["step"] for row in rows(tmp_path / "run")] == [15, 16]


def test_a_full_disk_leaves_the_checkpoint_before(text, tmp_path, monkeypatch):

    def refuse(*arguments):
        raise OSError(28, "No space left on device")

    run = make_run(tmp_path / "run", text)
    run.begin()
    with pytest.raises(ValueError, match="No space left on device.*step-00000014"):
        for report in run.reports():
            if report.step == 15:
                monkeypatch.setattr(run_folder, "save_file", refuse)
    assert [path.name for path in list_checkpoints(tmp_path / "run")] == ["step-00000014", "step-00000007"]
    assert load_checkpoint(tmp_path / "run")[0].record["step"] == 14
    assert not list((tmp_path / "run" / "checkpoints").glob(".*"))


def _kill(output, text, settings, *how):
    command = [sys.executable, RUNNER, output, text, *how, "--settings", json.dumps(settings)]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment())
    assert result.returncode == -9, result.stderr


@pytest.mark.slow
def test_stopped_or_killed_at_twenty_random_steps(text, tmp_path):
    """Two of them by a signal, one while a checkpoint is written; the others are left without an end."""
    settings = {"max_tokens": 32 * 110}
    train(make_run(tmp_path / "whole", text, **settings))
    steps = sorted(random.Random(0).sample(range(1, 110), 20))
    for number, step in enumerate(steps):
        if number in (9, 14):
            _kill(tmp_path / "run", text, settings, *(["--kill-at", step] if number == 9 else ["--kill-in-checkpoint"]))
            continue
        run = make_run(tmp_path / "run", text, **settings)
        run.begin(resume=True)
        for report in run.reports():
            if report.step == step:
                break
    train(make_run(tmp_path / "run", text, **settings), resume=True)
    assert rows(tmp_path / "run") == rows(tmp_path / "whole")
    _same_models(tmp_path / "whole", tmp_path / "run")
