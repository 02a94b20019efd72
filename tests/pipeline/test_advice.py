"""The warning that no component listens to ELMo: when it comes, what it says, and when it does not come."""

import warnings

import pytest
import spacy
from spacy.language import Language
from thinc.api import Config, Linear

from .tiny import LISTENER, add_elmo, listening, make_examples

TOK2VEC_LISTENER = {"@architectures": "spacy.Tok2VecListener.v1", "width": 96}


def make(names=("elmo", "tagger"), training=None, tok2vec=None):
    nlp = spacy.blank("en")
    add_elmo(nlp)
    for place, name in enumerate(names):
        if name != "elmo":
            before = "elmo" if place < names.index("elmo") else None
            config = {"model": {"tok2vec": tok2vec}} if tok2vec and name == "tagger" else {}
            nlp.add_pipe(name, before=before, config=config)
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


def categories(nlp):
    examples = make_examples(nlp)
    for i, example in enumerate(examples):
        example.reference.cats = {"a": float(i % 2), "b": float(1 - i % 2)}
    return examples


@pytest.mark.issue(15)
@pytest.mark.parametrize("factory", ["textcat", "textcat_multilabel"])
def test_a_bag_of_words_classifier_is_named_with_the_model_that_listens(factory):
    model = {"@architectures": "spacy.TextCatBOW.v3", "exclusive_classes": factory == "textcat"}
    nlp = make(["elmo"])
    nlp.add_pipe(factory, config={"model": {**model, "length": 64, "ngram_size": 1, "no_output_layer": False}})
    with pytest.warns(UserWarning, match=f"WL065.*'elmo'.*'{factory}'") as found:
        nlp.initialize(lambda: categories(nlp))
    lines = str(found[0].message).split("below it, with:")[1].split("If you only")[0]
    block = Config().from_str(f"[components]\n[components.{factory}]\n" + lines)["components"][factory]["model"]
    assert block["exclusive_classes"] is (factory == "textcat")
    fixed = make(["elmo"])
    fixed.add_pipe(factory, config={"model": block})
    fixed.initialize(lambda: categories(fixed))
    fixed.update(categories(fixed))
    assert fixed.get_pipe("elmo").listening_components == [factory]


@pytest.mark.issue(15)
def test_a_component_before_elmo_is_told_to_come_after_it():
    nlp = make(["tagger", "elmo", "ner"])
    with pytest.warns(UserWarning, match="WL065.*move 'tagger' after 'elmo'") as found:
        nlp.initialize(lambda: make_examples(nlp))
    assert "[components.tagger.model.tok2vec]" in str(found[0].message)
    assert "[components.ner.model.tok2vec]" in str(found[0].message)


@pytest.mark.issue(15)
def test_a_model_without_tok2vec_is_named():
    nlp = make(["elmo"])

    class OwnModel:
        def __init__(self, nlp, name):
            self.model = Linear(2, 2)

        def __call__(self, doc):
            return doc

    Language.factory("test_own_model", func=OwnModel)
    nlp.add_pipe("test_own_model")
    with pytest.warns(UserWarning, match="(?s)WL065.*'test_own_model' has no tok2vec"):
        nlp.initialize(lambda: make_examples(nlp))


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
        (["tagger", "elmo"], {"frozen_components": ["tagger"]}),
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
