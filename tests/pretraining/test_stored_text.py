"""The training text on disk."""

import errno
import gzip
import os
import signal
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from list_shard import ListShard
from pretraining.small_run import environment

from spacy_elmo.corpora.lines import Counts
from spacy_elmo.corpora.shards import find_shards
from spacy_elmo.pretraining import stored_text
from spacy_elmo.pretraining.stored_text import hash_source, open_text, store_text
from spacy_elmo.text.words import Vocabulary, character_ids

SENTENCES = [["the", "cat"], [], ["<S>", "</S>", "<UNK>", "x" * 70, "\u00e9" * 30, "\u2028", "the"], ["a"] * 7]
SPLIT = [["the", "cat"], [*SENTENCES[2][:5]], [*SENTENCES[2][5:]], ["a"] * 5, ["a"] * 2]


def _sentences(stored):
    """RETURNS (List[List[str]]): The text again, from its numbers."""
    words, offsets = list(stored.words()), stored.text.offsets
    return [[words[n] for n in stored.text.numbers[i:j]] for i, j in zip(offsets, offsets[1:])]


@pytest.mark.parametrize("max_words", [5_000_000, 3], ids=["one table", "several tables"])
def test_a_text_is_stored_and_read_back(tmp_path, monkeypatch, max_words):
    monkeypatch.setattr(stored_text, "MAX_KNOWN_WORDS", max_words)
    monkeypatch.setattr(stored_text, "TOKENS_AT_ONCE", 4)
    shards = [ListShard("a", SENTENCES[:2]), ListShard("b", SENTENCES[2:])]
    made = store_text(shards, tmp_path / "text", max_sentence_tokens=5)
    monkeypatch.setattr(stored_text, "TOKENS_AT_ONCE", 5)
    assert store_text(shards, tmp_path / "other", max_sentence_tokens=5).sha256 == made.sha256
    assert store_text(shards, tmp_path / "other", max_sentence_tokens=6).sha256 != made.sha256
    for stored in (made, open_text(tmp_path / "text")):
        assert _sentences(stored) == SPLIT
        assert stored.counts == Counts(n_sentences=5, n_tokens=16, n_empty=1, n_long=2)
        assert stored.n_predictions == 21 and [source["n_sentences"] for source in stored.sources] == [1, 4]
        counts = Counter()
        for occurrences in stored.counted_words():
            counts.update(occurrences)
        assert +counts == Counter(word for words in SPLIT for word in words)
        vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "the", "a"])
        spelled, words = stored.spelled(vocabulary, 50), list(stored.words())
        numbers = np.unique(stored.text.numbers)
        rows = character_ids([words[number] for number in numbers])
        assert (spelled.characters(numbers) == rows).all()
        assert (spelled.lengths(numbers) == (rows != 261).sum(axis=1)).all()
        assert (spelled.targets(numbers) == vocabulary.ids(words[number] for number in numbers)).all()


@pytest.mark.parametrize("name", ["numbers.bin", "sentences.bin", "words.bin", "spelling.bin", "counts.bin"])
def test_an_incomplete_text_is_none(tmp_path, name):
    store_text([ListShard("a", SENTENCES)], tmp_path / "text", max_sentence_tokens=5)
    path = tmp_path / "text" / name
    path.write_bytes(path.read_bytes()[:-1])
    assert open_text(tmp_path / "text") is None
    path.unlink()
    assert open_text(tmp_path / "text") is None


def test_another_text_and_other_settings_are_noticed(tmp_path):
    path = tmp_path / "a.txt"

    def source_of(content, changed_ns, **settings):
        path.write_text(content)
        os.utime(path, ns=(0, changed_ns))
        return hash_source(find_shards(path), settings)

    first = source_of("the cat\n", 7, lang="en")
    store_text(find_shards(path), tmp_path / "text", max_sentence_tokens=5, source=first)
    for changes in (("the cats\n", 7, "en"), ("the mat\n", 8, "en"), ("the cat\n", 7, "de")):
        assert open_text(tmp_path / "text", source_of(*changes[:2], lang=changes[2])) is None
    assert open_text(tmp_path / "text", source_of("the cat\n", 7, lang="en")) is not None


def test_a_text_without_sentences_or_a_damaged_file_leaves_nothing(tmp_path):
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(os.urandom(1000).hex().encode())[:-500])
    with pytest.raises(ValueError, match="EL108"):
        store_text(find_shards(tmp_path / "cut.txt.gz"), tmp_path / "text", max_sentence_tokens=5)
    (tmp_path / "cut.txt.gz").unlink()
    (tmp_path / "empty.txt").write_text("\n \n")
    shards = [*find_shards(tmp_path / "empty.txt"), ListShard("x", [])]
    with pytest.raises(ValueError, match="EL101.*empty.txt, x"):
        store_text(shards, tmp_path / "text", max_sentence_tokens=5)
    assert [path.name for path in tmp_path.iterdir()] == ["empty.txt"]


class _FullDisk(ListShard):
    def read_records(self, counts, *, skip=0):
        yield [["a"] * 9]
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_that_is_full_is_told_and_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="does not fit on the disk.*No space left.*paths.cache"):
        store_text([_FullDisk("a", [])], tmp_path / "text", max_sentence_tokens=5)
    assert not list(tmp_path.iterdir())


KILLED = """
import os, signal, sys
from pathlib import Path
from list_shard import ListShard
from spacy_elmo.pretraining import stored_text
stored_text.TOKENS_AT_ONCE, stored_text.REPORT_S = 4, 0.0
kill = lambda n_tokens: n_tokens > 900 and os.kill(os.getpid(), signal.SIGKILL)
stored_text.store_text([ListShard("a", [["a", "b"]] * 999)], Path(sys.argv[1]), max_sentence_tokens=5, report=kill)
"""


def test_a_process_that_is_killed_leaves_nothing_that_is_taken_for_a_text(tmp_path):
    path = os.pathsep.join([os.path.dirname(os.path.dirname(__file__)), environment()["PYTHONPATH"]])
    command = [sys.executable, "-c", KILLED, str(tmp_path / "text")]
    result = subprocess.run(command, env={**environment(), "PYTHONPATH": path}, capture_output=True, text=True)
    assert result.returncode == -signal.SIGKILL, result.stderr
    assert list(tmp_path.glob(".text.*.part")) and open_text(tmp_path / "text") is None
    store_text([ListShard("a", SENTENCES)], tmp_path / "text", max_sentence_tokens=5)
    assert [path.name for path in tmp_path.iterdir()] == ["text"]  # what was half written is removed
