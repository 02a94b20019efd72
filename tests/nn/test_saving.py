"""State dicts of `Elmo`: in full, without the biLM, beside another biLM, in reduced precision."""

import copy
import pickle

import pytest
import torch
from inference.forcing import needs_kernel
from nn.tiny import SENTENCES, make_bilm

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.nn import Elmo

MIXES = {"mixes.0.weights", "mixes.0.gamma"}


class Tagger(torch.nn.Module):
    def __init__(self, bilm, **settings):
        super().__init__()
        self.elmo = Elmo(bilm, **settings)
        self.linear = torch.nn.Linear(self.elmo.output_width, 2)

    def forward(self, sentences):
        return self.linear(self.elmo(sentences).representations[0])


def saved_and_loaded(state, path):
    torch.save(state, path)
    return torch.load(path, weights_only=True)


def randomize_mix(elmo):
    with torch.no_grad():
        elmo.mixes[0].weights.copy_(torch.tensor([1.0, -1.0, 0.5]))


@pytest.mark.parametrize("trainable", [False, True])
def test_round_trip_in_full_needs_no_weights_beside_it(trainable, tmp_path):
    first = Tagger(make_bilm(0), trainable=trainable).eval()
    randomize_mix(first.elmo)
    second = Tagger(make_bilm(1)).eval()
    assert not torch.allclose(first(SENTENCES), second(SENTENCES), atol=1e-3)
    second.load_state_dict(saved_and_loaded(first.state_dict(), tmp_path / "model.pt"))
    torch.testing.assert_close(second(SENTENCES), first(SENTENCES), atol=1e-5, rtol=0.0)


def test_state_dict_without_the_bilm_is_small_and_loads_beside_the_same(tmp_path):
    first = Tagger(make_bilm(0), store_bilm=False).eval()
    randomize_mix(first.elmo)
    state = saved_and_loaded(first.state_dict(), tmp_path / "model.pt")
    names = {"elmo.encoder.digest", *(f"elmo.{name}" for name in MIXES)}
    assert set(state) == {*names, "linear.weight", "linear.bias"}
    for store in (False, True):
        second = Tagger(make_bilm(0), store_bilm=store).eval()
        second.load_state_dict(state)
        torch.testing.assert_close(second(SENTENCES), first(SENTENCES), atol=1e-5, rtol=0.0)


@needs_kernel
def test_state_dict_without_the_bilm_loads_beside_the_same_in_reduced_precision():
    state = Tagger(make_bilm(0), store_bilm=False).state_dict()
    rounded = Tagger(make_bilm(0).set_precision("int8"), store_bilm=False)
    rounded.load_state_dict(state)
    assert rounded.elmo.bilm.precision == "int8"


def test_full_state_dict_loads_where_the_bilm_is_not_stored():
    full = Elmo(make_bilm(0))
    for seed, is_small in ((0, True), (1, False)):  # weights that differ from those that were read are nowhere else
        small = Elmo(make_bilm(seed), store_bilm=False)
        small.load_state_dict(full.state_dict())
        assert (set(small.state_dict()) == {"encoder.digest", *MIXES}) == is_small
        torch.testing.assert_close(*(elmo.eval()(SENTENCES).representations[0] for elmo in (full, small)))


def test_another_bilm_under_trained_mixes_is_an_error():
    state = Elmo(make_bilm(0), store_bilm=False).state_dict()
    with pytest.raises(ValueError, match=r"another biLM, of digest.*delete 'encoder.digest'"):
        Elmo(make_bilm(1), store_bilm=False).load_state_dict(state)
    cast = {name: tensor.bfloat16() for name, tensor in state.items()}
    Elmo(make_bilm(0), store_bilm=False).load_state_dict(cast)
    sizes = {"char_cnn": {"filters": [[1, 8]]}, "n_layers": 1, "cell_width": 8, "projection_width": 4}
    with pytest.raises(ValueError, match="another biLM, of digest"):
        Elmo(make_bilm(0, BiLMConfig.from_dict(sizes)), store_bilm=False).load_state_dict(state)


