"""Lanes of text for language modelling."""

import numpy as np
import pytest

from spacy_elmo.text.lanes import NumberedText, SentenceLanes
from spacy_elmo.text.words import WordTable

SENTENCES = [["a", "b", "c"], ["d"], [], ["e", "f"], ["g", "h", "i", "j"], ["k"], ["l", "m"]]
BLOCKS = [(0, 1), (1, 4), (4, 5), (5, 7)]


def _lanes(n_lanes, own_lanes=slice(None)):
    text = NumberedText.from_sentences(SENTENCES, WordTable())
    return SentenceLanes(text, BLOCKS, n_lanes, own_lanes)


def _read(lanes, n_steps):
    """RETURNS (List[NDArray]): Inputs, targets and begins of all chunks, joined."""
    chunks = []
    while (chunk := lanes.next_chunk(n_steps)) is not None:
        assert chunk.n_predictions == chunk.begins.shape[0] * len(lanes._free_at)
        chunks.append(np.stack([*chunk.inputs, *chunk.targets, chunk.begins]))
    return np.concatenate(chunks, axis=1)


def test_one_lane_reads_everything_in_order():
    table = WordTable()
    text = NumberedText.from_sentences(SENTENCES, table)
    rows = _read(SentenceLanes(text, BLOCKS, 1), 4)[:, :, 0]
    words = np.array(table.words)
    assert [" ".join(words[row]) for row in rows[:4]] == [
        "<S> a b c <S> d <S> <S> e f <S> g h i j <S> k <S> l m",
        "</S> c b a </S> d </S> </S> f e </S> j i h g </S> k </S> m l",
        "a b c </S> d </S> </S> e f </S> g h i j </S> k </S> l m </S>",
        "c b a <S> d <S> <S> f e <S> j i h g <S> k <S> m l <S>",
    ]
    assert np.flatnonzero(rows[4]).tolist() == [0, 4, 10, 15]  # where blocks begin


def test_chunk_size_changes_nothing_and_what_is_dropped_is_counted():
    for n_steps in (1, 2, 5, 100):
        lanes = _lanes(2)
        rows = _read(lanes, n_steps)
        if n_steps == 1:
            first, n_dropped = rows, lanes.n_dropped
        assert (rows == first).all() and lanes.n_dropped == n_dropped
        assert rows[0].size + lanes.n_dropped == sum(len(sentence) + 1 for sentence in SENTENCES)


@pytest.mark.issue(52)
@pytest.mark.parametrize("n_chunks", [0, 1, 3])
@pytest.mark.parametrize("own_lanes", [slice(0, 2), slice(1, 2)])
def test_lanes_that_skip_continue_like_those_that_read_all(n_chunks, own_lanes):
    whole, lanes = _read(_lanes(2), 2), _lanes(2, own_lanes)
    lanes.skip(n_chunks, 2)
    assert (_read(lanes, 2) == whole[:, 2 * n_chunks :, own_lanes]).all()
