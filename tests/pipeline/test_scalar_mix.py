"""The scalar mix: equation, gradients, regularization."""

import inspect
from dataclasses import fields

import numpy
import pytest
from reference.numpy_bilm import mix as reference_mix
from thinc.api import Adam

from spacy_elmo.pipeline.listener import ElmoTok2Vec, build_listener, settings_of
from spacy_elmo.pipeline.mix import (
    BoundarySums,
    LayersWithBoundaries,
    MixSettings,
    ScalarMix,
    layer_norm,
    mix_layers,
    set_sizes,
    softmax,
)

N_LAYERS, N_TOKENS, WIDTH = 3, 5, 4


def make_layers(seed=0, n_tokens=N_TOKENS):
    layers = numpy.random.default_rng(seed).normal(1.0, 2.0, (N_LAYERS, n_tokens, WIDTH))
    layers[:, 2:3] = 0.0  # a space token
    return layers


def make_settings(**given):
    return settings_of(build_listener(**given))


def make_mix(**settings):
    """A mix in double precision, so that finite differences say something."""
    mix = ScalarMix(make_settings(**settings))
    set_sizes(mix, N_LAYERS, WIDTH)
    mix.initialize()
    mix.set_param("w", numpy.asarray([0.3, -0.5, 0.9]))
    mix.set_param("gamma", numpy.asarray([1.7]))
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


def test_scalar_mix_matches_equation():
    layers, weights = make_layers(), numpy.asarray([0.3, -0.5, 0.9])
    shares = numpy.exp(weights) / numpy.exp(weights).sum()
    expected = 1.7 * sum(share * layer for share, layer in zip(shares, layers))
    numpy.testing.assert_allclose(make_mix().predict(layers), expected, atol=1e-12)
    numpy.testing.assert_allclose(mix_layers(layers, weights, 1.7), expected, atol=1e-12)


def split_marks(layers, is_mark):
    """The rows of tokens, with the sums over those of the marks."""
    marks = layers[:, is_mark].astype("float64")
    sums = BoundarySums(marks.shape[1], marks.sum(axis=(1, 2)), (marks**2).sum(axis=(1, 2)))
    return LayersWithBoundaries(layers[:, ~is_mark], sums)


@pytest.mark.parametrize("norm", [None, "token", "bilm-tf", "allennlp"])
@pytest.mark.parametrize("dtype,limit", [("float64", 1e-11), ("float32", 1e-5)])
def test_scalar_mix_matches_reference_with_and_without_bos_and_eos(norm, dtype, limit):
    layers = numpy.random.default_rng(3).normal(5.0, 2.0, (N_LAYERS, 9, WIDTH)).astype(dtype)
    is_mark = numpy.asarray([True, False, False, True, True, True, True, False, True])
    weights = [0.3, -0.5, 0.9]
    mix = make_mix(layer_norm=norm)
    wanted = reference_mix(layers[:, ~is_mark], weights, 1.7, norm or "none")
    numpy.testing.assert_allclose(mix.predict(layers[:, ~is_mark]), wanted, atol=limit)
    if norm == "allennlp":
        wanted = reference_mix(layers, weights, 1.7, norm, is_mark)[~is_mark]
        numpy.testing.assert_allclose(mix.predict(split_marks(layers, is_mark)), wanted, atol=limit)


def test_norm_with_bos_and_eos_has_the_gradient_of_the_tokens():
    mix, layers = make_mix(layer_norm="allennlp"), make_layers(n_tokens=7)[:, [0, 1, 3, 4, 5, 6]]
    is_mark = numpy.asarray([True, False, False, False, False, True])
    marked = split_marks(layers, is_mark)
    output, backprop = mix(marked, is_train=True)
    d_output = numpy.random.default_rng(1).normal(size=output.shape)
    d_layers = backprop(d_output)
    expected = numeric_gradient(marked.layers, lambda: loss_of(mix, marked, d_output))
    numpy.testing.assert_allclose(d_layers, expected, atol=1e-5)
    expected = numeric_gradient(mix.get_param("w"), lambda: loss_of(mix, marked, d_output))
    numpy.testing.assert_allclose(mix.get_grad("w"), expected, atol=1e-6)


def test_softmax_of_large_weights_is_finite():
    numpy.testing.assert_allclose(softmax(numpy.asarray([1e4, 0.0])), [1.0, 0.0])


