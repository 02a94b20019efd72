"""Vectors on Docs: copies, slices and joins of Docs give the right rows or an error, never wrong rows."""

import pickle
import time
import warnings

import numpy
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_elmo.ml.doc_vectors import DocVectors, get_layers, get_mixed, has_layers, set_vectors

VOCAB = Vocab()
WORDS = ["Wow", "!", "!", "Really", "?", "the", "cat", "the", "dog", "."]
SPACES = [False, False, False, False, True, True, True, True, False, True]


def make_doc(words=WORDS, spaces=SPACES, seed=0, prefix="elmo", store="both", weights=(0.1, 0.2, 0.3)):
    doc = Doc(VOCAB, words=words, spaces=spaces)
    layers = numpy.random.default_rng(seed).normal(size=(3, len(words), 4)).astype("float32")
    shares = numpy.exp(weights) / numpy.exp(weights).sum()
    mixed = numpy.einsum("ltd,l->td", layers, shares).astype("float32") * 2
    vectors = DocVectors(mixed, layers, list(weights), 2.0, None)
    if store == "layers":
        vectors = vectors._replace(mixed=None)
    elif store == "mixed":
        vectors = vectors._replace(layers=None)
    set_vectors(doc, prefix, vectors)
    return doc, mixed, layers


def check(doc, mixed, layers=None):
    """All at once and token by token."""
    numpy.testing.assert_allclose(get_mixed(doc, "elmo", 0, len(doc)), mixed, atol=1e-6)
    for i in range(len(doc)):
        numpy.testing.assert_allclose(get_mixed(doc, "elmo", i, i + 1)[0], mixed[i], atol=1e-6)
    if layers is not None:
        numpy.testing.assert_allclose(get_layers(doc, "elmo", 0, len(doc)), layers, atol=1e-6)


@pytest.mark.parametrize("store", ["mixed", "layers", "both"])
def test_vectors_are_found_again(store):
    doc, mixed, layers = make_doc(store=store)
    check(doc, mixed, None if store == "mixed" else layers)
    assert has_layers(doc, "elmo") == (store != "mixed")


@pytest.mark.parametrize("store", ["mixed", "layers", "both"])
@pytest.mark.parametrize("how", ["bytes", "docbin", "pickle", "copy"])
def test_vectors_survive_serialization(store, how):
    doc, mixed, layers = make_doc(store=store)
    if how == "bytes":
        copied = Doc(VOCAB).from_bytes(doc.to_bytes())
    elif how == "docbin":
        data = DocBin(docs=[doc], store_user_data=True).to_bytes()
        copied = next(DocBin(store_user_data=True).from_bytes(data).get_docs(VOCAB))
    elif how == "pickle":
        copied = pickle.loads(pickle.dumps(doc))
    else:
        copied = doc.copy()
    check(copied, mixed, None if store == "mixed" else layers)


def test_half_precision_survives_bytes():
    doc = Doc(VOCAB, words=["a"])
    layers = numpy.ones((3, 1, 4), dtype="float16")
    set_vectors(doc, "elmo", DocVectors(None, layers, [0.0, 0.0, 0.0], 1.0, None))
    copied = Doc(VOCAB).from_bytes(doc.to_bytes())
    assert get_mixed(copied, "elmo", 0, 1).dtype == get_layers(copied, "elmo", 0, 1).dtype == numpy.float16


def test_only_mixed_vectors_have_no_layers():
    doc, _, _ = make_doc(store="mixed")
    with pytest.raises(ValueError, match="EL064"):
        get_layers(doc, "elmo", 0, 1)


def test_doc_without_vectors_is_an_error():
    doc, _, _ = make_doc(prefix="other")
    with pytest.raises(ValueError, match="EL062"):
        get_mixed(doc, "elmo", 0, len(doc))


