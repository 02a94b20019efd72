"""What commands leave when they are killed, when the disk is full or read-only, when the output exists, and when two of
them write at once: the table of docs/scale.md.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from cli.calls import SMALL_BILM, SMALL_RUN, as_options, told
from export.running import make_bilm
from report_outputs import write_output

from spacy_elmo import load_bilm, save_bilm
from spacy_elmo.analysis.neighbors import NeighborIndex
from spacy_elmo.files import only_writer

parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
pytestmark = pytest.mark.slow


def _npz(path):
    with np.load(path) as arrays:
        return int(arrays["lengths"].sum())


def _parts(path):
    names = [name for part in path.glob("part-*") for name in parquet.read_table(part)["id"].to_pylist()]
    assert len(names) == len(set(names)) == 3000


# Command by name: arguments, the output, and what reads it, which raises an error for one that is not complete.
COMMANDS = {
    "embed": ("embed bilm text.txt out.npz", "out.npz", _npz),
    "parts": ("embed bilm text.txt out --docs-per-file 200", "out", _parts),
    "hdf5": ("embed bilm text.txt out.hdf5", "out.hdf5", lambda path: h5py.File(path).close()),
    "convert": ("convert bilm out --to bilm-tf", "out", load_bilm),
    "index": ("index text.txt out --bilm bilm --layer 2", "out", lambda path: NeighborIndex.open(path).close()),
    "package": ("package bilm out --name tiny", "out/xx_elmo_tiny-1.0.0", lambda path: next(path.rglob("config.cfg"))),
    "download": ("download pt --dest out --from tf", "out", load_bilm),
    "report": ("report train --html out.html", "out.html", lambda path: path.read_text("utf8").index("</html>")),
    "vocab": ("vocab text.txt out.txt", "out.txt", lambda path: path.read_text("utf8").index("mat")),
}


CONTINUED = ("index", "download", "parts")  # what they leave is completed by the same command
INPUTS = ("bilm", "tf", "train", "text.txt")
CONFIG = Path(__file__).parents[2] / "configs" / "pretrain_en_elmo_sm.cfg"


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A biLM in two formats, a training and a text."""
    tmp_path = tmp_path_factory.mktemp("inputs")
    save_bilm(make_bilm(), tmp_path / "bilm")
    save_bilm(make_bilm(), tmp_path / "tf", format="bilm-tf")
    write_output(tmp_path / "train", {"Acme": "ORG"}, metrics={"ents_f": 0.5})
    lines = [f"word{i % 97} the cat sat on the mat number {i} ." for i in range(3000)]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf8")
    return tmp_path


@pytest.fixture
def place(inputs, tmp_path):
    """A folder with the inputs."""
    for name in INPUTS:
        (tmp_path / name).symlink_to(inputs / name)
    return tmp_path


def run(place, line, **settings):
    """Run a command in a process of its own."""
    command = [sys.executable, "-m", "spacy_elmo", *line.split()]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, **settings)


def others(place):
    """Names that are neither inputs nor outputs."""
    return sorted(
        path.name
        for path in place.iterdir()
        if path.name not in (*INPUTS, "out", "out.npz", "out.hdf5", "out.txt", "out.html")
    )


def end_while_it_writes(place, line, end):
    """RETURNS (int): The exit code of a command that gets a signal once it has made a file; 0 if it ended before."""
    before = {path.name for path in place.iterdir()}
    command = [sys.executable, "-m", "spacy_elmo", *line.split()]
    process = subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and {path.name for path in place.iterdir()} == before:
        time.sleep(0.001)
    process.send_signal(end)
    return process.wait()


@pytest.mark.parametrize(
    "name, end",
    [
        *((name, signal.SIGKILL) for name in ("embed", "parts", "index", "package")),
        *((name, signal.SIGTERM) for name in ("hdf5", "convert", "vocab")),
    ],
)
def test_a_command_that_is_ended_leaves_nothing_that_looks_complete(end, name, place):
    line, output, read = COMMANDS[name]
    codes = (end_while_it_writes(place, f"{line} --force", end) for _ in range(9))
    assert next(filter(None, codes), 0) == (-end if end == signal.SIGKILL else 128 + end), "one of nine was interrupted"
    if end == signal.SIGTERM:
        assert others(place) == []
    if (place / output).exists() and name not in CONTINUED:
        read(place / output)
    again = run(place, line)
    if again.returncode:  # it was complete
        assert "--force" in again.stderr, again.stderr
        assert run(place, f"{line} --force").returncode == 0
    read(place / output)
    assert others(place) == []


