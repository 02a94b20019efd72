"""Lanes of text for language modelling."""

import numpy as np
import pytest

from spacy_elmo.text.lanes import SentenceLanes
from spacy_elmo.text.words import WordTable

SENTENCES = [["a", "b", "c"], ["d"], ["e", "f"], ["g", "h", "i", "j"], ["k"]]


def _read(lanes, n_steps):
    chunks = []
    while (chunk := lanes.next_chunk(n_steps)) is not None:
        chunks.append(chunk)
    return chunks


def _numbered(table):
    return [[table.numbers_of(sentence)] for sentence in SENTENCES]


def test_one_lane_reads_everything_in_order():
    table = WordTable()
    chunks = _read(SentenceLanes(_numbered(table), 1), 4)
    words = np.array(table.words)
    inputs, targets = (
        np.concatenate([getattr(chunk, name)[:, :, 0] for chunk in chunks], axis=1) for name in ("inputs", "targets")
    )
    assert " ".join(words[inputs[0]]) == "<S> a b c <S> d <S> e f <S> g h i j <S> k"
    assert " ".join(words[targets[0]]) == "a b c </S> d </S> e f </S> g h i j </S> k </S>"
    assert " ".join(words[inputs[1]]) == "</S> c b a </S> d </S> f e </S> j i h g </S> k"
    assert " ".join(words[targets[1]]) == "c b a <S> d <S> f e <S> j i h g <S> k <S>"


def test_chunk_size_changes_nothing_and_what_is_dropped_is_counted():
    for n_steps in (1, 2, 5, 100):
        lanes = SentenceLanes(_numbered(WordTable()), 2)
        inputs = np.concatenate([chunk.inputs for chunk in _read(lanes, n_steps)], axis=1)
        if n_steps == 1:
            first, n_dropped = inputs, lanes.n_dropped
        assert (inputs == first).all() and lanes.n_dropped == n_dropped
        assert inputs[0].size + lanes.n_dropped == sum(len(sentence) + 1 for sentence in SENTENCES)


@pytest.mark.parametrize("n_before", [0, 1, 3])
def test_lanes_go_on_where_they_stood(n_before):
    table, wanted_table = WordTable(), WordTable()
    wanted = SentenceLanes(_numbered(wanted_table), 2)
    source = iter(SENTENCES)
    lanes = SentenceLanes(([table.numbers_of(sentence)] for sentence in source), 2)
    for _ in range(n_before):
        wanted.next_chunk(2), lanes.next_chunk(2)
    lanes.renumber(table.keep(lanes.held_numbers()))
    assert set(table.words[2:]) <= {word for sentence in SENTENCES for word in sentence} and len(table) <= 12
    again_table = WordTable()
    again_table.numbers_of(table.words)
    again = SentenceLanes(([again_table.numbers_of(sentence)] for sentence in source), 2)
    again.load_state_dict(lanes.state_dict())
    for chunk, other in zip(_read(again, 2), _read(wanted, 2), strict=True):
        for name in ("inputs", "targets"):
            words = np.array(again_table.words)[getattr(chunk, name)]
            assert (words == np.array(wanted_table.words)[getattr(other, name)]).all()
        assert (chunk.begins == other.begins).all()
    assert again.n_dropped == wanted.n_dropped
