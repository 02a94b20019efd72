"""The scalar mix: equation, gradients, regularization."""

import numpy
import pytest
from reference.numpy_bilm import mix as reference_mix
from thinc.api import Adam

from spacy_elmo.pipeline.mix import MixSettings, ScalarMixLayer, mix_layers

N_LAYERS, N_TOKENS, WIDTH = 3, 5, 4
WEIGHTS = [0.3, -0.5, 0.9]
NORMS = [None, "token", "bilm-tf"]


def make_layers(seed=0, n_tokens=N_TOKENS):
    layers = numpy.random.default_rng(seed).normal(1.0, 2.0, (N_LAYERS, n_tokens, WIDTH))
    layers[:, 2:3] = 0.0  # a space token
    return layers


def make_mix(**settings):
    """In double precision, so that finite differences say something; with a projection in single precision."""
    mix, dtype = ScalarMixLayer(MixSettings(**settings)), "float32" if "projection_width" in settings else "float64"
    mix.initialize(X=make_layers().astype("float32"))
    mix.set_param("w", numpy.asarray(WEIGHTS, dtype=dtype))
    mix.set_param("gamma", numpy.asarray([1.7], dtype=dtype))
    return mix


def loss_of(mix, layers, d_output):
    return float((mix.predict(layers) * d_output).sum())


def numeric_gradient(array, function, step=1e-5):
    gradient = numpy.zeros_like(array)
    for i in numpy.ndindex(*array.shape):
        before = array[i]
        array[i] = before + step
        above = function()
        array[i] = before - step
        gradient[i] = (above - function()) / (2 * step)
        array[i] = before
    return gradient


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype,limit", [("float64", 1e-11), ("float32", 1e-5)])
def test_mix_layers_and_scalar_mix_match_the_reference(norm, dtype, limit):
    layers = numpy.random.default_rng(3).normal(5.0, 2.0, (N_LAYERS, 9, WIDTH)).astype(dtype)
    expected = reference_mix(layers, WEIGHTS, 1.7, norm or "none")
    numpy.testing.assert_allclose(make_mix(layer_norm=norm).predict(layers), expected, atol=limit)
    numpy.testing.assert_allclose(mix_layers(layers, WEIGHTS, 1.7, norm), expected, atol=limit)


@pytest.mark.parametrize(
    "settings",
    [
        *[{"layer_norm": norm} for norm in NORMS],
        {"projection_width": 2},
        {"mix": "concat"},
        {"mix": "concat", "layer_norm": "token", "projection_width": 3},
    ],
)
def test_gradients_match_finite_differences(settings):
    mix = make_mix(**settings)
    layers = make_layers().astype(mix.get_param("w").dtype)
    output, backprop = mix(layers, is_train=True)
    d_output = numpy.random.default_rng(1).normal(size=output.shape).astype("float32")
    d_layers = backprop(d_output)
    is_word = layers.any(axis=(0, 2))
    assert not output[~is_word].any()  # of space tokens
    step, limit = (1e-2, 2e-2) if "projection_width" in settings else (1e-5, 1e-5)

    def check(array, found, places=...):
        expected = numeric_gradient(array, lambda: loss_of(mix, layers, d_output), step)
        numpy.testing.assert_allclose(found[places], expected[places], atol=limit)

    check(layers, d_layers, (slice(None), is_word))
    for node in mix.walk():
        for name in node.param_names:
            if name == "w" and settings.get("mix") == "concat":
                assert not node.has_grad("w"), "no layer is weighed"
            else:
                check(node.get_param(name), node.get_grad(name))


def test_fixed_weights_and_gamma_get_no_gradient():
    mix, layers = make_mix(learn_weights=False, learn_gamma=False), make_layers()
    output, backprop = mix(layers, is_train=True)
    backprop(output)
    assert not mix.has_grad("w") and not mix.has_grad("gamma")
    mix.finish_update(Adam(0.1))
    numpy.testing.assert_allclose(mix.get_param("w"), WEIGHTS)