@pytest.mark.parametrize("norm", [None, "token", "bilm-tf", "allennlp"])
def test_scalar_mix_gradients_match_finite_differences(norm):
    mix, layers = make_mix(layer_norm=norm), make_layers()
    output, backprop = mix(layers, is_train=True)
    d_output = numpy.random.default_rng(1).normal(size=output.shape)
    d_layers = backprop(d_output)
    is_word = layers.any(axis=(0, 2))

    def loss():
        return loss_of(mix, layers, d_output)

    for name in ("w", "gamma"):
        expected = numeric_gradient(mix.get_param(name), loss)
        numpy.testing.assert_allclose(mix.get_grad(name), expected, atol=1e-6, err_msg=name)
    expected = numeric_gradient(layers, loss)
    numpy.testing.assert_allclose(d_layers[:, is_word], expected[:, is_word], atol=1e-5)


def test_projection_gradients_match_finite_differences():
    mix = ScalarMix(make_settings(projection_width=2))
    layers = make_layers().astype("float32")
    mix.initialize(X=layers)
    output, backprop = mix(layers, is_train=True)
    assert output.shape == (N_TOKENS, 2) and mix.get_dim("nO") == 2
    d_output = numpy.random.default_rng(1).normal(size=output.shape).astype("float32")
    d_layers = backprop(d_output)
    pairs = [(mix.get_param("w"), mix.get_grad("w")), (mix.get_param("gamma"), mix.get_grad("gamma"))]
    pairs += [(mix.layers[0].get_param("W"), mix.layers[0].get_grad("W")), (layers, d_layers)]
    for array, gradient in pairs:
        expected = numeric_gradient(array, lambda: loss_of(mix, layers, d_output), step=1e-2)
        numpy.testing.assert_allclose(gradient, expected, atol=1e-2)


def test_scalar_mix_without_input_gradient_gives_none_but_learns():
    mix, layers = make_mix(), make_layers()
    output, backprop = mix(layers, is_train=True)
    assert backprop(output, has_input_grad=False) is None
    assert mix.has_grad("w") and mix.has_grad("gamma")


@pytest.mark.parametrize("norm", ["token", "bilm-tf", "allennlp"])
def test_layer_norm_has_mean_zero_and_variance_one_and_keeps_space_rows(norm):
    layers = make_layers(n_tokens=50)
    normed, _ = layer_norm(layers, norm)
    words = normed[:, layers.any(axis=(0, 2))]
    axes = (2,) if norm == "token" else (1, 2)
    numpy.testing.assert_allclose(words.mean(axis=axes), 0.0, atol=1e-9)
    numpy.testing.assert_allclose(words.var(axis=axes), 1.0, atol=1e-6)
    assert not normed[:, 2].any()


def test_layer_norm_of_nothing_is_nothing():
    assert layer_norm(numpy.zeros((3, 0, 4), dtype="f"), "bilm-tf")[0].shape == (3, 0, 4)


def test_fixed_weights_and_gamma_get_no_gradient():
    mix, layers = make_mix(learn_weights=False, learn_gamma=False), make_layers()
    output, backprop = mix(layers, is_train=True)
    backprop(output)
    assert not mix.has_grad("w") and not mix.has_grad("gamma")
    mix.finish_update(Adam(0.1))
    numpy.testing.assert_allclose(mix.get_param("w"), [0.3, -0.5, 0.9])


def test_initial_weights_and_gamma_are_taken():
    mix = ScalarMix(make_settings(initial_weights=[0.0, 1.0, 2.0], initial_gamma=0.5))
    mix.initialize(X=make_layers())
    numpy.testing.assert_allclose(mix.get_param("w"), [0.0, 1.0, 2.0])
    numpy.testing.assert_allclose(mix.get_param("gamma"), [0.5])


@pytest.mark.parametrize(
    "settings, shares",
    [
        ({"mix": "mean"}, [1 / 3, 1 / 3, 1 / 3]),
        ({"mix": "top"}, [0.0, 0.0, 1.0]),
        ({"mix": "fixed", "initial_weights": [0.0, numpy.log(2.0), 0.0]}, [0.25, 0.5, 0.25]),
    ],
)
def test_mix_without_learned_weights_keeps_its_shares(settings, shares):
    mix = ScalarMix(make_settings(**settings))
    layers = make_layers().astype("float32")
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


@pytest.mark.parametrize(
    "settings, problem",
    [
        ({"mix": "best"}, "mix.*'best'"),
        ({"mix": "fixed"}, "initial_weights.*null"),
        ({"mix": "top", "initial_weights": [1.0, 2.0, 3.0]}, "should be null with mix"),
        ({"mix": "mean", "weights_l2": 1.0}, "weights_l2.*1.0"),
        ({"learn_weights": False, "weights_l2": 1.0}, "weights_l2.*1.0"),
        ({"mix": "top", "layer_dropout": 0.1}, "layer_dropout.*0.1"),
    ],
)
def test_settings_without_effect_on_a_mix_are_an_error(settings, problem):
    with pytest.raises(ValueError, match=f"(?s){problem}"):
        make_settings(**settings)


