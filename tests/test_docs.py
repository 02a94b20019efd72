"""Tables of the documentation say what the code says: every option, setting and default, and nothing else."""

import inspect
import re
from pathlib import Path
from typing import Any, Dict, Iterator, List, Set, Tuple

import pytest
import srsly
import typer
from spacy.language import Language

from spacy_elmo.cli._app import COMMANDS, LazyGroup, app
from spacy_elmo.ml.concat import Tok2VecWithElmo
from spacy_elmo.ml.elmo_model import ElmoModel
from spacy_elmo.ml.listener import build_listener
from spacy_elmo.ml.loaders import BiLMLoader, RandomBiLM
from spacy_elmo.pipeline.elmo import DEFAULT_BLOCKS, make_elmo

ROOT = Path(__file__).parent.parent
ARCHITECTURES = {
    "spacy-elmo.ElmoModel.v1": ElmoModel,
    "spacy-elmo.ElmoListener.v1": build_listener,
    "spacy-elmo.Tok2VecWithElmo.v1": Tok2VecWithElmo,
    "spacy-elmo.BiLMLoader.v1": BiLMLoader,
    "spacy-elmo.RandomBiLM.v1": RandomBiLM,
}


def _section(page: str, title: str) -> str:
    """The text below a heading, up to the next heading."""
    text = (ROOT / page).read_text(encoding="utf8")
    match = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#+ |\Z)", text, flags=re.M | re.S)
    assert match, title
    return match[1]


def _first_cells(section: str) -> List[str]:
    return [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]


def _options_of(name: str) -> Set[str]:
    command = typer.main.get_command(app)
    assert isinstance(command, LazyGroup)
    parameters = [item for item in command.get_command(None, name).params if not getattr(item, "hidden", False)]
    return {option for parameter in parameters for option in parameter.opts if option.startswith("-")} - {"--help"}


def _component_settings() -> Iterator[Tuple[str, Any]]:
    for block in ("model", "mix"):
        yield from ((f"{block}.{key}", value) for key, value in DEFAULT_BLOCKS[block].items() if key[0] != "@")
    meta = Language.get_factory_meta("elmo")
    yield from ((key, value) for key, value in meta.default_config.items() if key not in ("model", "mix"))


@pytest.mark.parametrize("name", COMMANDS)
def test_cli_page_has_exactly_the_options(name: str) -> None:
    described = re.findall(r"`(-[-\w]+)`", " ".join(_first_cells(_section("docs/cli.md", name))))
    assert set(described) == _options_of(name)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_component_page_has_exactly_the_settings(name: str) -> None:
    parameters = inspect.signature(ARCHITECTURES[name]).parameters
    rows = [row for row in _section("docs/component.md", name).splitlines() if row.startswith("| `")]
    described: Dict[str, str] = {row.split("`")[1]: row for row in rows}
    assert set(described) == set(parameters)
    for key, row in described.items():
        default = parameters[key].default
        if default is not inspect.Parameter.empty and "efault" in row:
            assert f"`{srsly.json_dumps(default)}`" in row, key


def test_readme_has_every_setting_of_the_component() -> None:
    rows = [row.split("|") for row in _section("README.md", "Settings").splitlines() if row.startswith("| `")]
    described = {cells[1].strip(" `"): cells[2].strip(" `") for cells in rows}
    assert described == {key: srsly.json_dumps(value) for key, value in _component_settings()}
    in_page = {cell.strip(" `") for cell in _first_cells(_section("docs/component.md", "Config"))}
    assert in_page == {"model", *(key for key in described if not key.startswith("model."))}
    assert {*inspect.signature(make_elmo).parameters} - {"nlp", "name"} == {key.split(".")[0] for key in described}


def test_readme_has_every_command() -> None:
    assert [cell.strip(" `") for cell in _first_cells(_section("README.md", "Commands"))] == list(COMMANDS)


def test_links_between_pages_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf8")):
            assert "://" in target or (page.parent / target).exists(), f"{page.name}: {target}"
