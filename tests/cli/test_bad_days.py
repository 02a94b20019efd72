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
from typing import Any, Callable, Dict, Iterator, List

import h5py
import numpy as np
import pytest
from export.test_onnx import make_bilm

from spacy_elmo import load_bilm, save_bilm
from spacy_elmo.analysis.neighbors import NeighborIndex

pytestmark = pytest.mark.slow


def _npz(path: Path) -> int:
    with np.load(path) as arrays:
        return int(arrays["lengths"].sum())


# Command by name: arguments, the output, and what reads it, which raises an error for one that is not complete.
COMMANDS: Dict[str, Any] = {
    "embed": ("embed bilm text.txt out.npz", "out.npz", _npz),
    "hdf5": ("embed bilm text.txt out.h5", "out.h5", lambda path: h5py.File(path).close()),
    "convert": ("convert bilm out --to bilm-tf", "out", load_bilm),
    "index": ("index text.txt out --bilm bilm --layer 2", "out", lambda path: NeighborIndex.open(path).close()),
    "package": ("package bilm out --name tiny", "out/xx_elmo_tiny-1.0.0", lambda path: next(path.rglob("config.cfg"))),
    "vocab": ("vocab text.txt out.txt", "out.txt", lambda path: path.read_text("utf8").index("mat")),
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a biLM and a text."""
    save_bilm(make_bilm(), tmp_path / "bilm")
    lines = [f"word{i % 97} the cat sat on the mat number {i} ." for i in range(3000)]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf8")
    return tmp_path


def run(place: Path, line: str, **settings: Any) -> "subprocess.CompletedProcess[str]":
    """Run a command in a process of its own."""
    command = [sys.executable, "-m", "spacy_elmo", *line.split()]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, **settings)


def others(place: Path) -> List[str]:
    """Names that are neither inputs nor outputs."""
    return sorted(
        path.name
        for path in place.iterdir()
        if path.name not in ("bilm", "text.txt", "out", "out.npz", "out.h5", "out.txt")
    )


@pytest.mark.parametrize(
    "name, end",
    [
        *((name, signal.SIGKILL) for name in ("embed", "index", "package")),
        *((name, signal.SIGTERM) for name in ("hdf5", "convert", "vocab")),
    ],
)
def test_a_command_that_is_ended_leaves_nothing_that_looks_complete(end: Any, name: str, place: Path) -> None:
    line, output, read = COMMANDS[name]
    command = [sys.executable, "-m", "spacy_elmo", *line.split()]
    process = subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    before = {path.name for path in place.iterdir()}
    while process.poll() is None and {path.name for path in place.iterdir()} == before:
        time.sleep(0.001)
    time.sleep(0.01)
    process.send_signal(end)
    process.wait()
    if end == signal.SIGTERM:
        assert others(place) == []
    if (place / output).exists() and name != "index":  # an index continues
        read(place / output)
    again = run(place, line)
    if again.returncode:  # it was complete
        assert "--force" in again.stderr, again.stderr
        assert run(place, f"{line} --force").returncode == 0
    read(place / output)
    assert others(place) == []


@pytest.fixture
def small_disk(place: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a disk of 64 kB, or a read-only one, on a folder with an output in it."""
    folder = place / "disk"
    folder.mkdir()

    def mount(options: str) -> Path:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True)
        if done.returncode:
            pytest.skip("disks cannot be mounted here")
        return folder

    yield mount
    subprocess.run(["umount", str(folder)], capture_output=True)


@pytest.mark.skipif(shutil.which("mount") is None, reason="no mount")
@pytest.mark.parametrize(
    "name, options, message",
    [
        *((name, "size=16k", "No space left on device") for name in COMMANDS if name != "vocab"),
        ("vocab", "ro", "Read-only file system"),
    ],
)
def test_a_full_or_read_only_disk_is_named(
    name: str, options: str, message: str, place: Path, small_disk: Callable[[str], Path]
) -> None:
    line, output, _ = COMMANDS[name]
    folder = small_disk(options)
    if options != "ro":
        with pytest.raises(OSError), (folder / "filler").open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
    done = run(place, line.replace(" out", " disk/out"), env={**os.environ, "TMPDIR": "/tmp"})
    assert done.returncode == 1 and message in " ".join(done.stderr.split()), done.stderr
    if name != "index":
        assert not (folder / output).exists()
    assert not [path.name for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("name", ["embed", "convert", "index"])
def test_two_writers_at_once_leave_one_complete_output(name: str, place: Path) -> None:
    line, output, read = COMMANDS[name]
    command = [sys.executable, "-m", "spacy_elmo", *line.split()]
    processes = [subprocess.Popen(command, cwd=place, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    shown = [process.communicate()[1] for process in processes]
    codes = sorted(process.returncode for process in processes)
    assert codes in ([0, 0], [0, 1]) and not any("Traceback" in text for text in shown), shown
    read(place / output)
    assert others(place) == []
