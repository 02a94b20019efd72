"""Lanes of whole sentences."""

import numpy as np
import pytest

from spacy_elmo.text.lanes import WholeSentenceLanes
from spacy_elmo.text.words import WordTable

N_STEPS, N_LANES = 12, 3


def make_sentences(n=60, seed=0):
    random = np.random.default_rng(seed)
    return [2 + np.arange(k, k + random.integers(0, N_STEPS)) for k in range(n)]


def blocks_of(sentences):
    return [sentences[i : i + 4] for i in range(0, len(sentences), 4)]


def read_chunks(lanes):
    chunks = []
    while (chunk := lanes.next_chunk(N_STEPS)) is not None:
        chunks.append(chunk)
    return chunks


def sentences_of(chunk):
    """The sentences of a chunk, as (forward inputs, backward inputs, targets, positions)."""
    found = []
    for lane in range(N_LANES):
        edges = [*np.flatnonzero(chunk.begins[:, lane]), N_STEPS]
        for start, stop in zip(edges, edges[1:]):
            if chunk.counted[start, lane]:
                assert chunk.counted[start:stop, lane].all()
                place = (slice(None), slice(start, stop), lane)
                found.append((chunk.inputs[place], chunk.targets[place], chunk.positions[place]))
            else:
                assert not chunk.counted[start:stop, lane].any()
    return found


def test_every_sentence_is_read_once_and_whole():
    sentences = make_sentences()
    chunks = read_chunks(WholeSentenceLanes(blocks_of(sentences), N_LANES))
    found = [one for chunk in chunks for one in sentences_of(chunk)]
    assert sorted(inputs[0][1:].tolist() for inputs, _, _ in found) == sorted(words.tolist() for words in sentences)
    for inputs, targets, positions in found:
        words, n = inputs[0][1:].tolist(), len(inputs[0]) - 1
        assert inputs[:, 0].tolist() == [WordTable.BEGIN, WordTable.END]
        assert inputs[1][1:].tolist() == words[::-1]
        assert targets.tolist() == [[*words, WordTable.END], [*words[::-1], WordTable.BEGIN]]
        assert positions.tolist() == [list(range(n + 1)), list(range(n + 1, 0, -1))]


@pytest.mark.parametrize("n_read", [0, 3])
def test_restored_lanes_continue(n_read):
    blocks = blocks_of(make_sentences())
    stream = iter(blocks)
    lanes = WholeSentenceLanes(stream, N_LANES)
    for _ in range(n_read):
        lanes.next_chunk(N_STEPS)
    lanes.renumber(np.arange(200))
    state = {name: array.copy() for name, array in lanes.state_dict().items()}
    rest = list(stream)
    wanted = read_chunks(WholeSentenceLanes(blocks, N_LANES))[n_read:]
    restored = WholeSentenceLanes(rest, N_LANES)
    restored.load_state_dict(state)
    found = read_chunks(restored)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted):
        assert np.array_equal(one.inputs, other.inputs) and np.array_equal(one.counted, other.counted)
    assert restored.state_dict()["now"] == sum(len(words) + 1 for words in make_sentences())