@pytest.mark.parametrize(
    "settings, shares",
    [
        ({"mix": "mean"}, [1 / 3, 1 / 3, 1 / 3]),
        ({"mix": "top"}, [0.0, 0.0, 1.0]),
        ({"mix": "fixed", "initial_weights": [0.0, numpy.log(2.0), 0.0]}, [0.25, 0.5, 0.25]),
    ],
)
def test_mix_without_learned_weights_keeps_its_shares(settings, shares):
    mix, layers = ScalarMixLayer(MixSettings(**settings)), make_layers().astype("float32")
    mix.initialize(X=layers)
    for _ in range(2):
        output, backprop = mix(layers, is_train=True)
        gamma = mix.get_param("gamma")
        expected = gamma * numpy.einsum("l,ltd->td", shares, layers)
        numpy.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-6)
        d_layers = backprop(output)
        numpy.testing.assert_allclose(d_layers, gamma * numpy.multiply.outer(shares, output), rtol=1e-4, atol=1e-5)
        mix.finish_update(Adam(0.1))
    assert mix.get_param("gamma") != 1.0, "the scale is learned"


def test_concatenated_layers_stand_side_by_side():
    mix, layers = make_mix(mix="concat"), make_layers()
    numpy.testing.assert_allclose(mix.predict(layers), 1.7 * numpy.concatenate(layers, axis=1))
    assert mix.get_dim("nO") == N_LAYERS * WIDTH
    mix = make_mix(mix="concat", projection_width=3)
    assert mix.layers[0].get_dim("nI") == N_LAYERS * WIDTH and mix.get_dim("nO") == 3
    assert mix.predict(layers.astype("float32")).shape == (N_TOKENS, 3)


def test_weights_l2_adds_to_the_gradient():
    layers, grads = make_layers(), []
    for strength in (0.0, 0.25):
        mix = make_mix(weights_l2=strength)
        output, backprop = mix(layers, is_train=True)
        backprop(output)
        grads.append(mix.get_grad("w"))
    numpy.testing.assert_allclose(grads[1] - grads[0], 2 * 0.25 * numpy.asarray(WEIGHTS))


def test_layer_dropout_leaves_layers_out_of_the_softmax():
    mix, layers = make_mix(layer_dropout=0.5), make_layers()
    seen = set()
    for _ in range(60):
        output, backprop = mix(layers, is_train=True)
        backprop(output)
        for kept in [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]:
            weights = numpy.asarray(WEIGHTS)[list(kept)]
            if numpy.allclose(output, mix_layers(layers[list(kept)], weights, 1.7)):
                seen.add(kept)
    assert len(seen) > 3
    numpy.testing.assert_allclose(mix.predict(layers), make_mix().predict(layers))


@pytest.mark.parametrize(
    "settings, problem",
    [
        ({"layer_dropout": 1.0}, "layer_dropout\n.*Input should be"),
        ({"layer_norm": "x"}, "layer_norm\n.*Input should be"),
        ({"initial_weights": [float("nan"), 0.0, 0.0]}, "initial_weights.*nan"),
        ({"initial_weights": [0.0, "1", 0.0]}, "initial_weights.*'1'"),
        ({"initial_gamma": 1e39}, r"initial_gamma.*1e\+39"),
        # without effect
        ({"mix": "best"}, "mix.*'best'"),
        ({"mix": "fixed"}, "initial_weights.*null"),
        ({"mix": "top", "initial_weights": [1.0, 2.0, 3.0]}, "should be null with mix"),
        ({"mix": "top", "layer_dropout": 0.1}, "layer_dropout.*0.1"),
        ({"mix": "concat", "layer_dropout": 0.1}, "layer_dropout.*0.1"),
        ({"mix": "concat", "initial_weights": [1.0, 2.0, 3.0]}, "should be null with mix"),
    ],
)
def test_invalid_settings_are_an_error(settings, problem):
    with pytest.raises(ValueError, match=f"(?s){problem}"):
        MixSettings(**settings)
