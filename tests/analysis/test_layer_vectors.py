"""Vectors of labelled tokens are those of the biLM, whatever the slices."""

import numpy as np
import pytest

from spacy_elmo.analysis.labelled import LabelledDocs, label_tokens
from spacy_elmo.analysis.layer_vectors import (
    collect_layers,
    group_layers,
    iter_layers,
    make_reading,
    name_all,
)

from .labelled_texts import N_LAYERS, WIDTH, make_bilm, make_doc, read_all

SENTENCES = [["We", "sat"], ["Rain", "fell", "on", "us"], ["Yes"], ["Then", "it", "stopped"]]


@pytest.fixture(scope="module")
def labelled() -> LabelledDocs:
    """Two Docs of two sentences; every second token has a label."""
    tagged = [[(word, "X" if i % 2 else "") for i, word in enumerate(words)] for words in SENTENCES]
    return label_tokens([make_doc(*tagged[:2]), make_doc(*tagged[2:])], "pos")


@pytest.mark.issue(16)
@pytest.mark.parametrize("batch_tokens", [1, 3, 100])
@pytest.mark.parametrize("state", ["reset", "steady", "carry"])
@pytest.mark.parametrize("contexts", ["sentences", "doc"])
def test_vectors_are_those_of_the_runs(labelled: LabelledDocs, contexts: str, state: str, batch_tokens: int) -> None:
    bilm = make_bilm()
    runs = SENTENCES if contexts == "sentences" else [sum(SENTENCES[:2], []), sum(SENTENCES[2:], [])]
    groups = [len(runs) // 2] * 2
    expected = read_all(bilm, runs, state=state, group_lengths=groups)[:, labelled.rows]
    reading = make_reading(contexts=contexts, state=state, batch_tokens=batch_tokens)
    found = np.zeros_like(expected)
    for start, stop, layers in iter_layers(bilm, labelled, reading):
        found[:, start:stop] = layers
    assert found.shape == (N_LAYERS + 1, 4, WIDTH)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    for layer, vectors in zip(name_all(bilm), expected):
        np.testing.assert_allclose(collect_layers(bilm, labelled, [layer], reading)[0], vectors, atol=1e-5)


@pytest.mark.issue(16)
def test_windows_leave_no_token_out(labelled: LabelledDocs) -> None:
    reading = make_reading(contexts="doc", max_tokens=3, overlap=1, batch_tokens=2)
    bounds = [(start, stop) for start, stop, _ in iter_layers(make_bilm(), labelled, reading)]
    assert [i for start, stop in bounds for i in range(start, stop)] == [0, 1, 2, 3]


@pytest.mark.issue(16)
def test_layers_are_numbers_and_their_mean() -> None:
    assert name_all(make_bilm()) == [0, 1, 2, "mean"]
    with pytest.raises(ValueError, match="EL060.*contexts is 'words'"):
        make_reading(contexts="words")


@pytest.mark.issue(18)
def test_layers_of_one_reading_equal_single_layers(labelled: LabelledDocs) -> None:
    bilm = make_bilm()
    together = collect_layers(bilm, labelled, ["mean", 1])
    np.testing.assert_array_equal(together, [collect_layers(bilm, labelled, [layer])[0] for layer in ("mean", 1)])


@pytest.mark.issue(18)
def test_layers_are_grouped_by_memory() -> None:
    layers = [0, 1, 2, "mean"]
    assert group_layers(layers, 10, 2, max_bytes=160) == [[0, 1], [2, "mean"]]
    assert group_layers(layers, 10, 2, max_bytes=239) == [[0, 1], [2, "mean"]]
    assert group_layers(layers, 10, 2, max_bytes=1) == [[0], [1], [2], ["mean"]]
    assert group_layers(layers, 0, 2) == [layers]
