"""Shards, and the stream of blocks over them."""

import gzip
import json
from itertools import chain, islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from list_shard import ListShard

from spacy_elmo.bilm.config import BiLMConfig, CharCNNConfig
from spacy_elmo.corpora.files import Counts
from spacy_elmo.corpora.shards import TextShard, read_shards
from spacy_elmo.pretraining import data
from spacy_elmo.pretraining.config import PretrainConfig
from spacy_elmo.pretraining.data import BlockStream, TextReader, read_held_out
from spacy_elmo.text.words import Vocabulary


def _sentences(n, prefix=""):
    return [[f"{prefix}{i}.{j}" for j in range(1 + i % 5)] for i in range(n)]


@pytest.fixture
def shards(tmp_path):
    """Three files, with an empty line here and there, one of them compressed, and one without any sentence."""
    found = []
    for name, n in (("a.txt", 13), ("b.txt.gz", 7), ("c.txt", 0), ("d.txt", 20)):
        lines = [" ".join(tokens) + "\n" * (1 + i % 2) for i, tokens in enumerate(_sentences(n, name[0]))]
        content = ("\n\n" + "\n".join(lines)).encode("utf8")
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        found.append(TextShard(tmp_path / name))
    return found


def _stream(shards, **changes):
    return BlockStream(shards, **{"block_sentences": 3, "seed": 1, **changes})


def test_a_pass_gives_every_sentence_once_and_in_order(shards):
    stream = _stream(shards, repeat=False)
    blocks = list(stream)
    wanted = [*_sentences(13, "a"), *_sentences(7, "b"), *_sentences(20, "d")]
    assert list(chain.from_iterable(blocks)) == wanted == list(read_shards(shards))
    assert [len(block) for block in blocks] == [3, 3, 3, 3, 1, 3, 3, 1, 3, 3, 3, 3, 3, 3, 2]
    assert stream.counts.n_sentences == 40 and stream.counts.n_tokens == sum(map(len, wanted))
    assert next(stream, None) is None and stream.epoch == 0


@pytest.mark.parametrize("shuffle", [{"shuffle_blocks": 4}, {"shuffle_shards": True}])
def test_shuffled_passes_differ_and_miss_nothing(shards, shuffle):
    stream = _stream(shards, **shuffle)
    in_order = list(_stream(shards, repeat=False))
    passes = []
    for epoch in range(4):
        passes.append(list(islice(stream, len(in_order))))
        assert stream.epoch == epoch
        assert sorted(passes[-1]) == sorted(in_order)
    assert len({str(blocks) for blocks in [in_order, *passes]}) >= 3
    assert passes[0] == list(_stream(shards, repeat=False, **shuffle))


def test_long_sentences_are_split():
    stream = _stream([ListShard("x", [list("abcdefg"), [], list("hi")])], max_sentence_tokens=3, repeat=False)
    assert list(stream) == [[list("abc"), list("def"), ["g"]], [list("hi")]]
    assert stream.counts == Counts(n_sentences=4, n_tokens=9, n_empty=1, n_long=1)


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(st.lists(st.lists(st.text("ab"), max_size=9), max_size=8), min_size=1, max_size=4),
    block_sentences=st.integers(1, 4),
    shuffle_blocks=st.integers(0, 5),
    shuffle_shards=st.booleans(),
    n_before=st.integers(0, 20),
)
def test_stream_continues_from_its_state_with_any_corpus(
    texts, block_sentences, shuffle_blocks, shuffle_shards, n_before
):
    shards = [ListShard(str(i), sentences) for i, sentences in enumerate([*texts, [["last"]]])]
    layout = {"shuffle_blocks": shuffle_blocks, "shuffle_shards": shuffle_shards, "max_sentence_tokens": 4}
    first = _stream(shards, block_sentences=block_sentences, **layout)
    for _ in range(n_before):
        next(first)
    second = _stream(shards, block_sentences=block_sentences, seed=7, **layout)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert list(islice(second, 15)) == list(islice(first, 15))
    assert second.counts == first.counts and second.epoch == first.epoch


@pytest.mark.issue(41)
def test_text_of_updates_depends_neither_on_forgotten_words_nor_on_resuming(shards, monkeypatch):
    settings = {"batch_size": 3, "unroll_steps": 5, "block_sentences": 3, "shuffle_blocks": 4}
    vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "a1.0", "b3.1"])

    def make_reader():
        stream = _stream(shards, shuffle_blocks=4)
        return TextReader(
            stream, vocabulary, BiLMConfig(char_cnn=CharCNNConfig()), PretrainConfig(**settings), slice(3)
        )

    def read(reader):
        chunk = reader.read().chunks[0]
        return [chunk.words.tolist(), chunk.lengths, chunk.places.tolist(), chunk.targets.tolist()]

    plain = make_reader()
    wanted = [read(plain) for _ in range(40)]
    monkeypatch.setattr(data, "MAX_WORDS", 8)
    forgetful = make_reader()
    for number in range(40):
        if number % 7 == 3:
            arrays, record = forgetful.state_dict()
            forgetful = make_reader()
            forgetful.load_state_dict(arrays, json.loads(json.dumps(record)))
        assert read(forgetful) == wanted[number]
    assert len(forgetful.table) < len(plain.table)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"block_sentences": 4}, "block_sentences: 3 then, 4 now"),
        ({"shuffle_blocks": 2}, "shuffle_blocks: 0 then, 2 now"),
        ({"shards": []}, "shards: .*a.txt.* then, "),
    ],
)
def test_state_of_another_corpus_is_refused(shards, change, message):
    state = _stream(shards).state_dict()
    other = _stream(**{"shards": shards, **change})
    with pytest.raises(ValueError, match=message):
        other.load_state_dict(state)


def test_a_shorter_file_is_noticed_on_resuming(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("a\n" * 10)
    stream = _stream([TextShard(path)])
    list(islice(stream, 3))
    path.write_text("a\n" * 5)
    again = _stream([TextShard(path)])
    again.load_state_dict(stream.state_dict())
    with pytest.raises(ValueError, match="'text.txt' .*record 9"):
        next(again)


@pytest.mark.parametrize("repeat", [True, False])
def test_a_corpus_without_sentences_is_an_error(tmp_path, repeat):
    (tmp_path / "empty.txt").write_text("\n \n")
    with pytest.raises(ValueError, match="EL101.*empty.txt, x"):
        next(_stream([TextShard(tmp_path / "empty.txt"), ListShard("x", [])], repeat=repeat))
    with pytest.raises(ValueError, match="EL101"):
        next(_stream([], repeat=repeat))


@pytest.mark.parametrize("n_found, n_wanted", [(1199, 600), (601, 600), (1200, 600), (7, 3), (5, 1), (5, 5), (4, 9)])
def test_held_out_sentences_are_taken_evenly_from_the_whole_text(n_found, n_wanted):
    counts = Counts()
    found = read_held_out([ListShard("x", [[str(i)] for i in range(n_found)])], n_wanted, counts=counts)
    places = [int(words[0]) for words in found]
    assert len(places) == min(n_found, n_wanted) and counts.n_sentences == n_found
    gaps = [after - before for before, after in zip([*places, n_found], [*places[1:], n_found])][: len(places)]
    assert places[0] == 0 and max(gaps) - min(gaps) <= 1
