"""The biLM of a saved spaCy pipeline is read where weights are expected."""

import pytest
import spacy
from pipeline.tiny import add_elmo, listening, make_examples
from weights.same import assert_same

from spacy_elmo import load_bilm
from spacy_elmo.pipeline.component import find_model
from spacy_elmo.weights.contents import hash_weights
from spacy_elmo.weights.load import detect_format

pytestmark = pytest.mark.issue(48)
SENTENCES = [["She", "sat", "on", "the", "bank", "."], ["Yes"]]


@pytest.fixture
def nlp():
    """With a tagger on the first of two biLMs, and names that are not in the order of the alphabet."""
    nlp = spacy.blank("en")
    add_elmo(nlp, name="second", seed=3)
    add_elmo(nlp, name="first", prefix="other", seed=4)
    nlp.add_pipe("tagger", config=listening())
    nlp.initialize(lambda: make_examples(nlp))
    return nlp


def test_folders_and_files_of_a_pipeline_are_read(nlp, tmp_path):
    nlp.to_disk(tmp_path / "p")
    first = find_model(nlp).shims[0].bilm
    for place in ("p", "p#second", "p/second", "p/second/model"):
        assert_same(load_bilm(f"{tmp_path}/{place}"), first)
    assert_same(load_bilm(f"{tmp_path}/p#first"), nlp.get_pipe("first").model.shims[0].bilm)
    with pytest.raises(ValueError, match="'tagger' after the '#', found: second, first"):
        load_bilm(f"{tmp_path}/p#tagger")


def test_a_bilm_in_another_component_is_read(nlp, tmp_path):
    bilm = nlp.get_pipe("first").model.shims[0].bilm
    nlp.replace_listeners("first", "tagger", ["model.tok2vec"])
    for name in ("second", "first"):
        nlp.remove_pipe(name)
    nlp.to_disk(tmp_path / "p")
    assert_same(load_bilm(tmp_path / "p"), bilm)


def test_a_pipeline_for_surprisal_has_a_softmax(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo_surprisal").to_disk(tmp_path / "component")
    nlp.to_disk(tmp_path / "p")
    wanted = load_bilm("en_elmo_sm").perplexity(SENTENCES)
    for place in (tmp_path / "p", tmp_path / "component", tmp_path / "component" / "bilm"):
        assert load_bilm(place).perplexity(SENTENCES) == wanted


def test_a_digest_is_that_of_the_weights_of_a_pipeline(nlp, tmp_path):
    nlp.to_disk(tmp_path / "p")
    before = hash_weights(tmp_path / "p")
    (tmp_path / "p" / "tagger" / "model").write_bytes(b"trained on")
    assert hash_weights(tmp_path / "p") == before
    (tmp_path / "p" / "first" / "model").write_bytes(b"trained on")
    assert hash_weights(tmp_path / "p") != before


def test_pipelines_without_a_bilm_and_damaged_ones_say_so(nlp, tmp_path):
    blank = spacy.blank("en")
    blank.add_pipe("sentencizer")
    blank.to_disk(tmp_path / "blank")
    with pytest.raises(ValueError, match=r"EL020.*spaCy pipeline.*no component of it has a biLM \(components: sent"):
        load_bilm(tmp_path / "blank")
    (tmp_path / "runs").mkdir()
    nlp.to_disk(tmp_path / "runs" / "model-best")
    with pytest.raises(ValueError, match="EL020.*runs': it is in no known format"):
        detect_format(tmp_path / "runs")
    file = tmp_path / "runs" / "model-best" / "second" / "model"
    content = file.read_bytes()
    for n_bytes in (len(content) // 2, 200):
        file.write_bytes(content[:n_bytes])
        with pytest.raises(ValueError, match="EL022.*second.*model"):
            load_bilm(file.parent)
