"""The component: vectors of every kind of Doc, stored data, sources of weights."""

import os
import subprocess
import sys

import numpy
import pytest
import spacy
from spacy.tokens import Doc, Span, Token

import spacy_elmo.pipeline.model as elmo_model
from spacy_elmo.pipeline.model import make_random_bilm
from spacy_elmo.weights import save_bilm

from .tiny import BILM, N_LAYERS, TEXTS, WIDTH, add_elmo, listening, loader_block, make_example, make_examples


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


def test_vectors_are_those_of_the_bilm(nlp):
    doc = nlp("She sat on the bank of the river.")
    expected = make_random_bilm(BILM, 1).embed([[token.text for token in doc]])[0]
    numpy.testing.assert_allclose(doc._.elmo_layers, expected, atol=1e-6)
    numpy.testing.assert_allclose(doc._.elmo, expected.mean(axis=0), atol=1e-6)
    numpy.testing.assert_allclose(doc[4]._.elmo, expected[:, 4].mean(axis=0), atol=1e-6)
    numpy.testing.assert_allclose(doc[2:5]._.elmo, doc._.elmo[2:5].mean(axis=0), atol=1e-6)
    numpy.testing.assert_allclose(doc[2:5]._.elmo_layers, expected[:, 2:5].mean(axis=1), atol=1e-6)
    assert not doc[3:3]._.elmo.any()


EMOJI = "\U0001f469\u200d\U0001f4bb ok \U0001f30a"
ODD_TEXTS = ["", " ", "\n\n \t", "x", "a" * 10_000, EMOJI, "\u200b \u00ad", "שלום עולם"]


@pytest.mark.parametrize("text", [*ODD_TEXTS, "我爱北京天安门。", "e\u0301\u0301\u0301", *TEXTS])
def test_odd_texts_give_finite_vectors(nlp, text):
    check_shapes(nlp(text))


def test_lone_surrogates_are_refused_by_spacy_itself(nlp):
    with pytest.raises(UnicodeEncodeError):
        nlp("\ud83d")


def test_pipe_gives_the_same_as_one_by_one(nlp):
    for doc, text in zip(nlp.pipe(TEXTS * 3, batch_size=4), TEXTS * 3):
        check_shapes(doc)
        numpy.testing.assert_allclose(doc._.elmo, nlp(text)._.elmo, atol=1e-6)


def test_words_are_read_without_the_spaces_between(nlp):
    spaced = nlp("The bank  raised \n its rates")
    plain = nlp("The bank raised its rates")
    words = [token.i for token in spaced if not token.is_space]
    assert len(words) < len(spaced)
    numpy.testing.assert_allclose(spaced._.elmo[words], plain._.elmo, atol=1e-6)


