"""Memory allocated by mmap, and the regular release of free memory."""

import os

import pytest

from spacy_elmo import load_bilm
from spacy_elmo.inference import memory as system_memory
from spacy_elmo.inference.memory import map_pages


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
