"""Scripts in a process of their own, and the peak memory of a part of them."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, List, Sequence

import pytest

ROOT = Path(__file__).parents[1]
PEAKS = Path("/proc/self/clear_refs")
needs_peaks = pytest.mark.skipif(not os.access(PEAKS, os.W_OK), reason="no peak memory without Linux's /proc")


def run_script(code: str, *arguments: str, n_threads: int = 1, without: Sequence[str] = (), **variables: str) -> str:
    """Run Python code that may import the package and the tests, with environment variables and without some.
    RETURNS (str): What it printed.
    """
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests")))
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": str(n_threads), **variables}
    environment = {name: value for name, value in environment.items() if name not in without}
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, *arguments]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


@contextmanager
def measured_peak() -> Iterator[List[int]]:
    """Append the bytes that the process has at most inside of the block, beside those that it has before."""
    found: List[int] = []
    PEAKS.write_text("5")  # the peak from here on
    before = _read_status("VmRSS:")
    yield found
    found.append(_read_status("VmHWM:") - before)


def _read_status(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024
