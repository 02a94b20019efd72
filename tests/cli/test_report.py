"""`elmo report`: its page with everything, with hostile text, and with nothing but a pipeline; what is refused."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, List

import pytest
import spacy
from report_outputs import write_docs, write_logs, write_output
from typer.testing import CliRunner

from spacy_elmo.cli._app import app

HOSTILE = '"><script>alert(1)</script>\u202e&\x01'
SENTENCES = [["Acme", "hires", "Ada"], ["Ada", "hires", HOSTILE], ["Acme", "today"]]
ENTITIES = [[(0, 1, "ORG"), (2, 3, "PER")], [(0, 1, "PER"), (2, 3, "ORG")], [(0, 1, "ORG")]]
METRICS = {"ents_f": 0.5, "tag_acc": 0.25, "speed": 100.0, "ents_per_type": {"ORG": {"f": 0.5}}}


class Elements(HTMLParser):
    """The elements, attributes and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: List[str] = []
        self.names: List[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.names += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training with ELMo, one without, and their test data."""
    folder = tmp_path_factory.mktemp("report")
    ours = write_output(folder / "elmo-0", {"Acme": "ORG", HOSTILE: "ORG", "today": "LOC"}, metrics=METRICS)
    write_logs(ours)
    write_output(folder / "baseline-0", {"Acme": "ORG", HOSTILE: HOSTILE}, has_elmo=False, metrics={"ents_f": 0.9})
    write_docs(folder / "test.spacy", SENTENCES, ENTITIES)
    return folder


def _run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def test_page_has_every_section(outputs: Path, tmp_path: Path) -> None:
    page = tmp_path / "pages" / "page.html"
    arguments = (outputs / "elmo-0", "--baseline", outputs / "baseline-0", "--data", outputs / "test.spacy")
    result = _run(*arguments, "--html", page)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == f"Report: {page.resolve()}"
    assert "1 error fixed, 1 introduced" in result.stdout
    found = Elements(page.read_text(encoding="utf8"))
    titles = ("Scores", "Layer weights", "Curves", "Errors fixed and introduced", "Settings")
    for text in (*titles, "1 error introduced by ELMo"):
        assert text in found.text, text
    assert "sha256" in found.text and "spacy-elmo.ElmoListener.v1" in found.text
    assert [file.name for file in page.parent.iterdir()] == ["page.html"]
    # What metrics.json says and what the pipelines answer differ: the page says so.
    assert "90.00% for ents_f" in found.text and "one seed each" in found.text


def test_hostile_text_is_only_text(outputs: Path, tmp_path: Path) -> None:
    arguments = ("--baseline", outputs / "baseline-0", "--data", outputs / "test.spacy", "--html", tmp_path / "p.html")
    assert _run(outputs / "elmo-0", *arguments).exit_code == 0
    page = (tmp_path / "p.html").read_text(encoding="utf8")
    found = Elements(page)
    assert found.text.count('"><script>alert(1)</script>\ufffd&\ufffd') >= 4  # in two sentences, as answer and as label
    assert not {"script", "img", "link", "iframe", "object", "base"} & set(found.tags)
    assert not {"src", "href", "onerror", "onload", "onclick"} & set(found.names)
    assert not re.search("\u202e|\x01|url\\(|https?:", page)


def test_pipeline_alone_has_a_page_with_notes(outputs: Path) -> None:
    pipeline = outputs / "elmo-0" / "model-best"
    result = _run(pipeline, "--data", outputs / "test.spacy")
    assert result.exit_code == 0, result.output
    page = Elements((pipeline / "report.html").read_text(encoding="utf8")).text
    told = " ".join(result.stderr.split())
    notes = ("No baseline was given", "were not read", "has no metrics.json", "log of the training", "log of the layer")
    for note in notes:
        assert note in page and note in told
    assert "Layer weights" in page and "Errors fixed" not in page and "No scores are known" in result.stdout
    again = _run(pipeline)
    assert again.exit_code == 1 and "--force" in again.output
    assert _run(pipeline, "--force").exit_code == 0


def test_training_without_elmo_is_noted(outputs: Path, tmp_path: Path) -> None:
    arguments = ("--baseline", outputs / "elmo-0", "--html", tmp_path / "page.html")
    result = _run(outputs / "baseline-0", *arguments)
    assert result.exit_code == 0, result.output
    for note in ("No component of this pipeline mixes", "The baseline has a biLM, too", "No data was given"):
        assert note in " ".join(result.stderr.split())


def test_nothing_in_common_is_noted(outputs: Path, tmp_path: Path) -> None:
    (tmp_path / "blank").mkdir()
    spacy.blank("en").to_disk(tmp_path / "blank" / "model-last")
    arguments = ("--baseline", tmp_path / "blank", "--data", outputs / "test.spacy", "--html", tmp_path / "page.html")
    result = _run(outputs / "elmo-0", *arguments)
    assert result.exit_code == 0, result.output
    assert "There is nothing to compare" in result.stderr
    assert "model-last" in _run(tmp_path / "blank").stderr


def test_mistakes_are_clear(outputs: Path, tmp_path: Path) -> None:
    (tmp_path / "no.spacy").write_text("no docs", encoding="utf8")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "config.cfg").write_text("", encoding="utf8")
    (tmp_path / "damaged" / "meta.json").write_text("[", encoding="utf8")
    ours, theirs, html = outputs / "elmo-0", outputs / "baseline-0", ("--html", tmp_path / "page.html")
    for arguments, code in (
        ((tmp_path,), "EL430"),
        ((tmp_path / "nowhere",), "EL430"),
        ((tmp_path / "no.spacy",), "EL430"),
        ((ours, "--baseline", tmp_path), "EL430"),
        ((tmp_path / "damaged",), "EL431"),
        ((ours, "--baseline", theirs, "--data", tmp_path / "no.spacy"), "cannot be read as annotated Docs"),
        ((ours, "--baseline", ours / "model-best"), "is the trained pipeline itself"),
        ((ours, "--html", tmp_path / "no.spacy" / "page.html"), "cannot be a folder"),
    ):
        result = _run(*arguments, *(() if "--html" in arguments else html))
        assert result.exit_code == 1 and code in " ".join(result.stderr.split()), (code, result.output)
    assert not (tmp_path / "page.html").exists()
