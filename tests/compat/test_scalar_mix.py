"""`ScalarMix` of `compat.allennlp` against the equation."""

import numpy as np
import pytest
import torch

from spacy_elmo.compat.allennlp import ScalarMix

LAYERS = [torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(k)) for k in range(3)]
WEIGHTS = [0.1, 0.2, 0.3]


def make_mix(**settings):
    mix = ScalarMix(3, **settings)
    for parameter, value in zip(mix.scalar_parameters, WEIGHTS):
        parameter.data[0] = value
    mix.gamma.data[0] = 0.5
    return mix


@pytest.mark.parametrize("has_norm", [False, True])
def test_scalar_mix_matches_equation(has_norm):
    mask = torch.ones(3, 4, dtype=torch.bool)
    mask[1, 2:] = False
    found = make_mix(do_layer_norm=has_norm)(LAYERS, mask)
    layers = [layer.numpy() for layer in LAYERS]
    if has_norm:
        inside = [layer[mask.numpy()] for layer in layers]
        layers = [(layer - part.mean()) / part.std() for layer, part in zip(layers, inside)]
    shares = np.exp(WEIGHTS) / np.exp(WEIGHTS).sum()
    wanted = 0.5 * sum(share * layer for share, layer in zip(shares, layers))
    np.testing.assert_allclose(found.detach().numpy(), wanted, atol=1e-6)


def test_mask_is_ignored_without_norm():
    assert torch.equal(make_mix()(LAYERS), make_mix()(LAYERS, torch.zeros(3, 4, dtype=torch.bool)))


def test_given_weights_are_not_trained():
    mix = ScalarMix(3, initial_scalar_parameters=[1.0, 2.0, 3.0], trainable=False)
    assert [parameter.item() for parameter in mix.scalar_parameters] == [1.0, 2.0, 3.0]
    assert not any(parameter.requires_grad for parameter in mix.parameters())
    assert list(mix.state_dict()) == ["gamma", *(f"scalar_parameters.{k}" for k in range(3))]
