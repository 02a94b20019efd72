"""Words and ids."""

import pytest

from spacy_elmo.text.words import Vocabulary

MARKS = ["<S>", "</S>", "<UNK>"]


def test_ids_follow_the_order_and_unknown_words_are_unk():
    vocabulary = Vocabulary.from_lines(line + "\n" for line in [*MARKS, "the", "cat"])
    assert vocabulary.ids(["cat", "dog", "<S>"]).tolist() == [4, 2, 0]
    assert (vocabulary.bos_id, vocabulary.eos_id, vocabulary.unk_id) == (0, 1, 2)
    assert "cat" in vocabulary and "dog" not in vocabulary and len(vocabulary) == 5


@pytest.mark.issue(37)
def test_a_word_that_is_there_twice_has_the_later_id():
    vocabulary = Vocabulary([*MARKS, "the", "cat", "the", "<UNK>"])
    assert vocabulary.ids(["the", "cat", "dog"]).tolist() == [5, 4, 6] and len(vocabulary) == 7


@pytest.mark.parametrize("words", [["<S>", "</S>", "the"], []])
def test_unusable_vocabulary_is_an_error(words):
    with pytest.raises(ValueError, match="missing special words"):
        Vocabulary(words)


def test_a_byte_order_mark_is_passed_over():
    assert Vocabulary.from_lines(["\ufeff<S>\n", "</S>\n", "<UNK>\n", "\ufeffx\n"]).words == [*MARKS, "\ufeffx"]


def test_words_with_spaces_and_line_separators_keep_their_form():
    assert Vocabulary.from_lines([*MARKS, "a b\n", "c\u2028d\r\n"]).words[3:] == ["a b", "c\u2028d"]
