"""`elmo explore`: what it opens, and mistakes. The server itself is replaced."""

import pytest
import spacy
from cli.calls import call, refused, told
from report_outputs import LISTENER
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


def test_explore_serves_the_packaged_bilm(served):
    shown = told("explore", "--port", 0)
    (explorer, address), *_ = served
    assert explorer.name == "en_elmo_sm" and address in shown and address.startswith("http://127.0.0.1:")


@pytest.mark.issue(37)
@pytest.mark.parametrize("is_named", [False, True], ids=["own", "named"])
@pytest.mark.parametrize("is_replaced", [False, True], ids=["listener", "own copies"])
def test_explore_takes_bilm_and_mixes_of_a_pipeline(served, bilm, bilm_path, tmp_path, is_named, is_replaced):
    """Those of a tagger that mixes the layers of the tiny biLM; mixes of another biLM are refused."""
    nlp, pipeline = spacy.blank("en"), tmp_path / "pipeline"
    nlp.add_pipe("elmo").load_weights(bilm_path)
    tagger = nlp.add_pipe("tagger", config={"model": {"tok2vec": LISTENER}})
    tagger.initialize(lambda: [Example.from_dict(nlp.make_doc("cat"), {"tags": ["NOUN"]})], nlp=nlp)
    if is_replaced:
        nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
        nlp.remove_pipe("elmo")
    nlp.to_disk(pipeline)
    call("explore", "--pipeline", pipeline, "--port", 0, *(["--bilm", bilm_path] if is_named else []))
    ((explorer, _),) = served
    assert explorer.bilm.config == bilm.config and (explorer.bilm.head is not None) == is_named
    assert [mix["name"] for mix in explorer.settings()["mixes"]] == ["tagger"]
    shown = refused("explore", "--pipeline", pipeline, "--bilm", "en_elmo_sm", "--port", 0)
    assert "layers of another biLM" in shown and "digest" in shown


def test_explore_names_a_port_in_use():
    with open_socket("LOCALHOST", 0) as bound:
        assert bound.getsockname()[0] == "127.0.0.1"
        assert "cannot be used" in refused("explore", "--port", bound.getsockname()[1])
