"""Damaged records of Docs: one of our errors or a valid answer, never an error of a library and never NaN."""

import copy
import random

import numpy
import pytest
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_elmo.pipeline.doc_vectors import get_layers, get_mixed, has_layers, set_vectors
from spacy_elmo.pipeline.vector_record import DocVectors, VectorsError

from .tiny import restore

VOCAB = Vocab()
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
