"""The fast paths equal the NumPy reference."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from reference.numpy_bilm import NumpyBiLM, State
from reference.seeded_weights import (
    SENTENCES,
    VARIANTS,
    WORDS,
    make_arrays,
    make_highways,
    make_options,
    make_softmax,
    write_model,
)

from spacy_elmo import BiLM, load_bilm
from spacy_elmo.bilm.network import BiLMNetwork

TOLERANCE = 1e-5


# Variants with highways between the layers; bilm-tf's files cannot hold these.
HIGHWAYS = {
    "highways": {"lstm": {"use_skip_connections": False, "n_layers": 3}},
    "highwaysforward": {"bidirectional": False, "lstm": {"use_skip_connections": False}},
}


# For what does not depend on names and missing keys of options.
few = pytest.mark.parametrize(
    "pair", ["plain", "noproj", "nocnnproj", "3layer", "smallclip", "words", *HIGHWAYS], indirect=True
)


@pytest.fixture(params=[*VARIANTS, *HIGHWAYS])
def pair(request, tmp_path):
    """Our biLM and the plain one, with the same weights."""
    options = make_options(**{**VARIANTS, **HIGHWAYS}[request.param])
    arrays = {**make_arrays(options, seed=7), **make_softmax(options)}
    bilm = load_bilm(write_model(tmp_path / "model", options, arrays, WORDS))
    if request.param in HIGHWAYS:
        highways = make_highways(options)
        bilm = with_highways(bilm, highways)
        arrays = {**arrays, **highways}
        options["lstm"]["highways_between"] = True
    return bilm, NumpyBiLM(options, arrays, WORDS)


def with_highways(bilm, arrays):
    network = BiLMNetwork(replace(bilm.config, highway_between=True))
    network.load_state_dict(bilm.network.state_dict(), strict=False)
    for k, highway in enumerate(network.encoder.highways):
        for direction in range(bilm.config.n_directions):
            for name, parameter in (("W", highway.weight), ("b", highway.bias)):
                parameter.data[direction] = torch.from_numpy(arrays[f"highway_{direction}_{k + 1}/{name}"])
    return BiLM(network, vocabulary=bilm.vocabulary, head=bilm.head)


def assert_close(found, wanted):
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, atol=TOLERANCE, rtol=0)


def row(state, i):
    return State(state.h[:, i], state.c[:, i])


def test_reset(pair):
    bilm, plain = pair
    with_marks = bilm.embed(SENTENCES, boundaries=True)
    without = bilm.embed(SENTENCES, batch_tokens=11)
    for words, full, inner in zip(SENTENCES, with_marks, without):
        wanted, _ = plain.layers(words)
        assert_close(full, wanted)
        assert_close(inner, wanted[:, 1:-1])


@few
def test_carried_state_by_row(pair):
    bilm, plain = pair
    state, states = None, [plain.zero_state() for _ in range(3)]
    for batch in (SENTENCES[:3], SENTENCES[3:5], [[]], SENTENCES[::2]):
        vectors, state = bilm.embed(batch, state=state, return_state=True)
        for i, words in enumerate(batch):
            wanted, states[i] = plain.layers(words, states[i])
            assert_close(vectors[i], wanted[:, 1:-1])
    for i, wanted in enumerate(states):
        assert_close(row(state, i).h.numpy(), wanted.h)
        assert_close(row(state, i).c.numpy(), wanted.c)


@few
def test_steady(pair):
    bilm, plain = pair
    settled = plain.steady_state()
    for words, found in zip(SENTENCES, bilm.embed(SENTENCES, state="steady", boundaries=True)):
        assert_close(found, plain.layers(words, settled)[0])


@pytest.mark.parametrize("state", ["carry", "reset"])
@few
def test_perplexity(pair, state):
    bilm, plain = pair
    sentences = [words for words in SENTENCES if words]
    running, losses = None, []
    for words in sentences:
        found, new = plain.losses(words, running)
        losses.append(found)
        running = new if state == "carry" else None
    result = bilm.perplexity(sentences, state=state, batch_size=1)
    forward = np.exp(np.concatenate([part[0] for part in losses]).mean())
    assert result.forward == pytest.approx(forward, rel=1e-4)
    if plain.n_directions == 2:
        backward = np.exp(np.concatenate([part[1] for part in losses]).mean())
        assert result.backward == pytest.approx(backward, rel=1e-4)
