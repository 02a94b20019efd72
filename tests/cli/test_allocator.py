"""Freed memory stays with the process."""

import ctypes
import subprocess
import sys

import pytest

from spacy_elmo.cli._allocator import keep_freed_memory

PROGRAM = """
import resource
import torch
from spacy_elmo.cli._allocator import keep_freed_memory
assert keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def work():
    blocks = [torch.ones(2**22) for _ in range(4)]  # 16 MB each
for _ in range(10):
    work()
before = faults()
for _ in range(5):
    work()
print(faults() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
@pytest.mark.slow
def test_pages_are_fetched_once():
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert int(result.stdout) < 20_000  # of 80,000 pages


def test_other_c_libraries_are_left_alone(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert not keep_freed_memory()
