"""`elmo explore`: what it opens, and mistakes. The server itself is replaced."""

from pathlib import Path
from typing import Any, List, Tuple

import pytest
import spacy
from spacy.training import Example
from typer.testing import CliRunner

from spacy_elmo import util
from spacy_elmo.cli._app import app
from spacy_elmo.explorer import serving
from spacy_elmo.explorer.serving import open_socket
from spacy_elmo.explorer.views import Explorer
from spacy_elmo.inference.bilm import BiLM


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> List[Tuple[Explorer, str]]:
    """The explorers that were served, and their addresses."""
    found: List[Tuple[Explorer, str]] = []

    def record(explorer: Explorer, bound: Any) -> None:
        found.append((explorer, serving.address_of(bound)))

    monkeypatch.setattr(serving, "serve", record)
    return found


@pytest.fixture
def pipeline(bilm_path: Path, tmp_path: Path) -> Path:
    """A tagger that mixes the layers of the tiny biLM."""
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo").load_weights(bilm_path)
    config = {"model": {"tok2vec": {"@architectures": "spacy-elmo.ElmoListener.v1"}}}
    tagger = nlp.add_pipe("tagger", config=config)
    example = Example.from_dict(nlp.make_doc("cat"), {"tags": ["NOUN"]})
    tagger.initialize(lambda: [example], nlp=nlp)
    nlp.to_disk(tmp_path / "pipeline")
    return tmp_path / "pipeline"


def _run(*args: Any) -> Any:
    return CliRunner().invoke(app, ["explore", *map(str, args)])


def test_explore_serves_the_packaged_bilm(served: List[Tuple[Explorer, str]]) -> None:
    result = _run("--port", 0)
    assert result.exit_code == 0, result.output
    (explorer, address), *_ = served
    assert explorer.name == "en_elmo_sm" and address in result.output and address.startswith("http://127.0.0.1:")


@pytest.mark.slow
def test_explore_takes_bilm_and_mixes_of_a_pipeline(
    served: List[Tuple[Explorer, str]], pipeline: Path, bilm: BiLM
) -> None:
    assert _run("--pipeline", pipeline, "--port", 0).exit_code == 0
    ((explorer, _),) = served
    assert explorer.bilm.config == bilm.config and explorer.bilm.head is None
    assert [mix["name"] for mix in explorer.settings()["mixes"]] == ["tagger"]


def test_explore_takes_a_bilm_that_is_that_of_the_pipeline(
    served: List[Tuple[Explorer, str]], pipeline: Path, bilm_path: Path
) -> None:
    assert _run("--pipeline", pipeline, "--bilm", bilm_path, "--port", 0).exit_code == 0
    assert served[0][0].bilm.head is not None


@pytest.mark.slow
def test_explore_refuses_mixes_of_another_bilm(pipeline: Path, tmp_path: Path) -> None:
    result = _run("--pipeline", pipeline, "--bilm", "en_elmo_sm", "--port", 0)
    assert result.exit_code == 1 and "layers of another biLM" in result.output and "3 x 256" in result.output


@pytest.mark.issue(37)
@pytest.mark.parametrize("is_named", [False, True], ids=["own", "named"])
def test_explore_takes_a_pipeline_whose_components_have_their_own_bilm(
    served: List[Tuple[Explorer, str]], pipeline: Path, bilm: BiLM, bilm_path: Path, is_named: bool
) -> None:
    nlp = spacy.load(pipeline)
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    nlp.remove_pipe("elmo")
    nlp.to_disk(pipeline)
    result = _run("--pipeline", pipeline, "--port", 0, *(["--bilm", bilm_path] if is_named else []))
    assert result.exit_code == 0, result.output
    ((explorer, _),) = served
    assert explorer.bilm.config == bilm.config
    assert [mix["name"] for mix in explorer.settings()["mixes"]] == ["tagger"]


def test_explore_refuses_a_pipeline_without_mixes(tmp_path: Path) -> None:
    spacy.blank("en").to_disk(tmp_path / "blank")
    result = _run("--pipeline", tmp_path / "blank", "--port", 0)
    assert result.exit_code == 1 and "EL230" in result.output


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "127.0.0.2", "example.org", ""])
def test_explore_refuses_other_hosts_than_this_computer(host: str) -> None:
    result = _run("--host", host, "--port", 0)
    assert result.exit_code == 1 and "it has no passwords" in result.output


def test_localhost_is_the_loopback_address() -> None:
    with open_socket("LOCALHOST", 0) as bound:
        assert bound.getsockname()[0] == "127.0.0.1"


def test_explore_names_a_port_in_use() -> None:
    with open_socket("127.0.0.1", 0) as bound:
        result = _run("--port", bound.getsockname()[1])
        assert result.exit_code == 1 and "cannot be used" in result.output


def test_explore_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(util, "has_uvicorn", False)
    result = _run("--port", 0)
    assert result.exit_code == 1 and "The explorer needs" in result.output and "spacy-elmo[explore]" in result.output
