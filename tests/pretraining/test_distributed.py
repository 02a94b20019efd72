"""Several processes against one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import srsly
import torch
from pretraining.small_run import environment, make_run, write_text

from spacy_elmo import load_bilm
from spacy_elmo.pretraining.distributed import Ranks

RUNNER = Path(__file__).parent / "small_run.py"
PLAIN = {"dropout": 0.0, "recurrent_dropout": 0.0}
SPARSE = {"sparse": True, "name": "adagrad", "learn_rate": 0.2}


@pytest.fixture
def text(tmp_path):
    return write_text(tmp_path / "text.txt")


def _torchrun(output, text, n_ranks, *arguments, settings=None, launch=()):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", n_ranks]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", *launch]
    command += [RUNNER, output, text, "--settings", json.dumps({**PLAIN, **(settings or {})}), *arguments]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=240, env=environment())


def _alone(output, text, **settings):
    run = make_run(output, text, **{**PLAIN, **settings})
    run.begin()
    list(run.reports())


def _losses(output):
    return [row["loss"] for row in srsly.read_jsonl(output / "log.jsonl")]


def test_lanes_are_shared_out():
    assert [Ranks(rank, 3).lanes(12) for rank in range(3)] == [slice(0, 4), slice(4, 8), slice(8, 12)]
    with pytest.raises(ValueError, match="batch_size is 10, which 4 processes"):
        Ranks(0, 4).lanes(10)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"optimizer": SPARSE, "accumulate": 2},
        {"optimizer": SPARSE, "bilm": {"char_cnn": None, "n_words": 16}},
        {"optimizer": SPARSE, "bilm": {"char_cnn": None, "n_words": 16}, "tied": True},
    ],
    ids=["dense", "sparse", "sparse words", "sparse and tied"],
)
def test_two_ranks_give_the_losses_of_one(text, tmp_path, settings):
    result = _torchrun(tmp_path / "two", text, 2, settings=settings)
    assert result.returncode == 0, result.stderr
    _alone(tmp_path / "one", text, **settings)
    assert _losses(tmp_path / "two") == pytest.approx(_losses(tmp_path / "one"), rel=1e-5)
    first, second = (load_bilm(tmp_path / name / "model-last").network.state_dict() for name in ("one", "two"))
    assert all(torch.allclose(first[key], second[key], atol=1e-4) for key in first)


@pytest.mark.slow
def test_a_rank_that_dies_stops_the_others_and_the_run_goes_on_with_another_number(text, tmp_path):
    result = _torchrun(tmp_path / "run", text, 2, "--kill-at", 20, "--kill-rank", 1)
    assert result.returncode != 0
    assert "has lost the others and stops" in result.stderr or "Signal 9 (SIGKILL)" in result.stderr
    assert 14 <= len(_losses(tmp_path / "run")) < 60
    result = _torchrun(tmp_path / "run", text, 1)
    assert result.returncode == 0, result.stderr
    _alone(tmp_path / "one", text)
    assert _losses(tmp_path / "run") == pytest.approx(_losses(tmp_path / "one"), rel=1e-5)


@pytest.mark.slow
def test_torchrun_begins_anew_by_itself(text, tmp_path):
    result = _torchrun(tmp_path / "run", text, 2, "--kill-at", 20, "--kill-rank", 1, launch=["--max-restarts", 1])
    assert result.returncode == 0, result.stderr
    _alone(tmp_path / "one", text)
    assert _losses(tmp_path / "run") == pytest.approx(_losses(tmp_path / "one"), rel=1e-5)
