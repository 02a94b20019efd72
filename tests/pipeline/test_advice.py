"""The warning that no component listens to ELMo: when it comes, what it says, and when it does not come."""

import warnings

import pytest
import spacy
from thinc.api import Config

from .tiny import LISTENER, add_elmo, listening, make_examples

TOK2VEC_LISTENER = {"@architectures": "spacy.Tok2VecListener.v1", "width": 96}


def make(names=("elmo", "tagger"), training=None, tok2vec=None):
    nlp = spacy.blank("en")
    for name in names:
        if name == "elmo":
            add_elmo(nlp)
        else:
            nlp.add_pipe(name, config={"model": {"tok2vec": tok2vec}} if tok2vec and name == "tagger" else {})
    nlp.config["training"].update(training or {})
    return nlp


@pytest.mark.parametrize(
    "names,tok2vec", [(["elmo", "tagger"], None), (["tok2vec", "elmo", "tagger"], TOK2VEC_LISTENER)]
)
def test_a_pipeline_without_listener_is_a_warning_with_lines_to_paste(names, tok2vec):
    nlp = make(names, tok2vec=tok2vec)
    with pytest.warns(UserWarning, match="WL065.*'elmo'.*'tagger'") as found:
        nlp.initialize(lambda: make_examples(nlp))
    assert len(found) == 1
    nlp.update(make_examples(nlp))  # once: warnings are errors here
    lines = str(found[0].message).split("below it, with:")[1].split("If you only")[0]
    pasted = Config().from_str("[components]\n[components.tagger]\n[components.tagger.model]\n" + lines)
    block = pasted["components"]["tagger"]["model"]["tok2vec"]
    assert block == {**LISTENER, "upstream": "elmo"}
    fixed = make(["elmo", "tagger"], tok2vec=block)
    fixed.initialize(lambda: make_examples(fixed))
    fixed.update(make_examples(fixed))
    assert fixed.get_pipe("elmo").listening_components == ["tagger"]


def test_training_without_initialize_warns_once():
    nlp = make()
    with nlp.select_pipes(disable=["elmo"]):
        nlp.initialize(lambda: make_examples(nlp))
    with pytest.warns(UserWarning, match="WL065") as found:
        nlp.update(make_examples(nlp))
        nlp.update(make_examples(nlp))
    assert len(found) == 1


@pytest.mark.parametrize(
    "names,training",
    [
        (["elmo"], {}),
        (["elmo", "sentencizer"], {}),
        (["tagger", "elmo"], {}),
        (["elmo", "tagger"], {"annotating_components": ["elmo"]}),
        (["elmo", "tagger"], {"frozen_components": ["elmo"]}),
        (["elmo", "tagger"], {"frozen_components": ["tagger"]}),
    ],
)
def test_what_is_meant_so_is_no_warning(names, training):
    nlp = make(names, training)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlp.initialize(lambda: make_examples(nlp))
        nlp.update(make_examples(nlp))


def test_one_listener_is_enough():
    nlp = make(["elmo", "tagger"])
    nlp.add_pipe("tagger", name="other", config=listening())
    nlp.initialize(lambda: make_examples(nlp))
