"""`elmo surprisal` and `elmo substitutes`: one good call, its page, and mistakes."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from spacy_elmo.analysis.pages import render_surprisal
from spacy_elmo.cli._app import app
from spacy_elmo.pipeline.surprisal import Surprisal

TEXT = "She sat on the bank <script>alert(1)</script> of the river."
HOSTILE = '"><img src=x onerror=alert(1)> & \u202e\U0001f30a </span>'


def _run(*args: Any) -> Any:
    return CliRunner().invoke(app, [str(arg) for arg in args])


def test_surprisal_prints_a_row_per_token() -> None:
    result = _run("surprisal", "en_elmo_sm", TEXT)
    assert result.exit_code == 0, result.output
    assert "river" in result.stdout and "forward" in result.stdout
    records = json.loads(_run("surprisal", "en_elmo_sm", TEXT, "--json").stdout)["tokens"]
    assert [record["token"] for record in records][:5] == ["She", "sat", "on", "the", "bank"]
    assert all(record["mean"] == pytest.approx((record["forward"] + record["backward"]) / 2) for record in records)


@pytest.mark.parametrize("text", [TEXT, HOSTILE])
def test_page_escapes_the_text(tmp_path: Path, text: str) -> None:
    page = tmp_path / "out" / "page.html"
    assert _run("surprisal", "en_elmo_sm", text, "--html", page).exit_code == 0
    content = page.read_text(encoding="utf8")
    assert "<script" not in content and "<img" not in content and "://" not in content
    assert "background: rgba" in content and "bits (forward" in content
    again = _run("surprisal", "en_elmo_sm", TEXT, "--html", page)
    assert again.exit_code == 1 and "EL134" in again.output
    assert _run("surprisal", "en_elmo_sm", TEXT, "--html", page, "--force").exit_code == 0


def test_substitutes_prints_words_of_the_place() -> None:
    result = _run("substitutes", "en_elmo_sm", "He sat on the bank of the river.", "--word", "bank", "--k", 20)
    assert result.exit_code == 0, result.output
    assert "edge" in result.stdout
    record = json.loads(
        _run("substitutes", "en_elmo_sm", "The end. The bank of the river.", "-w", "The", "-n", 2, "--json").stdout
    )
    assert record["position"] == 0 and record["sentence"][1] == "bank" and len(record["substitutes"]) == 10


def test_mistakes_are_clear() -> None:
    result = _run("substitutes", "en_elmo_sm", "The bank.", "--word", "river")
    assert result.exit_code == 1 and "EL381" in result.output and "The, bank, ." in result.output
    assert "has 0 occurrences" in " ".join(result.output.split())
    once = _run("substitutes", "en_elmo_sm", "The bank.", "--word", "bank", "-n", 2)
    assert "EL381" in once.output and "has 1 occurrence of" in " ".join(once.output.split())
    empty = _run("surprisal", "en_elmo_sm", " ")
    assert empty.exit_code == 1 and "The text is empty" in empty.output


@pytest.mark.issue(18)
@pytest.mark.parametrize(
    "command",
    [
        ["surprisal", "en_elmo_sm", TEXT],
        ["substitutes", "en_elmo_sm", TEXT, "--word", "bank"],
        ["same-sense", TEXT, TEXT, "--word", "bank"],
    ],
)
def test_unknown_language_is_an_error_with_a_remedy(command: Any) -> None:
    result = _run(*command, "--lang", "zz")
    assert result.exit_code == 1 and "There is no tokenizer" in result.output, result.output


@pytest.mark.issue(18)
def test_page_wraps_long_words(tmp_path: Path) -> None:
    assert _run("surprisal", "en_elmo_sm", "x" * 1000, "--html", tmp_path / "page.html").exit_code == 0
    assert "overflow-wrap: anywhere" in (tmp_path / "page.html").read_text(encoding="utf8")


@pytest.mark.issue(18)
def test_page_shows_the_numbers_without_a_mouse(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert _run("surprisal", "en_elmo_sm", f"The Jabberwocky sat. {HOSTILE}", "--html", page).exit_code == 0
    content = page.read_text(encoding="utf8")
    assert "default-src 'none'; style-src 'unsafe-inline'" in content
    assert "min-width: 7em" in content  # else a phone breaks the tokens of the table letter by letter
    assert "\u202e" not in content and "\ufffd" in content
    assert "Dotted: outside the vocabulary, predicted as &lt;UNK&gt;" in content
    text, _, table = content.partition("<details>")
    focusable = re.findall(r'title="([0-9.]+) bits \(forward ([0-9.]+), backward ([0-9.]+)\)" tabindex="0">The<', text)
    numbers = re.findall(r"<tr><td>The</td><td>([0-9.]+)</td><td>([0-9.]+)</td><td>([0-9.]+)</td><td></td></tr>", table)
    assert [(forward, backward, mean) for mean, forward, backward in focusable] == numbers and len(numbers) == 1
    assert text.count(" tabindex=") == table.count("<tr>") - 1
    assert re.search("<td>Jabberwocky</td>.*?<td>&lt;UNK&gt;</td>", table)


@pytest.mark.issue(18)
def test_page_of_a_forward_model_has_no_nan() -> None:
    page = render_surprisal([("bank", "", Surprisal(4.0, math.nan, 4.0, False))])
    assert "4.0 bits (forward 4.0, backward none)" in page and "nan" not in page
