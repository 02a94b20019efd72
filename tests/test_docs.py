"""Pages of the documentation say what the code and the data say. Every code block is run, checked in another way, or
listed here with a reason.
"""

import re
from pathlib import Path

import pytest
import spacy
import srsly
from test_readme import PAGES, read_blocks, read_commands

from spacy_elmo.cli._app import GROUPS
from spacy_elmo.inference import products

ROOT = Path(__file__).parent.parent


def _section(page: str, title: str) -> str:
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
    assert len(lines) >= 3 and any("precision" in line for line in lines)
    for line in lines:
        if "precision" in line and not products.is_supported_on_cpu("int8"):
            continue
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


# Code blocks

# `tests/test_readme.py` runs Python, and commands of spaCy and of ours; it parses and fills configs.
RUN = {"python", "bash", "ini"}
SHOWN = {
    ("README.md", "bibtex"): "a reference to the paper",
    ("docs/analysis.md", "text"): "what the command above prints, which takes the packaged biLM",
    ("docs/migrating.md", "text"): "code for packages that are not installed; what replaces it is run",
    ("docs/quickstart.md", "diff"): "a change of a config; the config after it is filled",
    ("docs/scale.md", "console"): "a cluster; tests/export/test_ray.py has one",
    ("docs/scale.md", "text"): "calls of other engines; tests/export passes batches and reads parts as they do",
    ("docs/weights.md", "console"): "downloads",
    ("docs/weights.md", "text"): "what is downloaded above",
}
# Pages whose commands take long, or set up a checkout. Their scripts have tests of their own, on small data.
PROJECTS = ["project/README.md", "project/english/README.md", "project/experiments/README.md"]
LONG = ["CONTRIBUTING.md", "benchmarks/README.md", "examples/README.md", *PROJECTS, "project/experiments/RESULTS.md"]
FENCE = re.compile(r"^\s*(?:```|~~~)", re.M)


@pytest.mark.parametrize("page", [*PAGES, *LONG])
def test_every_block_is_run_or_listed(page: str) -> None:
    blocks = read_blocks(page)
    text = (ROOT / page).read_text(encoding="utf8")
    assert len(FENCE.findall(text)) == 2 * len(blocks), "none is indented, or fenced in another way"
    assert {block.language for block in blocks} - RUN == {language for listed, language in SHOWN if listed == page}


def test_every_page_is_run_or_listed() -> None:
    folders = ("docs", "docs/tutorial", "benchmarks", "examples", *(Path(page).parent for page in PROJECTS))
    written = [*ROOT.glob("*.md"), *(path for folder in folders for path in (ROOT / folder).glob("*.md"))]
    names = {path.relative_to(ROOT).as_posix() for path in written if FENCE.search(path.read_text(encoding="utf8"))}
    assert names <= {*PAGES, *LONG}


@pytest.mark.parametrize("page", [*PAGES, *LONG])
def test_scripts_are_there_and_know_their_options(page: str) -> None:
    folder = (ROOT / page).parent if page in PROJECTS else ROOT
    blocks = [block for block in read_blocks(page) if block.language == "bash"]
    for command in [command for block in blocks for command in read_commands(block)]:
        if command[0] != "python" or not command[1].endswith(".py"):
            continue
        script = folder / command[1]
        assert script.is_file(), " ".join(command)
        source = "".join(path.read_text(encoding="utf8") for path in script.parent.glob("*.py"))
        options = [argument for argument in command if re.match(r"--\w", argument)]
        unknown = [name for name in options if not re.search(rf'"{name}"|\b{name[2:].replace("-", "_")}\b', source)]
        assert not unknown, " ".join(command)
