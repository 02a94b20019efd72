"""The extension attributes: registration, copies of Docs, errors with a remedy."""

import pickle

import numpy
import pytest
import spacy
from own_process import run_script
from spacy.tokens import Doc, DocBin, Span, Token
from spacy.training import Example

from spacy_elmo import register_extensions

from .tiny import add_elmo, with_elmo

TEXT = "She sat on the bank of the river. Then she left."


def test_doc_without_vectors_says_what_to_do():
    register_extensions()
    doc = spacy.blank("en")("text")
    for owner, name in [(doc, "elmo"), (doc[0], "elmo"), (doc[0:1], "elmo"), (doc, "elmo_layers")]:
        with pytest.raises(ValueError, match="EL062") as caught:
            getattr(owner._, name)
        assert not isinstance(caught.value, KeyError)  # which spaCy would replace by E109


def test_registering_twice_does_no_harm_and_a_taken_name_is_an_error():
    register_extensions("twice")
    register_extensions("twice")
    Doc.set_extension("taken_layers", default=1)
    try:
        with pytest.raises(ValueError, match="taken_layers"):
            register_extensions("taken")
    finally:
        for owner in (Doc, Span, Token):
            for name in ("twice", "twice_layers", "taken", "taken_layers"):
                if owner.has_extension(name):
                    owner.remove_extension(name)


NAMES = ("elmo", "elmo_layers")


@pytest.mark.parametrize("store", ["mixed", "layers", "both"])
def test_attributes_cannot_be_set_and_arrays_not_be_written_to(store):
    nlp = with_elmo(store=store, set_vectors=True)
    doc = nlp(TEXT)
    arrays = [doc.tensor, doc[1].vector]
    for name in NAMES[: 1 if store == "mixed" else 2]:
        for owner in (doc, doc[1:3], doc[1]):
            arrays.append(getattr(owner._, name))
            before = arrays[-1].copy()
            for write in (setattr, type(owner._).set):
                with pytest.raises(AttributeError, match=rf"{type(owner).__name__}\._\.{name}.*copy"):
                    write(owner._, name, 1)
            numpy.testing.assert_array_equal(getattr(owner._, name), before)
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[..., 0] = 1


@pytest.mark.parametrize("store", ["mixed", "layers", "both"])
def test_merged_tokens_get_the_mean_of_their_words_without_spaces(store):
    nlp = with_elmo(store=store, average_merged=True, mix={"initial_gamma": 2.0})
    doc = nlp("She sat  on the bank of the river.")
    rows = doc._.elmo.copy()
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[1:4])  # "sat", a space, "on"
    for found in (doc, Doc(nlp.vocab).from_bytes(doc.to_bytes())):
        expected = [rows[0], rows[[1, 3]].mean(axis=0), *rows[4:]]
        numpy.testing.assert_allclose(found._.elmo, expected, atol=1e-6)
        if store != "mixed":
            numpy.testing.assert_allclose(2 * found._.elmo_layers.mean(axis=0), expected, atol=1e-6)


CHANGES = ["none", "merge", "split", "tok2vec", "cleaner", "as_doc", "from_docs", "bytes", "docbin", "pickle", "copy"]


def change(nlp, doc, how):
    """What may happen to a Doc after the component `elmo`."""
    if how in ("merge", "split"):
        with doc.retokenize() as retokenizer:
            if how == "merge":
                retokenizer.merge(doc[1:3])
            else:
                retokenizer.split(doc[0], ["S", doc[0].text[1:]], heads=[doc[0], doc[0]])
    elif how == "tok2vec":
        doc.tensor = numpy.random.default_rng(0).normal(size=(len(doc), 16)).astype("f")
    elif how == "cleaner":
        doc = nlp.get_pipe("doc_cleaner")(doc)
    elif how == "as_doc":
        doc = doc[0:4].as_doc(copy_user_data=True)
    elif how == "from_docs":
        is_empty = doc.tensor is None or not doc.tensor.size  # spaCy cannot join it with the other Doc's
        doc = Doc.from_docs([doc, nlp("They left.")], exclude=["tensor"] if is_empty else [])
    elif how == "bytes":
        doc = Doc(nlp.vocab).from_bytes(doc.to_bytes(exclude=["user_hooks"]))
    elif how == "docbin":
        doc = next(DocBin(docs=[doc], store_user_data=True).get_docs(nlp.vocab))
    elif how == "pickle":
        doc = pickle.loads(pickle.dumps(doc))
    return doc.copy() if how == "copy" else doc


