"""Lanes of whole sentences."""

import numpy as np
import pytest

from spacy_elmo.text.lanes import NumberedText, WholeSentenceLanes
from spacy_elmo.text.words import WordTable

N_STEPS, N_LANES = 12, 3


def make_sentences(n=60, seed=0):
    random = np.random.default_rng(seed)
    return [2 + np.arange(k, k + random.integers(0, N_STEPS)) for k in range(n)]


def make_lanes(sentences, own_lanes=slice(None)):
    text = NumberedText(np.concatenate(sentences), np.cumsum([0, *map(len, sentences)]))
    blocks = [(i, min(i + 4, len(sentences))) for i in range(0, len(sentences), 4)]
    return WholeSentenceLanes(text, blocks, N_LANES, own_lanes)


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
    chunks = read_chunks(make_lanes(sentences))
    found = [one for chunk in chunks for one in sentences_of(chunk)]
    assert sorted(inputs[0][1:].tolist() for inputs, _, _ in found) == sorted(words.tolist() for words in sentences)
    for inputs, targets, positions in found:
        words, n = inputs[0][1:].tolist(), len(inputs[0]) - 1
        assert inputs[:, 0].tolist() == [WordTable.BEGIN, WordTable.END]
        assert inputs[1][1:].tolist() == words[::-1]
        assert targets.tolist() == [[*words, WordTable.END], [*words[::-1], WordTable.BEGIN]]
        assert positions.tolist() == [list(range(n + 1)), list(range(n + 1, 0, -1))]


@pytest.mark.issue(52)
@pytest.mark.parametrize("n_read", [0, 3])
@pytest.mark.parametrize("own_lanes", [slice(0, 3), slice(1, 3)])
def test_lanes_that_skip_continue_like_those_that_read_all(n_read, own_lanes):
    sentences = make_sentences()
    lanes = make_lanes(sentences, own_lanes)
    lanes.skip(n_read, N_STEPS)
    for one, other in zip(read_chunks(lanes), read_chunks(make_lanes(sentences))[n_read:], strict=True):
        for name in ("inputs", "targets", "positions", "begins", "counted"):
            assert np.array_equal(getattr(one, name), getattr(other, name)[..., own_lanes])
        assert one.n_predictions == other.n_predictions
    assert lanes.n_predictions == sum(len(words) + 1 for words in sentences)
