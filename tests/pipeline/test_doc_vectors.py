"""Vectors on Docs: copies, slices and joins of Docs give the right rows or an error, never wrong rows."""

import copy
import random
import re

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_elmo.pipeline.doc_vectors import get_layers, get_mixed, has_layers, set_vectors
from spacy_elmo.pipeline.vector_record import DocVectors, VectorsError

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


def restore(doc, how="bytes"):
    if how == "bytes":
        return Doc(VOCAB).from_bytes(doc.to_bytes())
    data = DocBin(docs=[doc], store_user_data=True).to_bytes()
    return next(DocBin(store_user_data=True).from_bytes(data).get_docs(VOCAB))


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


# Damaged data: one of our errors or a valid answer, never an error of a library and never NaN


RECORD_WORDS = ["the", "cat", "saw", "the", "dog"]
RECORD_LAYERS, RECORD_WIDTH = 3, 4
JUNK = [None, True, -1, 0, 7, 2**62, 0.5, float("nan"), float("inf"), 1e300, "", "token", b"x", [], [1], {}, {"a": 1}]


def make_record(store="both", dtype="float32"):
    doc = Doc(VOCAB, words=RECORD_WORDS)
    layers = numpy.random.default_rng(0).normal(size=(RECORD_LAYERS, len(RECORD_WORDS), RECORD_WIDTH)).astype(dtype)
    mixed = layers.mean(axis=0)
    vectors = DocVectors(
        None if store == "layers" else mixed,
        None if store == "mixed" else layers,
        [0.0] * RECORD_LAYERS,
        1.0,
        "token" if store == "layers" else None,
    )
    set_vectors(doc, "elmo", vectors)
    return doc


def damaged(change, store="both", how="bytes", dtype="float32"):
    """A Doc from bytes whose record was changed before."""
    doc = make_record(store, dtype)
    ((key, record),) = doc.user_data.items()
    record = dict(record)
    key, record = change(key, record) or (key, record)
    doc.user_data.clear()
    doc.user_data[key] = record
    return restore(doc, how)


def put(**fields):
    return lambda key, record: record.update(fields)


def cut(name):
    return lambda key, record: record.update({name: record[name][:-1]})


def drop(*names):
    def change(key, record):
        for name in names:
            del record[name]

    return change


NAMES = ("starts", "orths", "n_chars", "n_tokens", "n_carried", "weights", "gamma", "norm")
DAMAGE = [
    *[(put(**{name: {"a": 1}}), f"{name} is ") for name in (*NAMES, "mixed", "layers")],
    (drop("starts"), "starts is missing"),
    (drop("mixed", "layers"), "mixed and layers are missing"),
    (cut("starts"), "orths has 5 rows, should have 4;.* mixed has 5 rows"),
    (cut("layers"), "weights has 3 values, should have 2"),
    (put(layers=numpy.zeros((RECORD_LAYERS, 9, RECORD_WIDTH), dtype="f")), "layers has 9 rows"),
    (put(layers=numpy.zeros((RECORD_LAYERS, 5, 2), dtype="f")), "mixed has 4 columns, should have 2"),
    (put(mixed=numpy.zeros((5, RECORD_WIDTH), dtype="complex64")), "an array of complex64"),
    (put(starts=numpy.asarray([0, 8, 4, 12, 16])), "not ascending"),
    (put(n_chars=1), "n_chars is 1, should be 16 or more"),
    (put(norm="allennlp"), "norm is 'allennlp', should be one of"),
    (put(gamma=float("nan")), "gamma is nan"),
    (lambda key, record: (key, None), "the record is None"),
    (lambda key, record: ((*key[:2], None, None), record), "the key has None"),
]


@pytest.mark.parametrize("change, message", DAMAGE)
def test_damaged_records_are_one_clear_error(change, message):
    doc = damaged(change)
    for read in (get_mixed, get_layers):
        with pytest.raises(ValueError, match=message):
            read(doc, "elmo", 0, 1)
    with pytest.raises(ValueError, match=message):
        has_layers(doc, "elmo")
    set_vectors(doc, "elmo", DocVectors(numpy.ones((5, 2), dtype="f"), None, [0.0], 1.0, None))
    assert get_mixed(doc, "elmo", 0, 5).all(), "computed again"


