"""Memory allocated by mmap, and the regular release of free memory."""

import os
import platform

import pytest
import torch

from spacy_elmo import load_bilm
from spacy_elmo.inference import memory as system_memory
from spacy_elmo.inference.dispatch import TRIM_TOKENS, WORKSPACE_STEP
from spacy_elmo.inference.memory import HeapTrimmer, Workspace, map_pages


@pytest.fixture()
def trims(monkeypatch):
    calls = []
    monkeypatch.setattr(system_memory, "_trim", lambda: calls.append)
    return calls


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a fork beside threads, from Python 3.12 on
def test_a_forked_process_has_pages_of_its_own():
    pages = map_pages(8)
    assert pages[:] == b"\0" * 8
    child = os.fork()
    if not child:
        pages[:4] = b"mine"
        os._exit(0)
    os.waitpid(child, 0)
    assert pages[:] == b"\0" * 8


def test_free_memory_is_released_regularly(trims):
    trimmer = HeapTrimmer()
    trimmer.count(TRIM_TOKENS - 1)
    assert trims == []
    trimmer.count(1)
    assert trims == [0]
    trimmer.count(TRIM_TOKENS - 1)
    assert trims == [0]
    trimmer.count(3 * TRIM_TOKENS)
    assert trims == [0, 0]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_the_gnu_c_library_can_give_back():
    trim = system_memory._trim()
    assert trim is not None and trim(0) in (0, 1)


def test_working_memory_has_pages_of_its_own(monkeypatch):
    made = []
    monkeypatch.setattr(system_memory, "map_pages", lambda n_bytes: made.append(map_pages(n_bytes)) or made[-1])
    space = Workspace(torch.device("cpu"))
    space.take("rows", 3, 5).fill_(2.0)
    (pages,) = made
    assert len(pages) == 4 * WORKSPACE_STEP and pages[:60] == torch.full((15,), 2.0).numpy().tobytes()


def test_where_it_takes_long_it_is_done_less_often(monkeypatch):
    clock, calls = [0.0], []

    def trim(_):
        calls.append(clock[0])
        clock[0] += 1.0

    monkeypatch.setattr(system_memory.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(system_memory, "_trim", lambda: trim)
    trimmer = HeapTrimmer()
    for _ in range(7):  # trims after 1, 2 and 4 of them
        clock[0] += 10.0
        trimmer.count(TRIM_TOKENS)
    assert len(calls) == 3
    for _ in range(8):
        clock[0] += 1000.0
        trimmer.count(TRIM_TOKENS)
    assert len(calls) == 4
    for _ in range(4):  # it took less than a fiftieth of the time: twice as often
        clock[0] += 10.0
        trimmer.count(TRIM_TOKENS)
    assert len(calls) == 5
    for _ in range(8):  # and no less than it was before
        clock[0] += 10.0
        trimmer.count(TRIM_TOKENS)
    assert len(calls) == 6


def test_a_system_without_it_does_without(monkeypatch):
    monkeypatch.setattr(system_memory.ctypes, "CDLL", lambda name: object())
    system_memory._trim.cache_clear()
    assert system_memory._trim() is None
    HeapTrimmer().count(2 * TRIM_TOKENS)
    system_memory._trim.cache_clear()


@pytest.mark.parametrize("state", ["reset", "carry"])
def test_a_stream_gives_back(trims, monkeypatch, state):
    monkeypatch.setattr(system_memory, "TRIM_TOKENS", 6)
    bilm = load_bilm("en_elmo_sm")
    runs = [["Oslo", "sleeps"]] * 7
    n_rows = sum(rows.shape[1] for _, _, rows in bilm.iter_encode(runs, state=state, batch_tokens=2, reuse_memory=True))
    assert n_rows == 14
    assert trims == [0, 0]


def test_a_reader_of_slices_may_stop(trims, monkeypatch):
    monkeypatch.setattr(system_memory, "TRIM_TOKENS", 1)
    slices = load_bilm("en_elmo_sm").iter_encode([["Oslo"], ["Rome"]], batch_tokens=1, reuse_memory=True)
    next(slices)
    assert trims == []
    next(slices)
    assert trims == [0]
    slices.close()
    assert trims == [0]
