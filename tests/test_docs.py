"""Tables of the documentation say what the code says: every option, setting and default, and nothing else."""

import inspect
import re
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Set, Tuple

import pytest
import spacy
import srsly
import typer
from spacy.language import Language

import spacy_elmo
from spacy_elmo import BiLM, BiLMConfig, BiLMState, CharCNNConfig, load_bilm, register_extensions, save_bilm
from spacy_elmo.cli._app import COMMANDS, GROUPS, LazyGroup, app
from spacy_elmo.export import export_onnx
from spacy_elmo.export.package import package_bilm
from spacy_elmo.inference.perplexity import Perplexity
from spacy_elmo.nn import Elmo as ElmoModule
from spacy_elmo.nn import ScalarMix, batch_to_ids
from spacy_elmo.pipeline.crf import CRFTagger
from spacy_elmo.pipeline.crf_ner import CRFNer
from spacy_elmo.pipeline.elmo import DEFAULT_BLOCKS, Elmo, make_elmo
from spacy_elmo.pipeline.fine_tuning import FineTuning, slanted_triangular
from spacy_elmo.pipeline.layer_weights import LayerWeightsLogger
from spacy_elmo.pipeline.listener import build_listener
from spacy_elmo.pipeline.model import BiLMLoader, ElmoModel, RandomBiLM
from spacy_elmo.pipeline.task_layers import BiLSTMEncoder, ElmoTaskEncoder, Tok2VecWithElmo
from spacy_elmo.pipeline.text_classifier import TextCatNgrams, TextCatReduce

ROOT = Path(__file__).parent.parent
ANALYSIS = ("Analysis of a biLM", "Analysis of a pipeline")
ARCHITECTURES = {
    "spacy-elmo.ElmoModel.v1": ElmoModel,
    "spacy-elmo.ElmoListener.v1": build_listener,
    "spacy-elmo.Tok2VecWithElmo.v1": Tok2VecWithElmo,
    "spacy-elmo.FineTuning.v1": FineTuning,
    "spacy-elmo.slanted_triangular.v1": slanted_triangular,
    "spacy-elmo.ElmoTaskEncoder.v1": ElmoTaskEncoder,
    "spacy-elmo.BiLSTMEncoder.v1": BiLSTMEncoder,
    "spacy-elmo.TextCatReduce.v1": TextCatReduce,
    "spacy-elmo.TextCatNgrams.v1": TextCatNgrams,
    "spacy-elmo.CRFTagger.v1": CRFTagger,
    "spacy-elmo.BiLMLoader.v1": BiLMLoader,
    "spacy-elmo.RandomBiLM.v1": RandomBiLM,
    "spacy-elmo.LayerWeightsLogger.v1": LayerWeightsLogger,
}


def _section(page: str, title: str) -> str:
    """The text below a heading, up to the next heading."""
    text = (ROOT / page).read_text(encoding="utf8")
    match = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#+ |\Z)", text, flags=re.M | re.S)
    assert match, f"{page} has no heading '{title}'"
    return match[1]


def _assert_same(place: str, described: Set[str], expected: Set[str]) -> None:
    assert not (missing := expected - described), f"{place}: missing {sorted(missing)}"
    assert not (unknown := described - expected), f"{place}: not in the code {sorted(unknown)}"


def _first_cells(section: str) -> List[str]:
    return [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]


def _options_of(name: str) -> Set[str]:
    command = typer.main.get_command(app)
    assert isinstance(command, LazyGroup)
    parameters = [item for item in command.get_command(None, name).params if not getattr(item, "hidden", False)]
    return {option for parameter in parameters for option in parameter.opts if option.startswith("-")} - {"--help"}


def _component_settings() -> Iterator[Tuple[str, Any]]:
    model = {key: parameter.default for key, parameter in inspect.signature(ElmoModel).parameters.items()}
    assert DEFAULT_BLOCKS["model"] == {"@architectures": "spacy-elmo.ElmoModel.v1", **model}
    for block, settings in (("model", model), ("mix", DEFAULT_BLOCKS["mix"])):
        yield from ((f"{block}.{key}", value) for key, value in settings.items())
    meta = Language.get_factory_meta("elmo")
    yield from ((key, value) for key, value in meta.default_config.items() if key not in ("model", "mix"))


@pytest.mark.parametrize("name", COMMANDS)
def test_cli_page_has_exactly_the_options(name: str) -> None:
    page = "docs/cli-looking.md" if any(name in GROUPS[group] for group in ANALYSIS) else "docs/cli.md"
    described = re.findall(r"`(-[-\w]+)`", " ".join(_first_cells(_section(page, name))))
    _assert_same(f"{page}, the table below '{name}'", set(described), _options_of(name))


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_component_page_has_exactly_the_settings(name: str) -> None:
    parameters = inspect.signature(ARCHITECTURES[name]).parameters
    rows = [row for row in _section("docs/component.md", name).splitlines() if row.startswith("| `")]
    described: Dict[str, str] = {row.split("`")[1]: row for row in rows}
    _assert_same(f"docs/component.md, the table below '{name}'", set(described), set(parameters))
    for key, row in described.items():
        default = parameters[key].default
        if default is not inspect.Parameter.empty and "efault" in row:
            assert f"`{srsly.json_dumps(default)}`" in row, key


