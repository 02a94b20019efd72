"""The component: vectors of every kind of Doc, stored data, sources of weights."""

import pickle

import numpy
import pytest
import spacy
from own_process import needs_peaks, run_script
from spacy.tokens import Doc
from transformers_tiny import TRANSFORMER

from spacy_elmo.inference import products
from spacy_elmo.pipeline.model import get_bilm, make_random_bilm

from .tiny import (
    BILM,
    N_LAYERS,
    TEXTS,
    WIDTH,
    add_elmo,
    are_equal,
    get_bilm_weights,
    listening,
    loader_block,
    make_examples,
    make_tagger,
    train,
    with_elmo,
)


def check_shapes(doc):
    """Shapes, finite values, rows of zeros for space tokens."""
    n_tokens = len(doc)
    assert doc._.elmo.shape == (n_tokens, WIDTH)
    assert doc._.elmo_layers.shape == (N_LAYERS, n_tokens, WIDTH)
    assert numpy.isfinite(doc._.elmo).all() and numpy.isfinite(doc._.elmo_layers).all()
    assert doc._.elmo.dtype == numpy.float32 and doc._.elmo.flags.c_contiguous and doc._.elmo.base.base is None
    for token in doc:
        assert token._.elmo.shape == (WIDTH,) and token._.elmo_layers.shape == (N_LAYERS, WIDTH)
        assert bool(token._.elmo_layers.any()) == (not token.is_space)


@pytest.mark.parametrize("bilm", [BILM, TRANSFORMER], ids=["lstm", "transformer"])
def test_vectors_are_those_of_the_bilm(bilm):
    nlp = with_elmo(bilm=bilm)
    for doc in nlp.pipe(TEXTS):
        words = [token.i for token in doc if not token.is_space]
        expected = make_random_bilm(bilm, 1).embed([[doc[i].text for i in words]])[0]
        numpy.testing.assert_allclose(doc._.elmo_layers[:, words], expected, atol=1e-5)
        numpy.testing.assert_allclose(doc._.elmo[words], expected.mean(axis=0), atol=1e-5)
    doc = nlp("She sat on the bank of the river.")
    numpy.testing.assert_array_equal(doc[4]._.elmo, doc._.elmo[4])
    numpy.testing.assert_allclose(doc[2:5]._.elmo, doc._.elmo[2:5].mean(axis=0), atol=1e-6)
    numpy.testing.assert_allclose(doc[2:5]._.elmo_layers, doc._.elmo_layers[:, 2:5].mean(axis=1), atol=1e-6)
    assert not doc[3:3]._.elmo.any()


EMOJI = "\U0001f469\u200d\U0001f4bb ok \U0001f30a"
ODD_TEXTS = ["", " ", "\n\n \t", "x", "a" * 10_000, EMOJI, "\u200b \u00ad", "שלום עולם"]


@pytest.mark.parametrize("text", [*ODD_TEXTS, *TEXTS[1:5]])
def test_odd_texts_give_finite_vectors(nlp, text):
    check_shapes(nlp(text))
    for doc in nlp.pipe([text, TEXTS[0]]):
        numpy.testing.assert_allclose(doc._.elmo, nlp(doc.text)._.elmo, atol=1e-6)


