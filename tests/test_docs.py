"""Pages of the documentation say what the code and the data say."""

import re
from pathlib import Path

import pytest
import spacy
import srsly

from spacy_elmo.cli._app import GROUPS

ROOT = Path(__file__).parent.parent


def _section(page: str, title: str) -> str:
    """The text below a heading, up to the next heading."""
    text = (ROOT / page).read_text(encoding="utf8")
    match = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#+ |\Z)", text, flags=re.M | re.S)
    assert match, f"{page} has no heading '{title}'"
    return match[1]


def test_page_of_commands_has_every_command() -> None:
    rows = [row.split("|") for row in _section("docs/cli.md", "Command line").splitlines() if row.startswith("| ")]
    found = {row[1].strip(): re.findall(r"`([a-z-]+)`", row[2]) for row in rows[1:] if "---" not in row[1]}
    for title, commands in GROUPS.items():
        assert found.get(title) == list(commands), f"docs/cli.md, row '{title}': not as in cli/_app.py"
    assert list(found) == list(GROUPS)


@pytest.mark.issue(40)
def test_lines_of_the_faq_that_add_the_component_do_what_they_promise() -> None:
    text = (ROOT / "docs/faq.md").read_text(encoding="utf8")
    lines = re.findall(r"`(nlp\.add_pipe\(.*?\))`", text)
    assert len(lines) >= 3
    for line in lines:
        nlp = spacy.blank("en")
        if "before=" in line:
            nlp.add_pipe("elmo")
        component = eval(line, {"nlp": nlp})
        doc = nlp("The river bank.")
        if "set_vectors" in line:
            assert 0 < doc.similarity(nlp("A bank")) < 1
        if "precision" in line:
            assert component.model.attrs["settings"].precision == "int8"


def test_model_card_agrees_with_the_model() -> None:
    card = (ROOT / "docs/en_elmo_sm.md").read_text(encoding="utf8")
    meta = srsly.read_json(ROOT / "spacy_elmo/models/en_elmo_sm/meta.json")
    counts = [meta["corpus"]["tokens"], *(source["tokens"] for source in meta["corpus"]["sources"])]
    counts += [meta["training"][key] for key in ("n_tokens", "n_updates", "n_parameters", "n_softmax_parameters")]
    scores = [meta["perplexity"][key] for key in ("forward", "backward", "mean")]
    expected = [f"{count:,}" for count in counts] + [str(score) for score in scores]
    expected += [source["license"] for source in meta["corpus"]["sources"]]
    assert [text for text in expected if text not in card] == []
