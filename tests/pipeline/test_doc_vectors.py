"""Vectors on Docs: copies, slices and joins of Docs give the right rows or an error, never wrong rows."""

import pickle
import time
import warnings
from pathlib import Path

import numpy
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_elmo.pipeline.doc_vectors import (
    DocVectors,
    drop_layers,
    drop_vectors,
    get_boundary_sums,
    get_layers,
    get_mixed,
    has_layers,
    set_vectors,
)

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
    with pytest.raises(ValueError, match="only the mixed vectors"):
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


class Unsearchable(dict):
    """User data that can be looked up, but not searched."""

    def __iter__(self):
        raise AssertionError("a read looked through all user data")

    keys = values = items = __iter__


@pytest.mark.issue(37)
@pytest.mark.parametrize("how", ["made", "joined", "beside plain", "cut", "bytes", "merged"])
def test_a_second_read_does_not_look_through_user_data(how):
    doc, mixed, _ = make_doc(averages_merged=True)
    if how == "joined":
        doc, mixed = Doc.from_docs([doc] * 50), numpy.concatenate([mixed] * 50)
    elif how == "beside plain":
        doc = Doc.from_docs([doc, Doc(VOCAB, words=["plain"] * 50)])
    elif how == "cut":
        doc, mixed = doc[2:8].as_doc(copy_user_data=True), mixed[2:8]
    elif how == "bytes":
        doc = Doc(VOCAB).from_bytes(doc.to_bytes())
    elif how == "merged":
        merge(doc, 8, 10)
        mixed = numpy.concatenate([mixed[:8], mixed[8:].mean(axis=0, keepdims=True)])
    get_mixed(doc, "elmo", 0, 1)
    doc.user_data = Unsearchable(doc.user_data)
    for i, row in enumerate(mixed):
        numpy.testing.assert_allclose(get_mixed(doc, "elmo", i, i + 1)[0], row, atol=1e-6)
    assert get_layers(doc, "elmo", 1, 3).shape == (3, 2, 4) and has_layers(doc, "elmo")


def merge(doc, start, end):
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[start:end])


def split(doc, i):
    with doc.retokenize() as retokenizer:
        retokenizer.split(doc[i], [doc[i].text[:1], doc[i].text[1:]], heads=[doc[i], doc[i]])


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


@pytest.mark.issue(37)
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
        elif step == "bytes":
            doc = Doc(VOCAB).from_bytes(doc.to_bytes())
        elif step == "docbin":
            doc = next(DocBin(docs=[doc], store_user_data=True).get_docs(VOCAB))
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
            assert n_unread > 1 and "EL074" in str(error) or "EL062" in str(error)
            continue
        layers = numpy.stack([VECTORS[word] for word in words])
        mixed = (normed(layers) if norm else layers).mean(axis=1)
        numpy.testing.assert_allclose(found, mixed.mean(axis=0), atol=1e-5)
        if has_layers:
            numpy.testing.assert_allclose(get_layers(doc, "elmo", i, i + 1)[:, 0], layers.mean(axis=0), atol=1e-5)


@pytest.mark.issue(37)
@pytest.mark.parametrize("step", ["none", "as_doc", "from_docs", "bytes"])
@pytest.mark.parametrize("is_read", [True, False])
def test_a_token_that_was_split_stays_an_error(step, is_read):
    doc = make_numbered(["w10", "w11", "w12"])
    merge(doc, 0, 2)
    if is_read:
        get_mixed(doc, "elmo", 0, 1)
    split(doc, 1)
    if step == "as_doc":
        doc = doc[1:].as_doc(copy_user_data=True)
    elif step == "from_docs":
        doc = Doc.from_docs([doc, make_numbered(["w0"])])
    elif step == "bytes":
        doc = Doc(VOCAB).from_bytes(doc.to_bytes())
    with pytest.raises(ValueError, match="EL063"):
        get_mixed(doc, "elmo", 0, len(doc))
    for i in (token.i for token in doc if token.text in ("w", "12")):
        with pytest.raises(ValueError, match="EL063"):
            get_mixed(doc, "elmo", i, i + 1)


@pytest.mark.issue(37)
def test_a_merge_with_tokens_without_vectors_has_none():
    doc = Doc.from_docs([make_numbered(["w0", "w1"]), Doc(VOCAB, words=["plain", "plain"])])
    merge(doc, 1, 3)
    numpy.testing.assert_allclose(get_layers(doc, "elmo", 0, 1)[:, 0], VECTORS["w0"], atol=1e-6)
    with pytest.raises(ValueError, match="EL062"):
        get_mixed(doc, "elmo", 1, 2)


@pytest.mark.issue(37)
@pytest.mark.parametrize("store", ["mixed", "layers", "both"])
@pytest.mark.parametrize("how", ["made", "cut", "joined", "merged", "bytes"])
def test_vectors_are_dropped(store, how):
    for drop in (drop_vectors, drop_layers):
        doc, mixed, _ = make_doc(store=store)
        doc.user_data["mine"] = 1
        if how == "cut":
            doc = doc[2:5].as_doc(copy_user_data=True)
        elif how == "joined":
            with pytest.warns(UserWarning, match="W102"):
                doc = Doc.from_docs([doc, doc])
        elif how == "merged":
            merge(doc, 2, 4)
        elif how == "bytes":
            doc = Doc(VOCAB).from_bytes(doc.to_bytes())
        drop(doc, "elmo")
        if drop is drop_layers and how != "merged":
            assert not has_layers(doc, "elmo") and len(get_mixed(doc, "elmo", 0, len(doc))) == len(doc)
            numpy.testing.assert_allclose(get_mixed(doc, "elmo", 0, 1)[0], mixed[2 if how == "cut" else 0], atol=1e-6)
        elif drop is drop_vectors:
            assert [key for key in doc.user_data if key != "mine"] == []
            with pytest.raises(ValueError, match="EL062"):
                get_mixed(doc, "elmo", 0, 1)
        with pytest.raises(ValueError, match="EL06|only the mixed vectors"):
            get_layers(doc, "elmo", 0, 1)
        drop(doc, "elmo")
        drop(Doc(VOCAB, words=["plain"]), "elmo")


def read_old_docs():
    path = Path(__file__).parents[1] / "fixtures" / "docs_177bb64.spacy"
    return list(DocBin().from_disk(path).get_docs(Vocab()))


@pytest.mark.issue(37)
@pytest.mark.parametrize("doc", read_old_docs(), ids=lambda doc: doc.user_data["name"])
def test_docs_stored_by_commit_177bb64_are_read(doc):
    """Each has the expected vectors beside those that ELMo stored; NaN for tokens without."""
    prefix, mixed = "other" if doc.user_data["name"] == "another prefix" else "elmo", doc.user_data["mixed"]
    for i, row in enumerate(mixed):
        if numpy.isnan(row).any():
            with pytest.raises(ValueError, match="EL062"):
                get_mixed(doc, prefix, i, i + 1)
        else:
            numpy.testing.assert_allclose(get_mixed(doc, prefix, i, i + 1)[0], row, atol=1e-6)
    if "layers" in doc.user_data:
        numpy.testing.assert_array_equal(get_layers(doc, prefix, 0, len(doc)), doc.user_data["layers"])
    if "sums" in doc.user_data:
        numpy.testing.assert_array_equal(get_boundary_sums(doc, prefix)[1:], doc.user_data["sums"])
