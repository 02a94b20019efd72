"""The extension attributes: registration, copies of Docs, errors with a remedy."""

import pickle
import subprocess
import sys

import numpy
import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span, Token

from spacy_elmo import register_extensions
from spacy_elmo.pipeline.extensions import DocVectorsGetter

TEXT = "She sat on the bank of the river. Then she left."


def test_doc_without_vectors_says_what_to_do():
    register_extensions()
    doc = spacy.blank("en")("text")
    for read in (lambda: doc._.elmo, lambda: doc[0]._.elmo, lambda: doc[0:1]._.elmo, lambda: doc._.elmo_layers):
        with pytest.raises(ValueError, match="EL062"):
            read()


def test_registering_twice_does_no_harm_and_a_taken_name_is_an_error():
    register_extensions("twice")
    register_extensions("twice")
    Doc.set_extension("taken_layers", default=1)
    try:
        with pytest.raises(ValueError, match="EL073.*taken_layers"):
            register_extensions("taken")
    finally:
        for owner in (Doc, Span, Token):
            for name in ("twice", "twice_layers", "taken", "taken_layers"):
                if owner.has_extension(name):
                    owner.remove_extension(name)


def test_getters_are_picklable():
    assert pickle.loads(pickle.dumps(DocVectorsGetter("elmo"))) == DocVectorsGetter("elmo")


@pytest.mark.slow
def test_docs_are_read_without_a_pipeline(nlp, tmp_path):
    doc = nlp(TEXT)
    DocBin(docs=[doc], store_user_data=True).to_disk(tmp_path / "docs.spacy")
    numpy.save(tmp_path / "expected.npy", doc._.elmo)
    script = """
import sys, numpy, spacy
from spacy.tokens import DocBin
from spacy_elmo import register_extensions
register_extensions()
doc, = DocBin().from_disk(sys.argv[1] + "/docs.spacy").get_docs(spacy.blank("en").vocab)
numpy.testing.assert_array_equal(doc._.elmo, numpy.load(sys.argv[1] + "/expected.npy"))
numpy.testing.assert_array_equal(doc[1]._.elmo, doc._.elmo[1])
assert not doc._.elmo_layers.flags.writeable
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=120)


@pytest.mark.parametrize("how", ["bytes", "docbin", "pickle", "copy", "from_docs", "as_doc"])
def test_copies_of_docs_keep_rows(nlp, how):
    doc, other = nlp(TEXT), nlp("Something else.")
    expected, layers = doc._.elmo, doc._.elmo_layers
    if how == "bytes":
        found = Doc(nlp.vocab).from_bytes(doc.to_bytes())
    elif how == "docbin":
        data = DocBin(docs=[doc], store_user_data=True).to_bytes()
        found = next(DocBin().from_bytes(data).get_docs(nlp.vocab))
    elif how == "pickle":
        found = pickle.loads(pickle.dumps(doc))
    elif how == "copy":
        found = doc.copy()
    elif how == "from_docs":
        joined = Doc.from_docs([other, doc])
        assert joined._.elmo.any()  # read between two such steps
        found = joined[len(other) :].as_doc(copy_user_data=True)
    else:
        found, expected, layers = doc[3:8].as_doc(copy_user_data=True), expected[3:8], layers[:, 3:8]
    numpy.testing.assert_array_equal(found._.elmo, expected)
    numpy.testing.assert_array_equal(found._.elmo_layers, layers)
    for i, token in enumerate(found):
        numpy.testing.assert_array_equal(token._.elmo, expected[i])
        numpy.testing.assert_array_equal(token._.elmo_layers, layers[:, i])


def test_retokenized_doc_is_an_error_until_computed_again(nlp):
    doc = nlp(TEXT)
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[3:5])
    with pytest.raises(ValueError, match="EL063"):
        _ = doc._.elmo
    with pytest.raises(ValueError, match="EL063"):
        _ = doc[0]._.elmo
    nlp.get_pipe("elmo")(doc)
    assert doc._.elmo.shape[0] == len(doc)


def test_errors_reach_the_user_as_they_are(nlp):
    """spaCy turns a KeyError inside a component into E109; ours are none."""
    nlp.add_pipe("sentencizer")

    @spacy.Language.component("reads_missing")
    def reads_missing(doc):
        _ = Doc(doc.vocab, words=["a"])._.elmo
        return doc

    nlp.add_pipe("reads_missing")
    with pytest.raises(ValueError, match="EL062"):
        nlp("text")
