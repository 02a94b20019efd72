"""A biLM in reduced precision: close to float32, the same in any batch, with clear errors."""

import copy
import pickle

import numpy as np
import pytest
from inference.forcing import force_path

from spacy_elmo import load_bilm
from spacy_elmo.inference import onednn
from spacy_elmo.inference.dispatch import Path

SENTENCES = [
    ["She", "sat", "on", "the", "bank", "of", "the", "river", "."],
    ["Oslo"],
    [],
    ["The", "bank", "raised", "its", "rates", "."],
    ["A", "\U0001f30a", "in", "the", "sea"],
]
LOWEST_COSINE = {"bfloat16": 0.9995, "int8": 0.998}
PRECISIONS = [
    pytest.param("bfloat16", marks=pytest.mark.skipif(not onednn.works("bfloat16"), reason="no bfloat16 in oneDNN")),
    pytest.param("int8", marks=pytest.mark.skipif(not onednn.works("int8"), reason="torch without int8 products")),
]


@pytest.fixture(scope="module")
def exact():
    return load_bilm("en_elmo_sm").embed(SENTENCES)


def lowest_cosine(vectors, others):
    cosines = [
        (one * other).sum(-1) / np.linalg.norm(one, axis=-1) / np.linalg.norm(other, axis=-1)
        for one, other in zip(vectors, others)
    ]
    return min(cosine.min() for cosine in cosines if cosine.size)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_vectors_are_near_those_in_float32_and_stay_so_when_copied(exact, precision):
    bilm = load_bilm("en_elmo_sm", precision=precision)
    assert bilm.precision == precision
    found = bilm.embed(SENTENCES)
    assert LOWEST_COSINE[precision] < lowest_cosine(found, exact)
    assert not any(np.array_equal(one, two) for one, two in zip(found, exact) if one.size)
    for other in (copy.deepcopy(bilm), pickle.loads(pickle.dumps(bilm)), bilm.set_precision(precision)):
        assert all(np.array_equal(one, two) for one, two in zip(found, other.embed(SENTENCES)))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_changing_the_precision_forgets_what_was_computed_before(exact, precision):
    bilm = load_bilm("en_elmo_sm")
    bilm.embed(SENTENCES)
    steady = bilm.steady_state.h.clone()
    found = bilm.set_precision(precision).embed(SENTENCES)
    assert all(
        np.array_equal(one, two)
        for one, two in zip(found, load_bilm("en_elmo_sm", precision=precision).embed(SENTENCES))
    )
    assert 0 < (bilm.steady_state.h - steady).abs().max() < 0.1
    rounded = bilm.set_precision("float32").embed(SENTENCES)
    assert 0 < max(np.abs(one - two).max() for one, two in zip(rounded, exact) if one.size) < 0.1


@pytest.mark.parametrize("state", ["reset", "steady"])
@pytest.mark.parametrize("batch_tokens", [1, 7, 4096])
@pytest.mark.skipif(not onednn.works("int8"), reason="torch without int8 products")
@pytest.mark.parametrize("path", [Path.PARALLEL, Path.IN_TURN])
def test_int8_vectors_do_not_depend_on_batch_or_order(state, batch_tokens, path, monkeypatch):
    force_path(monkeypatch, path)
    bilm = load_bilm("en_elmo_sm", precision="int8")
    many = [*SENTENCES, *([word] * n for n, word in enumerate("abcdefghijkl"))]
    together = bilm.embed(many, state=state)
    found = bilm.embed(many[::-1], state=state, batch_tokens=batch_tokens)[::-1]
    for one, other in zip(together, found):
        np.testing.assert_array_equal(one, other)  # sums of integers


@pytest.mark.parametrize("precision", PRECISIONS)
def test_perplexity_of_sentences_is_near_and_what_needs_float32_is_refused(precision):
    bilm = load_bilm("en_elmo_sm")
    wanted = bilm.perplexity(SENTENCES[:2], state="reset").mean
    bilm.set_precision(precision)
    assert bilm.perplexity(SENTENCES[:2], state="reset").mean == pytest.approx(wanted, rel=0.05)
    with pytest.raises(ValueError, match=f"{precision}. Choose state 'reset'"):
        bilm.perplexity(SENTENCES)
    with pytest.raises(ValueError, match=f"gradient.*{precision}"):
        bilm.encode_with_grad(SENTENCES)


def test_a_float32_model_that_was_used_can_be_pickled(exact):
    bilm = load_bilm("en_elmo_sm")
    bilm.embed(SENTENCES)
    bilm.word_cache.max_bytes = 4096
    steady = bilm.steady_state
    other = pickle.loads(pickle.dumps(bilm))
    assert other.word_cache.max_bytes == 4096
    assert (other.steady_state.h == steady.h).all()
    assert all(np.array_equal(one, two) for one, two in zip(bilm.embed(SENTENCES), other.embed(SENTENCES)))


def test_moving_keeps_the_precision_and_refuses_a_device_without_it_before_anything_changes():
    if not onednn.works("int8"):
        pytest.skip("torch without int8 products")
    bilm = load_bilm("en_elmo_sm", precision="int8")
    found = bilm.embed(SENTENCES)
    with pytest.raises(ValueError, match="EL015.*int8.*cuda"):
        bilm.to("cuda")
    assert bilm.to("cpu").precision == "int8"
    assert all(np.array_equal(one, two) for one, two in zip(found, bilm.embed(SENTENCES)))