@pytest.fixture(scope="module")
def with_vectors():
    nlp = with_elmo(set_vectors=True, average_merged=True)
    nlp.add_pipe("doc_cleaner")
    nlp.disable_pipe("doc_cleaner")
    return nlp


@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("second", CHANGES)
@pytest.mark.parametrize("first", CHANGES)
def test_vector_is_what_elmo_is_after_any_two_changes(first, second, is_read, with_vectors):
    """Whatever wrote `doc.tensor`, and whether or not a vector was read in between."""
    if (first, second) in [("cleaner", "as_doc"), ("pickle", "from_docs")]:
        return  # errors of spaCy: it takes a slice of None, and does not join Docs of different vocabularies
    if {first, second} <= {"as_doc", "from_docs"} and not is_read:
        return  # EL074
    nlp = with_vectors
    doc = change(nlp, nlp("She sat on the bank."), first)
    if is_read and first != "split":
        assert doc._.elmo.shape == (len(doc), 16)
    doc = change(nlp, doc, second)
    if "split" in (first, second):
        with pytest.raises(ValueError, match="EL063"):
            _ = doc._.elmo
        assert not doc.has_vector and not doc[0].has_vector
        for owner in (doc, doc[0]):
            with pytest.raises(ValueError, match="EL063"):
                _ = owner.vector
        return
    expected = doc._.elmo
    numpy.testing.assert_allclose(doc.vector, expected.mean(axis=0), atol=1e-6)
    for token, row in zip(doc, expected):
        numpy.testing.assert_array_equal(token.vector, row)
        numpy.testing.assert_array_equal(token._.elmo, row)
    numpy.testing.assert_allclose(doc[1:3].vector, doc[1:3]._.elmo, atol=1e-6)
    assert doc.has_vector and doc[0].has_vector and doc[0:2].has_vector
    assert doc.similarity(doc) == pytest.approx(1.0, abs=1e-5)


def test_a_tok2vec_after_elmo_keeps_its_tensor_and_elmo_its_vectors():
    nlp = with_elmo(set_vectors=True, prefix="own")
    nlp.add_pipe("tok2vec").initialize(lambda: [Example.from_dict(nlp.make_doc("one"), {})], nlp=nlp)
    doc = nlp(TEXT)
    assert doc.tensor.shape == (len(doc), 96)
    numpy.testing.assert_array_equal(doc[4].vector, doc[4]._.own)
    part = doc[2:5].as_doc()  # without user data: spaCy keeps the vector of the span
    numpy.testing.assert_allclose(part.vector, doc[2:5]._.own, atol=1e-6)
    with pytest.raises(ValueError, match="EL062.*copy_user_data=True"):
        _ = part[0].vector
    for name in ("own", "own_layers"):
        for owner in (Doc, Span, Token):
            owner.remove_extension(name)


