"""Vectors do not depend on the batch, its order, or the process, and no Doc keeps a batch alive."""

import itertools
import random

import numpy
import pytest
import spacy
from inference.forcing import ENGINES, force_engine
from spacy.tokens import Doc

from .tiny import BILM, TEXTS, add_elmo, listening, make_examples, with_elmo

N_DOCS, TOLERANCE = 25, 1e-5
SETTINGS = [{}, {"batch_tokens": 50}, {"state": "steady"}, {"state": "carry", "overlap": 0, "max_tokens": 16}]


def make_docs(nlp, sentences):
    return [Doc(nlp.vocab, words=words) for words in sentences]


def make_sentences(n_sentences=N_DOCS, seed=0):
    generator = random.Random(seed)
    words = ["the", "bank", "river", "Ana", "sat", "on", ".", ",", "unbelievably", "\n", "🌊", "a" * 60]
    return [[generator.choice(words) for _ in range(generator.randrange(0, 40))] for _ in range(n_sentences)]


def max_difference(one, two):
    differences = [abs(a._.elmo_layers - b._.elmo_layers).max() for a, b in zip(one, two) if len(a)]
    return float(max(differences))


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("engine", ENGINES)
def test_vectors_do_not_depend_on_batches_or_order(settings, engine, monkeypatch):
    force_engine(monkeypatch, engine)
    nlp = spacy.blank("en")
    bilm = {**BILM, "cell_width": 64, "projection_width": 32}
    add_elmo(nlp, bilm=bilm, model=settings)
    sentences = make_sentences()
    alone = [nlp(doc) for doc in make_docs(nlp, sentences)]
    for batch_size in (2, 7, 25):
        assert max_difference(alone, list(nlp.pipe(make_docs(nlp, sentences), batch_size=batch_size))) <= TOLERANCE
    order = list(range(N_DOCS))
    random.Random(1).shuffle(order)
    shuffled = list(nlp.pipe(make_docs(nlp, [sentences[i] for i in order])))
    assert max_difference([alone[i] for i in order], shuffled) <= TOLERANCE
    long_doc = [word for words in make_sentences(60, seed=2) for word in words]
    assert len(long_doc) > 1000
    company = list(nlp.pipe(make_docs(nlp, [long_doc, *sentences, long_doc])))
    assert max_difference(alone, company[1:-1]) <= TOLERANCE
    assert max_difference(company[:1], company[-1:]) <= TOLERANCE


# Memory of a Doc: it owns its arrays (peak memory: `test_component.py` and `benchmarks`)


def arrays_of(doc):
    pieces = [value for key, value in doc.user_data.items() if "elmo_data" in key]
    found = [array for piece in pieces for array in piece.values() if isinstance(array, numpy.ndarray)]
    return [array for array in [*found, doc.tensor] if array.size]


def kept_bytes(array):
    """Bytes that stay alive with an array: those of the array or tensor that it is a view of."""
    while isinstance(array.base, numpy.ndarray):
        array = array.base
    return array.nbytes if array.base is None else array.base.untyped_storage().nbytes()


def make_stored(store, dtype, has_listener=False, set_vectors=True):
    nlp = with_elmo(store=store, dtype=dtype, set_vectors=set_vectors)
    if has_listener:
        nlp.add_pipe("tagger", config=listening())
        nlp.initialize(lambda: make_examples(nlp))
    return nlp


@pytest.mark.parametrize("has_listener", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("store", ["mixed", "layers", "both"])
def test_no_doc_keeps_a_batch_alive(store, dtype, has_listener):
    nlp = make_stored(store, dtype, has_listener)
    docs = [*nlp.pipe(TEXTS, batch_size=len(TEXTS)), nlp(TEXTS[0])]
    for doc in docs:
        assert [kept_bytes(array) for array in arrays_of(doc)] == [array.nbytes for array in arrays_of(doc)]
        if len(doc):
            has_layers = store != "mixed" or has_listener
            assert {array.ndim for array in arrays_of(doc)} == ({1, 2, 3} if has_layers else {1, 2})
            assert {array.dtype for array in arrays_of(doc) if array.ndim > 1} == {numpy.dtype(dtype)}
    for one, other in itertools.combinations(docs, 2):
        assert not any(numpy.shares_memory(a, b) for a in arrays_of(one) for b in arrays_of(other))


@pytest.mark.parametrize("store", ["mixed", "layers", "both"])
def test_a_token_vector_does_not_keep_its_doc_alive(store):
    doc = make_stored(store, "float32")(TEXTS[0])
    vectors = [doc[0]._.elmo, doc[0].vector]
    if store != "mixed":
        vectors.append(doc[0]._.elmo_layers)
    assert [kept_bytes(vector) for vector in vectors] == [vector.nbytes for vector in vectors]
    assert not any(vector.flags.writeable for vector in vectors)
