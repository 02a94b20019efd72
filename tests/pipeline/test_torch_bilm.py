"""The cache for layers of training Docs."""

import os
import tempfile

import numpy
import pytest
import spacy
import torch
from spacy.tokens import Doc
from thinc.api import Adam

from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.pipeline.model import get_bilm
from spacy_elmo.pipeline.torch_bilm import LayerCache

from .tiny import N_LAYERS, TEXTS, WIDTH, add_elmo, listening, make_examples


@pytest.fixture
def elmo(nlp):
    return nlp.get_pipe("elmo")


def make_docs(nlp):
    return [nlp.make_doc(text) for text in TEXTS]


def compute(elmo, docs, is_train=True):
    batch, _ = elmo.model(docs, is_train=is_train)
    return batch.layers


def cache_of(elmo):
    return elmo.model.shims[0].layer_cache


def break_weights(elmo):
    """Set the weights to nonsense without telling anybody: what is computed now shows it."""
    with torch.no_grad():
        for layer in get_bilm(elmo.model).network.encoder.layers:
            layer.bias.add_(1.0)
            layer.recurrent_weight.zero_()


def test_later_epochs_read_what_the_first_computed(nlp, elmo, monkeypatch):
    first = compute(elmo, make_docs(nlp)).copy()
    monkeypatch.setattr(BiLM, "iter_encode", lambda bilm, sequences, **settings: iter([()] * len(sequences)))
    docs = make_docs(nlp)[::-1]
    again = compute(elmo, docs)
    bounds = numpy.cumsum([0, *map(len, docs)])
    parts = [again[:, start:end] for start, end in zip(bounds, bounds[1:])]
    assert numpy.array_equal(numpy.concatenate(parts[::-1], axis=1), first)
    assert cache_of(elmo).n_hits == sum(map(bool, docs))


CUT = [True, False, True, False]


@pytest.mark.parametrize(
    "one, other",
    [
        ({"words": ["one", "two", "three", "four"]}, {"words": ["one", "two", "three", "four"], "sent_starts": CUT}),
        ({"words": ["one", " ", "two"]}, {"words": ["one", "two", " "]}),
        ({"words": ["one", "two"]}, {"words": ["one", "two", " "]}),
        ({"words": ["ab", "c"]}, {"words": ["a", "bc"]}),
        ({"words": ["abc"]}, {"words": ["a b", "c"]}),
        ({"words": ["ab", "c"]}, {"words": ["ab", "c"], "sent_starts": [True, True]}),
    ],
)
def test_other_words_boundaries_and_spaces_are_another_text(nlp, elmo, one, other):
    compute(elmo, [Doc(nlp.vocab, **one)])
    doc = Doc(nlp.vocab, **other)
    for n_hits in (0, 1):
        found = compute(elmo, [doc])
        assert cache_of(elmo).n_hits == n_hits and cache_of(elmo).n_misses == 2
        assert numpy.allclose(found, compute(elmo, [doc], is_train=False), atol=1e-6)
        assert [bool(found[:, token.i].any()) for token in doc] == [not token.is_space for token in doc]


@pytest.mark.parametrize("change", ["new weights", "changed weights", "settings"])
def test_what_matters_makes_it_forget(nlp, elmo, change):
    docs = make_docs(nlp)
    compute(elmo, docs)
    if change == "new weights":
        elmo.model.shims[0].from_bytes(elmo.model.shims[0].to_bytes())
    elif change == "changed weights":
        break_weights(elmo)
    else:
        settings = elmo.model.attrs["settings"]
        elmo.model.attrs["settings"] = type(settings)(**{**vars(settings), "state": "steady"})
    n_hits = cache_of(elmo).n_hits
    found = compute(elmo, docs)
    assert cache_of(elmo).n_hits == n_hits
    assert numpy.allclose(found, compute(elmo, docs, is_train=False), atol=1e-6)


def test_the_budget_is_kept_and_the_rest_computed(nlp):
    blank = spacy.blank("en")
    docs = make_docs(blank)
    row = 4 * N_LAYERS * WIDTH
    elmo = add_elmo(blank, model={"layer_cache_mb": (len(docs[0]) + len(docs[3])) * row / 2**20})
    for _ in range(3):
        assert numpy.allclose(compute(elmo, docs), compute(elmo, docs, is_train=False), atol=1e-6)
    assert cache_of(elmo).n_bytes == (len(docs[0]) + len(docs[3])) * row
    assert cache_of(elmo).n_hits == 4


def test_hooks_have_their_effect_on_layers_that_are_cached(nlp, elmo):
    docs, hooked = make_docs(nlp), get_bilm(elmo.model).network.encoder.layers[-1]
    plain = compute(elmo, docs).copy()
    handle = hooked.register_forward_hook(lambda module, inputs, outputs: (0 * outputs[0], *outputs[1:]))
    assert abs(compute(elmo, docs) - plain).max() > 1e-3
    handle.remove()
    assert numpy.array_equal(compute(elmo, docs), plain)


def _no_folder():
    raise FileNotFoundError(2, "No usable temporary directory found")


@pytest.mark.parametrize("is_full", [False, True])
def test_training_needs_no_temporary_file(nlp, elmo, monkeypatch, is_full):
    if is_full and not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_get_default_tempdir", _no_folder)
    if is_full:
        monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: open("/dev/full", "w+b", buffering=0))
    docs = make_docs(nlp)
    with pytest.warns(UserWarning, match="could not be cached in a temporary folder .*TMPDIR"):  # once
        first = compute(elmo, docs).copy()
    assert numpy.array_equal(compute(elmo, docs), first)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_forked_process_has_a_file_of_its_own():
    cache = LayerCache(1.0, "float32")
    ones = numpy.ones((1, 2, 3), dtype="float32")
    cache.clear_if_changed(1)
    cache.write(b"a", ones)
    child = os.fork()
    if not child:
        cache.clear_if_changed(1)
        is_apart = cache.read(b"a", ones.shape) is None
        cache.write(b"b", 2 * ones)
        os._exit(0 if is_apart and (cache.read(b"b", ones.shape) == 2).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
    cache.clear_if_changed(1)
    cache.write(b"b", 3 * ones)
    assert (cache.read(b"a", ones.shape) == 1).all() and (cache.read(b"b", ones.shape) == 3).all()


def test_training_is_the_same_with_and_without():
    weights = []
    for size in (0.0, 64.0):
        nlp = spacy.blank("en")
        elmo = add_elmo(nlp, model={"layer_cache_mb": size})
        nlp.add_pipe("tagger", config=listening())
        spacy.util.fix_random_seed(0)
        examples = make_examples(nlp)
        nlp.initialize(lambda: examples)  # noqa: B023  called at once
        sgd = Adam(0.01)
        for _ in range(4):
            nlp.update(make_examples(nlp), sgd=sgd)
        assert cache_of(elmo).n_hits == (3 * len(examples) if size else 0)
        weights.append(nlp.get_pipe("tagger").model.get_ref("softmax").get_param("W").copy())
    assert numpy.allclose(*weights, atol=1e-6) and weights[0].any()
