"""First texts of the page, sentences and windows of a text, and the part of a long word that is read."""

import numpy as np
import pytest

from spacy_elmo.explorer.reading import (
    TextSplitter,
    cut_word,
    embed_doc,
    find_contexts,
    find_examples,
    find_place,
    read_examples,
)

TEXT = "He sat on  the bank. The river!"


@pytest.fixture(scope="module")
def splitter():
    return TextSplitter()


@pytest.mark.issue(40)
@pytest.mark.parametrize("lang", sorted(set(read_examples()) - {"ja"}))  # whose tokenizer is a package of its own
def test_first_texts_have_the_word_in_two_contexts(lang):
    texts, splitter = find_examples(f"{lang}-XY"), TextSplitter(lang)
    assert lang == "en" or texts.a != find_examples("en").a
    a, b, odd = ([token.text.lower() for token in splitter.read(text)] for text in texts[:3])
    key = texts.word.lower()
    assert key in a and key in b and a != b
    assert key not in odd and set(odd) & set(a)


def test_other_languages_have_english_first_texts():
    assert find_examples("xx") == find_examples("is") == find_examples("en") and "bank" in find_examples("xx").a


def test_contexts_are_sentences_and_windows(splitter):
    doc = splitter.read(TEXT)
    contexts = [context.words for context in find_contexts(doc)]
    assert contexts == [["He", "sat", "on", "the", "bank", "."], ["The", "river", "!"]]
    context, position = find_place(doc, 5)
    assert (context.words[position], position) == ("bank", 4)
    windows = find_contexts(splitter.read("bank " * 1000))
    read = [window.tokens[slice(*window.keep)] for window in windows]
    assert len(windows) == 3 and sum(read, []) == list(range(1000))
    assert all(len(window.tokens) == 512 for window in windows)
    assert find_contexts(splitter.read("")) == []


def test_vectors_are_those_of_the_sentences(splitter, tiny):
    expected = np.concatenate(tiny.embed([["He", "sat", "on", "the", "bank", "."], ["The", "river", "!"]]), axis=1)
    np.testing.assert_allclose(embed_doc(tiny, splitter.read(TEXT)), expected, atol=1e-6)
    assert embed_doc(tiny, splitter.read("")).shape == (3, 0, 16)


@pytest.mark.parametrize(
    "word, read", [("a" * 48, None), ("a" * 49, "a" * 48), ("a" * 10_000, "a" * 48), ("\u00e4" * 30, "\u00e4" * 24)]
)
def test_a_long_word_is_cut_where_the_bilm_cuts_it(tiny, word, read):
    assert cut_word(tiny, word) == read
