"""Text laid in lanes for language modelling."""

import numpy as np

from spacy_elmo.text.sentence_lanes import SentenceLanes
from spacy_elmo.text.vocabulary import Vocabulary
from spacy_elmo.text.word_table import WordTable

SENTENCES = [["a", "b", "c"], ["d"], ["e", "f"], ["g", "h", "i", "j"], ["k"]]


def _read(lanes, n_steps):
    chunks = []
    while (chunk := lanes.next_chunk(n_steps)) is not None:
        chunks.append(chunk)
    return chunks


def _numbered(table):
    return [table.numbers_of(sentence) for sentence in SENTENCES]


def test_one_lane_reads_everything_in_order():
    table = WordTable()
    chunks = _read(SentenceLanes(_numbered(table), 1), 4)
    words = np.array(table._words)
    inputs, targets = (
        np.concatenate([getattr(chunk, name)[:, :, 0] for chunk in chunks], axis=1) for name in ("inputs", "targets")
    )
    assert " ".join(words[inputs[0]]) == "<S> a b c <S> d <S> e f <S> g h i j <S> k"
    assert " ".join(words[targets[0]]) == "a b c </S> d </S> e f </S> g h i j </S> k </S>"
    assert " ".join(words[inputs[1]]) == "</S> c b a </S> d </S> f e </S> j i h g </S> k"
    assert " ".join(words[targets[1]]) == "c b a <S> d <S> f e <S> j i h g <S> k <S>"


def test_chunk_size_changes_nothing():
    for n_steps in (1, 2, 5, 100):
        lanes = SentenceLanes(_numbered(WordTable()), 2)
        inputs = np.concatenate([chunk.inputs for chunk in _read(lanes, n_steps)], axis=1)
        if n_steps == 1:
            first, n_dropped = inputs, lanes.n_dropped
        assert (inputs == first).all() and lanes.n_dropped == n_dropped


def test_the_free_lane_takes_the_next_sentence_and_the_rest_is_counted():
    lanes = SentenceLanes(_numbered(WordTable()), 2)
    inputs = np.concatenate([chunk.inputs for chunk in _read(lanes, 3)], axis=1)
    total = sum(len(sentence) + 1 for sentence in SENTENCES)
    assert inputs[0].size + lanes.n_dropped == total


def test_blocks_keep_consecutive_sentences_in_one_lane():
    lanes = SentenceLanes(_numbered(WordTable()), 2, block_sentences=2)
    chunk = lanes.next_chunk(5)
    assert chunk.begins.sum() == 2 and chunk.begins[0].all()


def test_word_table_spells_each_word_once_and_grows():
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "w7"])
    table = WordTable(vocabulary, max_characters=20)
    numbers = table.numbers_of([f"w{i}" for i in range(3000)])
    assert len(table) == 3002 and table.numbers_of(["w7"])[0] == numbers[7]
    assert table.targets(numbers[[7, 8]]).tolist() == [3, 2]
    assert table.lengths(numbers[[7, 100]]).tolist() == [4, 6]
    assert table.characters(numbers[:2]).shape == (2, 20)
    more = table.numbers_of([f"v{i}" for i in range(3000)])
    assert table.targets(numbers[[7]]).tolist() == [3] and table.lengths(more[:1]).tolist() == [4]