@pytest.fixture
def small_disk(place):
    """Mounts a disk of 64 kB, or a read-only one, on a folder with an output in it."""
    folder = place / "disk"
    folder.mkdir()

    def mount(options):
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True)
        if done.returncode:
            pytest.skip("disks cannot be mounted here")
        return folder

    yield mount
    subprocess.run(["umount", "-l", str(folder)], capture_output=True)  # also while something is open


@pytest.mark.skipif(shutil.which("mount") is None, reason="no mount")
@pytest.mark.parametrize(
    "name, options, message",
    [
        *((name, "size=16k", "No space left on device") for name in COMMANDS if name != "vocab"),
        ("vocab", "ro", "Read-only file system"),
    ],
)
def test_a_full_or_read_only_disk_is_named(name, options, message, place, small_disk):
    line, output, _ = COMMANDS[name]
    folder = small_disk(options)
    if options != "ro":
        with pytest.raises(OSError), (folder / "filler").open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
    done = run(place, line.replace(" out", " disk/out"), env={**os.environ, "TMPDIR": "/tmp"})
    assert done.returncode == 1 and message in " ".join(done.stderr.split()), done.stderr
    if name not in CONTINUED:
        assert not (folder / output).exists()
    assert not [path.name for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("name", ["embed", "convert", "index"])
def test_two_writers_at_once_leave_one_complete_output(name, place):
    line, output, read = COMMANDS[name]
    command = [sys.executable, "-m", "spacy_elmo", *line.split()]
    processes = [subprocess.Popen(command, cwd=place, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    shown = [process.communicate()[1] for process in processes]
    codes = sorted(process.returncode for process in processes)
    assert codes in ([0, 0], [0, 1]) and not any("Traceback" in text for text in shown), shown
    read(place / output)
    assert others(place) == []


def pretrain(place, output, *changes, code=0):
    """RETURNS (str): What a short run with a checkpoint after each update shows, in a process of its own: what it had
    open is closed.
    """
    (place / "small.txt").write_text("the cat sat on the mat .\n" * 60, encoding="utf8")
    paths = ("--paths.train", place / "small.txt", "--paths.valid", place / "small.txt")
    often = {"pretraining.checkpoint_every": 1, "pretraining.schedule.name": "constant", "pretraining.max_tokens": 160}
    settings = as_options({**SMALL_RUN, **SMALL_BILM, **often})
    command = [sys.executable, "-m", "spacy_elmo", "pretrain", CONFIG, output, *paths, *settings, *changes]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return " ".join((done.stdout + done.stderr).split())


def test_a_pretraining_survives_a_full_disk(place, small_disk):
    output = small_disk("size=64k") / "out"
    assert "No space left on device" in pretrain(place, output, code=1)
    assert not list(output.glob("checkpoints/step-*")) and not (output / "model-last").exists()
    subprocess.run(["mount", "-o", "remount,size=9m", str(output.parent)], check=True)
    pretrain(place, output, "--resume")
    load_bilm(output / "model-last")
    subprocess.run(["mount", "-o", "remount,ro", str(output.parent)], check=True)
    assert "Read-only file system" in pretrain(place, output, "--resume", "--pretraining.max_tokens", "320", code=1)


def test_a_pretraining_with_the_clock_set_back_or_a_second_one(place):
    pretrain(place, place / "out")
    old, new = sorted((place / "out" / "checkpoints").glob("step-*"))
    for path in (old, *old.iterdir()):
        os.utime(path, (time.time() + 86_400,) * 2)
    for path in (new, *new.iterdir()):
        os.utime(path, (0, 0))
    longer = ("--resume", "--pretraining.max_tokens", "320")
    with only_writer(place / "out"):
        assert "Another process writes" in pretrain(place, place / "out", *longer, code=1)
    assert "Resumed at step 5," in pretrain(place, place / "out", *longer)


def test_parts_of_the_future_are_continued(place):
    command = ("embed", place / "bilm", place / "text.txt", place / "out", "--docs-per-file", "1000")
    told(*command)
    for path in (place / "out").iterdir():
        os.utime(path, (time.time() + 86_400,) * 2)
    (place / "out" / "part-00000-00001.parquet").unlink()
    assert "2 files existed already" in told(*command)