@pytest.mark.parametrize("ensure_whitespace", [True, False])
def test_from_docs_keeps_rows(ensure_whitespace):
    one, two = make_doc(), make_doc(seed=1)
    joined = Doc.from_docs([one[0], two[0], one[0]], ensure_whitespace=ensure_whitespace)
    for i in range(len(WORDS)):
        numpy.testing.assert_array_equal(get_mixed(joined, "elmo", 10 + i, 11 + i)[0], two[1][i])
    check(joined, numpy.concatenate([one[1], two[1], one[1]]), numpy.concatenate([one[2], two[2], one[2]], axis=1))


def test_from_docs_with_different_mixes_and_stores_keeps_mixed_rows():
    one, two = make_doc(store="layers"), make_doc(seed=1, store="layers", weights=(3.0, 0.0, 0.0))
    three = make_doc(seed=2, store="mixed")
    check(Doc.from_docs([one[0], two[0]]), numpy.concatenate([one[1], two[1]]), numpy.concatenate([one[2], two[2]], 1))
    check(Doc.from_docs([one[0], three[0]]), numpy.concatenate([one[1], three[1]]))


def test_from_docs_with_a_doc_without_vectors_knows_the_others():
    one, two = make_doc(), make_doc(seed=1)
    plain = Doc(VOCAB, words=["plain", "words"])
    joined = Doc.from_docs([one[0], plain, two[0]])
    numpy.testing.assert_array_equal(get_mixed(joined, "elmo", 0, 10), one[1])
    numpy.testing.assert_array_equal(get_mixed(joined, "elmo", 12, 22), two[1])
    for start, end in [(10, 11), (0, 22), (9, 11)]:
        with pytest.raises(ValueError, match="EL062"):
            get_mixed(joined, "elmo", start, end)


@pytest.mark.parametrize("start,end", [(0, 10), (0, 3), (2, 7), (5, 10), (4, 5)])
def test_as_doc_keeps_rows(start, end):
    doc, mixed, layers = make_doc()
    check(doc[start:end].as_doc(copy_user_data=True), mixed[start:end], layers[:, start:end])
    check(doc, mixed, layers)


def test_as_doc_without_user_data_is_an_error():
    doc, _, _ = make_doc()
    with pytest.raises(ValueError, match="EL062"):
        get_mixed(doc[1:3].as_doc(), "elmo", 0, 1)


def test_as_doc_then_from_docs_keeps_rows_of_parts_that_were_read():
    doc, mixed, layers = make_doc(spaces=[True] * len(WORDS))
    parts = [doc[a:b].as_doc(copy_user_data=True) for a, b in [(0, 3), (3, 5), (5, 10)]]
    for part in parts:
        get_mixed(part, "elmo", 0, 1)
    check(Doc.from_docs(parts), mixed, layers)


# What follows a cut part may be the words that followed it in the Doc, others, or more of either.
FOLLOWERS = [["the", "dog"], ["the", "dog", "ran"], ["the", "cat"], ["zzz", "yyy", "xxx", "www"], ["dog"]]


@pytest.mark.parametrize("words", FOLLOWERS)
@pytest.mark.parametrize("start,end", [(0, 2), (1, 2), (0, 0)])
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("how", ["memory", "bytes", "bytes before", "docbin"])
def test_cut_part_beside_a_doc_without_vectors(words, start, end, is_first, how):
    """Read first: right rows and no vectors. Unread: nobody knows how long the part was, so no rows at all."""
    doc, mixed, _ = make_doc(["the", "cat", "the", "dog"], [True] * 4)
    if how == "bytes before":
        doc = Doc(VOCAB).from_bytes(doc.to_bytes())
    for is_read in (True, False):
        part, plain = doc[start:end].as_doc(copy_user_data=True), Doc(VOCAB, words=words)
        if is_read:
            numpy.testing.assert_array_equal(get_mixed(part, "elmo", 0, len(part)), mixed[start:end])
        joined = Doc.from_docs([part, plain] if is_first else [plain, part])
        if how == "bytes":
            joined = Doc(VOCAB).from_bytes(joined.to_bytes())
        elif how == "docbin":
            data = DocBin(docs=[joined], store_user_data=True).to_bytes()
            joined = next(DocBin(store_user_data=True).from_bytes(data).get_docs(VOCAB))
        first = 0 if is_first else len(words)
        for i in range(len(joined)):
            is_part = first <= i < first + end - start
            if is_part and is_read:
                numpy.testing.assert_array_equal(get_mixed(joined, "elmo", i, i + 1)[0], mixed[start + i - first])
                continue
            unread = "EL074" if is_part else "EL074|EL062"
            with pytest.raises(ValueError, match="EL062" if is_read else unread):
                get_mixed(joined, "elmo", i, i + 1)


