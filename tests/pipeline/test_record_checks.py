"""Damaged data of a Doc: one of our errors or a valid answer, never an error of a library and never NaN."""

import copy
import random

import numpy
import pytest
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_elmo.pipeline.doc_vectors import (
    DocVectors,
    VectorsError,
    get_boundary_sums,
    get_layers,
    get_mixed,
    has_layers,
    set_vectors,
)
from spacy_elmo.pipeline.mix import BoundarySums

VOCAB = Vocab()
WORDS = ["the", "cat", "saw", "the", "dog"]
N_LAYERS, WIDTH = 3, 4
JUNK = [None, True, -1, 0, 7, 2**62, 0.5, float("nan"), float("inf"), 1e300, "", "token", b"x", [], [1], {}, {"a": 1}]


def make_doc(store="both", dtype="float32"):
    doc = Doc(VOCAB, words=WORDS)
    layers = numpy.random.default_rng(0).normal(size=(N_LAYERS, len(WORDS), WIDTH)).astype(dtype)
    squares = 10 * (layers.astype("float64") ** 2).sum(axis=(1, 2))
    marks = BoundarySums(2, layers.sum(axis=(1, 2), dtype="float64"), squares)
    mixed = layers.mean(axis=0)
    vectors = DocVectors(
        None if store == "layers" else mixed,
        None if store == "mixed" else layers,
        [0.0] * N_LAYERS,
        1.0,
        "token" if store == "layers" else None,
        marks,
    )
    set_vectors(doc, "elmo", vectors)
    return doc


def damaged(change, store="both", how="bytes"):
    """A Doc from bytes whose record was changed before."""
    doc = make_doc(store)
    ((key, record),) = doc.user_data.items()
    record = dict(record)
    key, record = change(key, record) or (key, record)
    doc.user_data.clear()
    doc.user_data[key] = record
    return through_bytes(doc, how)


def through_bytes(doc, how):
    if how == "bytes":
        return Doc(VOCAB).from_bytes(doc.to_bytes())
    data = DocBin(docs=[doc], store_user_data=True).to_bytes()
    return next(DocBin(store_user_data=True).from_bytes(data).get_docs(VOCAB))


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
    *[(put(**{name: {"a": 1}}), f"{name} is ") for name in (*NAMES, "mixed", "layers", "marks")],
    *[(put(**{name: "long" * 20}), f"{name} is a str") for name in (*NAMES, "mixed", "layers", "marks")],
    *[(drop(name), f"{name} is missing") for name in NAMES],
    (drop("mixed", "layers"), "mixed and layers are missing"),
    (cut("starts"), "orths has 5 rows, should have 4;.* mixed has 5 rows"),
    (cut("orths"), "orths has 4 rows, should have 5"),
    (cut("mixed"), "mixed has 4 rows"),
    (cut("layers"), "weights has 3 values, should have 2"),
    (cut("weights"), "weights has 2 values, should have 3"),
    (put(layers=numpy.zeros((N_LAYERS, 9, WIDTH), dtype="f")), "layers has 9 rows"),
    (put(layers=numpy.zeros((N_LAYERS, 5, 2), dtype="f")), "mixed has 4 columns, should have 2"),
    (put(layers=numpy.zeros((5, WIDTH), dtype="f")), r"an array of float32 with shape \(5, 4\)"),
    (put(mixed=numpy.zeros((5, WIDTH), dtype="complex64")), "an array of complex64"),
    (put(starts=numpy.zeros(5, dtype="uint64")), "an array of uint64"),
    (put(starts=numpy.asarray([0, 8, 4, 12, 16])), "not ascending"),
    (put(stops=numpy.zeros(4, dtype="i8")), "stops has 4 rows, should have 5"),
    (put(unclear=numpy.zeros((1, 1))), "unclear is an array of float64"),
    (put(n_chars=1), "n_chars is 1, should be 16 or more"),
    (put(norm="allennlp"), "norm is 'allennlp', should be one of"),
    (put(gamma=float("nan")), "gamma is nan"),
    (put(weights=[0.0, float("inf"), 0.0]), "weights is"),
    (put(marks=(2, numpy.zeros(3), numpy.zeros(2))), "marks is"),
    (put(marks=(2, numpy.zeros(2), numpy.zeros(2))), "marks has 2 values, should have 3"),
    (lambda key, record: (key, None), "the record is None"),
    (lambda key, record: (key, [1, 2]), "the record is .1, 2."),
    (lambda key, record: ((*key[:2], None, None), record), "the key has None"),
]


