"""Files of commit 177bb64, the last one before the package was made smaller, load and give the same numbers.

tests/fixtures/pipeline_177bb64 was trained for 15 updates on `tiny.make_examples`: a biLM that is trained with
`fine_tuning`, an NER on a listener with a mix of its own, a tagger on a task encoder with a BiLSTM, a `crf_ner` on
joined vectors, and a text classifier with a frozen biLM of its own (`ElmoTok2Vec`).
"""

import json
from pathlib import Path

import numpy
import pytest
import spacy

from spacy_elmo import load_bilm

from .tiny import make_examples

FIXTURES = Path(__file__).parents[1] / "fixtures"
FOUND = json.loads((FIXTURES / "results_177bb64.json").read_text(encoding="utf8"))


def to_bytes_and_back(nlp):
    return spacy.blank("xx").from_config(nlp.config).from_bytes(nlp.to_bytes())


@pytest.mark.parametrize("copy", [lambda nlp: nlp, to_bytes_and_back], ids=["loaded", "loaded and copied"])
def test_a_pipeline_gives_the_same_vectors_annotations_and_scores(copy):
    nlp = copy(spacy.load(FIXTURES / "pipeline_177bb64"))
    for doc, wanted in zip(nlp.pipe(FOUND["texts"]), FOUND["docs"]):
        numpy.testing.assert_allclose(doc._.elmo, numpy.reshape(wanted["elmo"], (len(doc), 16)), atol=2e-6)
        assert [token.tag_ for token in doc] == wanted["tags"]
        assert [[ent.start, ent.end, ent.label_] for ent in doc.ents] == wanted["ents"]
        assert doc.cats == pytest.approx(wanted["cats"], abs=2e-6)
        if len(doc):
            scores = {
                "tagger": nlp.get_pipe("tagger").model.predict([doc])[0],
                "ner": nlp.get_pipe("ner").model.get_ref("tok2vec").predict([doc])[0],
                "crf_ner": nlp.get_pipe("crf_ner").model.predict([doc]).emissions[0],
            }
            for name, rows in wanted["scores"].items():
                numpy.testing.assert_allclose(scores[name], rows, atol=1e-5, err_msg=name)


def test_a_pipeline_can_be_trained_further():
    nlp = spacy.load(FIXTURES / "pipeline_177bb64")
    before = nlp(FOUND["texts"][0])._.elmo.copy()
    for _ in range(2):
        losses = nlp.update(make_examples(nlp))
    assert numpy.isfinite(list(losses.values())).all()
    assert abs(nlp(FOUND["texts"][0])._.elmo - before).max() > 0


def test_a_bilm_gives_the_same_vectors():
    stacks = load_bilm(FIXTURES / "bilm_177bb64").embed(FOUND["sentences"])
    for stack, wanted in zip(stacks, FOUND["stacks"], strict=True):
        numpy.testing.assert_allclose(stack, wanted, atol=2e-6)
