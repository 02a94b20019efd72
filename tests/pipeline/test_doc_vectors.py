"""Vectors on Docs: copies, slices and joins of Docs give the right rows or an error, never wrong rows."""

import re

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_elmo.pipeline.doc_vectors import get_layers, get_mixed, has_layers, set_vectors
from spacy_elmo.pipeline.vector_record import DocVectors

from .tiny import restore

VOCAB = Vocab()
WORDS = ["Wow", "!", "!", "Really", "?", "the", "cat", "the", "dog", "."]
SPACES = [False, False, False, False, True, True, True, True, False, True]


def make_doc(
    words=WORDS, spaces=SPACES, seed=0, prefix="elmo", store="both", weights=(0.1, 0.2, 0.3), averages_merged=False
):
    doc = Doc(VOCAB, words=words, spaces=spaces)
    layers = numpy.random.default_rng(seed).normal(size=(3, len(words), 4)).astype("float32")
    shares = numpy.exp(weights) / numpy.exp(weights).sum()
    mixed = numpy.einsum("ltd,l->td", layers, shares).astype("float32") * 2
    vectors = DocVectors(mixed, layers, list(weights), 2.0, None, averages_merged=averages_merged)
    if store == "layers":
        vectors = vectors._replace(mixed=None)
    elif store == "mixed":
        vectors = vectors._replace(layers=None)
    set_vectors(doc, prefix, vectors)
    return doc, mixed, layers


def check(doc, mixed, layers=None):
    numpy.testing.assert_allclose(get_mixed(doc, "elmo", 0, len(doc)), mixed, atol=1e-6)
    for i in range(len(doc)):
        numpy.testing.assert_allclose(get_mixed(doc, "elmo", i, i + 1)[0], mixed[i], atol=1e-6)
    if layers is not None:
        numpy.testing.assert_allclose(get_layers(doc, "elmo", 0, len(doc)), layers, atol=1e-6)


def merge(doc, start, end):
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[start:end])


def test_from_docs_with_different_mixes_and_stores_keeps_mixed_rows():
    one, two = make_doc(store="layers"), make_doc(seed=1, store="layers", weights=(3.0, 0.0, 0.0))
    three = make_doc(seed=2, store="mixed")
    check(Doc.from_docs([one[0], two[0]]), numpy.concatenate([one[1], two[1]]), numpy.concatenate([one[2], two[2]], 1))
    check(Doc.from_docs([one[0], three[0]]), numpy.concatenate([one[1], three[1]]))


# Of two Docs with vectors and one without, whose words may be those that followed a part.
CUTS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(1, 10)), min_size=1, max_size=4)


@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize("how", ["memory", "bytes", "bytes before"])
@settings(max_examples=60, deadline=None)
@given(cuts=CUTS, ensure_whitespace=st.booleans())
def test_cut_and_joined_docs_give_right_rows_or_an_error(how, is_read, cuts, ensure_whitespace):
    """Unread, nobody knows how long a part was: there may be no rows at all, but never wrong ones."""
    docs, parts, expected = [make_doc(), make_doc(seed=1)], [], []
    for which, start, length in cuts:
        if which == 2:
            parts.append(Doc(VOCAB, words=WORDS[start : start + length]))
            expected += [None] * len(parts[-1])
            continue
        doc, mixed, _ = docs[which]
        doc = restore(doc) if how == "bytes before" else doc
        parts.append(doc[start : start + length].as_doc(copy_user_data=True))
        expected += list(mixed[start : start + length])
        if is_read:
            get_mixed(parts[-1], "elmo", 0, 1)
    joined = Doc.from_docs(parts, ensure_whitespace=ensure_whitespace)
    joined = restore(joined) if how == "bytes" else joined
    for i, row in enumerate(expected):
        try:
            found = get_mixed(joined, "elmo", i, i + 1)[0]
        except ValueError as error:
            assert "EL062" in str(error) and row is None if is_read else re.search("EL074|EL062", str(error))
        else:
            numpy.testing.assert_array_equal(found, row)


@pytest.mark.parametrize("merged, is_split", [((8, 10), False), (None, True), ((0, 2), True)])
def test_retokenized_docs_are_an_error_until_vectors_are_set_again(merged, is_split):
    doc, _, _ = make_doc()
    with doc.retokenize() as retokenizer:
        if merged:
            retokenizer.merge(doc[slice(*merged)])
        if is_split:
            retokenizer.split(doc[3], ["Real", "ly"], heads=[doc[3], doc[3]])
    joined, cut = Doc.from_docs([doc, make_doc(seed=1)[0]]), doc[:].as_doc(copy_user_data=True)
    for found in (doc, joined, cut):
        with pytest.raises(ValueError, match="EL063"):
            get_mixed(found, "elmo", 0, len(found))
    for i in range(4 if is_split else len(doc)):
        with pytest.raises(ValueError, match="EL063"):
            get_mixed(doc, "elmo", i, i + 1)
    mixed = numpy.ones((len(doc), 4), dtype="f")
    set_vectors(doc, "elmo", DocVectors(mixed, None, [0.0], 1.0, None))
    check(doc, mixed)