def put_value(name, value):
    def change(key, record):
        record[name] = record[name].copy()
        record[name].flat[3] = value

    return change


@pytest.mark.parametrize(
    "store, dtype, change",
    [
        *[
            (store, "float32", put_value("layers" if store == "layers" else "mixed", value))
            for store in ("mixed", "layers", "both")
            for value in (numpy.nan, numpy.inf, 1e30)
        ],
        ("layers", "float16", put(gamma=1e5)),  # more than half precision can hold
    ],
)
def test_values_that_are_not_finite_are_refused(store, dtype, change):
    doc = damaged(change, store, dtype=dtype)
    for i in range(len(doc)):
        with pytest.raises(ValueError, match="NaN, infinity or very large"):
            get_mixed(doc, "elmo", i, i + 1)


def mutate(rng, key, record):
    """Change one to three things of a record, or its key."""
    for _ in range(rng.randint(1, 3)):
        name = rng.choice([*record, "layers", "other"])
        action = rng.choice(["drop", "junk", "array", "value", "item", "place"])
        value = record.get(name)
        if action == "drop":
            record.pop(name, None)
        elif action == "junk":
            record[name] = copy.deepcopy(rng.choice(JUNK))
        elif action == "array" and isinstance(value, numpy.ndarray):
            changes = [value[:-1], value[None], value.T, value[::-1], value[:0], numpy.concatenate([value, value])]
            kinds = [value.astype(kind) for kind in ("i2", "u8", "f8", ">f4", "c8", "?", "S3") if value.dtype != kind]
            record[name] = numpy.ascontiguousarray(rng.choice([*changes, *kinds]))
        elif action == "value" and isinstance(value, numpy.ndarray) and value.size and value.dtype.kind in "iuf":
            record[name] = value.copy()
            wild = [numpy.nan, numpy.inf, 1e38, -1e12, 1e-40] if value.dtype.kind == "f" else [0, 1, 99, 2**62]
            record[name].flat[rng.randrange(value.size)] = rng.choice(wild)
        elif action == "item" and isinstance(value, (list, tuple)) and value:
            items = list(value)
            items[rng.randrange(len(items))] = copy.deepcopy(rng.choice([*JUNK, numpy.zeros(2), 1e14]))
            record[name] = items
        elif action == "place":
            key = (*key[:2], rng.choice([0, 1, -3, 2**62, None, "x", 1.5, True, (1,)]), key[3])
    return key, rng.choice([*[record] * 20, *JUNK])


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast", "ignore:overflow encountered in cast")
@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("seed", range(60))
def test_any_mutation_gives_our_error_or_a_valid_answer(seed):
    rng = random.Random(seed)
    store = rng.choice(["mixed", "layers", "both"])
    doc = damaged(lambda key, record: mutate(rng, key, record), store, rng.choice(["bytes", "docbin"]))
    start = rng.randrange(len(RECORD_WORDS))
    calls = [
        lambda: get_mixed(doc, "elmo", 0, len(doc)),
        lambda: get_mixed(doc, "elmo", start, start + 1),
        lambda: get_layers(doc, "elmo", 0, len(doc)),
        lambda: [has_layers(doc, "elmo")],
        lambda: get_mixed(doc[start:].as_doc(copy_user_data=True), "elmo", 0, 1),
        lambda: get_mixed(Doc.from_docs([doc, make_record()]), "elmo", 0, 2),
    ]
    ((_, _, place, _),) = doc.user_data
    for call in calls if isinstance(place, int) else calls[:4]:  # spaCy itself adds to the place when it cuts and joins
        try:
            found = call()
        except ValueError as error:
            assert isinstance(error, VectorsError), error
        else:
            assert numpy.isfinite(numpy.asarray(found, dtype="float64")).all()
