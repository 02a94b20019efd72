"""Vectors that do not fit the type in which they are stored are an error, wherever they are stored."""

import warnings

import numpy
import pytest
import spacy
from nn.tiny import make_bilm
from spacy.tokens import Doc

from spacy_elmo.export import Embedder
from spacy_elmo.pipeline.model import set_bilm
from spacy_elmo.pipeline.torch_bilm import LayerCache
from spacy_elmo.pipeline.vector_record import cast_values
from spacy_elmo.weights import save_bilm

MESSAGE = r"do not fit float16: a value is [\d,]+, but should be at most 65,504\. Set {} to \"float32\""


@pytest.fixture
def large_bilm():
    """A biLM whose layer 0 has values above 65,504."""
    bilm = make_bilm()
    bilm.network.char_cnn.projection.weight.data.mul_(1e7)
    bilm.clear_caches()
    return bilm


@pytest.mark.parametrize("values", [[65504.0, -65504.0], [numpy.inf, -numpy.inf, numpy.nan, 1.0]])
def test_values_that_fit_are_rounded_and_infinite_ones_stay(values):
    array = numpy.asarray(values, dtype="float32")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        numpy.testing.assert_array_equal(cast_values(array, "float16"), array)
    assert cast_values(array, "float32") is array


@pytest.mark.parametrize("value", [65520.0, -1e30])
def test_values_that_do_not_fit_are_an_error(value):
    with pytest.raises(ValueError, match=MESSAGE.format("dtype")):
        cast_values(numpy.asarray([1.0, value, numpy.inf], dtype="float32"), "float16")


@pytest.mark.parametrize("store", ["mixed", "layers", "both"])
def test_the_component_does_not_store_infinity(large_bilm, store):
    nlp = spacy.blank("en")
    set_bilm(nlp.add_pipe("elmo", config={"dtype": "float16", "store": store}).model, large_bilm)
    with pytest.raises(ValueError, match=MESSAGE.format("dtype")):
        nlp(Doc(nlp.vocab, words=["the", "bank"]))


def test_the_embedder_does_not_store_infinity(large_bilm, tmp_path):
    save_bilm(large_bilm, tmp_path / "bilm")
    with pytest.raises(ValueError, match=MESSAGE.format("dtype")):
        Embedder(str(tmp_path / "bilm"), dtype="float16")({"text": ["the bank"]})


def test_the_layer_cache_does_not_store_infinity():
    cache = LayerCache(1.0, "float16")
    with pytest.raises(ValueError, match=MESSAGE.format("layer_cache_dtype")):
        cache.write(b"key", numpy.full((3, 1, 2), 1e6, dtype="float32"))
