"""Runners compute the layers of the modules, by the native kernel and by torch's products: values, states, NaN."""

import itertools

import numpy as np
import pytest
import torch
from inference.forcing import ENGINES, force_engine, needs_kernel
from inference.stacks import SENTENCE, SENTENCES, VARIANTS, make_stack

from spacy_elmo.bilm.lstm import full_bias
from spacy_elmo.bilm.state import BiLMState


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_layers_are_those_with_gradients_in_float64(variant, engine, monkeypatch):
    force_engine(monkeypatch, engine)
    bilm, exact = make_stack(**VARIANTS[variant]), make_stack(**VARIANTS[variant])
    exact.network.double()
    vectors = bilm.embed(SENTENCES)
    expected = exact.encode(SENTENCES, with_grad=True).detach().numpy()
    assert np.ptp(expected[-1]) > 0.01
    np.testing.assert_allclose(np.concatenate(vectors, axis=1), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_forget_gate_keeps_its_share_whatever_the_other_gates_are(engine, monkeypatch):
    """The quotients of a cell share one division, whose denominators must not overflow."""
    force_engine(monkeypatch, engine)
    bilm = make_stack(n_layers=1, cell_width=8, projection_width=8, cell_clip=None)
    layer = bilm.network.encoder.layers[0]
    biases = torch.tensor(list(itertools.product((-60.0, 0.0, 60.0), (-60.0, 60.0), (-10.2, -6.0, 60.0), (1.0,))))
    state = BiLMState(torch.zeros(1, 1, 16), torch.full((1, 1, 16), 3.0))
    for number in range(0, len(biases) - 7):
        pre = biases[number : number + 8].T.reshape(-1)  # i, j, f, o of eight cells
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.zero_()
            layer.bias.copy_(pre - (full_bias(layer.bias) - layer.bias))
        bilm.clear_caches()
        _, after = bilm.embed([[]], state=state, return_state=True)
        i, j, f, _ = pre.double().view(4, 8)
        cells = torch.full((8,), 3.0).double()
        for _ in range(2):  # BOS and EOS
            cells = f.sigmoid() * cells + i.sigmoid() * j.tanh()
        torch.testing.assert_close(after.c[0, 0, :8].double(), cells, rtol=1e-4, atol=1e-11)


@pytest.mark.parametrize("n", [1, 2, 30])
@pytest.mark.parametrize("engine", ENGINES)
def test_states_go_in_and_come_out(engine, n, monkeypatch):
    force_engine(monkeypatch, engine)
    bilm, texts = make_stack(), SENTENCES[:30]
    _, start = bilm.embed(texts[::-1], return_state=True)
    vectors, end = bilm.embed(texts[:n], state=start, return_state=True)
    for k in range(n):
        (single,), state = bilm.embed([texts[k]], state=start.row(k), return_state=True)
        np.testing.assert_allclose(vectors[k], single, rtol=0, atol=0 if engine == "kernel" else 1e-5)
        for name in ("h", "c"):
            row = getattr(end, name)[:, k : k + 1]
            torch.testing.assert_close(row, getattr(state, name), rtol=0, atol=0 if engine == "kernel" else 1e-5)
    assert torch.equal(end.h[:, n:], start.h[:, n:]) and not torch.equal(end.h[:, :n], start.h[:, :n])


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("variant", ["plain", "odd widths", "highway, no projection"])
@pytest.mark.parametrize(
    "engine, precision",
    [
        ("torch", "float32"),
        pytest.param("kernel", "float32", marks=needs_kernel),
        pytest.param("kernel", "bfloat16", marks=needs_kernel),
        pytest.param("kernel", "int8", marks=needs_kernel),
    ],
)
def test_nan_and_infinity_stay_in_their_sentence(engine, precision, variant, bad, monkeypatch):
    """Also if another sentence follows in the lane, as the first one here."""
    force_engine(monkeypatch, engine)
    bilm = make_stack(**VARIANTS[variant]).set_precision(precision)
    sentences = [["mill"], ["the", "bad", "bank"], SENTENCE]
    expected = bilm.embed(sentences)
    bilm.clear_caches()
    bilm.word_cache.add(["bad"], torch.full((1, bilm.config.projection_width), bad))
    vectors = bilm.embed(sentences)
    assert not np.isfinite(vectors[1][1:]).all()
    for k in (0, 2):
        np.testing.assert_allclose(vectors[k], expected[k], rtol=0, atol=1e-5)
