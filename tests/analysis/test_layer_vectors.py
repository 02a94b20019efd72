"""Vectors of labelled tokens are those of the biLM, whatever the slices; batches change no nearest neighbor."""

import numpy as np
import pytest
from nn.tiny import N_LAYERS, WIDTH

from spacy_elmo.analysis.labelled_docs import label_tokens
from spacy_elmo.analysis.layer_vectors import (
    collect_layers,
    find_nearest,
    iter_layers,
    name_all,
)
from spacy_elmo.pipeline.model import ElmoSettings

from .labelled_texts import make_bilm, make_doc, read_all

SENTENCES = [["We", "sat"], ["Rain", "fell", "on", "us"], ["Yes"], ["Then", "it", "stopped"]]


@pytest.fixture(scope="module")
def labelled():
    """Two Docs of two sentences; every second token has a label."""
    tagged = [[(word, "X" if i % 2 else "") for i, word in enumerate(words)] for words in SENTENCES]
    return label_tokens([make_doc(*tagged[:2]), make_doc(*tagged[2:])], "pos")


@pytest.mark.parametrize("batch_tokens", [1, 3, 100])
@pytest.mark.parametrize("state", ["reset", "steady", "carry"])
@pytest.mark.parametrize("contexts", ["sentences", "doc"])
def test_vectors_are_those_of_the_runs(labelled, contexts, state, batch_tokens):
    bilm = make_bilm()
    runs = SENTENCES if contexts == "sentences" else [sum(SENTENCES[:2], []), sum(SENTENCES[2:], [])]
    groups = [len(runs) // 2] * 2
    expected = read_all(bilm, runs, state=state, group_lengths=groups)[:, labelled.rows]
    reading = ElmoSettings(contexts=contexts, state=state, batch_tokens=batch_tokens)
    found = np.zeros_like(expected)
    for start, stop, layers in iter_layers(bilm, labelled, reading):
        found[:, start:stop] = layers
    assert found.shape == (N_LAYERS + 1, 4, WIDTH)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    for layer, vectors in zip(name_all(bilm), expected):
        np.testing.assert_allclose(collect_layers(bilm, labelled, [layer], reading)[0], vectors, atol=1e-5)


def test_windows_leave_no_token_out(labelled):
    reading = ElmoSettings(contexts="doc", max_tokens=3, overlap=1, batch_tokens=2)
    bounds = [(start, stop) for start, stop, _ in iter_layers(make_bilm(), labelled, reading)]
    assert [i for start, stop in bounds for i in range(start, stop)] == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="(?s)contexts.*'words'"):
        ElmoSettings(contexts="words")


@pytest.mark.parametrize("batch_size", [1, 3, 7, 100])
def test_batches_change_nothing(batch_size):
    rng = np.random.default_rng(0)
    known, asked = (rng.normal(size=(n, 5)).astype("float32") for n in (23, 11))
    cosines = np.asarray([[a @ k / np.linalg.norm(a) / np.linalg.norm(k) for k in known] for a in asked])
    assert find_nearest(known, asked, batch_size=batch_size).tolist() == cosines.argmax(axis=1).tolist()
    equal = np.asarray([[0, 1], [1, 0], [2, 0], [1, 0]], dtype="float32")
    assert find_nearest(equal, equal, batch_size=batch_size).tolist() == [0, 1, 1, 1]  # the first of equals