@pytest.mark.parametrize("store", ["mixed", "layers", "both"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_store_and_dtype(store, dtype):
    mix = {"initial_weights": [0.5, 0.0, -1.0], "initial_gamma": 2.0, "layer_norm": "token"}
    nlp = with_elmo(store=store, dtype=dtype, mix=mix)
    full = with_elmo(mix=mix)
    expected, tolerance = full(TEXTS[0]), 1e-6 if dtype == "float32" else 2e-2
    doc = nlp(TEXTS[0])
    for found in (doc, Doc(nlp.vocab).from_bytes(doc.to_bytes())):
        assert found._.elmo.dtype == dtype and found[0]._.elmo.dtype == dtype and found[0:2]._.elmo.dtype == dtype
        numpy.testing.assert_allclose(found._.elmo, expected._.elmo, atol=tolerance)
        numpy.testing.assert_allclose(found[1]._.elmo, expected[1]._.elmo, atol=tolerance)
        if store == "mixed":
            with pytest.raises(ValueError, match="only the mixed vectors"):
                _ = found._.elmo_layers
        else:
            numpy.testing.assert_allclose(found._.elmo_layers, expected._.elmo_layers, atol=tolerance)


def test_set_vectors_fills_tensor_and_hooks(nlp):
    vectors = with_elmo(set_vectors=True)
    doc, other = vectors(TEXTS[0]), vectors(TEXTS[5])
    numpy.testing.assert_allclose(doc.tensor, doc._.elmo)
    for one, two in ((doc, other), (doc[0], other[0]), (doc[0:2], other)):
        cosine = one.vector @ two.vector / numpy.linalg.norm(one.vector) / numpy.linalg.norm(two.vector)
        assert one.similarity(two) == pytest.approx(float(cosine), abs=1e-5) and cosine < 0.9999
    mean = doc.vector.copy()
    doc.vector[:] = 0.0  # a copy
    numpy.testing.assert_array_equal(doc.vector, mean)
    assert vectors("").similarity(doc) == 0.0
    plain = nlp(TEXTS[0])
    assert not plain.tensor.size and not plain.user_hooks


def test_vectors_in_half_precision_are_summed_in_full():
    settings, text = {"set_vectors": True, "mix": {"initial_gamma": 10000.0}}, "word " * 3000
    doc, half = with_elmo(**settings)(text), with_elmo(**settings, dtype="float16")(text)
    assert half.tensor.dtype == "float16" and half.vector.dtype == "float32"
    numpy.testing.assert_allclose(half.vector, doc.vector, rtol=1e-3, atol=0.05)
    assert half.vector_norm == pytest.approx(doc.vector_norm, rel=1e-3) and doc.vector_norm > 256
    assert half[1].vector_norm == pytest.approx(doc[1].vector_norm, rel=1e-3)
    assert half.similarity(half[5:9]) == pytest.approx(doc.similarity(doc[5:9]), abs=1e-3)


def test_two_components_of_one_prefix_are_an_error():
    nlp, other = spacy.blank("en"), spacy.blank("en")
    add_elmo(nlp, name="a", seed=1)
    nlp.add_pipe("tagger", config=listening(upstream="a"))
    add_elmo(other, name="b", seed=2)
    with pytest.raises(ValueError, match="'a' and 'b' have the same prefix 'elmo'"):
        nlp.add_pipe("elmo", name="b")
    nlp.remove_pipe("b")
    with pytest.raises(ValueError, match="'a' and 'b' have the same prefix 'elmo'"):
        nlp.add_pipe("b", source=other)
    nlp.remove_pipe("b")
    nlp.replace_pipe("a", "elmo")
    add_elmo(nlp, name="b", seed=2, prefix="b")
    nlp.config["initialize"]["components"]["a"] = loader_block()
    nlp.initialize(lambda: make_examples(nlp))
    assert nlp("text")._.b.any()


# Memory


PEAK = """
import sys
import spacy, torch
from own_process import measured_peak
from spacy.tokens import Doc
from pipeline.tiny import BILM, add_elmo

torch.set_num_threads(1)
nlp = spacy.blank("en")
elmo = add_elmo(nlp, store="layers", bilm={**BILM, "cell_width": 128, "projection_width": 64})
n_tokens = int(sys.argv[1])
doc = Doc(nlp.vocab, words=[f"word{i % 500}" for i in range(n_tokens)])
elmo.predict([Doc(nlp.vocab, words=[f"word{i % 500}" for i in range(5000)])])  # what is allocated once
with measured_peak() as peak:
    layers = elmo.predict([doc])[0].layers
assert layers.shape[1] == n_tokens
print(peak[0] - layers.nbytes)
"""


@pytest.mark.slow
@needs_peaks
def test_working_memory_does_not_grow_with_the_doc():
    peaks = {n_tokens: int(run_script(PEAK, str(n_tokens))) for n_tokens in (10_000, 100_000)}
    # The lists of tokens grow, by about 100 bytes a token. One more copy of the layers is 1536 bytes a token: 138 MB.
    assert peaks[100_000] - peaks[10_000] < 70e6, peaks


# Settings


@pytest.mark.parametrize(
    "config,message",
    [
        ({"store": "all"}, "(?s)store.*'all'"),
        ({"prefix": "a-b"}, "prefix is 'a-b', should be a Python name"),
        ({"mix": {"layer_norm": "bilm-tf"}}, "layer_norm is 'bilm-tf', should be 'token'"),
        ({"mix": {"weight": [1.0]}}, "EL001.*: weight. Known settings: initial_weights"),
        ({"mix": {"initial_weights": 1.0}}, "(?s)weights.*1.0"),
        ({"mix": {"initial_weights": [1.0, None, 0.0]}}, "(?s)weights.*None"),
        ({"model": {"contexts": "word", "state": "x"}}, "(?s)contexts.*'word'.*state.*'x'"),
        ({"model": {"max_tokens": 10, "overlap": 5}}, "(?s)overlap.*5"),
        ({"model": {"frozen": False, "state": "carry"}}, "(?s)state.*'carry'"),
        ({"model": {"precision": "int4"}}, "(?s)precision.*'int4'"),
        ({"model": {"precision": "bfloat16", "frozen": False}}, "(?s)precision is 'bfloat16'.*trained"),
    ],
)
def test_invalid_settings_are_an_error(config, message):
    with pytest.raises(ValueError, match=message):
        spacy.blank("en").add_pipe("elmo", config=config)


# A biLM in reduced precision


PRECISIONS = [
    pytest.param(
        name, marks=pytest.mark.skipif(not products.is_supported_on_cpu(name), reason=f"torch without {name} products")
    )
    for name in ("bfloat16", "int8")
]


def with_precision(precision):
    return with_elmo(model={"precision": precision})


def vectors_of(nlp):
    return [doc._.elmo for doc in nlp.pipe(TEXTS)]


@pytest.mark.parametrize("precision", PRECISIONS)
def test_pipelines_in_fewer_bits_are_saved_pickled_loaded_and_converted(precision, tmp_path):
    nlp, exact = with_precision(precision), with_precision("float32")
    nlp.to_disk(tmp_path / "nlp")
    exact.to_disk(tmp_path / "exact")
    converted = spacy.load(tmp_path / "exact", config={"components": {"elmo": {"model": {"precision": precision}}}})
    other = with_precision(precision).from_bytes(nlp.to_bytes())
    for copied in (spacy.load(tmp_path / "nlp"), pickle.loads(pickle.dumps(nlp)), other, converted):
        assert get_bilm(copied.get_pipe("elmo").model).precision == precision
        assert all(numpy.array_equal(one, two) for one, two in zip(vectors_of(nlp), vectors_of(copied)))
    assert get_bilm(nlp.get_pipe("elmo").model.copy()).precision == precision
    assert other.to_bytes() == nlp.to_bytes()
    assert (b'"I8"' in nlp.to_bytes()) == (precision == "int8")  # in the header of the weights
    assert 0 < max(numpy.abs(a - b).max() for a, b in zip(vectors_of(exact), vectors_of(nlp)) if a.size) < 0.1


def test_float16_on_a_cpu_is_refused_with_a_remedy():
    with pytest.raises(ValueError, match="EL015.*float16.*cpu.*float32.*components.NAME.model.precision"):
        with_precision("float16")


# A transformer biLM


FINE_TUNING = {"@misc": "spacy-elmo.FineTuning.v1", "layer_decay": 0.5, "unfreeze_every": 1}


def with_transformer(**model):
    return with_elmo(bilm=TRANSFORMER, model={"frozen": True, **model})


def test_long_docs_are_read_in_windows_or_refused():
    nlp = with_transformer(max_tokens=50, overlap=10)
    doc = nlp(Doc(nlp.vocab, words=["word"] * 1000))
    assert doc._.elmo.shape == (1000, 16) and numpy.isfinite(doc._.elmo).all()
    nlp = with_transformer(max_tokens=500)
    with pytest.raises(ValueError, match="502 tokens.*at most 200.*set max_tokens"):
        nlp(Doc(nlp.vocab, words=["word"] * 1000))
    with pytest.raises(ValueError, match="carry"):
        with_transformer(state="carry")


@pytest.mark.parametrize("fine_tuning", [None, FINE_TUNING])
def test_fine_tuning_reaches_the_layers(fine_tuning):
    nlp = make_tagger(bilm=TRANSFORMER, model={"frozen": False, "fine_tuning": fine_tuning})
    before = get_bilm_weights(nlp)
    train(nlp, 6)  # one layer more after each update
    assert not [name for name, weights in get_bilm_weights(nlp).items() if are_equal({name: weights}, before)]
