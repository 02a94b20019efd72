"""Components with a listener that nobody has initialized: an error that says so, however they are used."""

import pytest
import spacy
from thinc.api import Adam

from spacy_elmo.ml.elmo_model import set_bilm
from spacy_elmo.ml.loaders import make_random_bilm

from .placements import PLACEMENTS, task_encoder
from .test_listener import CNN, COMPONENTS, ENCODER, tagger_with
from .tiny import BILM, LISTENER, WIDTH, add_elmo, make_examples

USES = {
    "call": lambda nlp: nlp("She sat"),
    "pipe": lambda nlp: list(nlp.pipe(["She sat"])),
    "pairs": lambda nlp: list(nlp.pipe([("She sat", 1)], as_tuples=True)),
    "evaluate": lambda nlp: nlp.evaluate(make_examples(nlp)),
    "update": lambda nlp: nlp.update(make_examples(nlp), sgd=Adam(0.01)),
}


def add_weights(elmo):
    set_bilm(elmo.model, make_random_bilm(BILM, 1))


def _check_that_initialize_is_missing(nlp, name):
    for use in USES.values():
        with pytest.raises(ValueError, match=f"'{name}'.*E109.*nlp.initialize"):
            use(nlp)
    assert nlp("She sat", disable=[name])._.elmo.shape == (2, WIDTH)  # vectors do not need the component
    assert nlp("")._.elmo.shape == (0, WIDTH)


@pytest.mark.issue(37)
@pytest.mark.parametrize("name", COMPONENTS)
@pytest.mark.parametrize("is_loaded", [False, True], ids=["no weights yet", "weights loaded"])
def test_component_that_is_not_initialized_is_an_error(name, is_loaded):
    nlp = spacy.blank("en")
    elmo = nlp.add_pipe("elmo")
    if is_loaded:
        add_weights(elmo)
    nlp.add_pipe(name, config=COMPONENTS[name])
    if not is_loaded:
        add_weights(elmo)
    _check_that_initialize_is_missing(nlp, name)


@pytest.mark.issue(37)
@pytest.mark.parametrize("placement", [*PLACEMENTS, "beside"])
@pytest.mark.parametrize("name", ["tagger", "ner"])
def test_listener_after_other_layers_that_is_not_initialized_is_an_error(name, placement):
    beside = {"@architectures": "spacy-elmo.Tok2VecWithElmo.v1", "embed": CNN, "elmo": LISTENER, "encode": ENCODER}
    nlp = spacy.blank("en")
    add_elmo(nlp)
    nlp.add_pipe(name, config={"model": {"tok2vec": beside if placement == "beside" else task_encoder(placement)}})
    _check_that_initialize_is_missing(nlp, name)
    nlp.initialize(lambda: make_examples(nlp))
    for use in USES.values():
        use(nlp)


@pytest.mark.issue(37)
def test_component_that_an_update_leaves_out_need_not_be_initialized():
    nlp = tagger_with(LISTENER)
    nlp.add_pipe("ner", config=COMPONENTS["ner"])
    nlp.update(make_examples(nlp), sgd=Adam(0.01), exclude=["ner"])
    with nlp.select_pipes(disable=["ner"]):
        assert nlp("She sat")[0].tag_
    with pytest.raises(ValueError, match="'ner'"):
        nlp("She sat")