@pytest.mark.parametrize("store", ["mixed", "layers", "both"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_store_and_dtype(store, dtype):
    nlp = spacy.blank("en")
    add_elmo(nlp, store=store, dtype=dtype, mix={"weights": [0.5, 0.0, -1.0], "gamma": 2.0, "layer_norm": "token"})
    doc, full = nlp(TEXTS[0]), spacy.blank("en")
    add_elmo(full, mix={"weights": [0.5, 0.0, -1.0], "gamma": 2.0, "layer_norm": "token"})
    expected = full(TEXTS[0])
    tolerance = 1e-6 if dtype == "float32" else 2e-2
    assert doc._.elmo.dtype == dtype and doc[0]._.elmo.dtype == dtype and doc[0:2]._.elmo.dtype == dtype
    numpy.testing.assert_allclose(doc._.elmo, expected._.elmo, atol=tolerance)
    numpy.testing.assert_allclose(doc[1]._.elmo, expected[1]._.elmo, atol=tolerance)
    if store == "mixed":
        with pytest.raises(ValueError, match="only the mixed vectors"):
            _ = doc._.elmo_layers
    else:
        numpy.testing.assert_allclose(doc._.elmo_layers, expected._.elmo_layers, atol=tolerance)


def test_set_vectors_fills_tensor_and_hooks(nlp):
    vectors = spacy.blank("en")
    add_elmo(vectors, set_vectors=True)
    doc, other = vectors(TEXTS[0]), vectors(TEXTS[5])
    numpy.testing.assert_allclose(doc.tensor, doc._.elmo)
    numpy.testing.assert_allclose(doc.vector, doc._.elmo.mean(axis=0), atol=1e-6)
    numpy.testing.assert_allclose(doc[4].vector, doc[4]._.elmo)
    numpy.testing.assert_allclose(doc[1:3].vector, doc[1:3]._.elmo, atol=1e-6)
    assert doc.has_vector and doc[0].has_vector and doc[0:2].has_vector
    assert doc.similarity(doc) == pytest.approx(1.0, abs=1e-5)
    assert -1 <= doc.similarity(other) < 0.9999
    assert doc[0].similarity(other[0]) == pytest.approx(
        float(doc[0].vector @ other[0].vector) / doc[0].vector_norm / other[0].vector_norm
    )
    assert doc[0:2].similarity(doc[0:2]) == pytest.approx(1.0, abs=1e-5)
    assert vectors("").similarity(doc) == 0.0
    plain = nlp(TEXTS[0])
    assert not plain.tensor.size and not plain.user_hooks


def test_vectors_in_half_precision_are_summed_in_full():
    nlp, halved = spacy.blank("en"), spacy.blank("en")
    add_elmo(nlp, set_vectors=True, mix={"gamma": 10000.0})
    add_elmo(halved, set_vectors=True, mix={"gamma": 10000.0}, dtype="float16")
    text = "word " * 3000
    doc, half = nlp(text), halved(text)
    assert half.tensor.dtype == "float16" and half.vector.dtype == "float32"
    numpy.testing.assert_allclose(half.vector, doc.vector, rtol=1e-3, atol=0.05)
    assert half.vector_norm == pytest.approx(doc.vector_norm, rel=1e-3) and doc.vector_norm > 256
    assert half[1].vector_norm == pytest.approx(doc[1].vector_norm, rel=1e-3)
    assert half.similarity(half[5:9]) == pytest.approx(doc.similarity(doc[5:9]), abs=1e-3)


def test_two_components_in_one_pipeline():
    nlp = spacy.blank("en")
    add_elmo(nlp)
    wide = {**BILM, "projection_width": 12}
    add_elmo(nlp, name="wide", seed=2, bilm=wide, prefix="wide", store="mixed")
    doc = nlp(TEXTS[0])
    assert doc._.elmo.shape == (len(doc), 16) and doc._.wide.shape == (len(doc), 24)
    assert doc[0]._.wide.shape == (24,)
    for owner in (Doc, Span, Token):
        assert owner.has_extension("wide_layers")


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


# Contexts


def test_auto_context_is_sentences_where_they_are_set(nlp):
    words = ["It", "rains", ".", "We", "stay", "."]
    starts = [True, False, False, True, False, False]
    with_sents = nlp(Doc(nlp.vocab, words=words, sent_starts=starts))
    alone = nlp(Doc(nlp.vocab, words=words[3:]))
    whole = nlp(Doc(nlp.vocab, words=words))
    numpy.testing.assert_allclose(with_sents._.elmo[3:], alone._.elmo, atol=1e-6)
    assert abs(with_sents._.elmo - whole._.elmo).max() > 1e-4


def test_doc_context_ignores_sentences():
    nlp = spacy.blank("en")
    add_elmo(nlp, model={"contexts": "doc"})
    words = ["It", "rains", ".", "We", "stay", "."]
    with_sents = nlp(Doc(nlp.vocab, words=words, sent_starts=[True, False, False, True, False, False]))
    numpy.testing.assert_allclose(with_sents._.elmo, nlp(Doc(nlp.vocab, words=words))._.elmo, atol=1e-6)


def test_sentence_context_without_boundaries_is_an_error():
    nlp = spacy.blank("en")
    add_elmo(nlp, model={"contexts": "sentences"})
    with pytest.raises(ValueError, match="no sentence boundaries"):
        nlp("Two words")
    check_shapes(nlp(""))
    nlp.add_pipe("sentencizer", before="elmo")
    check_shapes(nlp("Two words. Two more."))


@pytest.mark.parametrize("state", ["reset", "steady", "carry"])
def test_windows_keep_the_centre(state):
    nlp, words = spacy.blank("en"), [f"w{i}" for i in range(50)]
    add_elmo(nlp, model={"max_tokens": 20, "overlap": 8, "state": state})
    doc = nlp(Doc(nlp.vocab, words=words))
    check_shapes(doc)
    bilm = make_random_bilm(BILM, 1)
    if state == "carry":
        expected = bilm.encode([words[0:20], words[20:40], words[40:50]], state="carry", group_lengths=[3])
        numpy.testing.assert_allclose(doc._.elmo_layers, expected.numpy(), atol=1e-5)
    else:
        expected = bilm.embed([words[12:32]], state=state)[0]  # the second window; kept from the middle of the overlap
        numpy.testing.assert_allclose(doc._.elmo_layers[:, 16:28], expected[:, 4:16], atol=1e-5)


def test_carried_state_is_reset_for_each_doc():
    nlp = spacy.blank("en")
    add_elmo(nlp, model={"state": "carry", "max_tokens": 4, "overlap": 0})
    docs = list(nlp.pipe([TEXTS[0], TEXTS[5], TEXTS[0]]))
    numpy.testing.assert_allclose(docs[0]._.elmo, docs[2]._.elmo, atol=1e-6)


PEAK = """
import sys
import spacy, torch
from spacy.tokens import Doc
from tests.pipeline.tiny import BILM, add_elmo

def read(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) * 1024

torch.set_num_threads(1)
nlp = spacy.blank("en")
elmo = add_elmo(nlp, store="layers", bilm={**BILM, "cell_width": 128, "projection_width": 64})
n_tokens = int(sys.argv[1])
doc = Doc(nlp.vocab, words=[f"word{i % 500}" for i in range(n_tokens)])
elmo.predict([Doc(nlp.vocab, words=[f"word{i % 500}" for i in range(5000)])])  # what is allocated once
open("/proc/self/clear_refs", "w").write("5")  # the peak from here on
before = read("VmRSS:")
layers = elmo.predict([doc])[0].layers
assert layers.shape[1] == n_tokens
print(read("VmHWM:") - before - layers.nbytes)
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="no peak memory without Linux's /proc")
def test_working_memory_does_not_grow_with_the_doc(pytestconfig):
    environment = {**os.environ, "PYTHONPATH": str(pytestconfig.rootpath), "OMP_NUM_THREADS": "1"}
    peaks = {}
    for n_tokens in (10_000, 100_000):
        command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PEAK, str(n_tokens)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
        assert run.returncode == 0, run.stderr
        peaks[n_tokens] = int(run.stdout)
    # The lists of tokens grow, by about 100 bytes a token. One more copy of the layers is 1536 bytes a token: 138 MB.
    assert peaks[100_000] - peaks[10_000] < 30e6, peaks


# Weights


def test_untouched_component_takes_the_packaged_weights(packaged):
    text = "on the bank"
    expected = make_random_bilm(BILM, 7).embed([text.split()])[0]

    def fresh():
        nlp = spacy.blank("en")
        nlp.add_pipe("elmo")
        return nlp

    def check(nlp):
        numpy.testing.assert_allclose(nlp(text)._.elmo_layers, expected, atol=1e-5)

    check(fresh())
    nlp = fresh()
    nlp.initialize()
    check(nlp)
    numpy.testing.assert_allclose(next(fresh().pipe([text]))._.elmo_layers, expected, atol=1e-5)
    check(fresh().from_bytes(fresh().to_bytes()))


def test_untouched_component_is_saved_with_the_packaged_weights(packaged, tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    nlp.to_disk(tmp_path / "pipeline")
    packaged.setattr(elmo_model, "load_bilm", None)
    assert spacy.load(tmp_path / "pipeline")("bank")._.elmo.any()


@pytest.fixture
def packaged(monkeypatch, tmp_path):
    """A packaged biLM: tiny, in a folder of its own."""
    save_bilm(make_random_bilm(BILM, 7), tmp_path / "packaged")
    load = elmo_model.load_bilm
    monkeypatch.setattr(elmo_model, "load_bilm", lambda name: load(tmp_path / "packaged"))
    return monkeypatch


def test_other_sizes_than_packaged_are_an_error(packaged):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": {"bilm": {**BILM, "n_layers": 3}}})
    with pytest.raises(ValueError, match="n_layers is 2, not 3.*BiLMLoader"):
        nlp("text")
    same = spacy.blank("en")
    same.add_pipe("elmo", config={"model": {"bilm": BILM}})
    assert same("text")._.elmo.any()


def test_without_packaged_weights_nothing_is_made_up(monkeypatch, tmp_path):
    load = elmo_model.load_bilm
    monkeypatch.setattr(elmo_model, "load_bilm", lambda name: load(tmp_path / "nothing"))
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    with pytest.raises(ValueError, match="EL020"):
        nlp("text")


def test_loader_of_the_config_fills_the_component(tmp_path):
    save_bilm(make_random_bilm(BILM, 3), tmp_path / "bilm")
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    loader = {"@misc": "spacy-elmo.BiLMLoader.v1", "path": str(tmp_path / "bilm")}
    nlp.config["initialize"]["components"]["elmo"] = {"loader": loader}
    nlp.initialize()
    expected = make_random_bilm(BILM, 3).embed([["bank"]])[0]
    numpy.testing.assert_allclose(nlp("bank")._.elmo_layers, expected, atol=1e-6)


def test_loader_of_the_config_is_never_passed_over(packaged):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    nlp.config["initialize"]["components"]["elmo"] = loader_block()
    for use in (lambda: nlp("text"), nlp.to_bytes, lambda: list(nlp.pipe(["text"] * 3, n_process=2))):
        with pytest.raises(ValueError, match="loader that was not called"):
            use()
        assert nlp.get_pipe("elmo").sizes is None
    nlp.initialize()
    assert nlp("text")._.elmo.any()


def test_loader_with_other_sizes_than_the_config_is_an_error():
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": {"bilm": {**BILM, "cell_width": 20}}})
    nlp.config["initialize"]["components"]["elmo"] = loader_block()
    with pytest.raises(ValueError, match="cell_width is 16, not 20"):
        nlp.initialize()


def test_loader_that_gives_something_else_is_an_error():
    nlp = spacy.blank("en")
    elmo = nlp.add_pipe("elmo")
    with pytest.raises(ValueError, match="a dict"):
        elmo.initialize(lambda: [make_example(nlp)], nlp=nlp, loader=dict)


def test_initialize_again_keeps_weights_without_a_loader(nlp):
    before = nlp("bank")._.elmo.copy()
    del nlp.config["initialize"]["components"]["elmo"]
    nlp.initialize()
    numpy.testing.assert_array_equal(nlp("bank")._.elmo, before)


# Settings


@pytest.mark.parametrize(
    "config,message",
    [
        ({"store": "all"}, "(?s)store.*'all'"),
        ({"dtype": "int8"}, "(?s)dtype.*'int8'"),
        ({"prefix": "a-b"}, "(?s)prefix.*'a-b'"),
        ({"mix": {"layer_norm": "bilm-tf"}}, "(?s)layer_norm.*'token'.*bilm-tf"),
        ({"mix": {"weight": [1.0]}}, "(?s)weight\\n.*Unexpected"),
        ({"mix": {"gamma": None}}, "(?s)gamma.*None"),
        ({"mix": {"gamma": "2"}}, "(?s)gamma.*'2'"),
        ({"mix": {"weights": 1.0}}, "(?s)weights.*1.0"),
        ({"mix": {"weights": [1.0, None, 0.0]}}, "(?s)weights.*None"),
        ({"model": {"bilm": {"n_layer": 3}}}, "EL001.*Unknown setting.*n_layer"),
        ({"model": {"bilm": {**BILM, "n_layers": 0}}}, "n_layers is 0"),
        ({"model": {"bilm": {**BILM, "char_cnn": {"filters": []}}}}, "filters is empty"),
        ({"model": {"contexts": "word", "state": "x"}}, "(?s)contexts.*'word'.*state.*'x'"),
        ({"model": {"max_tokens": 10, "overlap": 5}}, "(?s)overlap.*5"),
        ({"model": {"frozen": False, "state": "carry"}}, "(?s)state.*'carry'"),
        ({"model": {"max_tokens": "10"}}, "(?s)max_tokens.*'10'"),
        ({"model": {"layer_cache_mb": "64"}}, "(?s)layer_cache_mb.*'64'"),
    ],
)
def test_invalid_settings_are_an_error(config, message):
    with pytest.raises(ValueError, match=message):
        spacy.blank("en").add_pipe("elmo", config=config)


def test_analyze_pipes_knows_what_is_assigned(nlp):
    analysis = nlp.analyze_pipes()
    assert "doc._.elmo" in analysis["summary"]["elmo"]["assigns"]
    assert "token._.elmo_layers" in analysis["summary"]["elmo"]["assigns"]