def test_part_of_bytes_that_were_read_without_the_package_is_not_taken_for_the_whole():
    doc, mixed, _ = make_doc(["the", "cat", "the", "dog"], [True] * 4)
    ((key, piece),) = doc.user_data.items()
    doc.user_data[key] = dict(piece)
    check(doc, mixed)
    ((key, piece),) = doc.user_data.items()
    doc.user_data[key] = dict(piece)
    joined = Doc.from_docs([doc[0:2].as_doc(copy_user_data=True), Doc(VOCAB, words=["the", "dog", "ran"])])
    for i in range(len(joined)):
        with pytest.raises(ValueError, match="EL074|EL062"):
            get_mixed(joined, "elmo", i, i + 1)


def test_cut_of_a_joined_doc_that_was_read_keeps_rows():
    one, two = make_doc(), make_doc(seed=1)
    joined = Doc.from_docs([Doc(VOCAB, words=["plain"]), one[0], Doc(VOCAB, words=["words"]), two[0]])
    numpy.testing.assert_array_equal(get_mixed(joined, "elmo", 1, 11), one[1])
    numpy.testing.assert_array_equal(get_mixed(joined[9:16].as_doc(copy_user_data=True), "elmo", 0, 2), one[1][8:])
    part = joined[9:16].as_doc(copy_user_data=True)
    numpy.testing.assert_array_equal(get_mixed(part, "elmo", 3, 7), two[1][:4])
    with pytest.raises(ValueError, match="EL062"):
        get_mixed(part, "elmo", 2, 3)
    again = Doc.from_docs([part, joined])
    numpy.testing.assert_array_equal(get_mixed(again, "elmo", 8, 18), one[1])


def test_cut_or_joined_twice_unread_is_an_error_and_says_what_to_do():
    doc, mixed, _ = make_doc()
    joined = Doc.from_docs([Doc.from_docs([doc, doc]), doc])
    with pytest.raises(ValueError, match="EL074.*Read `._.elmo` of each Doc"):
        get_mixed(joined, "elmo", 0, 1)
    twice = Doc.from_docs([doc, doc])
    get_mixed(twice, "elmo", 0, 1)
    check(Doc.from_docs([twice, doc]), numpy.concatenate([mixed] * 3))


def test_reading_a_span_of_a_long_doc_does_not_look_at_all_of_it():
    doc, _, _ = make_doc([f"w{i % 100}" for i in range(20_000)], [True] * 20_000)
    started = time.perf_counter()
    for i in range(200):
        get_mixed(doc, "elmo", i, i + 2)
    assert time.perf_counter() - started < 0.1  # 0.4 s where each call reads all tokens


CUTS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 9), st.integers(1, 10)), min_size=1, max_size=4)


@pytest.mark.parametrize("is_read", [True, False])
@settings(max_examples=60, deadline=None)
@given(cuts=CUTS, ensure_whitespace=st.booleans())
def test_cut_and_joined_docs_give_right_rows_or_an_error(is_read, cuts, ensure_whitespace):
    docs = [make_doc(), make_doc(seed=1)]
    parts, expected = [], []
    for which, start, length in cuts:
        parts.append(docs[which][0][start : start + length].as_doc(copy_user_data=True))
        expected.append(docs[which][1][start : start + length])
        if is_read:
            get_mixed(parts[-1], "elmo", 0, 1)
    joined, mixed = Doc.from_docs(parts, ensure_whitespace=ensure_whitespace), numpy.concatenate(expected)
    if is_read:
        check(joined, mixed)
        return
    for i in range(len(joined)):
        try:
            found = get_mixed(joined, "elmo", i, i + 1)[0]
        except ValueError:
            continue
        numpy.testing.assert_array_equal(found, mixed[i])


