"""The order of the text, its position, and the arrays of updates."""

import random
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from list_shard import ListShard

from spacy_elmo.bilm.config import BiLMConfig, CharCNNConfig, TransformerConfig
from spacy_elmo.corpora.lines import Counts
from spacy_elmo.pretraining.data import LaneReader, order_blocks, read_held_out
from spacy_elmo.pretraining.run_config import PretrainConfig
from spacy_elmo.pretraining.stored_text import store_text
from spacy_elmo.text.words import Vocabulary

SIZES = st.lists(st.integers(0, 9), min_size=1, max_size=4).filter(any)


@settings(max_examples=60, deadline=None)
@given(n_sentences=SIZES, block_sentences=st.integers(1, 4), shuffle_blocks=st.integers(0, 5))
def test_a_pass_has_every_sentence_once(n_sentences, block_sentences, shuffle_blocks):
    blocks = order_blocks(n_sentences, block_sentences=block_sentences, seed=1, shuffle_blocks=shuffle_blocks)
    n_blocks = sum(-(-n // block_sentences) for n in n_sentences)
    passes = [list(islice(blocks, n_blocks)) for _ in range(4)]
    for read in passes:
        assert sorted(i for first, stop in read for i in range(first, stop)) == list(range(sum(n_sentences)))
    if not shuffle_blocks:
        assert all(read == sorted(read) for read in passes)


def test_blocks_end_with_their_file_and_are_drawn_from_a_buffer():
    def order(shuffle_blocks, seed=3):
        blocks = order_blocks([7, 0, 400], block_sentences=3, seed=seed, shuffle_blocks=shuffle_blocks)
        return list(islice(blocks, 3 + 134))

    in_order, shuffled = order(0), order(9)
    assert in_order[:4] == [(0, 3), (3, 6), (6, 7), (7, 10)] and in_order[-1] == (406, 407)
    assert shuffled == order(9) != order(9, seed=4) and sorted(shuffled) == in_order
    starts = in_order if shuffled[0][0] < 7 else [*in_order[3:], *in_order[:3]]  # files are shuffled, too
    early = [starts.index(block) - place for place, block in enumerate(shuffled)]
    assert 5 < max(early) < 9  # positions before its own


def _config(**changes):
    return PretrainConfig(
        **{"batch_size": 3, "unroll_steps": 9, "block_sentences": 3, "max_sentence_tokens": 8, **changes}
    )


@pytest.fixture
def text(tmp_path):
    """A text of 60 sentences in two files, some of them empty or split."""
    draw = random.Random(0)
    sentences = [[f"w{draw.randrange(30)}" for _ in range(draw.randrange(14))] for _ in range(60)]
    shards = [ListShard("a", sentences[:25]), ListShard("b", sentences[25:])]
    return store_text(shards, tmp_path / "text", max_sentence_tokens=8)


ENCODERS = {
    "lstm": BiLMConfig(char_cnn=CharCNNConfig()),
    "transformer": BiLMConfig(char_cnn=CharCNNConfig(), encoder="transformer", transformer=TransformerConfig()),
}


@pytest.mark.parametrize("n_updates", [0, 1, 30, 77])
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("shuffle_blocks", [0, 4])
def test_the_position_is_the_number_of_updates(text, encoder, n_updates, shuffle_blocks):
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "w1", "w2"])
    arguments = (text, vocabulary, ENCODERS[encoder], _config(accumulate=2, shuffle_blocks=shuffle_blocks))
    whole, reader = LaneReader(*arguments, slice(0, 3)), LaneReader(*arguments, slice(0, 3))
    whole.seek(0)
    for _ in range(n_updates):
        batch = whole.read()
    position = reader.seek(n_updates)
    assert not n_updates or position == batch._replace(chunks=[])
    for _ in range(3):
        one, other = reader.read(), whole.read()
        assert (one.counts, one.epoch) == (other.counts, other.epoch)
        for chunk, wanted in zip(one.chunks, other.chunks, strict=True):
            assert chunk.words.tolist() == wanted.words.tolist() and chunk.places.tolist() == wanted.places.tolist()
            assert chunk.targets.tolist() == wanted.targets.tolist() and chunk.lengths == wanted.lengths
    assert encoder == "transformer" or other.counts.n_tokens + other.counts.n_sentences >= 2 * 27 * (n_updates + 3)
    assert other.counts.n_long == text.counts.n_long > 0


@pytest.mark.parametrize("n_found, n_wanted", [(1199, 600), (601, 600), (1200, 600), (7, 3), (5, 1), (5, 5), (4, 9)])
def test_held_out_sentences_are_taken_evenly_from_the_whole_text(n_found, n_wanted):
    counts = Counts()
    found = read_held_out([ListShard("x", [[str(i)] for i in range(n_found)])], n_wanted, counts=counts)
    places = [int(words[0]) for words in found]
    assert len(places) == min(n_found, n_wanted) and counts.n_sentences == n_found
    gaps = [after - before for before, after in zip([*places, n_found], [*places[1:], n_found])][: len(places)]
    assert places[0] == 0 and max(gaps) - min(gaps) <= 1