@pytest.mark.parametrize("set_vectors", [True, False])
@pytest.mark.parametrize("store", ["mixed", "layers"])
@pytest.mark.parametrize("names", [["_.elmo"], ["_.elmo_layers"], ["_.elmo_layers", "_.elmo"]])
def test_doc_cleaner_drops_vectors(names, store, set_vectors):
    nlp = with_elmo(store=store, set_vectors=set_vectors)
    expected = nlp(TEXT)._.elmo
    nlp.add_pipe("doc_cleaner", config={"attrs": dict.fromkeys(names)})
    doc = nlp(TEXT)
    if "_.elmo" in names:
        assert not doc.user_data and not hasattr(doc._, "elmo")
        assert not set_vectors or not (doc.has_vector or doc[0].has_vector or doc[:2].has_vector)
        with pytest.raises(ValueError, match="EL062"):
            _ = doc._.elmo
    else:
        numpy.testing.assert_allclose(doc._.elmo, expected, atol=1e-6)
    with pytest.raises(ValueError, match="EL062|only the mixed vectors"):
        _ = doc._.elmo_layers


def test_setting_none_removes_the_vectors_everywhere():
    nlp = with_elmo(set_vectors=True)
    add_elmo(nlp, name="wide", prefix="wide", seed=2)
    doc = nlp(TEXT)
    doc.user_data["mine"] = 1
    part, elmo = doc[1:4].as_doc(copy_user_data=True), doc._.elmo
    doc._.elmo = None
    assert not doc.tensor.size and not doc.has_vector and len(doc.user_data) == 2
    assert doc._.wide.shape == elmo.shape
    numpy.testing.assert_allclose(part.vector, elmo[1:4].mean(axis=0), atol=1e-6)
    joined = Doc.from_docs([nlp(TEXT), nlp(TEXT)])
    joined._.elmo = joined._.wide = None  # not read before
    assert not joined.user_data and not joined.tensor.size
    nlp.get_pipe("elmo")(doc)
    doc.tensor = numpy.ones((len(doc), 16), dtype="f")  # of another component
    doc._.elmo = None
    assert doc.tensor.all()
    for owner in (doc[0], doc[0:2]):
        with pytest.raises(AttributeError, match=r"doc\._\.elmo = None"):
            owner._.elmo = None


@pytest.mark.parametrize("width", [7, 16])
@pytest.mark.parametrize("averages", [False, True])
def test_merging_keeps_elmo_out_of_the_static_vectors(averages, width):
    """spaCy stores the vector of a merged span in the vocabulary; without hooks it is the mean of static vectors."""
    nlp = spacy.blank("en")
    nlp.vocab.set_vector("York", numpy.full(width, 2.0, dtype="f"))
    add_elmo(nlp, set_vectors=True, average_merged=averages)
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "GPE", "pattern": "New York"}])
    nlp.add_pipe("merge_entities")
    doc = nlp("New York is big")
    assert [token.text for token in doc] == ["New York", "is", "big"]
    numpy.testing.assert_array_equal(nlp.vocab["New York"].vector, numpy.ones(width, dtype="f"))
    assert averages == doc[0].has_vector and doc.vocab.vectors.n_keys == 2


def test_vector_of_a_span_that_has_none_is_no_number():
    """Not zero, which would be a similarity in silence; `as_doc` reads it and works."""
    nlp = with_elmo(set_vectors=True)
    doc = nlp("They like New York City a lot")
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[2:5])
    for _ in range(2):
        assert numpy.isnan(doc[2:3].vector).all() and numpy.isnan(doc[2:3].similarity(doc[0:1]))
        assert not doc[2:3].has_vector and doc[1:3].as_doc().text == "like New York City "
        doc._.elmo = None


def test_the_package_can_be_reloaded():
    """As `%autoreload` does in a notebook: attributes get the getters of the new module."""
    code = """
import importlib, spacy
from spacy_elmo.pipeline import doc_vectors
import spacy_elmo
spacy_elmo.register_extensions()
importlib.reload(doc_vectors)
doc_vectors.register_extensions()
doc_vectors.register_extensions()
from spacy.tokens import Doc
print(type(Doc.get_extension("elmo")[2]) is doc_vectors.VectorsGetter)
Doc.set_extension("mine", default=1)
try:
    doc_vectors.register_extensions("mine")
except ValueError as error:
    print("already registered by other code" in str(error))
"""
    assert run_script(code).split() == ["True", "True"]
