"""The mix as a PyTorch module: equation, norms, gradients, AllenNLP's state dict, errors."""

import numpy as np
import pytest
import torch
from reference.numpy_bilm import mix as reference_mix

from spacy_elmo.nn import ScalarMix

WEIGHTS = [0.3, -0.5, 0.9]
NORMS = (None, "token", "bilm-tf", "allennlp")


def make_layers(*shape):
    return torch.from_numpy(np.random.default_rng(0).normal(1.0, 2.0, shape)).float()


def make_mix(**settings):
    return ScalarMix(3, initial_weights=WEIGHTS, initial_gamma=1.7, **settings)


@pytest.mark.parametrize("norm", NORMS)
def test_scalar_mix_matches_equation(norm):
    layers = make_layers(3, 5, 4)
    wanted = reference_mix(layers.numpy(), WEIGHTS, 1.7, norm or "none")
    for given in (layers, list(layers)):
        np.testing.assert_allclose(make_mix(layer_norm=norm)(given).detach(), wanted, atol=1e-5)


@pytest.mark.parametrize("norm", NORMS)
def test_padding_that_is_not_finite_has_no_effect(norm):
    mix, layers, mask = ScalarMix(3, layer_norm=norm), torch.randn(3, 2, 4, 5), torch.ones(2, 4, dtype=torch.bool)
    mask[1, 2:] = False
    clean = layers.masked_fill(~mask.unsqueeze(-1), 0.0).requires_grad_()
    dirty = layers.masked_fill(~mask.unsqueeze(-1), float("nan")).requires_grad_()
    found = [torch.autograd.grad(mix(some, mask).square().sum(), (mix.weights, some)) for some in (clean, dirty)]
    for one, other in zip(*found):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("norm", NORMS)
def test_gradients_match_finite_differences(norm):
    mix, layers = make_mix(layer_norm=norm).double(), make_layers(3, 2, 3, 4).double()
    mask = torch.tensor([[True, True, True], [True, False, False]])
    parameters = (mix.weights, mix.gamma, layers.requires_grad_())
    assert torch.autograd.gradcheck(lambda *_: mix(layers, mask), parameters)


def test_layer_dropout_leaves_layers_out_in_training_only():
    torch.manual_seed(0)
    layers, mix = torch.eye(3).view(3, 1, 3), ScalarMix(3, layer_dropout=0.5)
    found = {tuple(mix(layers)[0].tolist()) for _ in range(100)}
    kept = {sum(share > 0 for share in shares) for shares in found}
    assert kept == {1, 2, 3} and all(sum(shares) == pytest.approx(1.0) for shares in found)
    torch.testing.assert_close(mix.eval()(layers)[0], torch.full((3,), 1 / 3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_result_has_the_type_of_the_weights(dtype):
    layers = make_layers(3, 5, 4)
    assert make_mix(layer_norm="token").to(dtype)(layers).dtype == dtype
    from_stored = make_mix()(layers.to(dtype))
    assert from_stored.dtype == torch.float32
    torch.testing.assert_close(from_stored, make_mix()(layers), atol=0.05, rtol=0.0)


def test_state_dict_of_allennlp_can_be_loaded():
    names = [f"scalar_parameters.{k}" for k in range(3)]
    state = {**{name: torch.tensor([value]) for name, value in zip(names, WEIGHTS)}, "gamma": torch.tensor([1.7])}
    mix, layers = ScalarMix(3), make_layers(3, 5, 4)
    mix.load_state_dict(state)
    torch.testing.assert_close(mix(layers), make_mix()(layers))


@pytest.mark.parametrize("mixture_size", [2, 4])
def test_state_dict_of_another_number_of_layers_is_an_error(mixture_size):
    state = {**{f"scalar_parameters.{k}": torch.tensor([0.0]) for k in range(3)}, "gamma": torch.tensor([1.0])}
    with pytest.raises(ValueError, match=f"weights of 3 layers.*mix has {mixture_size}.*mixture_size = 3"):
        ScalarMix(mixture_size).load_state_dict(state)


@pytest.mark.parametrize(
    "layers, mask, message",
    [
        (torch.zeros(2, 5, 4), None, r"3 layers.*found 2 \(shape \(2, 5, 4\)\)"),
        ([torch.zeros(5, 4)] * 2, None, "3 layers.*found 2"),
        ([torch.zeros(5, 4), torch.zeros(5, 4), torch.zeros(1, 4)], None, r"one shape.*\(1, 4\)"),
        (np.zeros((3, 5, 4)), None, "ndarray"),
        (torch.zeros(3, 5, 4), torch.ones(4, dtype=torch.bool), r"shape \(4,\).*shape \(5,\)"),
        (torch.zeros(3, 5, 4), torch.ones(5), "float32.*torch.bool"),
        (torch.zeros(3, 5, 4), [True] * 5, "type list.*torch.bool"),
    ],
)
def test_what_cannot_be_mixed_is_an_error(layers, mask, message):
    with pytest.raises(ValueError, match=message):
        ScalarMix(3)(layers, mask)


def test_all_invalid_settings_are_in_one_error():
    with pytest.raises(ValueError, match="EL060.*layer_norm is 'batch'.*layer_dropout is 1"):
        ScalarMix(3, initial_weights=[0.0], layer_norm="batch", layer_dropout=1)
    with pytest.raises(ValueError, match="EL060.*initial_weights has 1 weights, should have 3"):
        ScalarMix(3, initial_weights=[0.0])
    with pytest.raises(ValueError, match="EL060.*mixture_size is 0"):
        ScalarMix(0)
    with pytest.raises(ValueError, match=r"EL060.*initial_weights\[0\] is nan.*initial_gamma is inf"):
        ScalarMix(2, initial_weights=[float("nan"), 0.0], initial_gamma=float("inf"))
