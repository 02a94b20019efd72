"""Memory of a Doc: it owns its arrays. Tests of peak memory are in `test_elmo.py` and in `benchmarks`."""

import numpy
import pytest
import spacy
from spacy.tokens import Doc

from spacy_elmo.inference.runner import LSTMRunner

from .tiny import TEXTS, add_elmo, listening, make_examples


def arrays_of(doc):
    """All arrays of a Doc that ELMo has made."""
    pieces = [value for key, value in doc.user_data.items() if "elmo_data" in key]
    found = [array for piece in pieces for array in piece.values() if isinstance(array, numpy.ndarray)]
    return [array for array in [*found, doc.tensor] if array.size]


def kept_bytes(array):
    """Bytes that stay alive with an array: those of the array or tensor that it is a view of."""
    while isinstance(array.base, numpy.ndarray):
        array = array.base
    return array.nbytes if array.base is None else array.base.untyped_storage().nbytes()


def make(store, dtype, has_listener=False, set_vectors=True):
    nlp = spacy.blank("en")
    add_elmo(nlp, store=store, dtype=dtype, set_vectors=set_vectors)
    if has_listener:
        nlp.add_pipe("tagger", config=listening())
        nlp.initialize(lambda: make_examples(nlp))
    return nlp


@pytest.mark.parametrize("has_listener", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("store", ["mixed", "layers", "both"])
def test_no_doc_keeps_a_batch_alive(store, dtype, has_listener):
    nlp = make(store, dtype, has_listener)
    docs = [*nlp.pipe(TEXTS, batch_size=len(TEXTS)), nlp(TEXTS[0])]
    for doc in docs:
        assert [kept_bytes(array) for array in arrays_of(doc)] == [array.nbytes for array in arrays_of(doc)]
        if len(doc):
            has_layers = store != "mixed" or has_listener
            assert {array.ndim for array in arrays_of(doc)} == ({1, 2, 3} if has_layers else {1, 2})
    arrays = [array for doc in docs for array in arrays_of(doc) if array.ndim > 1]
    shared = [(a, b) for a in arrays for b in arrays if a is not b and numpy.shares_memory(a, b)]
    assert not shared or all(a.shape == b.shape for a, b in shared)  # `doc.tensor` is the mixed array itself


@pytest.mark.parametrize("store", ["mixed", "layers", "both"])
def test_a_part_of_a_doc_does_not_keep_the_whole(store):
    """Once it was read: spaCy carries everything along. (`part.tensor` is a view of `doc.tensor`: spaCy's doing.)"""
    doc = make(store, "float32", set_vectors=False)(TEXTS[0])
    part = doc[2:4].as_doc(copy_user_data=True)
    check_vectors_of(part)
    check_vectors_of(Doc.from_docs([part, part]))


def check_vectors_of(doc):
    assert len(doc._.elmo) == len(doc)
    vectors = [array for array in arrays_of(doc) if array.ndim > 1]
    assert sum(array.shape[-2] for array in vectors if array.ndim == vectors[0].ndim) == len(doc)
    assert [kept_bytes(array) for array in vectors] == [array.nbytes for array in vectors]


@pytest.mark.parametrize("state", ["reset", "carry"])
@pytest.mark.parametrize("use", ["predict", "forward"])
def test_all_slices_share_one_place(use, state, monkeypatch):
    """Whatever the length of a Doc, there is working memory for one slice."""
    nlp = spacy.blank("en")
    elmo = add_elmo(nlp, model={"batch_tokens": 8, "state": state}, store="mixed")
    docs = [Doc(nlp.vocab, words=[f"w{i}", "and", "more", "words"]) for i in range(20)]
    elmo.model.predict(docs[:1])
    run, places = LSTMRunner.run, []

    def noted(self, *args, **kwargs):
        rows, ends = run(self, *args, **kwargs)
        places.append(rows.data_ptr())
        return rows, ends

    monkeypatch.setattr(LSTMRunner, "run", noted)
    (elmo if use == "predict" else elmo.model).predict(docs)
    assert len(places) >= 10 and len(set(places)) == 1


@pytest.mark.parametrize("store", ["mixed", "layers", "both"])
def test_half_precision_takes_half_the_bytes(store):
    whole, half = (make(store, dtype)(TEXTS[0]) for dtype in ("float32", "float16"))
    pairs = [(a, b) for a, b in zip(arrays_of(whole), arrays_of(half)) if a.ndim > 1]
    assert pairs and all(a.nbytes == 2 * b.nbytes and a.shape == b.shape for a, b in pairs)
    assert whole._.elmo.nbytes == 2 * half._.elmo.nbytes
    if store != "mixed":
        assert whole._.elmo_layers.nbytes == 2 * half._.elmo_layers.nbytes
