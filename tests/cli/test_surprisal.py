"""`elmo surprisal` and `elmo substitutes`: results, the page, and mistakes."""

import re

import pytest
from cli.calls import call, call_json, refused
from page_texts import check_texts

from spacy_elmo import BiLM, save_bilm
from spacy_elmo.cli import surprisal

TEXT = "She sat on the bank <script>alert(1)</script> of the river."
HOSTILE = '"><img src=x onerror=alert(1)> & \u202e\U0001f30a </span>'


def test_surprisal_has_a_row_per_token():
    shown = call("surprisal", "en_elmo_sm", TEXT).stdout
    assert "river" in shown and "forward" in shown
    records = call_json("surprisal", "en_elmo_sm", TEXT)["tokens"]
    assert [record["token"] for record in records][:5] == ["She", "sat", "on", "the", "bank"]
    assert all(record["mean"] == pytest.approx((record["forward"] + record["backward"]) / 2) for record in records)


@pytest.mark.issue(59)
@pytest.mark.parametrize("text, n_columns", [("She sat.", 4), ("The Jabberwocky sat.", 5)])
def test_every_column_has_a_name(text, n_columns):
    """A last column without one, and a dash below it, held <UNK>."""
    header, dashes = call("surprisal", "en_elmo_sm", text).stdout.strip().splitlines()[:2]
    assert len(header.split()) == len(dashes.split()) == n_columns and ("note" in header) == (n_columns == 5)


@pytest.mark.issue(59)
def test_picture_is_interrupted_where_the_sentences_of_the_text_end(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(surprisal, "draw_surprisal", lambda *_, starts, **__: drawn.append(starts))
    call("surprisal", "en_elmo_sm", "He sat.  \n She left. They met.", "--picture", tmp_path / "a.png")
    assert drawn == [[3, 6]]


@pytest.mark.issue(48)
def test_name_of_a_file_instead_of_a_text_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("She sat.", encoding="utf8")
    assert "the name of a file" in call("surprisal", "en_elmo_sm", "notes.txt").stderr
    assert not call("surprisal", "en_elmo_sm", "She sat.").stderr


@pytest.mark.issue(40)
def test_picture_and_page_take_a_title(tmp_path):
    pytest.importorskip("matplotlib")
    files = ("--picture", tmp_path / "a.pdf", "--html", tmp_path / "a.html")
    look = ("--title", "Ufer <1>", "--size", "12x12", "--label", "forward=vorwärts")
    call("surprisal", "en_elmo_sm", f"{TEXT} {TEXT} {TEXT} $x_{{$", *files, *look)
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    assert "Ufer &lt;1&gt;" in (tmp_path / "a.html").read_text(encoding="utf8")
    assert "EL134" in refused("surprisal", "en_elmo_sm", TEXT, *files)


@pytest.mark.issue(48)
@pytest.mark.parametrize("meta, name", [({"name": "fi_elmo"}, "fi_elmo"), ({}, "model-best")])
def test_title_is_the_name_of_the_bilm(meta, name, bilm, tmp_path):
    bilm = BiLM(bilm.network, vocabulary=bilm.vocabulary, head=bilm.head, meta=meta)
    save_bilm(bilm, tmp_path / "model-best")
    page = tmp_path / "page.html"
    call("surprisal", tmp_path / "model-best", "the cat", "--html", page)
    check_texts(page.read_text(encoding="utf8"), f"<h1>Surprisal by {name}</h1>")
    call("surprisal", tmp_path / "model-best", "the cat", "--html", page, "--title", "", "--force")
    content = page.read_text(encoding="utf8")
    check_texts(content, "<title>Surprisal</title>", without=["<h1>"])


@pytest.mark.issue(18)
def test_page_escapes_the_text_and_is_read_without_a_mouse(tmp_path):
    page = tmp_path / "out" / "page.html"
    text = f"The Jabberwocky sat. {HOSTILE} {TEXT} {'x' * 1000}"
    call("surprisal", "en_elmo_sm", text, "--html", page)
    content = page.read_text(encoding="utf8")
    check_texts(content, "\ufffd", "default-src 'none'", without=["<script", "<img", "://", "\u202e"])
    check_texts(content, "overflow-wrap: anywhere", "min-width: 7em")  # long words; a phone
    check_texts(content, "Dotted: outside the vocabulary, predicted as &lt;UNK&gt;")
    marked, _, table = content.partition("<details>")
    focusable = re.findall(
        r'title="([0-9.]+) bits \(forward ([0-9.]+), backward ([0-9.]+)\)" tabindex="0">The<', marked
    )
    numbers = re.findall(r"<tr><td>The</td><td>([0-9.]+)</td><td>([0-9.]+)</td><td>([0-9.]+)</td><td></td></tr>", table)
    assert [(forward, backward, mean) for mean, forward, backward in focusable] == numbers and len(numbers) == 1
    assert marked.count(" tabindex=") == table.count("<tr>") - 1
    assert re.search("<td>Jabberwocky</td>.*?<td>&lt;UNK&gt;</td>", table)
    assert "--force" in refused("surprisal", "en_elmo_sm", TEXT, "--html", page)
    call("surprisal", "en_elmo_sm", TEXT, "--html", page, "--force")


def test_substitutes_are_words_of_the_place():
    shown = call("substitutes", "en_elmo_sm", "He sat on the bank of the river.", "--word", "bank", "--k", 20).stdout
    assert "edge" in shown
    record = call_json("substitutes", "en_elmo_sm", "The end. The bank of the river.", "-w", "The", "-n", 2)
    assert record["position"] == 0 and record["sentence"][1] == "bank" and len(record["substitutes"]) == 10
