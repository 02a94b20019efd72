"""`elmo explore`: what it opens, and mistakes. The server itself is replaced."""

import pytest
import spacy
from cli.calls import call, refused, told
from spacy.training import Example

from spacy_elmo.explorer import serving
from spacy_elmo.explorer.serving import open_socket


@pytest.fixture
def served(monkeypatch):
    """The explorers that were served, and their addresses."""
    found = []

    def record(explorer, bound):
        found.append((explorer, serving.address_of(bound)))

    monkeypatch.setattr(serving, "serve", record)
    return found


@pytest.fixture
def pipeline(bilm_path, tmp_path):
    """A tagger that mixes the layers of the tiny biLM."""
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo").load_weights(bilm_path)
    config = {"model": {"tok2vec": {"@architectures": "spacy-elmo.ElmoListener.v1"}}}
    tagger = nlp.add_pipe("tagger", config=config)
    example = Example.from_dict(nlp.make_doc("cat"), {"tags": ["NOUN"]})
    tagger.initialize(lambda: [example], nlp=nlp)
    nlp.to_disk(tmp_path / "pipeline")
    return tmp_path / "pipeline"


def test_explore_serves_the_packaged_bilm(served):
    shown = told("explore", "--port", 0)
    (explorer, address), *_ = served
    assert explorer.name == "en_elmo_sm" and address in shown and address.startswith("http://127.0.0.1:")


@pytest.mark.issue(37)
@pytest.mark.parametrize("is_named", [False, True], ids=["own", "named"])
@pytest.mark.parametrize("is_replaced", [False, True], ids=["listener", "own copies"])
def test_explore_takes_bilm_and_mixes_of_a_pipeline(served, pipeline, bilm, bilm_path, is_named, is_replaced):
    if is_replaced:
        nlp = spacy.load(pipeline)
        nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
        nlp.remove_pipe("elmo")
        nlp.to_disk(pipeline)
    call("explore", "--pipeline", pipeline, "--port", 0, *(["--bilm", bilm_path] if is_named else []))
    ((explorer, _),) = served
    assert explorer.bilm.config == bilm.config and (explorer.bilm.head is not None) == is_named
    assert [mix["name"] for mix in explorer.settings()["mixes"]] == ["tagger"]


def test_explore_refuses_mixes_of_another_bilm(pipeline):
    shown = refused("explore", "--pipeline", pipeline, "--bilm", "en_elmo_sm", "--port", 0)
    assert "layers of another biLM" in shown and "digest" in shown


def test_explore_names_a_port_in_use():
    with open_socket("LOCALHOST", 0) as bound:
        assert bound.getsockname()[0] == "127.0.0.1"
        assert "cannot be used" in refused("explore", "--port", bound.getsockname()[1])
