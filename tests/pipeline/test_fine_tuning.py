"""Fine-tuning: what moves and how far, what is saved, what a resumed training begins with, schedules of the rate."""

import pickle
from itertools import islice

import numpy
import pytest
import spacy
import torch
from nn.tiny import make_network
from spacy.training.initialize import init_nlp
from thinc.api import SGD, Adam, Config, RAdam

from spacy_elmo.bilm.network import layer_parameters
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.pipeline.fine_tuning import FineTuner, FineTuning, slanted_triangular
from spacy_elmo.pipeline.model import get_bilm

from .tiny import listening, loader_block, make_examples, make_tagger

BLOCK = {"@misc": "spacy-elmo.FineTuning.v1"}
OWNER, RATE = 7, 0.01


def make_pipeline(owned=False, **settings):
    """ELMo and a tagger; with `owned` the tagger has the biLM, as `spacy-elmo.ElmoTok2Vec.v1`."""
    nlp = make_tagger(model={"frozen": False, "fine_tuning": {**BLOCK, **settings}})
    if owned:
        nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
        nlp.remove_pipe("elmo")
    return nlp


def elmo_model(nlp):
    names = [name for name in nlp.pipe_names if name in ("elmo", "tagger")]
    return next(node for name in names for node in nlp.get_pipe(name).model.walk() if node.name == "elmo_model")


def get_shim(nlp):
    return elmo_model(nlp).shims[0]


def get_weights(nlp):
    return get_parameters(get_bilm(elmo_model(nlp)).network)


def get_parameters(network):
    return {name: parameter.detach().clone().numpy() for name, parameter in network.named_parameters()}


def train(nlp, n_updates=1, optimizer=None):
    """As `spacy train` does: the weights are changed after all components have returned their gradient."""
    optimizer = optimizer or Adam(0.01)
    for _ in range(n_updates):
        nlp.update(make_examples(nlp), sgd=False)
        for _, component in nlp.pipeline:
            component.finish_update(optimizer)


def moved(nlp, before):
    after = get_weights(nlp)
    names = [name for name in before if not numpy.array_equal(before[name], after[name])]
    return sorted({int(name.split(".")[2]) + 1 if name.startswith("encoder.") else 0 for name in names})