@pytest.mark.parametrize("name", ["input_weight", "recurrent_weight", "projection_weight"])
def test_pruned_matrices_under_trained_mixes_are_another_bilm(name):
    state = Elmo(make_bilm(0), store_bilm=False).state_dict()
    pruned = make_bilm(0)
    weight = getattr(pruned.network.encoder.layers[1], name)
    with torch.no_grad():
        weight[weight.abs() < weight.abs().quantile(0.3)] = 0.0
    before = Elmo(pruned, store_bilm=False)
    for elmo, stored in ((before, state), (Elmo(make_bilm(0), store_bilm=False), before.state_dict())):
        assert set(stored) == {"encoder.digest", *MIXES}
        with pytest.raises(ValueError, match="another biLM, of digest"):
            elmo.load_state_dict(stored)


def _train(elmo):
    """By little."""
    optimizer = torch.optim.SGD(elmo.parameters(), lr=1e-5)
    elmo.bilm.encode(SENTENCES, with_grad=True).square().sum().backward()
    optimizer.step()
    return elmo


def _average(elmo):
    averaged = torch.optim.swa_utils.AveragedModel(elmo)
    averaged.update_parameters(_train(elmo))
    return averaged.module


def _change_in_place(elmo):
    with torch.no_grad():
        elmo.encoder.network.encoder.layers[0].bias.add_(1e-4)
    return elmo


@pytest.mark.parametrize("change", [_train, _average, _change_in_place])
def test_weights_that_were_changed_are_stored_also_when_they_are_frozen_again(change):
    bilm = make_bilm(0)
    elmo, other = (Elmo(bilm, store_bilm=False, dropout=0.0, trainable=True) for _ in range(2))
    elmo = change(elmo).requires_grad_(False)
    loaded = Elmo(make_bilm(0), store_bilm=False)
    loaded.load_state_dict(elmo.state_dict())
    torch.testing.assert_close(*(one.eval()(SENTENCES).representations[0] for one in (elmo, loaded)))
    changed = [elmo, loaded, copy.deepcopy(elmo), pickle.loads(pickle.dumps(elmo))]
    for one in changed if change is _average else [*changed, other]:  # averages have weights of their own
        assert "encoder.network.char_cnn.embedding" in one.state_dict()


@needs_kernel
@pytest.mark.parametrize("precisions", [("float32", "int8"), ("int8", "float32")])
def test_weights_are_stored_after_a_change_of_precision(precisions):
    elmo = Elmo(make_bilm(0).set_precision(precisions[0]), store_bilm=False)
    assert "encoder.digest" in elmo.state_dict() and not elmo.encoder.is_trained
    elmo.bilm.set_precision("float32")
    _train(elmo.requires_grad_(True)).requires_grad_(False)
    elmo.bilm.set_precision(precisions[1])
    assert "encoder.network.char_cnn.embedding" in elmo.state_dict() and not elmo.encoder.is_trained


@needs_kernel
def test_rounding_is_no_change_of_the_weights():
    elmo = Elmo(make_bilm(0), store_bilm=False)
    elmo.bilm.set_precision("int8")
    assert set(elmo.state_dict()) == {"encoder.digest", *MIXES}
    Elmo(make_bilm(0), store_bilm=False).load_state_dict(elmo.state_dict())


def test_writes_that_torch_does_not_count_are_stored_after_clear_caches():
    elmo = Elmo(make_bilm(0), store_bilm=False)
    elmo.encoder.network.encoder.layers[0].bias.data.add_(1e-4)
    elmo.clear_caches()
    assert "encoder.network.char_cnn.embedding" in elmo.state_dict()


@needs_kernel
def test_weights_in_reduced_precision_are_stored_in_float32():
    rounded, exact = Elmo(make_bilm(0).set_precision("int8")), Elmo(make_bilm(1))
    exact.load_state_dict(rounded.state_dict())
    other = Elmo(make_bilm(2).set_precision("int8"))
    other.load_state_dict(exact.state_dict())
    assert other.bilm.precision == "int8"
    torch.testing.assert_close(*(elmo.eval()(SENTENCES).representations[0] for elmo in (rounded, other)))