def test_both_layers_have_all_settings_of_a_mix():
    stated = {field.name: field.default for field in fields(MixSettings)}
    for build, own in ((build_listener, "upstream"), (ElmoTok2Vec, "elmo")):
        parameters = dict(inspect.signature(build).parameters)
        del parameters[own]
        assert {name: value.default for name, value in parameters.items()} == stated
        assert all(value.annotation is not value.empty for value in parameters.values())
    assert settings_of(build_listener("*", [1.0, 2.0], False)).initial_weights == [1.0, 2.0]
    with pytest.raises(TypeError, match="unexpected"):
        build_listener(initial_weight=[1.0])


def test_wrong_number_of_initial_weights_is_an_error():
    mix = ScalarMix(make_settings(initial_weights=[0.0, 1.0]))
    with pytest.raises(ValueError, match="2 weights"):
        mix.initialize(X=make_layers())


def test_weights_l2_adds_to_the_gradient():
    layers, grads = make_layers(), []
    for strength in (0.0, 0.25):
        mix = make_mix(weights_l2=strength)
        output, backprop = mix(layers, is_train=True)
        backprop(output)
        grads.append(mix.get_grad("w"))
    numpy.testing.assert_allclose(grads[1] - grads[0], 2 * 0.25 * numpy.asarray([0.3, -0.5, 0.9]))


def test_layer_dropout_leaves_layers_out_of_the_softmax():
    mix, layers = make_mix(layer_dropout=0.5), make_layers()
    seen = set()
    for _ in range(60):
        output, backprop = mix(layers, is_train=True)
        backprop(output)
        for kept in [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]:
            weights = numpy.asarray([0.3, -0.5, 0.9])[list(kept)]
            if numpy.allclose(output, mix_layers(layers[list(kept)], weights, 1.7)):
                seen.add(kept)
    assert len(seen) > 3
    numpy.testing.assert_allclose(mix.predict(layers), make_mix().predict(layers))


def test_dropped_layer_gets_no_gradient():
    mix, layers = make_mix(layer_dropout=0.999999), make_layers()
    output, backprop = mix(layers, is_train=True)
    backprop(output)
    numpy.testing.assert_allclose(output, mix_layers(layers, [0.0, 0.0, 0.0], 1.7))
    numpy.testing.assert_allclose(mix.get_grad("w"), 0.0)


def test_output_dropout_acts_in_training_only():
    mix, layers = make_mix(output_dropout=0.5), make_layers(n_tokens=40)
    output, backprop = mix(layers, is_train=True)
    plain = mix.predict(layers)
    dropped = (output == 0) & (plain != 0)
    assert 0 < dropped.sum() < plain.size
    numpy.testing.assert_allclose(output[~dropped], 2 * plain[~dropped])
    assert not backprop(numpy.ones_like(plain))[:, dropped].any()


@pytest.mark.parametrize(
    "settings, problem",
    [
        ({"initial_weights": [float("nan"), 0.0, 0.0]}, r"initial_weights.*nan"),
        ({"initial_weights": [0.0, "1", 0.0]}, "initial_weights.*'1'"),
        ({"initial_gamma": "1"}, "initial_gamma.*'1'"),
        ({"weights_l2": "0.1"}, "weights_l2.*'0.1'"),
        ({"initial_gamma": float("inf")}, "initial_gamma.*inf"),
        ({"initial_gamma": 1e39}, r"initial_gamma.*1e\+39"),
        ({"weights_l2": float("inf")}, "weights_l2.*inf"),
    ],
)
def test_settings_that_are_not_finite_are_an_error(settings, problem):
    with pytest.raises(ValueError, match=f"(?s){problem}"):
        MixSettings(**settings)


@pytest.mark.parametrize(
    "settings",
    [{"layer_dropout": 1.0}, {"output_dropout": -1}, {"weights_l2": -1}, {"layer_norm": "x"}, {"projection_width": 0}],
)
def test_invalid_settings_are_an_error(settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))}\n.*Input should be"):
        make_settings(**settings)


def test_other_sizes_than_trained_are_an_error():
    with pytest.raises(ValueError, match="EL068.*3 layers of width 4"):
        set_sizes(make_mix(), 2, WIDTH)
