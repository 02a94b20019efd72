"""The component with a biLM in reduced precision."""

import pickle

import numpy as np
import pytest
import spacy
from pipeline.tiny import TEXTS, add_elmo

from spacy_elmo.inference import onednn
from spacy_elmo.pipeline.model import get_bilm

PRECISIONS = [
    pytest.param(name, marks=pytest.mark.skipif(not onednn.works(name), reason=f"torch without {name} products"))
    for name in ("bfloat16", "int8")
]


def make_pipeline(precision):
    nlp = spacy.blank("en")
    add_elmo(nlp, model={"precision": precision})
    return nlp


def vectors(nlp):
    return [doc._.elmo for doc in nlp.pipe(TEXTS)]


def assert_same(nlp, other):
    assert get_bilm(other.get_pipe("elmo").model).precision == get_bilm(nlp.get_pipe("elmo").model).precision
    assert all(np.array_equal(one, two) for one, two in zip(vectors(nlp), vectors(other)))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_pipelines_in_fewer_bits_are_saved_pickled_and_loaded(precision, tmp_path):
    nlp = make_pipeline(precision)
    nlp.to_disk(tmp_path / "nlp")
    assert_same(nlp, spacy.load(tmp_path / "nlp"))
    assert_same(nlp, pickle.loads(pickle.dumps(nlp)))
    other = make_pipeline(precision).from_bytes(nlp.to_bytes())
    assert_same(nlp, other)
    assert other.to_bytes() == nlp.to_bytes()
    assert (b'"I8"' in nlp.to_bytes()) == (precision == "int8")  # in the header of the weights


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_precision_can_be_chosen_when_a_pipeline_is_loaded(precision, tmp_path):
    make_pipeline("float32").to_disk(tmp_path / "nlp")
    nlp = spacy.load(tmp_path / "nlp", config={"components": {"elmo": {"model": {"precision": precision}}}})
    assert_same(make_pipeline(precision), nlp)
    exact = vectors(spacy.load(tmp_path / "nlp"))
    assert 0 < max(np.abs(one - two).max() for one, two in zip(exact, vectors(nlp)) if one.size) < 0.1


@pytest.mark.parametrize("precision", PRECISIONS)
def test_copied_models_keep_the_precision(precision):
    elmo = make_pipeline(precision).get_pipe("elmo")
    assert get_bilm(elmo.model.copy()).precision == precision


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"precision": "int4"}, "(?s)precision.*'int4'"),
        ({"precision": "bfloat16", "frozen": False}, "(?s)precision is 'bfloat16'.*trained"),
    ],
)
def test_invalid_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        spacy.blank("en").add_pipe("elmo", config={"model": settings})


def test_float16_on_a_cpu_is_refused_with_a_remedy():
    with pytest.raises(ValueError, match="EL015.*float16.*cpu.*float32.*components.NAME.model.precision"):
        make_pipeline("float16")
