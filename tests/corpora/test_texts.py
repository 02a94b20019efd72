"""Tokens and sentences of texts, and whether a text is tokenized."""

import pytest
import spacy
from corpora.reading import read
from typer.testing import CliRunner

from spacy_elmo.cli._app import app
from spacy_elmo.corpora.lines import Counts
from spacy_elmo.corpora.records import read_records
from spacy_elmo.corpora.shards import find_shards
from spacy_elmo.corpora.sources import make_source
from spacy_elmo.corpora.texts import PunctuationCheck, SentenceCutter, find_word, make_nlp, make_splitter, to_doc
from spacy_elmo.explorer.reading import TextSplitter


def test_language_tokenizes_raw_text(tmp_path):
    path = tmp_path / "raw.txt"
    path.write_bytes(b"She didn't  sit.\n\n  \nIt\xff was.")
    sentences, counts = read(path, lang="en")
    assert sentences == [["She", "did", "n't", "sit", "."], ["It", "\ufffd", "was", "."]]
    assert counts == Counts(n_empty=2, n_undecodable=1)
    with pytest.raises(ValueError, match="'qq'"):
        find_shards(path, lang="qq")


def test_all_commands_split_at_the_same_spaces(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("a\tb\u00a0c\u3000d\u2028e\x85f  g\u200bh\r\n", encoding="utf8")
    words = ["a", "b", "c", "d", "e", "f", "g\u200bh"]
    assert read(path)[0] == read(path, running_text=True)[0] == [words]
    (record,) = read_records(make_source(path), spacy.blank("xx"), Counts(), is_tokenized=True)
    assert record.item == words
    for command in ("embed", "vocab", "perplexity"):
        assert "any Unicode white space" in " ".join(CliRunner().invoke(app, [command, "--help"]).output.split())


RUNNING = "She sat on the bank. It was late!\nNobody came."


def test_running_text_is_cut_into_sentences(tmp_path):
    path = tmp_path / "raw.txt"
    path.write_text(RUNNING, encoding="utf8")
    assert list(map(len, read(path, lang="en", running_text=True)[0])) == [6, 4, 3]
    path.write_text('" she sat . " it was late !\nnobody came', encoding="utf8")
    assert list(map(len, read(path, running_text=True)[0])) == [5, 4, 2]


LINE = "=" * 700


@pytest.mark.parametrize(
    "read",
    [
        lambda text: [token.text for token in to_doc(text, make_nlp("en"))],
        lambda text: SentenceCutter("en").cut(text)[0],
        lambda text: find_word(make_splitter("en"), text, LINE)[0],
        lambda text: [token.text for token in TextSplitter("en").read(text)],
    ],
    ids=["embed", "corpora", "words", "explorer"],
)
def test_a_long_run_of_signs_is_one_token(read):
    words = ["It", "'s", "(", "a", ")", LINE, "(", "b", ")", ",", "too", "."]
    assert read(f"It's (a) {LINE} (b), too.") == words


@pytest.mark.parametrize("text", [f"a{LINE}", f"{LINE}  b\n{LINE}\n", f"\n {LINE} {LINE}", f"{LINE} "])
def test_tokens_of_long_runs_join_to_the_text(text):
    assert to_doc(text, make_nlp("en")).text == text
    assert len(to_doc("\u6c49" * 700, spacy.blank("zh"))) == 700  # its tokenizer needs no white space


def test_texts_longer_than_spacy_likes_areread():
    assert SentenceCutter("en").cut(" " * 1_000_001 + "x") == [["x"]]


@pytest.mark.parametrize(
    "text, is_raw",
    [
        ('He said "quoted". She sat, too.', True),
        ('He said " quoted " . She sat , too .', False),
        ("Das Haus, das er sah, war alt.", True),
        ("Das Haus , das er sah , war alt .", False),
        ("我们坐在河边。 天气很好！", True),
        ("我们 坐 在 河 边 。 天气 很 好 ！", False),
        ("the dogs' bowls and well-known things - ... --", False),
        ("", False),
    ],
)
def test_raw_text_is_told_from_tokens(text, is_raw):
    check = PunctuationCheck()
    assert list(check.watch([text.split()])) == [text.split()]
    assert ("WL103" in (check.warning(["a.txt"]) or "")) == is_raw
