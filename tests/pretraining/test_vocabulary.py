"""Counting words in memory and in a temporary file; words of a biLM or a file."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_elmo.pretraining.vocabulary import SPECIAL, count_vocabulary

WORDS = st.one_of(
    st.text("abc", max_size=2), st.text(max_size=3), st.sampled_from([*SPECIAL, "\ud83d\ude00", "\ud83d"])
)


@settings(max_examples=100, deadline=None)
@given(
    sentences=st.lists(st.lists(WORDS, max_size=12), max_size=12),
    n_words=st.one_of(st.none(), st.integers(1, 12)),
    min_count=st.integers(1, 3),
    max_entries=st.integers(1, 12),
)
def test_runs_on_disk_change_nothing(sentences, n_words, min_count, max_entries):
    in_memory = count_vocabulary(sentences, n_words=n_words, min_count=min_count)
    out_of_core = count_vocabulary(sentences, n_words=n_words, min_count=min_count, max_entries=max_entries)
    assert out_of_core == in_memory
    counts = Counter(word for tokens in sentences for word in tokens)
    ranked = sorted(((-count, word) for word, count in counts.items() if word not in SPECIAL))
    kept = [(word, -count) for count, word in ranked if -count >= min_count][:n_words]
    assert list(zip(in_memory.words, in_memory.counts)) == kept
    assert in_memory.n_tokens == sum(counts.values()) and in_memory.n_types == len(ranked)
    assert in_memory.n_unknown == in_memory.n_tokens - sum(count for _, count in kept)


def test_temporary_files_are_removed_after_an_error(tmp_path):
    def sentences():
        yield from [[str(i)] for i in range(9)]
        assert list(tmp_path.rglob("*.sqlite"))
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        count_vocabulary(sentences(), max_entries=2, folder=tmp_path)
    assert not list(tmp_path.iterdir())
