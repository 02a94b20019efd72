"""`elmo vocab`: from a text to a vocabulary."""

import gzip
import os

import pytest
from cli.calls import call, refused, told

from spacy_elmo.text.words import Vocabulary


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "corpus" / "text.txt"
    path.parent.mkdir()
    path.write_text("b a b c <UNK> ß\n\n" * 5 + "c d .", encoding="utf8")
    return path


def _words(path):
    return path.read_text(encoding="utf8").split("\n")


def test_vocabulary_is_sorted_and_reported(text, tmp_path):
    output = tmp_path / "new" / "vocab.txt"
    shown = told("vocab", text, output, "--n-words", 4)
    for part in ("33 tokens in 6 sentences", "5 empty", "Kept 4 of 6 distinct words", "21.21%", "7 words"):
        assert part in shown
    assert _words(output) == ["<S>", "</S>", "<UNK>", "b", "c", "a", "ß", ""]
    with output.open(encoding="utf8") as lines:
        assert len(Vocabulary.from_lines(lines)) == 7
    assert [path.name for path in output.parent.iterdir()] == ["vocab.txt"]


def test_several_places_and_little_memory_give_the_same(text, tmp_path):
    more = tmp_path / "corpus" / "more.txt.gz"
    more.write_bytes(gzip.compress("e é\n".encode()))
    call("vocab", text, more, tmp_path / "a.txt", "--min-count", 1)
    call("vocab", text.parent, tmp_path / "b.txt", "-n", 0, "-m", 1, "--max-entries", 2)
    assert _words(tmp_path / "a.txt") == _words(tmp_path / "b.txt") and "é" in _words(tmp_path / "a.txt")
    call("vocab", text, tmp_path / "c.txt", "--min-count", 5)
    assert _words(tmp_path / "c.txt")[3:-1] == ["b", "c", "a", "ß"]
    options = ("--lang", "en", "--running-text", "--min-count", 1)  # raw text from stdin
    shown = told("vocab", "-", tmp_path / "d.txt", *options, input="It's late. It's cold.")
    assert "8 tokens in 2 sentences" in shown and _words(tmp_path / "d.txt")[3:] == [
        "'s",
        ".",
        "It",
        "cold",
        "late",
        "",
    ]


def test_outputs_are_replaced_by_force_only(text, tmp_path):
    output, pipe = tmp_path / "vocab.txt", tmp_path / "pipe"
    output.write_text("mine")
    assert "--force" in refused("vocab", text, output) and output.read_text() == "mine"
    call("vocab", text, output, "--force")
    assert _words(output)[0] == "<S>"
    os.mkfifo(pipe)
    assert "not a regular file" in refused("vocab", text, pipe, "--force") and pipe.is_fifo()
    assert "cannot be a folder" in refused("vocab", text, text / "below" / "vocab.txt")


@pytest.mark.issue(15)
def test_peculiar_texts_are_warned_of(text, tmp_path):
    assert "WL102" not in told("vocab", text, tmp_path / "a.txt") and "." not in _words(tmp_path / "a.txt")
    text.write_text("a b\n", encoding="utf8")
    assert "WL102" in told("vocab", text, tmp_path / "b.txt", "--min-count", 1), "nothing is left for <UNK>"
    text.write_text('He said "quoted". She sat, too.\n' * 3, encoding="utf8")
    shown = told("vocab", text, tmp_path / "c.txt")
    assert "WL103" in shown and "--lang en" in shown
    assert "WL103" not in told("vocab", text, tmp_path / "d.txt", "--lang", "en")
    text.write_text('He said " quoted " . Mr. Smith sat , too , on the two chairs and all of the tables there .\n' * 3)
    assert "WL103" not in told("vocab", text, tmp_path / "e.txt")
