"""Lanes without padding, and lanes of text for language modelling."""

import numpy as np
import pytest

from spacy_elmo.text.lanes import NumberedText, SentenceLanes, WholeSentenceLanes, plan_lanes
from spacy_elmo.text.words import WordTable


@pytest.mark.parametrize("lengths", [[1], [5, 1, 3], [0, 4, 0, 4], list(range(40)), [100] + [3] * 200])
@pytest.mark.parametrize("max_lanes", [1, 4, 128])
def test_plan_lanes_gives_every_token_its_own_slot(lengths, max_lanes):
    plan = plan_lanes(lengths, max_lanes)
    for backward in (False, True):
        slots = plan.slots(backward=backward)
        assert len(slots) == len(set(slots.tolist())) == sum(lengths)
        steps, lanes = np.divmod(slots, max(1, plan.n_lanes))
        assert (lanes < plan.n_active[steps]).all()
    assert plan.n_active.sum() == sum(lengths)  # nothing else is computed
    assert plan.n_lanes <= max_lanes


# Lanes of text for language modelling

SENTENCES = [["a", "b", "c"], ["d"], [], ["e", "f"], ["g", "h", "i", "j"], ["k"], ["l", "m"]]
BLOCKS = [(0, 1), (1, 4), (4, 5), (5, 7)]


def make_sentence_lanes(n_lanes, own_lanes=slice(None)):
    text = NumberedText.from_sentences(SENTENCES, WordTable())
    return SentenceLanes(text, BLOCKS, n_lanes, own_lanes)


def read_rows(lanes, n_steps, n_all_lanes=2):
    """RETURNS (List[NDArray]): Inputs, targets and begins of all chunks, joined."""
    chunks = []
    while (chunk := lanes.next_chunk(n_steps)) is not None:
        assert chunk.n_predictions == chunk.begins.shape[0] * n_all_lanes
        chunks.append(np.stack([*chunk.inputs, *chunk.targets, chunk.begins]))
    return np.concatenate(chunks, axis=1)


def test_one_lane_reads_everything_in_order():
    table = WordTable()
    text = NumberedText.from_sentences(SENTENCES, table)
    rows = read_rows(SentenceLanes(text, BLOCKS, 1), 4, 1)[:, :, 0]
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
        lanes = make_sentence_lanes(2)
        rows = read_rows(lanes, n_steps)
        if n_steps == 1:
            first, n_dropped = rows, lanes.n_dropped
        assert (rows == first).all() and lanes.n_dropped == n_dropped
        assert rows[0].size + lanes.n_dropped == sum(len(sentence) + 1 for sentence in SENTENCES)


@pytest.mark.parametrize("n_chunks", [0, 1, 3])
@pytest.mark.parametrize("own_lanes", [slice(0, 2), slice(1, 2)])
def test_lanes_that_skip_continue_like_those_that_read_all(n_chunks, own_lanes):
    whole, lanes = read_rows(make_sentence_lanes(2), 2), make_sentence_lanes(2, own_lanes)
    lanes.skip(n_chunks, 2)
    assert (read_rows(lanes, 2) == whole[:, 2 * n_chunks :, own_lanes]).all()


# Lanes of whole sentences

N_STEPS, N_LANES = 12, 3


def make_sentences(n=60, seed=0):
    random = np.random.default_rng(seed)
    return [2 + np.arange(k, k + random.integers(0, N_STEPS)) for k in range(n)]


def make_whole_lanes(sentences, own_lanes=slice(None)):
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
    chunks = read_chunks(make_whole_lanes(sentences))
    found = [one for chunk in chunks for one in sentences_of(chunk)]
    assert sorted(inputs[0][1:].tolist() for inputs, _, _ in found) == sorted(words.tolist() for words in sentences)
    for inputs, targets, positions in found:
        words, n = inputs[0][1:].tolist(), len(inputs[0]) - 1
        assert inputs[:, 0].tolist() == [WordTable.BEGIN, WordTable.END]
        assert inputs[1][1:].tolist() == words[::-1]
        assert targets.tolist() == [[*words, WordTable.END], [*words[::-1], WordTable.BEGIN]]
        assert positions.tolist() == [list(range(n + 1)), list(range(n + 1, 0, -1))]


@pytest.mark.parametrize("n_read", [0, 3])
@pytest.mark.parametrize("own_lanes", [slice(0, 3), slice(1, 3)])
def test_lanes_of_whole_sentences_that_skip_continue_like_those_that_read_all(n_read, own_lanes):
    sentences = make_sentences()
    lanes = make_whole_lanes(sentences, own_lanes)
    lanes.skip(n_read, N_STEPS)
    for one, other in zip(read_chunks(lanes), read_chunks(make_whole_lanes(sentences))[n_read:], strict=True):
        for name in ("inputs", "targets", "positions", "begins", "counted"):
            assert np.array_equal(getattr(one, name), getattr(other, name)[..., own_lanes])
        assert one.n_predictions == other.n_predictions
    assert lanes.n_predictions == sum(len(words) + 1 for words in sentences)