@pytest.mark.parametrize("start,end", [(0, 2), (3, 5), (8, 10)])
def test_merged_tokens_are_an_error(start, end):
    doc, _, _ = make_doc()
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[start:end])
    for i in range(len(doc)):
        with pytest.raises(ValueError, match="EL063"):
            get_mixed(doc, "elmo", i, i + 1)
    with pytest.raises(ValueError, match="EL063"):
        get_mixed(doc, "elmo", 0, len(doc))


def test_split_tokens_are_an_error():
    doc, _, _ = make_doc()
    with doc.retokenize() as retokenizer:
        retokenizer.split(doc[3], ["Real", "ly"], heads=[doc[3], doc[3]])
    with pytest.raises(ValueError, match="EL063"):
        get_mixed(doc, "elmo", 0, len(doc))


def test_merged_and_split_to_the_same_number_is_an_error():
    doc, mixed, _ = make_doc()
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
        retokenizer.split(doc[3], ["Real", "ly"], heads=[doc[3], doc[3]])
    assert len(doc) == len(mixed)
    for i in range(0, 4):
        with pytest.raises(ValueError, match="EL063"):
            get_mixed(doc, "elmo", i, i + 1)
    with pytest.raises(ValueError, match="EL063"):
        get_mixed(doc, "elmo", 0, len(doc))


def test_retokenized_docs_stay_an_error_when_joined_and_cut():
    doc, _, _ = make_doc()
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[3:5])
    joined = Doc.from_docs([doc, make_doc(seed=1)[0]])
    with pytest.raises(ValueError, match="EL063"):
        get_mixed(joined, "elmo", 0, len(joined))
    with pytest.raises(ValueError, match="EL063"):
        get_mixed(doc[2:6].as_doc(copy_user_data=True), "elmo", 0, 1)


def test_vectors_set_again_replace_the_old_ones():
    doc, _, _ = make_doc()
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[3:5])
    mixed = numpy.ones((len(doc), 4), dtype="f")
    set_vectors(doc, "elmo", DocVectors(mixed, None, [0.0], 1.0, None))
    check(doc, mixed)


def test_empty_doc_has_no_rows():
    doc = Doc(VOCAB)
    set_vectors(doc, "elmo", DocVectors(None, numpy.zeros((3, 0, 4), dtype="f"), [0.0, 0.0, 0.0], 1.0, None))
    assert get_mixed(doc, "elmo", 0, 0).shape == (0, 4)
    one, mixed, layers = make_doc()
    check(Doc.from_docs([doc, one, doc]), mixed, layers)


def test_joining_docs_gives_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Doc.from_docs([make_doc()[0], make_doc()[0]])


def test_two_prefixes_on_one_doc():
    doc, mixed, layers = make_doc()
    other = DocVectors(mixed + 1, None, [0.0, 0.0, 0.0], 1.0, None)
    set_vectors(doc, "other", other)
    check(doc, mixed, layers)
    numpy.testing.assert_array_equal(get_mixed(doc, "other", 0, len(doc)), mixed + 1)


def test_tokens_of_a_blank_pipeline_keep_their_rows():
    doc = spacy.blank("en")("She said:  \n 'no'...\t\tOK? ")
    mixed = numpy.arange(len(doc) * 2, dtype="f").reshape(-1, 2)
    set_vectors(doc, "elmo", DocVectors(mixed, None, [0.0], 1.0, None))
    check(doc, mixed)
    check(Doc.from_docs([doc, doc]), numpy.concatenate([mixed, mixed]))
