"""A text classifier that pools vectors by their maximum: Docs without tokens score 0, all others as with spaCy."""

import pickle

import numpy
import pytest
import spacy
from spacy.training import Example
from thinc.api import fix_random_seed

from .placements import task_encoder
from .tiny import LISTENER, add_elmo

TEXTS = ["She sat on the bank", "It rains", "The bank lends money"]
CATS = [{"A": 1.0, "B": 0.0}, {"A": 0.0, "B": 1.0}, {"A": 1.0, "B": 0.0}]
ALL = {f"use_reduce_{kind}": True for kind in ("first", "last", "max", "mean")}


def make(library="spacy-elmo", texts=TEXTS, factory="textcat", tok2vec=LISTENER):
    fix_random_seed(0)
    nlp = spacy.blank("en")
    add_elmo(nlp)
    model = {"@architectures": f"{library}.TextCatReduce.v1", "tok2vec": tok2vec, **ALL}
    nlp.add_pipe(factory, config={"model": {**model, "exclusive_classes": factory == "textcat"}})
    examples = [Example.from_dict(nlp.make_doc(text), {"cats": cats}) for text, cats in zip(texts, CATS)]
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(3):
        nlp.update(examples, sgd=optimizer)
    return nlp


def scores(nlp, texts):
    return numpy.array([[doc.cats["A"], doc.cats["B"]] for doc in nlp.pipe(texts)])


@pytest.mark.parametrize("factory", ["textcat", "textcat_multilabel"])
def test_docs_with_tokens_score_as_with_spacy(factory):
    numpy.testing.assert_allclose(scores(make(factory=factory), TEXTS), scores(make("spacy", factory=factory), TEXTS))


@pytest.mark.parametrize("tok2vec", [LISTENER, task_encoder()], ids=["listener", "task encoder"])
def test_a_doc_without_tokens_scores_zero_and_changes_no_other(tok2vec):
    nlp = make(tok2vec=tok2vec)
    found = scores(nlp, ["", TEXTS[0], "", TEXTS[1]])
    assert not found[[0, 2]].any()
    numpy.testing.assert_allclose(found[[1, 3]], scores(nlp, TEXTS[:2]), atol=1e-5)
    assert not scores(nlp, ["", ""]).any()
    with pytest.raises(ValueError, match="sequence lengths must be > 0"):  # what this is for
        scores(make("spacy"), ["", TEXTS[0]])


def test_a_doc_without_tokens_in_the_training_data():
    texts = [TEXTS[0], "", TEXTS[2]]
    nlp = make(texts=texts)
    found = scores(nlp, texts)
    assert found[0].argmax() == found[2].argmax() == 0 and not found[1].any()


@pytest.mark.parametrize(
    "copy",
    [
        lambda nlp: pickle.loads(pickle.dumps(nlp)),
        lambda nlp: spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes()),
    ],
    ids=["pickle", "bytes"],
)
def test_a_label_added_later_is_scored_and_saved(copy):
    nlp = make()
    nlp.get_pipe("textcat").add_label("C")
    found = copy(nlp)(TEXTS[0]).cats
    assert list(found) == ["A", "B", "C"] and found == nlp(TEXTS[0]).cats


def test_listeners_can_be_replaced():
    nlp = make()
    before = scores(nlp, ["", *TEXTS])
    nlp.replace_listeners("elmo", "textcat", ["model.tok2vec"])
    numpy.testing.assert_allclose(scores(nlp, ["", *TEXTS]), before, atol=1e-5)
