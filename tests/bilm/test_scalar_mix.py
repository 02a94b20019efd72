import numpy as np
import pytest
import torch
from reference.numpy_bilm import mix

from spacy_elmo.bilm.scalar_mix import LAYER_NORMS, ScalarMix

WEIGHTS = [0.3, -1.2, 0.8]


def make_mix(**settings):
    module = ScalarMix(3, **settings)
    with torch.no_grad():
        module.weights.copy_(torch.tensor(WEIGHTS))
        module.gamma.fill_(1.7)
    return module


@pytest.fixture
def layers():
    return torch.randn(3, 7, 10, generator=torch.Generator().manual_seed(1)) * 2 + 0.5


@pytest.mark.parametrize("norm", LAYER_NORMS)
@pytest.mark.parametrize("has_marks", [True, False])
def test_scalar_mix_matches_equation(layers, norm, has_marks):
    is_mark = torch.tensor([True, False, False, True, True, False, True]) if has_marks else None
    with torch.no_grad():
        mixed = make_mix(layer_norm=norm)(layers, is_mark)
    wanted = mix(layers.numpy(), WEIGHTS, 1.7, norm, None if is_mark is None else is_mark.numpy())
    np.testing.assert_allclose(mixed.numpy(), wanted, atol=1e-5)


def test_scalar_mix_starts_as_mean(layers):
    torch.testing.assert_close(ScalarMix(3)(layers), layers.mean(0))


def test_scalar_mix_top_is_last_layer_times_gamma(layers):
    module = make_mix(is_top_only=True, l2_coef=0.01)
    torch.testing.assert_close(module(layers), 1.7 * layers[2])
    assert module.penalty().item() == 0.0


def test_scalar_mix_penalty_is_l2_of_raw_weights():
    assert make_mix(l2_coef=0.01).penalty().item() == pytest.approx(0.0217)


@pytest.mark.parametrize("norm", LAYER_NORMS)
def test_scalar_mix_takes_no_rows(norm):
    empty = torch.zeros(3, 0, 10)
    assert ScalarMix(3, layer_norm=norm)(empty).shape == (0, 10)


def test_scalar_mix_gives_gradients(layers):
    module = make_mix(layer_norm="token", l2_coef=0.1)
    (module(layers.requires_grad_()).square().sum() + module.penalty()).backward()
    assert all(
        value.grad is not None and value.grad.abs().sum() > 0 for value in (module.weights, module.gamma, layers)
    )


def test_scalar_mix_refuses_other_number_of_layers(layers):
    with pytest.raises(ValueError, match="number of layers is 2, but should be 3"):
        ScalarMix(3)(layers[:2])


def test_scalar_mix_refuses_unknown_norm():
    with pytest.raises(ValueError, match="layer_norm"):
        ScalarMix(3, layer_norm="batch")
