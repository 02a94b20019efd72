"""Hooks and parametrizations of the modules in a biLM have their effect, whether it is frozen or trained."""

import contextlib

import pytest
import torch
from inference.forcing import needs_kernel
from nn.tiny import CONFIG, SENTENCES, SIZES, TRANSFORMER, make_bilm
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.utils import parametrizations, parametrize, prune

from spacy_elmo import BiLMConfig
from spacy_elmo.compat.allennlp import ElmoLstm
from spacy_elmo.nn import Elmo, batch_to_ids
from spacy_elmo.weights import load_bilm, save_bilm

CONFIGS = {
    "skip": CONFIG,
    "highway": BiLMConfig.from_dict({**SIZES, "highway_between": True, "has_skip": False}),
    "transformer": BiLMConfig.from_dict(TRANSFORMER),
}


def vectors_of(elmo, inputs=SENTENCES):
    return elmo(inputs).representations[0].detach()


@pytest.mark.parametrize("config", list(CONFIGS))
@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.parametrize("mode", [contextlib.nullcontext, torch.no_grad, torch.inference_mode])
def test_hooks_of_every_module_are_called_and_change_no_vector(config, trainable, mode):
    elmo, called = Elmo(make_bilm(0, CONFIGS[config]), trainable=trainable).eval(), set()
    modules = {name: one for name, one in elmo.encoder.named_modules() if not isinstance(one, nn.ModuleList)}
    with mode():
        wanted = vectors_of(elmo)
        for inputs in (SENTENCES, batch_to_ids(SENTENCES)):
            handles = [
                one.register_forward_hook(lambda *_, name=name: called.add(name)) for name, one in modules.items()
            ]
            torch.testing.assert_close(vectors_of(elmo, inputs), wanted, atol=1e-5, rtol=0.0)
            assert called == set(modules)
            called.clear()
            for handle in handles:
                handle.remove()
        assert torch.equal(vectors_of(elmo), wanted)


@pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning")  # ids of characters have no gradient
def test_backward_hooks_of_every_module_are_called():
    elmo, called = Elmo(make_bilm(), trainable=True), set()
    modules = {name: one for name, one in elmo.encoder.network.named_modules() if not isinstance(one, nn.ModuleList)}
    del modules[""], modules["encoder"]  # their outputs are lists, which PyTorch does not follow
    for name, one in modules.items():
        one.register_full_backward_hook(lambda *_, name=name: called.add(name))
    elmo(SENTENCES).representations[0].sum().backward()
    assert called == set(modules)


def halve(module, inputs, output):
    return output * 0.5


def half_input(network):
    network.encoder.layers[1].register_forward_pre_hook(lambda module, inputs: (inputs[0] * 0.5, *inputs[1:]))


class Double(nn.Module):
    def forward(self, weight):
        return 2 * weight


def parametrize_weight(network):
    parametrize.register_parametrization(network.encoder.layers[0], "input_weight", Double())


def norm_weight(network):
    parametrizations.weight_norm(network.char_cnn.highways[0]).parametrizations.weight.original0.data.mul_(2)


def replace_forward(network):
    highway = network.char_cnn.highways[0]
    highway.forward = lambda *inputs: 0.5 * type(highway).forward(highway, *inputs)


CHANGES = {
    "pre-hook": half_input,
    "hook": lambda network: network.char_cnn.register_forward_hook(lambda *values: values[-1] * 0.5),
    "hook of a filter": lambda network: network.char_cnn.filters[0].register_forward_hook(
        lambda *values: values[-1] * 0.5
    ),
    "replaced forward": replace_forward,
    "parametrization": parametrize_weight,
    "weight norm": norm_weight,
    "spectral norm": lambda network: parametrizations.spectral_norm(network.char_cnn.highways[0]),
    "pruning": lambda network: prune.l1_unstructured(network.encoder.layers[0], "recurrent_weight", amount=0.5),
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_changes_of_modules_have_the_same_effect_frozen_and_trained(change):
    elmo = Elmo(make_bilm()).eval()
    plain = vectors_of(elmo)  # word vectors are cached
    CHANGES[change](elmo.bilm.network)
    frozen, embedded = vectors_of(elmo), elmo.bilm.embed(SENTENCES, layers="mean")
    elmo.encoder.requires_grad_(True)
    trained = vectors_of(elmo)
    torch.testing.assert_close(frozen, trained, atol=1e-5, rtol=0.0)
    torch.testing.assert_close(frozen[0], torch.from_numpy(embedded[0]), atol=1e-5, rtol=0.0)
    assert (frozen - plain).abs().max() > 1e-3


def test_hooks_for_all_modules_are_called():
    elmo, called = Elmo(make_bilm()), []
    handle = register_module_forward_hook(lambda module, *_: called.append(module))
    try:
        elmo(SENTENCES)
    finally:
        handle.remove()
    assert {*elmo.bilm.network.encoder.layers, *elmo.bilm.network.char_cnn.filters} <= {*called}


def test_a_hook_can_ask_for_gradients_of_activations_of_a_frozen_bilm():
    elmo, rows = Elmo(make_bilm(), learn_mix=False).eval(), []
    elmo.bilm.network.encoder.layers[0].register_forward_hook(
        lambda *values: rows.append(values[-1][0].requires_grad_())
    )
    elmo(SENTENCES).representations[0].sum().backward()
    assert rows[0].grad.any()


@pytest.mark.parametrize(
    "settings, precision", [({"state": "steady"}, "float32"), pytest.param({}, "int8", marks=needs_kernel)]
)
def test_hooks_without_effect_get_a_warning(settings, precision):
    elmo = Elmo(make_bilm().set_precision(precision), **settings)
    elmo.bilm.network.encoder.layers[1].register_forward_hook(lambda *values: None)
    with pytest.warns(UserWarning, match="WL142.*encoder.layers.1"):
        elmo(SENTENCES)


@needs_kernel
@pytest.mark.parametrize("change", [half_input, parametrize_weight])
def test_a_change_of_the_precision_that_would_lose_hooks_is_an_error(change):
    bilm = make_bilm()
    change(bilm.network)
    with pytest.raises(ValueError, match="encoder.layers.*from float32 to int8"):
        bilm.set_precision("int8")
    assert bilm.precision == "float32"


def test_hooks_inside_an_lstm_of_allennlp_get_a_warning():
    module = ElmoLstm(8, 8, 16, 1)
    module.register_forward_hook(lambda *values: None)
    module(torch.rand(2, 3, 8), torch.ones(2, 3, dtype=torch.bool))
    module.forward_layers[0].register_forward_pre_hook(lambda *values: None)
    with pytest.warns(UserWarning, match="WL143.*forward_layer_0"):
        module(torch.rand(2, 3, 8), torch.ones(2, 3, dtype=torch.bool))


@pytest.mark.parametrize("change", ["parametrization", "pruning"])
def test_a_bilm_that_no_format_can_store_is_not_saved(change, tmp_path):
    bilm = make_bilm()
    CHANGES[change](bilm.network)
    with pytest.raises(ValueError, match="Make them permanent before it is saved"):
        save_bilm(bilm, tmp_path / "bilm")
    layer = bilm.network.encoder.layers[0]
    if change == "pruning":
        prune.remove(layer, "recurrent_weight")
    else:
        parametrize.remove_parametrizations(layer, "input_weight")
    save_bilm(bilm, tmp_path / "bilm")
    saved, computed = (one.embed(SENTENCES)[0] for one in (load_bilm(tmp_path / "bilm"), bilm))
    torch.testing.assert_close(*map(torch.from_numpy, (saved, computed)), atol=1e-5, rtol=0.0)