@pytest.mark.parametrize("layers, order", [(None, [2, 1, 0]), ([0, 2], [2, 0])])
@pytest.mark.parametrize("owned", [False, True])
def test_layers_are_unfrozen_one_by_one(owned, layers, order):
    nlp, optimizer = make_pipeline(owned, unfreeze_every=2, layers=layers), Adam(0.01)
    for n_updates in range(8):
        before = get_weights(nlp)
        train(nlp, 1, optimizer)
        assert moved(nlp, before) == sorted(order[: n_updates // 2])
    assert get_shim(nlp).tuner.n_updates == 8


@pytest.mark.parametrize("owned", [False, True])
def test_copies_have_the_settings_but_neither_count_nor_pretrained_weights(owned, tmp_path):
    nlp = make_pipeline(owned, unfreeze_every=1, l2_to_pretrained=0.1, layers=[2, 1])
    train(nlp, 3)
    nlp.to_disk(tmp_path)
    loaded, shim = spacy.load(tmp_path), get_shim(nlp)
    assert loaded.config == nlp.config
    assert get_shim(loaded).to_bytes() == shim.to_bytes() and shim.tuner.n_pretrained_bytes > 0
    for copied in (get_shim(loaded), shim.copy(), pickle.loads(pickle.dumps(shim))):
        assert copied.tuner.settings == shim.tuner.settings
        assert copied.tuner.n_updates == copied.tuner.n_pretrained_bytes == 0
        assert not any(parameter.requires_grad for parameter in copied.bilm.network.parameters())
    for name, weights in get_weights(nlp).items():
        assert numpy.array_equal(weights, get_weights(loaded)[name])
    if not owned:
        nlp.initialize(lambda: make_examples(nlp))
        before = get_weights(nlp)
        train(nlp)
        assert moved(nlp, before) == [] and shim.tuner.n_updates == 1


def resumed_config(path):
    config = config_with({})
    config["components"] = {name: {"source": str(path)} for name in ("elmo", "tagger")}
    config["initialize"]["components"] = {}
    return config


@spacy.registry.readers("tests.tiny_corpus.v1")
def make_reader():
    return make_examples


@pytest.mark.slow
def test_a_resumed_training_begins_anew_with_the_weights_it_found(tmp_path):
    nlp = make_pipeline(unfreeze_every=1, l2_to_pretrained=0.5)
    train(nlp, 5)
    nlp.to_disk(tmp_path)
    resumed = init_nlp(resumed_config(tmp_path))
    tuner, saved = get_shim(resumed).tuner, get_weights(resumed)
    assert tuner.n_updates == 0 and tuner.settings.unfreeze_every == 1
    for name, weights in get_weights(nlp).items():
        assert numpy.array_equal(weights, saved[name])
    train(resumed, 4)
    assert moved(resumed, saved) == [0, 1, 2]
    assert all(numpy.array_equal(tuner._pretrained[name], saved[name]) for name in saved)


@pytest.mark.parametrize("owned", [False, True])
def test_nlp_update_applies_the_gradient_of_its_own_batch(owned):
    """It calls `finish_update` of the component `elmo` before the listeners have returned their gradient."""
    nlp = make_pipeline(owned, unfreeze_every=2)
    changed = []
    for _ in range(4):
        before = get_weights(nlp)
        nlp.update(make_examples(nlp), sgd=Adam(0.01))
        changed.append(moved(nlp, before))
    assert changed == [[], [], [2], [2]]
    assert get_shim(nlp).tuner.n_updates == 4


def test_an_error_while_averages_are_used_leaves_the_weights():
    nlp = make_pipeline()
    optimizer = Adam(0.01)
    train(nlp, 2, optimizer)
    before = get_weights(nlp)
    with pytest.raises(KeyError, match="mine"), get_shim(nlp).use_params(optimizer.averages):
        assert moved(nlp, before)
        raise KeyError("mine")
    assert moved(nlp, before) == []


# Bad input: errors before training starts


def config_with(model):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    nlp.add_pipe("tagger", config=listening())
    config = Config(nlp.config)
    config["components"]["elmo"]["model"].update(model)
    config["initialize"]["components"]["elmo"] = loader_block()
    config["corpora"] = {name: {"@readers": "tests.tiny_corpus.v1"} for name in ("train", "dev")}
    return config


@pytest.mark.parametrize(
    "model, problem",
    [
        ({"frozen": True, "fine_tuning": {**BLOCK, "unfreeze_every": 100}}, "(?s)frozen.*true"),
        ({"frozen": False, "fine_tuning": {**BLOCK, "layers": [3]}}, r"names \[3\]"),
        ({"frozen": False, "fine_tuning": {**BLOCK, "layers": [2, 2]}}, "(?s)each layer once"),
        ({"frozen": False, "fine_tuning": {**BLOCK, "unfreeze": 3}}, "unexpected argument: 'unfreeze'"),
        ({"frozen": False, "fine_tuning": 0.5}, "(?s)fine_tuning.*0.5"),
    ],
)
def test_bad_settings_are_errors_before_training_starts(model, problem):
    with pytest.raises(ValueError, match=f"(?s){problem}"):
        init_nlp(config_with(model))


@pytest.mark.parametrize(
    "make, settings, problem",
    [
        (FineTuning, {"layers": []}, "EL060.*layers.*at least 1"),
        (FineTuning, {"top_rate": 0.0}, "EL060.*top_rate.*0.0"),
        (FineTuning, {"layer_decay": 2.6}, "EL060.*layer_decay.*2.6"),
        (FineTuning, {"l2_to_pretrained": float("nan")}, "EL060.*l2_to_pretrained.*nan"),
        (slanted_triangular, {"max_rate": -1.0}, "max_rate.*-1.0"),
        (slanted_triangular, {"num_steps": 0}, "num_steps.*0"),
        (slanted_triangular, {"cut_frac": 1.0, "ratio": 0.5, "t": -1}, "cut_frac.*1.0.*ratio.*0.5.*t.*-1"),
    ],
)
def test_settings_that_make_no_sense_are_errors(make, settings, problem):
    needed = {"max_rate": 1.0, "num_steps": 10} if make is slanted_triangular else {}
    with pytest.raises(ValueError, match=f"(?s){problem}"):
        make(**{**needed, **settings})


def test_unfreezing_after_the_end_of_training_is_told():
    config = config_with({"frozen": False, "fine_tuning": {**BLOCK, "unfreeze_every": 100}})
    left = {99: "Layers 0, 1, 2", 100: "Layers 0, 1", 299: "Layers 0", 300: "", 0: ""}
    for max_steps, layers in left.items():
        config["training"]["max_steps"] = max_steps
        if layers:
            message = f"{layers} of the biLM of 'elmo' .*unfreeze_every.* {max_steps} updates"
            with pytest.warns(UserWarning, match=message):
                init_nlp(config)
        else:
            init_nlp(config)


# Which weights an update changes, and by how much, compared with steps computed by hand


def make_tuner(network, bilm=None, **settings):
    tuner = FineTuner(FineTuning(**settings))
    tuner.begin(bilm or BiLM(network))
    return tuner


def set_gradients(network, seed):
    """Random gradients for what takes one, zeros for seed None."""
    generator = torch.Generator().manual_seed(seed or 0)
    for parameter in network.parameters():
        gradient = torch.randn(parameter.shape, generator=generator) * (seed is not None)
        parameter.grad = gradient if parameter.requires_grad else None


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
    for name, weights in get_parameters(network).items():
        wanted = get_parameters(others[number_of(network, name)])[name]
        numpy.testing.assert_allclose(weights, wanted, rtol=1e-5, atol=1e-7, err_msg=name)
    assert optimizer.learn_rate == RATE and all(parameter.grad is None for parameter in network.parameters())


def test_averages_start_at_the_pretrained_weights_and_not_at_zero():
    network, optimizer = make_network(), Adam(RATE, use_averages=True)
    tuner, pretrained = make_tuner(network, unfreeze_every=1), get_parameters(network)
    for step in range(4):
        set_gradients(network, step)
        tuner.update(network, optimizer, OWNER)
    assert len(optimizer.averages) == len(pretrained)
    for (_, name), average in optimizer.averages.items():
        assert abs(average - pretrained[name]).max() < 4 * RATE, name  # a step of Adam is about as long as the rate


@pytest.mark.parametrize("l2, is_decay", [(0.5, True), (0.5, False), (1e6, True)])
def test_l2_pulls_towards_the_pretrained_weights(l2, is_decay):
    """Without a gradient SGD shrinks w - w0 by 1 - rate * l2 at every update; the strongest pull goes no further."""
    network = make_network()
    rate, settings = 0.1, {"L2": 0.3, "L2_is_weight_decay": is_decay, "grad_clip": 0.0}
    tuner = make_tuner(network, layer_decay=0.5, l2_to_pretrained=l2)
    optimizer, pretrained = SGD(rate, **settings), get_parameters(network)
    set_gradients(network, None)
    tuner.update(network, optimizer, OWNER)
    assert changed_layers(network, pretrained) == []  # nothing pulls, not even the optimizer's L2 towards zero
    for parameter in network.parameters():
        parameter.data += 1.0
    for _ in range(5):
        set_gradients(network, None)
        tuner.update(network, optimizer, OWNER)
    for name, weights in get_parameters(network).items():
        share = max(0.0, 1 - rate * [0.25, 0.5, 1.0][number_of(network, name)] * l2) ** 5
        numpy.testing.assert_allclose(weights - pretrained[name], share, atol=1e-5, err_msg=name)
    assert optimizer.L2 == 0.3


# The slanted triangular schedule has the values of the paper, and ends where it should


def eq_3(t, T, max_rate, cut_frac, ratio):
    """Howard & Ruder (2018), eq. 3, as printed."""
    cut = int(T * cut_frac)
    p = t / cut if t < cut else 1 - (t - cut) / (cut * (1 / cut_frac - 1))
    return max_rate * (1 + p * (ratio - 1)) / ratio


@pytest.mark.parametrize(
    "num_steps, cut_frac, ratio, t", [(100, 0.1, 32, 0), (40, 0.25, 10.0, 0), (10, 0.5, 2.0, 0), (20, 0.1, 32, 7)]
)
def test_slanted_triangular_has_the_values_of_eq_3_from_any_step_on(num_steps, cut_frac, ratio, t):
    rates = list(islice(slanted_triangular(0.01, num_steps, cut_frac=cut_frac, ratio=ratio, t=t), num_steps - t))
    assert rates == pytest.approx([eq_3(i, num_steps, 0.01, cut_frac, ratio) for i in range(t, num_steps)])
    assert t or max(rates) == rates[int(num_steps * cut_frac)] == pytest.approx(0.01)


@pytest.mark.parametrize("num_steps, t", [(1, 0), (2, 0), (15, 0), (100, 0), (20, 7), (20, 20), (20, 50)])
def test_slanted_triangular_stays_at_the_lowest_rate_after_the_last_step_with_a_warning(num_steps, t):
    """`spacy train` makes max_steps + 1 updates, and asks for a rate after the last one: that is silent."""
    if t < num_steps:
        assert list(islice(slanted_triangular(1.0, num_steps, t=t), num_steps - t + 2))[-2:] == [1 / 32] * 2
    begins = "WL071.*" if t < num_steps else f"t is {t}, "
    with pytest.warns(UserWarning, match=f"{begins}num_steps is {num_steps},.*lowest rate, 0.03125") as told:
        rates = list(islice(slanted_triangular(1.0, num_steps, t=t), max(0, num_steps - t) + 30))
    assert rates[-30:] == [1 / 32] * 30 and len(told) == 1
    assert set(islice(slanted_triangular(0.1, 20, ratio=1.0, t=t), 40)) == {0.1}  # a constant rate has no end
