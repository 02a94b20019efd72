"""The component with a transformer biLM."""

import numpy
import pytest
import spacy
from spacy.tokens import Doc
from thinc.api import Adam
from transformers_tiny import TRANSFORMER

from spacy_elmo.pipeline.model import get_bilm, make_random_bilm

from .tiny import TEXTS, add_elmo, listening, make_examples

FINE_TUNING = {"@misc": "spacy-elmo.FineTuning.v1", "layer_decay": 0.5, "unfreeze_every": 1}


def make_pipeline(**model):
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm=TRANSFORMER, model={"frozen": True, **model})
    return nlp


def test_vectors_are_those_of_the_bilm_alone_and_in_batches():
    nlp = make_pipeline()
    bilm = make_random_bilm(TRANSFORMER, 1)
    for doc, text in zip(nlp.pipe(TEXTS), TEXTS):
        words = [token.text for token in doc if not token.is_space]
        kept = [token.i for token in doc if not token.is_space]
        numpy.testing.assert_allclose(doc._.elmo_layers[:, kept], bilm.embed([words])[0], atol=1e-5)
        numpy.testing.assert_allclose(nlp(text)._.elmo_layers, doc._.elmo_layers, atol=1e-5)


def test_long_docs_are_read_in_windows():
    nlp = make_pipeline(max_tokens=50, overlap=10)
    doc = nlp(Doc(nlp.vocab, words=["word"] * 1000))
    assert doc._.elmo.shape == (1000, 16) and numpy.isfinite(doc._.elmo).all()


def test_windows_above_the_positions_are_refused():
    nlp = make_pipeline(max_tokens=500)
    with pytest.raises(ValueError, match="EL341.*502 tokens.*at most 200.*set max_tokens"):
        nlp(Doc(nlp.vocab, words=["word"] * 1000))


def test_carried_state_is_refused():
    with pytest.raises(ValueError, match="EL340"):
        make_pipeline(state="carry")


def test_saved_pipeline_gives_the_same_vectors(tmp_path):
    nlp = make_pipeline()
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline")
    assert numpy.array_equal(loaded(TEXTS[0])._.elmo_layers, nlp(TEXTS[0])._.elmo_layers)


@pytest.mark.parametrize("fine_tuning", [None, FINE_TUNING])
def test_fine_tuning_reaches_the_layers(fine_tuning):
    nlp = make_pipeline(frozen=False, fine_tuning=fine_tuning)
    nlp.add_pipe("tagger", config=listening())
    nlp.initialize(lambda: make_examples(nlp))
    network = get_bilm(nlp.get_pipe("elmo").model).network
    before = {name: weight.clone() for name, weight in network.state_dict().items()}
    optimizer = Adam(0.01)
    for _ in range(6):  # one layer more after each update
        nlp.update(make_examples(nlp), sgd=optimizer)
    same = {name for name, weight in network.state_dict().items() if bool((weight == before[name]).all())}
    assert not same
