"""Consoles and redirected outputs that are not UTF-8, for instance cp1252 on Windows: words are escaped."""

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from spacy_elmo.cli._app import app

TEXT = "l'affaire est tr\xe8s \u6f22\u5b57 ."
pytestmark = pytest.mark.issue(37)


def _run(charset, *args):
    result = CliRunner(charset=charset).invoke(app, [str(arg) for arg in args])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


COMMANDS = {
    "surprisal": ["surprisal", "BILM", TEXT],
    "inspect": ["inspect", "BILM"],
    "compare": ["compare", "BILM", "BILM", "CORPUS"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_words_are_escaped_where_they_cannot_be_encoded(name, french, tmp_path):
    (tmp_path / "corpus.txt").write_text(f"{TEXT}\n" * 4, encoding="utf8")
    places = {"BILM": french, "CORPUS": tmp_path / "corpus.txt"}
    call = [places.get(part, part) for part in COMMANDS[name]]
    shown = {charset: _run(charset, *call) for charset in ("utf8", "cp1252", "ascii")}
    for charset in ("cp1252", "ascii"):
        # Wide tables differ only in these characters, and where the escapes move columns.
        assert "Traceback" not in shown[charset] and len(shown[charset].splitlines()) == len(shown["utf8"].splitlines())
    if "\u6f22\u5b57" in shown["utf8"]:
        assert r"\u6f22\u5b57" in shown["cp1252"] and r"\u6f22\u5b57" in shown["ascii"]
    if "tr\xe8s" in shown["utf8"]:
        assert "tr\xe8s" in shown["cp1252"] and r"tr\xe8s" in shown["ascii"]


def test_stdin_is_utf8_and_json_is_the_same_on_every_console(french):
    arguments = ["surprisal", str(french), "-", "--json"]
    for charset, mark in (("utf8", b""), ("cp1252", b"\xef\xbb\xbf"), ("ascii", b"\xef\xbb\xbf")):
        result = CliRunner(charset=charset).invoke(app, arguments, input=mark + TEXT.encode("utf8"))
        assert result.exit_code == 0, result.output
        assert [token["token"] for token in json.loads(result.stdout)["tokens"]][-2] == "\u6f22\u5b57"
    latin = CliRunner().invoke(app, arguments, input="tr\xe8s".encode("latin1"))
    assert latin.exit_code == 1 and "not valid UTF-8" in latin.stderr


@pytest.mark.slow
def test_process_with_another_encoding_prints_the_table(french):
    shown = {}
    for encoding, command in (
        ("ascii", ["spacy", "elmo"]),
        ("cp1252", ["spacy_elmo"]),
        ("ascii:replace", ["spacy_elmo"]),
    ):
        call = [sys.executable, "-m", *command, "surprisal", str(french), TEXT]
        done = subprocess.run(call, capture_output=True, env={**os.environ, "PYTHONIOENCODING": encoding})
        assert done.returncode == 0, done.stderr
        shown[encoding] = done.stdout
    assert "tr\xe8s" in shown["cp1252"].decode("cp1252")
    assert rb"tr\xe8s" in shown["ascii"] and rb"\u6f22\u5b57" in shown["cp1252"]
    assert b"tr?s" in shown["ascii:replace"]  # what the user chose


@pytest.mark.slow
def test_other_commands_of_spacy_keep_their_streams():
    source = "import sys, spacy.cli, spacy_elmo.cli.plugin; print(sys.stdout.errors, sys.stderr.errors)"
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, env={**os.environ, "PYTHONIOENCODING": "cp1252"}
    )
    assert done.stdout.split() == ["strict", "backslashreplace"], done.stderr
