"""Several processes against one."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import srsly
import torch
from pretraining.small_run import environment, make_run, rows, write_text

from spacy_elmo import load_bilm
from spacy_elmo.pretraining.distributed import Ranks

RUNNER = Path(__file__).parent / "small_run.py"
CONFIG = Path(__file__).parents[2] / "configs" / "pretrain_en_elmo_sm.cfg"
PLAIN = {"dropout": 0.0, "recurrent_dropout": 0.0}
LONG = {**PLAIN, "max_tokens": 32 * 150}  # time to kill a process
SPARSE = {"sparse": True, "name": "adagrad", "learn_rate": 0.2}


HERE = ["--rdzv-endpoint", "localhost:0"]


def _command(n_ranks, launch, *program):
    """RETURNS (List[str]): A command of `torchrun`."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", n_ranks, "--rdzv-backend", "c10d"]
    return list(map(str, [*command, *launch, *program]))


def _run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment())


def _torchrun(output, text, n_ranks, *arguments, settings=None, launch=()):
    program = (RUNNER, output, text, "--settings", json.dumps({**PLAIN, **(settings or {})}), *arguments)
    return _run(_command(n_ranks, [*HERE, *launch], *program))


def _torchrun_cli(output, text, *arguments):
    settings = {"paths.train": text, "paths.valid": text, "bilm.char_cnn.filters": "[[1,4],[2,8]]"}
    settings |= {"bilm.cell_width": 16, "bilm.projection_width": 8, "pretraining.softmax.kind": "full"}
    settings |= {"pretraining.batch_size": 4, "pretraining.unroll_steps": 8, "pretraining.max_tokens": 320}
    settings |= {"pretraining.eval_every": 5, "pretraining.precision": "float32"}
    given = [part for name, value in settings.items() for part in (f"--{name}", value)]
    return _run(_command(2, HERE, "-m", "spacy_elmo", "pretrain", CONFIG, output, *given, *arguments))


def _agent(output, text, port, variables, *, is_host=False):
    """Start the agent of one of two nodes, with one worker; one of them is the host of the rendezvous."""
    launch = ["--nnodes", 2, "--max-restarts", 2, "--rdzv-endpoint", f"localhost:{port}", "--rdzv-id", "run"]
    launch += ["--rdzv-conf", f"is_host={int(is_host)},keep_alive_interval=1,keep_alive_max_attempt=3"]
    command = _command(1, launch, RUNNER, output, text, "--settings", json.dumps(LONG))
    return subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**environment(), **variables})


def _kill(agent, *, is_with_agent):
    """Kill the worker of an agent, and the agent before it."""
    children = Path(f"/proc/{agent.pid}/task/{agent.pid}/children")
    workers = children.read_text().split() if children.exists() else []
    if is_with_agent:
        agent.kill(), agent.wait()
    for worker in workers:
        os.kill(int(worker), signal.SIGKILL)


def _alone(output, text, **settings):
    run = make_run(output, text, **{**PLAIN, **settings})
    run.begin()
    list(run.reports())


def _files(folder, *sizes):
    folder.mkdir()
    for number, n_lines in enumerate(sizes):
        write_text(folder / f"{number}.txt", n_lines)
    return folder


def _losses(output):
    return [row["loss"] for row in srsly.read_jsonl(output / "log.jsonl")]


def test_lanes_are_shared_out():
    assert [Ranks(rank, 3).lanes(12) for rank in range(3)] == [slice(0, 4), slice(4, 8), slice(8, 12)]
    with pytest.raises(ValueError, match="batch_size is 10, .* 4, "):
        Ranks(0, 4).lanes(10)


class _Pair(Ranks):
    """The first of two ranks, with a second one that gives what it is told to."""

    other = None

    def gather_objects(self, value):
        return [value, self.other]

    def from_writer(self, value):
        return value


def test_ranks_that_see_different_checkpoints_are_an_error(text, tmp_path, monkeypatch):
    run = make_run(tmp_path / "run", text, **PLAIN)
    monkeypatch.setattr(_Pair, "other", 7)
    monkeypatch.setattr(_Pair, "agree", lambda self, attempt: attempt())
    run.ranks = _Pair(0, 2)
    with pytest.raises(ValueError, match="process 0 none, process 1 7"):
        run.begin()