def test_empty_doc_has_no_rows():
    doc = Doc(VOCAB)
    set_vectors(doc, "elmo", DocVectors(None, numpy.zeros((3, 0, 4), dtype="f"), [0.0, 0.0, 0.0], 1.0, None))
    assert get_mixed(doc, "elmo", 0, 0).shape == (0, 4)
    one, mixed, layers = make_doc()
    check(Doc.from_docs([doc, one, doc]), mixed, layers)


class Unsearchable(dict):
    """User data that can be looked up, but not searched."""

    def __iter__(self):
        raise AssertionError("a read looked through all user data")

    keys = values = items = __iter__


def test_a_second_read_of_a_joined_doc_does_not_look_through_user_data():
    doc, mixed, layers = make_doc()
    doc = Doc.from_docs([doc] * 50)
    get_mixed(doc, "elmo", 0, 1)
    doc.user_data = Unsearchable(doc.user_data)
    check(doc, numpy.concatenate([mixed] * 50))
    assert get_layers(doc, "elmo", 1, 3).shape == (3, 2, 4) and has_layers(doc, "elmo")


NUMBERS = [f"w{i}" for i in range(100)]
VECTORS = dict(zip(NUMBERS, numpy.random.default_rng(5).normal(size=(100, 3, 4)).astype("f")))
STEPS = ["merge", "as_doc", "from_docs", "beside plain", "bytes", "docbin", "copy", "read"]


def make_numbered(words, has_layers=True, norm=None):
    """The vector of a token is that of its text, so that the right one is known after any number of steps."""
    doc = Doc(VOCAB, words=words)
    layers = numpy.stack([VECTORS[word] for word in words], axis=1)
    mixed = None if has_layers else layers.mean(axis=0)
    layers = layers if has_layers else None
    set_vectors(doc, "elmo", DocVectors(mixed, layers, [0.0] * 3, 1.0, norm, averages_merged=True))
    return doc


def normed(layers):
    centred = layers - layers.mean(axis=-1, keepdims=True)
    return centred / numpy.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)


@pytest.mark.parametrize("has_layers, norm", [(True, None), (True, "token"), (False, None)])
@settings(max_examples=120, deadline=None)
@given(steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 9), st.integers(1, 5)), max_size=6))
def test_any_order_of_steps_gives_the_mean_of_the_words_of_a_token(has_layers, norm, steps):
    """Or an error if two copies were made without a read between them, of any of the Docs."""
    doc, n_unread, n_made = make_numbered(NUMBERS[:10], has_layers, norm), 0, 10
    for step, start, length in steps:
        if step == "merge" and start + 1 < len(doc):
            merge(doc, start, min(start + length + 1, len(doc)))
        elif step == "as_doc" and start < len(doc):
            doc, n_unread = doc[start : start + length].as_doc(copy_user_data=True), n_unread + 1
        elif step == "from_docs":
            other = make_numbered(NUMBERS[n_made : n_made + length], has_layers, norm)
            docs = [doc, other] if start % 2 else [other, doc]
            doc, n_unread, n_made = Doc.from_docs(docs), n_unread + 1, n_made + length
        elif step == "beside plain":
            plain = Doc(VOCAB, words=["plain"] * length)
            doc, n_unread = Doc.from_docs([doc, plain] if start % 2 else [plain, doc]), n_unread + 1
        elif step in ("bytes", "docbin"):
            doc = restore(doc, step)
        elif step == "copy":
            doc = doc.copy()
        elif step == "read" and n_unread < 2:
            try:
                get_mixed(doc, "elmo", 0, 1)
            except ValueError as error:
                assert "EL062" in str(error)
            n_unread = 0
    for i, token in enumerate(doc):
        words = token.text.split()
        if "plain" in words:
            with pytest.raises(ValueError, match="EL062|EL074"):
                get_mixed(doc, "elmo", i, i + 1)
            continue
        try:
            found = get_mixed(doc, "elmo", i, i + 1)[0]
        except ValueError as error:
            assert n_unread > 1 and re.search("EL074|EL062", str(error))
            continue
        layers = numpy.stack([VECTORS[word] for word in words])
        mixed = (normed(layers) if norm else layers).mean(axis=1)
        numpy.testing.assert_allclose(found, mixed.mean(axis=0), atol=1e-5)
        if has_layers:
            numpy.testing.assert_allclose(get_layers(doc, "elmo", i, i + 1)[:, 0], layers.mean(axis=0), atol=1e-5)


def test_docs_of_different_models_cannot_be_read_as_one():
    one, two = Doc(VOCAB, words=["the", "cat"]), Doc(VOCAB, words=["a"])
    set_vectors(one, "elmo", DocVectors(numpy.ones((2, 4), dtype="f"), None, [0.0], 1.0, None))
    set_vectors(two, "elmo", DocVectors(numpy.ones((1, 2), dtype="f"), None, [0.0], 1.0, None))
    with pytest.raises(ValueError, match=r"widths \[2, 4\]"):
        get_mixed(Doc.from_docs([one, two]), "elmo", 0, 1)
