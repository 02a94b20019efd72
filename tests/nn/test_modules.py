"""The mix and the LSTM of task models as PyTorch modules: equations, gradients, padding, copies, errors."""

import copy
import pickle

import numpy as np
import pytest
import torch
from reference.numpy_bilm import mix as reference_mix

from spacy_elmo.nn import BiLSTM, ScalarMix

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
    with pytest.raises(RuntimeError, match=rf"size mismatch for weights.*\[3\].*\[{mixture_size}\]"):
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


@pytest.mark.parametrize(
    "settings, message",
    [
        (
            {"initial_weights": [0.0], "layer_norm": "batch", "layer_dropout": 1},
            "layer_norm is 'batch'.*layer_dropout is 1",
        ),
        ({"initial_weights": [0.0]}, "initial_weights has 1 weights, should have 3"),
        ({"mixture_size": 0}, "mixture_size is 0"),
        (
            {"initial_weights": [float("nan"), 0.0, 0.0], "initial_gamma": float("inf")},
            r"initial_weights\[0\] is nan.*initial_gamma is inf",
        ),
    ],
)
def test_all_invalid_settings_are_in_one_error(settings, message):
    with pytest.raises(ValueError, match=f"EL060.*{message}"):
        ScalarMix(**{"mixture_size": 3, **settings})


# BiLSTM


def test_sentences_without_words_have_zeros_and_others_do_not_depend_on_them():
    torch.manual_seed(0)
    model, rows = BiLSTM(4, 3), torch.randn(3, 5, 4)
    mask = torch.arange(5) < torch.tensor([[4], [0], [1]])
    found = model(rows, mask)
    assert found.shape == (3, 5, 6) and not found[~mask].any()
    torch.testing.assert_close(found[:1, :4], model(rows[:1, :4], mask[:1, :4]), atol=1e-6, rtol=0)
    with torch.no_grad():  # as in training, within rounding
        torch.testing.assert_close(model(rows, mask), found, atol=1e-6, rtol=0)
    nothing = model(rows, torch.zeros_like(mask))
    assert not nothing.any() and nothing.shape == (3, 5, 6)


def unpickle(model):
    return pickle.loads(pickle.dumps(model))


def load_state(model):
    other = BiLSTM(30, 33)
    other(torch.randn(1, 2, 30), torch.ones(1, 2, dtype=torch.bool))  # with other weights
    other.load_state_dict(model.state_dict())
    return other


@pytest.mark.parametrize("make", [copy.deepcopy, unpickle, load_state])
@torch.no_grad()
def test_copies_use_their_own_weights(make):
    torch.manual_seed(0)
    model, rows, mask = BiLSTM(30, 33), torch.randn(3, 5, 30), torch.ones(3, 5, dtype=torch.bool)
    encoded, names = model(rows, mask), list(model.state_dict())
    other = make(model)
    assert torch.equal(other(rows, mask), encoded) and list(other.state_dict()) == names
    other.lstm.weight_hh_l0_reverse.mul_(2.0)
    torch.testing.assert_close(other(rows, mask), other.lstm(rows)[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(model(rows, mask), model.lstm(rows)[0], atol=1e-5, rtol=0)


def test_evaluation_after_each_update_uses_the_new_weights():
    torch.manual_seed(0)
    model, rows, mask = BiLSTM(4, 3), torch.randn(3, 5, 4), torch.ones(3, 5, dtype=torch.bool)
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=0.1), []
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(rows, mask).square().sum()
        loss.backward()
        with torch.no_grad():
            torch.testing.assert_close(model(rows, mask).square().sum(), loss.detach())
        optimizer.step()
        losses.append(loss.item())
    assert losses[2] < 0.9 * losses[0]
    model.double()
    with torch.no_grad():
        torch.testing.assert_close(model(rows.double(), mask), model.lstm(rows.double())[0])


@pytest.mark.filterwarnings("ignore:`torch.jit.trace")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@torch.no_grad()
def test_a_trace_computes_from_its_input():
    model, rows, mask = BiLSTM(4, 3), torch.randn(2, 2, 5, 4), torch.ones(2, 5, dtype=torch.bool)
    traced = torch.jit.trace(model, (rows[0], mask))
    torch.testing.assert_close(traced(rows[1], mask), model(rows[1], mask), atol=1e-6, rtol=0)


def test_bad_sizes_rows_and_masks_are_named():
    with pytest.raises(ValueError, match="EL060.*BiLSTM.*input_width is 0, .*width is 1.5"):
        BiLSTM(0, 1.5)
    model, mask = BiLSTM(4, 3), torch.ones(2, 5, dtype=torch.bool)
    for wrong in (torch.zeros(2, 5, 3), torch.zeros(10, 4), [[0.0] * 4], torch.zeros(2, 5, 4).double()):
        with pytest.raises(ValueError, match=r"\(B, S, 4\)"):
            model(wrong, mask)
    for wrong in (mask[:1], mask.long(), None):
        with pytest.raises(ValueError, match="The mask has"):
            model(torch.zeros(2, 5, 4), wrong)
