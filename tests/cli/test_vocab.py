"""`elmo vocab`: from a text to a vocabulary."""

import gzip
import os

import pytest
from typer.testing import CliRunner

from spacy_elmo.cli._app import app
from spacy_elmo.text.vocabulary import Vocabulary


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "corpus" / "text.txt"
    path.parent.mkdir()
    path.write_text("b a b c <UNK> ß\n\n" * 5 + "c d .", encoding="utf8")
    return path


def _run(*arguments, **settings):
    return CliRunner().invoke(app, ["vocab", *(str(argument) for argument in arguments)], **settings)


def _words(path):
    return path.read_text(encoding="utf8").split("\n")


def test_vocab_is_sorted_and_reports(text, tmp_path):
    output = tmp_path / "new" / "vocab.txt"
    result = _run(text, output, "--n-words", 4)
    assert result.exit_code == 0, result.output
    assert _words(output) == ["<S>", "</S>", "<UNK>", "b", "c", "a", "ß", ""]
    with output.open(encoding="utf8") as lines:
        assert len(Vocabulary.from_lines(lines)) == 7
    told = " ".join(result.output.split())
    for part in ("33 tokens in 6 sentences", "5 empty", "Kept 4 of 6 distinct words", "21.21%", "7 words"):
        assert part in told
    assert [path.name for path in output.parent.iterdir()] == ["vocab.txt"]


def test_several_places_and_little_memory_give_the_same(text, tmp_path):
    more = tmp_path / "corpus" / "more.txt.gz"
    more.write_bytes(gzip.compress("e é\n".encode()))
    assert _run(text, more, tmp_path / "a.txt", "--min-count", 1).exit_code == 0
    assert _run(text.parent, tmp_path / "b.txt", "-n", 0, "-m", 1, "--max-entries", 2).exit_code == 0
    assert _words(tmp_path / "a.txt") == _words(tmp_path / "b.txt")
    assert "é" in _words(tmp_path / "a.txt")
    assert _run(text, tmp_path / "c.txt", "--min-count", 5).exit_code == 0
    assert _words(tmp_path / "c.txt")[3:-1] == ["b", "c", "a", "ß"]


def test_raw_text_is_tokenized_and_stdin_is_read(tmp_path):
    output = tmp_path / "vocab.txt"
    result = _run("-", output, "--lang", "en", "--running-text", "--min-count", 1, input="It's late. It's cold.")
    assert result.exit_code == 0, result.output
    assert "8 tokens in 2 sentences" in " ".join(result.output.split())
    assert _words(output)[3:] == ["'s", ".", "It", "cold", "late", ""]


def test_vocab_is_replaced_by_force_only(text, tmp_path):
    output = tmp_path / "vocab.txt"
    output.write_text("mine")
    result = _run(text, output)
    assert result.exit_code == 1 and "--force" in result.output and output.read_text() == "mine"
    assert _run(text, output, "--force").exit_code == 0
    assert _words(output)[0] == "<S>"


def test_what_is_no_file_is_never_replaced(text, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    result = _run(text, pipe, "--force")
    assert result.exit_code == 1 and "not a regular file" in " ".join(result.output.split()) and pipe.is_fifo()
    result = _run(text, text / "below" / "vocab.txt")
    assert result.exit_code == 1 and "EL178" in " ".join(result.output.split())


def test_files_that_are_not_read_are_reported(text, tmp_path):
    (text.parent / "text.en").write_text("x\n")
    result = _run(text.parent, text, tmp_path / "vocab.txt")
    told = " ".join(result.stderr.split())
    assert result.exit_code == 0 and "text.en" in told and "named more than once" in told
    assert "33 tokens in 6 sentences" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    "content, options, message",
    [
        (b"\n \n", [], "EL101"),
        (b"a", ["--lang", "qq"], "There is no tokenizer"),
        (b"a", ["--format", "docbin"], "cannot be read as a DocBin"),
        (None, [], "There are no texts"),
    ],
)
def test_mistakes_leave_nothing_behind(tmp_path, content, options, message):
    (tmp_path / "in").mkdir()
    if content is not None:
        (tmp_path / "in" / "text.txt").write_bytes(content)
    result = _run(tmp_path / "in", tmp_path / "vocab.txt", *options)
    assert result.exit_code == 1 and message in " ".join(result.output.split())
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.issue(15)
def test_vocab_leaves_something_for_unk(text, tmp_path):
    result = _run(text, tmp_path / "a.txt")
    assert result.exit_code == 0 and "." not in _words(tmp_path / "a.txt") and "WL102" not in result.stderr
    text.write_text("a b\n", encoding="utf8")
    assert "WL102" in _run(text, tmp_path / "b.txt", "--min-count", 1).stderr


@pytest.mark.issue(15)
def test_raw_text_that_is_given_as_tokenized_is_told(text, tmp_path):
    text.write_text('He said "quoted". She sat, too.\n' * 3, encoding="utf8")
    result = _run(text, tmp_path / "a.txt")
    assert result.exit_code == 0 and "WL103" in result.stderr and "--lang en" in " ".join(result.stderr.split())
    assert "WL103" not in _run(text, tmp_path / "b.txt", "--lang", "en").stderr
    text.write_text('He said " quoted " . Mr. Smith sat , too , on the two chairs and all of the tables there .\n' * 3)
    assert "WL103" not in _run(text, tmp_path / "c.txt").stderr
