"""Reused working memory, one user at a time, never part of a result; the regular release of free memory."""

import os

import numpy as np
import pytest
import torch
from inference.forcing import force_engine

from spacy_elmo import load_bilm
from spacy_elmo.inference import torch_lanes
from spacy_elmo.inference.encoder import SequenceBatch
from spacy_elmo.inference.runtime import map_pages


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


SENTENCES = [f"the river runs past mill {n} and the bank".split()[: 3 + n % 6] for n in range(40)]


@pytest.fixture(scope="module")
def bilm():
    return load_bilm("en_elmo_sm")


def test_slices_share_memory_only_when_asked_to(bilm):
    def pointers(**options):
        found = [rows for _, _, rows in bilm.iter_encode(SENTENCES, batch_tokens=30, **options)]
        return found, {rows.data_ptr() for rows in found}

    kept, places = pointers()
    assert len(kept) > 3 and len(places) == len(kept)
    reused, places = pointers(reuse_memory=True)
    assert len(reused) == len(kept) and len(places) == 1
    assert torch.equal(kept[-1], reused[-1]) and not torch.equal(kept[0], reused[0])
    whole = bilm.embed(SENTENCES, batch_tokens=30)
    np.testing.assert_array_equal(np.concatenate(whole, axis=1), torch.cat(kept, dim=1).numpy())


def test_vectors_do_not_depend_on_the_size_of_blocks(bilm, monkeypatch):
    force_engine(monkeypatch, "torch")
    many, fresh = [words * 3 for words in SENTENCES], load_bilm("en_elmo_sm")
    expected = bilm.embed(many)
    monkeypatch.setattr(torch_lanes, "CHUNK_GATE_BYTES", 0)
    for one, other in zip(fresh.embed(many), expected):
        np.testing.assert_allclose(one, other, rtol=0.0, atol=5e-6)


def read(bilm, sentences, state):
    """What `iter_encode` goes through, before it copies."""
    return bilm._encoder.slices(SequenceBatch.make(sentences), state, 30, group_lengths=[20, 20])


@pytest.mark.parametrize("state", ["reset", "carry"])
def test_two_interleaved_readers_do_not_disturb_each_other(bilm, state):
    wanted = [computed.rows.clone() for computed in read(bilm, SENTENCES, state)]
    other = read(bilm, SENTENCES[::-1], state)
    found = read(bilm, SENTENCES, state)
    for number, (rows, computed) in enumerate(zip(wanted, found)):
        if number < 3:
            next(other)
        elif number == 3:
            other.close()  # a reader that goes no further
        bilm.embed(SENTENCES[5:9])
        assert torch.equal(computed.rows, rows)
    assert number > 3


@pytest.mark.issue(59)
def test_memory_that_is_not_there_is_told_with_the_setting():
    with pytest.raises(MemoryError, match="There is no memory for .* MB .*batch_tokens"):
        map_pages(2**62)
