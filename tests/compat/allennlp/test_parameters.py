"""Tools of PyTorch that work on the parameters of AllenNLP's modules: files, optimizers, pruning, replicas, copies."""

import copy
import pickle

import numpy as np
import pytest
import torch
from compat.tiny import BATCHES
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune, weight_norm

from spacy_elmo.compat.allennlp import Elmo, ElmoTokenEmbedder, batch_to_ids

IDS = batch_to_ids(BATCHES[0])
CELL = "_elmo_lstm._elmo_lstm.forward_layer_1"


@pytest.fixture(params=[False, True], ids=["frozen", "trained"])
def elmo(files, request):
    module = Elmo(files.options, files.weights, 2, requires_grad=request.param, dropout=0.0)
    module._elmo_lstm._elmo_lstm.stateful = False  # so that two calls can be compared
    return module


def vectors(module):
    return module(IDS)["elmo_representations"][0].detach()


def same(first, second):
    return torch.allclose(first, second, atol=1e-5)


def test_a_state_dict_goes_through_safetensors(elmo, files, tmp_path):
    save_file(elmo.state_dict(), tmp_path / "elmo.safetensors")
    other = Elmo(files.options, files.weights, 2, dropout=0.0)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    other.load_state_dict(load_file(tmp_path / "elmo.safetensors"))
    assert same(vectors(other), vectors(elmo))
    embedder = ElmoTokenEmbedder(files.options, files.weights, projection_dim=4)
    save_file(embedder.state_dict(), tmp_path / "embedder.safetensors")


PLACES = [
    (f"{CELL}.state_linearity", "weight"),
    (f"{CELL}.state_projection", "weight"),
    ("_elmo_lstm._token_embedder.char_conv_1", "weight"),
    ("_elmo_lstm._token_embedder._projection", "bias"),
    ("_elmo_lstm._token_embedder", "_char_embedding_weights"),
]


@pytest.mark.parametrize("place, name", PLACES)
def test_pruned_weights_count_as_zero(elmo, files, place, name):
    vectors(elmo)  # nothing that is derived before may be used afterwards
    owner = elmo.get_submodule(place)
    for amount in (0.3, 0.5):  # the second mask is put on the first
        prune.l1_unstructured(owner, name, amount)
        other = Elmo(files.options, files.weights, 2, dropout=0.0)
        with torch.no_grad():
            other.get_parameter(f"{place}.{name}").mul_(getattr(owner, f"{name}_mask"))
        assert same(vectors(elmo), vectors(other))
    kept = getattr(owner, f"{name}_orig")
    if kept.requires_grad:
        elmo(IDS)["elmo_representations"][0].square().sum().backward()
        assert kept.grad[getattr(owner, f"{name}_mask") == 0].abs().max() == 0 and kept.grad.any()
    with torch.no_grad():
        kept.mul_(0.5)  # by an optimizer
    changed = vectors(elmo)
    assert not same(changed, vectors(other))
    prune.remove(owner, name)
    assert same(vectors(elmo), changed)


@pytest.mark.parametrize("wrap", [weight_norm, parametrizations.weight_norm, parametrizations.spectral_norm])
@pytest.mark.filterwarnings("ignore:.*weight_norm.*is deprecated")
def test_weights_that_are_computed(elmo, wrap):
    before, owner = vectors(elmo), elmo.get_submodule(f"{CELL}.state_linearity")
    wrap(owner)
    assert same(vectors(elmo), before) == (wrap is not parametrizations.spectral_norm)
    with torch.no_grad():
        for parameter in owner.parameters():
            parameter.mul_(2.0)
    assert not same(vectors(elmo), before)


def test_a_parametrization_gets_gradients(files):
    class Half(nn.Module):
        def forward(self, weight):
            return weight / 2

    elmo = Elmo(files.options, files.weights, 1, requires_grad=True, dropout=0.0)
    owner = elmo.get_submodule(f"{CELL}.state_linearity")
    parametrize.register_parametrization(owner, "weight", Half())
    elmo(IDS)["elmo_representations"][0].square().sum().backward()
    assert owner.parametrizations.weight.original.grad.any()


def replicate(module):
    """What `nn.DataParallel` does on several GPUs: copies of the modules with tensors in place of the parameters."""
    modules = dict(module.named_modules())
    copies = {name: part._replicate_for_data_parallel() for name, part in modules.items()}
    for name, part in modules.items():
        for key, child in part._modules.items():
            if child is not None:
                setattr(copies[name], key, copies[f"{name}.{key}".lstrip(".")])
        for key, parameter in part._parameters.items():
            if parameter is not None:
                setattr(copies[name], key, parameter.clone())  # attached to the graph
    return copies[""]


@pytest.mark.filterwarnings("ignore:nn.ParameterList is being used with DataParallel")
def test_replicas_of_data_parallel(elmo):
    before = vectors(elmo)
    replicas = [replicate(elmo) for _ in range(2)]
    for replica in replicas:
        assert same(vectors(replica), before)
    if elmo._elmo_lstm._requires_grad:
        sum(replica(IDS)["elmo_representations"][0].square().sum() for replica in replicas).backward()
        name = f"{CELL}.state_linearity.weight"
        assert elmo.get_parameter(name).grad.any()
    assert same(nn.DataParallel(elmo)(IDS)["elmo_representations"][0], before)


def test_functional_calls_use_the_given_parameters(elmo):
    before = vectors(elmo)
    zeros = {name: torch.zeros_like(weight) for name, weight in elmo.named_parameters()}
    assert not torch.func.functional_call(elmo, zeros, (IDS,))["elmo_representations"][0].any()
    assert same(vectors(elmo), before)


@pytest.mark.parametrize("make_copy", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_copies_are_independent(elmo, make_copy):
    before, twin = vectors(elmo), make_copy(elmo)
    assert same(vectors(twin), before)
    with torch.no_grad():
        elmo.get_parameter(f"{CELL}.state_linearity.weight").zero_()
    assert same(vectors(twin), before) and not same(vectors(elmo), before)
    elmo._elmo_lstm._elmo_lstm.stateful = True
    vectors(elmo)
    carried = make_copy(elmo)
    assert same(vectors(carried), vectors(elmo)) and not same(vectors(carried), vectors(twin))


def test_very_different_lengths_train_as_separate_rows(files):
    """Rows are computed in groups of similar length; neither results nor states nor gradients show it."""
    batch = [["a"] * 300, *[["b"]] * 40, [], ["c", "d"], ["e"] * 100]
    trained, frozen = (Elmo(files.options, files.weights, 1, requires_grad=flag, dropout=0.0) for flag in (True, False))
    for _ in range(2):  # the second time with a state
        found, wanted = (module(batch_to_ids(batch))["elmo_representations"][0] for module in (trained, frozen))
        torch.testing.assert_close(found.detach(), wanted.detach(), atol=1e-5, rtol=0.0)
        for first, second in zip(trained._elmo_lstm._elmo_lstm._states, frozen._elmo_lstm._elmo_lstm._states):
            torch.testing.assert_close(first, second, atol=1e-5, rtol=0.0)
    name = f"{CELL}.input_linearity.weight"
    grads = []
    for parts in ([batch], [[words] for words in batch if words]):
        module = Elmo(files.options, files.weights, 1, requires_grad=True, dropout=0.0)
        module._elmo_lstm._elmo_lstm.stateful = False
        for part in parts:
            module(batch_to_ids(part))["elmo_representations"][0].square().sum().backward()
        grads.append(module.get_parameter(name).grad)
    np.testing.assert_allclose(*grads, rtol=1e-3, atol=1e-4)
