"""Several processes against one."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import pytest
import srsly
import torch
from cli.calls import SMALL_BILM, SMALL_RUN, as_options
from pretraining.small_run import environment, make_run

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
    settings = as_options({"paths.train": text, "paths.valid": text, **SMALL_RUN, **SMALL_BILM})
    return _run(_command(2, HERE, "-m", "spacy_elmo", "pretrain", CONFIG, output, *settings, *arguments))


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


class _Broadcast(Ranks):
    """Ranks in threads of this process; each hears the writer by a queue."""

    queues = {}

    def from_writer(self, value):
        for queue in self.queues.values() if self.is_writer else ():
            queue.put(value)
        return value if self.is_writer else self.queues[self.rank].get()


@pytest.mark.parametrize("problem", [None, "the disk is full"])
def test_ranks_wait_while_the_writer_works_and_hear_of_its_error(monkeypatch, problem):
    monkeypatch.setattr(_Broadcast, "queues", {rank: Queue() for rank in (1, 2)})

    def work(keep_waiting):
        for _ in range(3):
            keep_waiting()
        if problem:
            raise ValueError(problem)

    with ThreadPoolExecutor(3) as threads:
        found = [threads.submit(_Broadcast(rank, 3).wait_for_writer, work) for rank in range(3)]
        assert [str(rank.exception(timeout=30)) for rank in found] == [str(problem)] * 3
    assert all(queue.empty() for queue in _Broadcast.queues.values())


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
    assert "Signal 9 (SIGKILL)" in result.stderr
    assert 14 <= len(_losses(tmp_path / "run")) < 60
    result = _torchrun(tmp_path / "run", text, 1)
    assert result.returncode == 0, result.stderr
    _alone(tmp_path / "one", text)
    assert _losses(tmp_path / "run") == pytest.approx(_losses(tmp_path / "one"), rel=1e-5)


@pytest.mark.slow
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
        end_s = time.monotonic() + 240
        while not (output / "checkpoints" / "step-00000014").exists():
            assert agents[0].poll() is None and agents[1].poll() is None and time.monotonic() < end_s
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