def test_component_page_has_every_setting_of_the_component() -> None:
    rows = [row for row in _section("docs/component.md", "Config").splitlines() if row.startswith("| `")]
    described = {row.split("`")[1]: row for row in rows}
    settings = {key: value for key, value in _component_settings() if not key.startswith("model.")}
    assert set(described) == {"model", *settings}
    for key, value in settings.items():
        assert f"`{srsly.json_dumps(value)}`" in described[key], key
    assert {*inspect.signature(make_elmo).parameters} - {"nlp", "name"} == {key.split(".")[0] for key in described}


def test_page_of_commands_has_every_command() -> None:
    rows = [row.split("|") for row in _section("docs/cli.md", "Commands").splitlines() if row.startswith("| ")]
    found = {row[1].strip(): re.findall(r"`([a-z-]+)`", row[2]) for row in rows[1:] if "---" not in row[1]}
    for title, commands in GROUPS.items():
        assert found.get(title) == list(commands), f"docs/cli.md, row '{title}' of 'Commands': not as in cli/_app.py"
    assert list(found) == list(GROUPS)


def _anchors(page: Path) -> Set[str]:
    """Headings as GitHub makes anchors of them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf8"), flags=re.S)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.*)$", text, re.M)}


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


def test_links_between_pages_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "examples/README.md", *(ROOT / "docs").glob("*.md")]
    for page in pages:
        for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf8")):
            if "://" in target:
                continue
            path = page.parent / target if target else page
            assert path.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in _anchors(path), f"{page.name}: {target}#{anchor}"


def test_model_card_agrees_with_the_model() -> None:
    card = (ROOT / "docs/en_elmo_sm.md").read_text(encoding="utf8")
    meta = srsly.read_json(ROOT / "spacy_elmo/models/en_elmo_sm/meta.json")
    counts = [meta["corpus"]["tokens"], *(source["tokens"] for source in meta["corpus"]["sources"])]
    counts += [meta["training"][key] for key in ("n_tokens", "n_updates", "n_parameters", "n_softmax_parameters")]
    scores = [meta["perplexity"][key] for key in ("forward", "backward", "mean")]
    expected = [f"{count:,}" for count in counts] + [str(score) for score in scores]
    expected += [source["license"] for source in meta["corpus"]["sources"]]
    assert [text for text in expected if text not in card] == []


def _rows(section: str) -> List[List[str]]:
    """Cells of the rows of a table, without its head."""
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in section.splitlines() if row.startswith("|")]
    return rows[2:]


def _bare_signature(function: Callable[..., Any], name: str, n_skipped: int = 0) -> str:
    """A signature as a reader calls it: `embed(sentences, *, layers='all')`."""
    signature = inspect.signature(function)
    parameters = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    return name + str(signature.replace(parameters=parameters[n_skipped:], return_annotation=signature.empty))


def _public(owner: type) -> Dict[str, Any]:
    members = {**getattr(owner, "__dataclass_fields__", {}), **vars(owner)}
    return {name: member for name, member in members.items() if not name.startswith("_")}


def test_api_page_has_every_public_name_member_and_signature() -> None:
    page = (ROOT / "docs/api.md").read_text(encoding="utf8")
    assert [name for name in spacy_elmo.__all__ if f"`{name}" not in page] == []
    names = {row[1].strip("`") for row in _rows(_section("docs/api.md", "Registered names"))}
    assert names == {"elmo", "crf_ner", "elmo_surprisal", "spacy-elmo.ElmoTok2Vec.v1", *ARCHITECTURES}
    for owner in (BiLM, BiLMState, BiLMConfig, CharCNNConfig, Perplexity, Elmo, ElmoModule, ScalarMix, CRFNer):
        assert [name for name in _public(owner) if not re.search(rf"`{name}[`(]", page)] == [], owner
    functions = (load_bilm, save_bilm, register_extensions, export_onnx, package_bilm, batch_to_ids)
    signatures = [_bare_signature(function, function.__name__) for function in functions]
    signatures += [_bare_signature(owner.__init__, owner.__name__, 1) for owner in (BiLM, ElmoModule, ScalarMix)]
    signatures += [_bare_signature(member, name, 1) for name, member in _public(BiLM).items() if callable(member)]
    assert [signature for signature in signatures if f"`{signature}`" not in page] == []
    rows = {row[0].strip("`"): row for row in _rows(_section("docs/api.md", "Elmo")) if len(row) == 3}
    parameters = list(inspect.signature(ElmoModule).parameters.values())
    assert list(rows) == [parameter.name for parameter in parameters]
    assert all(rows[parameter.name][1] == f"`{parameter.default!r}`" for parameter in parameters[1:])
