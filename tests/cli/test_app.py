"""Commands without standard streams, into closed pipes and onto full disks end without a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli.calls import SMALL_BILM, SMALL_RUN, as_options

from spacy_elmo import save_bilm

pytestmark = [
    pytest.mark.issue(59),
    pytest.mark.skipif(os.name == "nt", reason="closes streams by their numbers, as POSIX shells do"),
]
ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "configs" / "pretrain_en_elmo_sm.cfg"


@pytest.fixture
def place(bilm, tmp_path):
    """A folder with a biLM and a text."""
    save_bilm(bilm, tmp_path / "bilm")
    (tmp_path / "text.txt").write_text("the cat sat on the mat .\n" * 50)
    return tmp_path


def run(place, command, *, closed=(), **streams):
    """RETURNS (CompletedProcess): A command in a process that starts without the streams of these numbers."""
    return subprocess.run(
        [sys.executable, "-m", "spacy_elmo", *map(str, command)],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"},
        preexec_fn=lambda: [os.close(number) for number in closed],
        timeout=120,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
    )


PRETRAIN = ["pretrain", CONFIG, "out", "--paths.train", "text.txt", "--paths.valid", "text.txt"]
COMMANDS = {
    "vocab": ["vocab", "text.txt", "out"],
    "embed": ["embed", "bilm", "text.txt", "out.npz"],
    "perplexity": ["perplexity", "bilm", "text.txt"],
    "index": ["index", "text.txt", "out", "--bilm", "bilm"],
    "pretrain": [*PRETRAIN, *as_options({**SMALL_RUN, **SMALL_BILM})],
}


@pytest.mark.parametrize(
    "name", ["vocab", *(pytest.param(name, marks=pytest.mark.slow) for name in list(COMMANDS)[1:])]
)
def test_commands_work_without_stderr(name, place):
    if name == "index":
        pytest.importorskip("sklearn", reason="needs scikit-learn")
    shown = run(place, COMMANDS[name], closed=[2])
    assert shown.returncode == 0 and (name == "perplexity" or list(place.glob("out*")))
    assert not shown.stderr


@pytest.mark.slow
def test_commands_work_without_any_stream(place):
    assert run(place, COMMANDS["embed"], closed=[0, 1, 2]).returncode == 0
    with np.load(place / "out.npz") as arrays:
        assert arrays["lengths"].tolist() == [7] * 50


@pytest.mark.slow
@pytest.mark.parametrize(
    "command, closed, message",
    [
        (["embed", "bilm", "-", "out.npz"], 0, "There is no standard input to read from"),
        (["vocab", "-", "out.txt"], 0, "There is no standard input to read from"),
        (["embed", "bilm", "text.txt", "-"], 1, "There is no standard output to write to"),
        (["init-config", "-", "--component", "ner"], 1, "There is no standard output to write to"),
    ],
)
def test_a_stream_that_is_needed_and_closed_is_an_error(command, closed, message, place):
    shown = run(place, command, closed=[closed])
    assert shown.returncode == 1
    assert message in " ".join(shown.stderr.decode().split()) and b"Traceback" not in shown.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [["embed", "bilm", "text.txt", "-"], ["inspect", "bilm"], ["init-config", "-", "--component", "ner"]]
)
def test_a_closed_pipe_ends_a_command_quietly(command, place):
    reading, writing = os.pipe()
    os.close(reading)
    shown = run(place, command, stdout=writing)
    os.close(writing)
    assert shown.returncode == 1 and b"Traceback" not in shown.stderr and b"roken pipe" not in shown.stderr


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize(
    "command, code",
    [(["embed", "bilm", "text.txt", "-"], 1), (["inspect", "bilm"], 1), (["compare", "bilm", "bilm", "text.txt"], 2)],
)
def test_a_full_stdout_is_an_error_of_one_line(command, code, place):
    """`compare` ends with 1 if the biLMs differ."""
    with open("/dev/full", "wb") as full:
        shown = run(place, command, stdout=full)
    assert shown.returncode == code and b"Traceback" not in shown.stderr and b"No space left" in shown.stderr
