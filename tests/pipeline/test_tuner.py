"""Which weights an update changes, and by how much, compared with steps computed by hand; schedules of the rate."""

from itertools import islice

import numpy
import pytest
import torch
from thinc.api import SGD, Adam, RAdam

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.model import BiLMNetwork, layer_parameters
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.pipeline.fine_tuning import FineTuner, FineTuning, slanted_triangular

SIZES = {"n_layers": 2, "cell_width": 8, "projection_width": 4}
CHARACTERS = {"embedding_width": 4, "filters": [[1, 8]], "n_highway": 1}
OWNER = 7
RATE = 0.01


def make_network():
    torch.manual_seed(0)
    return BiLMNetwork(BiLMConfig.from_dict({"char_cnn": CHARACTERS, **SIZES}))


def make_tuner(network, bilm=None, **settings):
    tuner = FineTuner(FineTuning(**settings))
    tuner.begin(bilm or BiLM(network))
    return tuner


def get_weights(network):
    return {name: parameter.detach().clone().numpy() for name, parameter in network.named_parameters()}


def set_gradients(network, seed):
    """Random gradients for what takes one, zeros for seed None. RETURNS: The gradients."""
    generator = torch.Generator().manual_seed(seed or 0)
    found = {}
    for name, parameter in network.named_parameters():
        gradient = torch.randn(parameter.shape, generator=generator) * (seed is not None)
        if parameter.requires_grad:
            parameter.grad = gradient
            found[name] = gradient.clone().numpy().astype("float64")
    return found


def changed_layers(network, before):
    layers = layer_parameters(network)
    is_same = [[numpy.array_equal(parameter.detach(), before[name]) for name, parameter in p.items()] for p in layers]
    assert all(len(set(found)) == 1 for found in is_same)
    return [number for number, found in enumerate(is_same) if not found[0]]


def number_of(network, name):
    return next(number for number, layer in enumerate(layer_parameters(network)) if name in layer)


@pytest.mark.parametrize("make", [Adam, RAdam, SGD])
@pytest.mark.parametrize("is_decay", [True, False])
def test_each_layer_moves_as_with_an_optimizer_of_its_rate(make, is_decay):
    """Weight decay included; RAdam of Thinc ignores `lr_scale`."""
    network, shared = make_network(), {"L2": 0.1, "L2_is_weight_decay": is_decay, "grad_clip": 0.0}
    tuner, optimizer = make_tuner(network, top_rate=0.5, layer_decay=0.25), make(RATE, **shared)
    others = [make_network() for _ in range(3)]
    plain = [make_tuner(other, layers=[number]) for number, other in enumerate(others)]
    scaled = [make(RATE * share, **shared) for share in (0.03125, 0.125, 0.5)]
    for step in range(6):
        set_gradients(network, step)
        assert tuner.update(network, optimizer, OWNER)
        for one, other, single in zip(plain, others, scaled):
            set_gradients(other, step)
            one.update(other, single, OWNER)
    for name, weights in get_weights(network).items():
        wanted = get_weights(others[number_of(network, name)])[name]
        numpy.testing.assert_allclose(weights, wanted, rtol=1e-5, atol=1e-7, err_msg=name)
    assert optimizer.learn_rate == RATE and all(parameter.grad is None for parameter in network.parameters())


@pytest.mark.issue(51)
def test_averages_start_at_the_pretrained_weights_and_not_at_zero():
    network, optimizer = make_network(), Adam(RATE, use_averages=True)
    tuner, pretrained = make_tuner(network, unfreeze_every=1), get_weights(network)
    for step in range(4):
        set_gradients(network, step)
        tuner.update(network, optimizer, OWNER)
    assert len(optimizer.averages) == len(pretrained)
    for (_, name), average in optimizer.averages.items():
        assert abs(average - pretrained[name]).max() < 4 * RATE, name  # a step of Adam is about as long as the rate


