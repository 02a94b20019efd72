"""Character ids of words, BOS and EOS."""

import pytest

from spacy_elmo.text.words import character_ids, word_characters

BOW, EOW, PAD = 259, 260, 261


def test_word_is_its_bytes_between_boundary_ids_then_padding():
    row = character_ids(["aé"])[0]
    assert row[:5].tolist() == [BOW, ord("a") + 1, 0xC3 + 1, 0xA9 + 1, EOW]
    assert set(row[5:].tolist()) == {PAD} and len(row) == 50


def test_bos_and_eos_are_one_character_each():
    rows = character_ids(["<S>", "</S>"])
    assert rows[:, :4].tolist() == [[BOW, 257, EOW, PAD], [BOW, 258, EOW, PAD]]


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
