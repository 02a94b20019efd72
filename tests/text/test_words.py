"""Words, their ids, and the ids of their characters."""

import pytest

from spacy_elmo.text.words import Vocabulary, word_characters

MARKS = ["<S>", "</S>", "<UNK>"]
BOW, EOW = 259, 260


def test_ids_follow_the_order_and_unknown_words_are_unk():
    vocabulary = Vocabulary.from_lines(line + "\n" for line in [*MARKS, "the", "cat"])
    assert vocabulary.ids(["cat", "dog", "<S>"]).tolist() == [4, 2, 0]
    assert (vocabulary.bos_id, vocabulary.eos_id, vocabulary.unk_id) == (0, 1, 2)
    assert "cat" in vocabulary and "dog" not in vocabulary and len(vocabulary) == 5


def test_a_word_that_is_there_twice_has_the_later_id():
    vocabulary = Vocabulary([*MARKS, "the", "cat", "the", "<UNK>"])
    assert vocabulary.ids(["the", "cat", "dog"]).tolist() == [5, 4, 6] and len(vocabulary) == 7


@pytest.mark.parametrize("words", [["<S>", "</S>", "the"], []])
def test_unusable_vocabulary_is_an_error(words):
    with pytest.raises(ValueError, match="missing special words"):
        Vocabulary(words)


def test_words_keep_their_form_but_for_the_first_byte_order_mark():
    lines = ["\ufeff<S>\n", "</S>\n", "<UNK>\n", "\ufeffx\n", "a b\n", "c\u2028d\r\n"]
    assert Vocabulary.from_lines(lines).words == [*MARKS, "\ufeffx", "a b", "c\u2028d"]


@pytest.mark.parametrize("max_characters", [6, 20, 50])
def test_long_word_keeps_its_first_bytes(max_characters):
    ids = word_characters("x" * 10_000, max_characters)
    assert ids == [BOW, *[ord("x") + 1] * (max_characters - 2), EOW]


@pytest.mark.parametrize("word", ["\ud800", "\udfff\ud800"])
def test_lone_surrogates_are_removed(word):
    assert word_characters(word) == [BOW, EOW]


@pytest.mark.parametrize("word", ["😀", "e\u0301", "\u200b", "\u200d", "مرحبا", "我们", ""])
def test_bytes_round_trip(word):
    ids = word_characters(word)
    assert bytes(i - 1 for i in ids[1:-1]).decode("utf8") == word