@pytest.mark.parametrize("is_decay", [True, False])
def test_l2_pulls_towards_the_pretrained_weights(is_decay):
    """Without a gradient SGD shrinks w - w0 by 1 - rate * l2 at every update."""
    network = make_network()
    l2, rate, settings = 0.5, 0.1, {"L2": 0.3, "L2_is_weight_decay": is_decay, "grad_clip": 0.0}
    tuner = make_tuner(network, layer_decay=0.5, l2_to_pretrained=l2)
    optimizer, pretrained = SGD(rate, **settings), get_weights(network)
    set_gradients(network, None)
    tuner.update(network, optimizer, OWNER)
    assert changed_layers(network, pretrained) == []  # nothing pulls, not even the optimizer's L2 towards zero
    for parameter in network.parameters():
        parameter.data += 1.0
    for _ in range(5):
        set_gradients(network, None)
        tuner.update(network, optimizer, OWNER)
    for name, weights in get_weights(network).items():
        share = (1 - rate * [0.25, 0.5, 1.0][number_of(network, name)] * l2) ** 5
        numpy.testing.assert_allclose(weights - pretrained[name], share, atol=1e-5, err_msg=name)
    assert optimizer.L2 == 0.3


# The slanted triangular schedule has the values of the paper, and ends where it should


def eq_3(t, T, max_rate, cut_frac, ratio):
    """Howard & Ruder (2018), eq. 3, as printed."""
    cut = int(T * cut_frac)
    p = t / cut if t < cut else 1 - (t - cut) / (cut * (1 / cut_frac - 1))
    return max_rate * (1 + p * (ratio - 1)) / ratio


@pytest.mark.parametrize("num_steps, cut_frac, ratio", [(100, 0.1, 32), (40, 0.25, 10.0), (10, 0.5, 2.0)])
def test_slanted_triangular_has_the_values_of_eq_3(num_steps, cut_frac, ratio):
    rates = list(islice(slanted_triangular(0.01, num_steps, cut_frac=cut_frac, ratio=ratio), num_steps))
    assert rates == pytest.approx([eq_3(t, num_steps, 0.01, cut_frac, ratio) for t in range(num_steps)])
    assert max(rates) == rates[int(num_steps * cut_frac)] == pytest.approx(0.01)


@pytest.mark.parametrize("num_steps", [1, 2, 15, 100])  # a cut of 0 and 1.5 steps, too
def test_slanted_triangular_stays_at_the_lowest_rate_after_the_last_step(num_steps):
    with pytest.warns(UserWarning, match=f"WL071.*num_steps is {num_steps},.*lowest rate, 0.03125.*max_steps") as told:
        rates = list(islice(slanted_triangular(1.0, num_steps), 3 * num_steps + 3))
    assert max(rates) == 1.0 and min(rates) == rates[num_steps] == rates[-1] == pytest.approx(1 / 32)
    assert len(told) == 1


@pytest.mark.parametrize("t", [0, 7, 20, 50])
def test_a_resumed_training_goes_on_where_it_stopped_and_is_told_after_the_end(t):
    """`spacy train` makes max_steps + 1 updates, and asks for a rate after the last one: that is silent."""
    first, resumed = slanted_triangular(1.0, 20), None
    if t < 20:
        resumed = slanted_triangular(1.0, 20, t=t)
        assert list(islice(first, 20))[t:] + [1 / 32] * 2 == list(islice(resumed, 20 - t + 2))
    with pytest.warns(UserWarning, match=f"t is {t}, num_steps is 20,.*lowest rate, 0.03125" if t >= 20 else "WL071"):
        rates = list(islice(resumed or slanted_triangular(1.0, 20, t=t), 30))
    assert rates == [1 / 32] * 30
    assert set(islice(slanted_triangular(0.1, 20, ratio=1.0, t=t), 40)) == {0.1}  # a constant rate has no end