@pytest.mark.issue(15)
@pytest.mark.parametrize("change, message", DAMAGE)
@pytest.mark.parametrize("how", ["bytes", "docbin"])
def test_damaged_records_are_one_clear_error(change, message, how):
    doc = damaged(change, how=how)
    for read in (get_mixed, get_layers):
        with pytest.raises(ValueError, match=message):
            read(doc, "elmo", 0, 1)
    with pytest.raises(ValueError, match=message):
        has_layers(doc, "elmo")


@pytest.mark.issue(15)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 1e30])
@pytest.mark.parametrize("store", ["mixed", "layers", "both"])
def test_values_that_are_not_finite_are_refused(value, store):
    def change(key, record):
        name = "layers" if store == "layers" else "mixed"
        record[name] = record[name].copy()
        record[name].flat[3] = value

    doc = damaged(change, store)
    for i in range(len(doc)):
        with pytest.raises(ValueError, match="NaN, infinity or very large"):
            get_mixed(doc, "elmo", i, i + 1)


@pytest.mark.issue(15)
def test_a_scale_that_half_precision_cannot_hold_is_refused():
    doc = make_doc("layers", "float16")
    next(iter(doc.user_data.values()))["gamma"] = 1e5
    with pytest.raises(ValueError, match="NaN, infinity or very large"):
        get_mixed(through_bytes(doc, "bytes"), "elmo", 0, 1)


@pytest.mark.issue(15)
def test_sums_of_boundaries_with_a_negative_variance_are_refused():
    doc = damaged(put(marks=(2, numpy.ones(N_LAYERS), numpy.zeros(N_LAYERS))))
    with pytest.raises(ValueError, match="NaN, infinity or very large"):
        get_boundary_sums(doc, "elmo")


@pytest.mark.issue(15)
def test_a_damaged_doc_can_be_computed_again():
    doc = damaged(lambda key, record: (key, None))
    set_vectors(doc, "elmo", DocVectors(numpy.ones((5, 2), dtype="f"), None, [0.0], 1.0, None))
    assert get_mixed(doc, "elmo", 0, 5).all()


@pytest.mark.issue(15)
def test_docs_of_different_models_cannot_be_read_as_one():
    one, two = make_doc(), Doc(VOCAB, words=["a"])
    set_vectors(two, "elmo", DocVectors(numpy.ones((1, 2), dtype="f"), None, [0.0], 1.0, None))
    with pytest.raises(ValueError, match=r"widths \[2, 4\]"):
        get_mixed(Doc.from_docs([one, two]), "elmo", 0, 1)


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


@pytest.mark.issue(15)
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast", "ignore:overflow encountered in cast")
@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("seed", range(100))
def test_any_mutation_gives_our_error_or_a_valid_answer(seed):
    rng = random.Random(seed)
    store = rng.choice(["mixed", "layers", "both"])
    doc = damaged(lambda key, record: mutate(rng, key, record), store, rng.choice(["bytes", "docbin"]))
    start = rng.randrange(len(WORDS))
    calls = [
        lambda: get_mixed(doc, "elmo", 0, len(doc)),
        lambda: get_mixed(doc, "elmo", start, start + 1),
        lambda: get_layers(doc, "elmo", 0, len(doc)),
        lambda: [float(part.sum()) for part in (get_boundary_sums(doc, "elmo") or ())[1:]],
        lambda: [has_layers(doc, "elmo")],
        lambda: get_mixed(doc[start:].as_doc(copy_user_data=True), "elmo", 0, 1),
        lambda: get_mixed(Doc.from_docs([doc, make_doc()]), "elmo", 0, 2),
    ]
    ((_, _, place, _),) = doc.user_data
    for call in calls if isinstance(place, int) else calls[:5]:  # spaCy itself adds to the place when it cuts and joins
        try:
            found = call()
        except ValueError as error:
            assert isinstance(error, VectorsError), error
        else:
            assert numpy.isfinite(numpy.asarray(found, dtype="float64")).all()