@pytest.mark.slow
def test_the_command_runs_on_two_ranks_and_protects_its_run(text, tmp_path):
    """Without --resume: the first rank makes the folder, and no other one takes it for an older run."""
    result = _torchrun_cli(tmp_path / "run", text)
    assert result.returncode == 0, result.stderr
    assert [row["step"] for row in srsly.read_jsonl(tmp_path / "run" / "log.jsonl")] == [5, 10]
    result = _torchrun_cli(tmp_path / "run", text)
    assert result.returncode != 0 and "EL104" in " ".join((result.stdout + result.stderr).split())
    assert "EL127" not in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": SPARSE, "accumulate": 2},
        {"optimizer": SPARSE, "bilm": {"char_cnn": None, "n_words": 16}, "tied": True},
    ],
    ids=["sparse", "sparse and tied"],
)
def test_two_ranks_give_the_losses_of_one(text, tmp_path, settings):
    result = _torchrun(tmp_path / "two", text, 2, settings=settings)
    assert result.returncode == 0, result.stderr
    _alone(tmp_path / "one", text, **settings)
    assert _losses(tmp_path / "two") == pytest.approx(_losses(tmp_path / "one"), rel=1e-5)
    first, second = (load_bilm(tmp_path / name / "model-last").network.state_dict() for name in ("one", "two"))
    assert all(torch.allclose(first[key], second[key], atol=1e-4) for key in first)


@pytest.mark.slow
def test_a_rank_that_dies_stops_the_others_and_the_run_resumes_with_another_number(text, tmp_path):
    result = _torchrun(tmp_path / "run", text, 2, "--kill-at", 20, "--kill-rank", 1)
    assert result.returncode != 0
    assert "EL127" in result.stderr or "Signal 9 (SIGKILL)" in result.stderr
    assert 14 <= len(_losses(tmp_path / "run")) < 60
    result = _torchrun(tmp_path / "run", text, 1)
    assert result.returncode == 0, result.stderr
    _alone(tmp_path / "one", text)
    assert _losses(tmp_path / "run") == pytest.approx(_losses(tmp_path / "one"), rel=1e-5)


@pytest.mark.issue(39)
def test_each_rank_reads_its_own_files(tmp_path):
    corpus = _files(tmp_path / "corpus", 30, 50, 20, 40, 60)
    runs = [make_run(tmp_path / "run", corpus, ranks=Ranks(rank, 2), shard_text=True) for rank in range(2)]
    assert [[shard.name for shard in run.stream.shards] for run in runs] == [
        ["0.txt", "2.txt", "4.txt"],
        ["1.txt", "3.txt"],
    ]
    first, second = (run.trainer.reader.read().chunks[0] for run in runs)
    assert first.places.shape == second.places.shape == (2, 8, 2)  # 2 of 4 lanes
    assert make_run(tmp_path / "run", corpus, ranks=Ranks(1, 2)).stream.shards[0].name == "0.txt"
    with pytest.raises(ValueError, match=r"has 5 file.* but should have 6 or more.*`split -n l/6 "):
        make_run(tmp_path / "run", corpus, ranks=Ranks(0, 6), shard_text=True, batch_size=6)


@pytest.mark.issue(39)
def test_one_rank_gives_the_same_with_files_of_its_own(tmp_path):
    corpus = _files(tmp_path / "corpus", 30, 50)
    for name, is_sharded in (("own", True), ("all", False)):
        _alone(tmp_path / name, corpus, shard_text=is_sharded, max_tokens=32 * 12, eval_every=10)
    assert rows(tmp_path / "own") == rows(tmp_path / "all")
    with pytest.raises(ValueError, match="EL146.*shard_text: False then, True now"):
        make_run(tmp_path / "all", corpus, **PLAIN, shard_text=True).begin(resume=True)


@pytest.mark.slow
@pytest.mark.issue(39)
@pytest.mark.parametrize("encoder", ["lstm", "transformer"])
def test_two_ranks_with_the_same_text_give_the_losses_of_one_with_half_of_the_lanes(tmp_path, encoder):
    same = {"shuffle_blocks": 0, "softmax": {"kind": "full"}, "max_sentence_tokens": 7, "eval_every": 20}
    if encoder == "transformer":
        sizes = {"feedforward_width": 16, "n_heads": 2, "max_positions": 16}
        same["bilm"] = {"encoder": encoder, "cell_width": 4096, "transformer": sizes}
    text = _files(tmp_path / "one_file", 60)
    settings = {**same, "shard_text": True, "max_tokens": 640}
    result = _torchrun(tmp_path / "two", _files(tmp_path / "corpus", 60, 60), 2, settings=settings)
    assert result.returncode == 0, result.stderr
    _alone(tmp_path / "one", text, **same, batch_size=2, max_tokens=320)
    assert _losses(tmp_path / "two") == pytest.approx(_losses(tmp_path / "one"), rel=1e-5)
    two, one = (rows(tmp_path / name)[-1] for name in ("two", "one"))
    assert two["n_tokens"] == 2 * one["n_tokens"]
    assert two["read"] == {name: 2 * n for name, n in one["read"].items()}


@pytest.mark.slow
@pytest.mark.issue(39)
def test_ranks_with_files_of_their_own_resume_bit_for_bit(tmp_path):
    corpus = _files(tmp_path / "corpus", 30, 50, 20, 40, 60)
    settings = {"shard_text": True, "accumulate": 2, "dropout": 0.1, "recurrent_dropout": 0.1}
    for kill in ((), ("--kill-at", 20, "--kill-rank", 1)):
        output = tmp_path / ("killed" if kill else "whole")
        launch = ["--max-restarts", 1] if kill else []
        result = _torchrun(output, corpus, 2, *kill, settings=settings, launch=launch)
        assert result.returncode == 0, result.stderr
    assert rows(tmp_path / "killed") == rows(tmp_path / "whole")
    weights = [(tmp_path / name / "model-last" / "weights.safetensors").read_bytes() for name in ("killed", "whole")]
    assert weights[0] == weights[1]
    run = make_run(tmp_path / "whole", corpus, **{**PLAIN, **settings})
    with pytest.raises(ValueError, match="EL146.*processes: 2 then, 1 now"):
        run.begin(resume=True)


@pytest.mark.slow
@pytest.mark.issue(39)
def test_a_text_with_fewer_files_than_ranks_is_an_error_that_names_a_remedy(text, tmp_path):
    result = _torchrun_cli(tmp_path / "run", text, "--pretraining.shard_text", "true")
    told = " ".join((result.stdout + result.stderr).split())
    assert result.returncode != 0 and "1 file(s), but should have 2 or more" in told and "EL127" not in told
    remedy = (
        re.search("`(split .*?)`", told)
        .group(1)
        .replace("train.txt", str(text))
        .replace(" part-", f" {tmp_path}/part-")
    )
    subprocess.run(shlex.split(remedy), check=True)
    result = _torchrun_cli(tmp_path / "run", tmp_path / "part-*.txt", "--pretraining.shard_text", "true")
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
@pytest.mark.issue(39)
@pytest.mark.parametrize("is_with_agent", [False, True], ids=["worker", "node"])
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the worker of an agent in /proc")
def test_a_killed_process_of_two_nodes_is_replaced(text, tmp_path, is_with_agent):
    """A node that is lost with its agent is replaced by one that has counted no restart."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    output = tmp_path / "two"
    # An agent that keeps its store does not tell a new agent where it is (torch 2.13).
    variables = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"} if is_with_agent else {}
    agents = [_agent(output, text, port, variables, is_host=is_host) for is_host in (False, True)]
    try:
        while not (output / "checkpoints" / "step-00000014").exists():
            assert agents[0].poll() is None and agents[1].poll() is None
            time.sleep(0.01)
        _kill(agents[0], is_with_agent=is_with_agent)
        assert len(_losses(output)) < 150
        if is_with_agent:
            agents[0] = _agent(output, text, port, variables)
        assert [agent.wait(timeout=150) for agent in agents] == [0, 0]
    finally:
        for agent in agents:
            _kill(agent, is_with_agent=True)
    _alone(tmp_path / "one", text, max_tokens=LONG["max_tokens"])
    assert _losses(output) == pytest.approx(_losses(tmp_path / "one"), rel=1e-5)
    first, second = (load_bilm(tmp_path / name / "model-last").network.state_dict() for name in ("one", "two"))
    assert all(torch.allclose(first[key], second[key], atol=1e-4) for key in first)
