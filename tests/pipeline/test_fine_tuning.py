"""Fine-tuning in pipelines: what moves, what is saved, what a resumed training begins with."""

import pickle

import numpy
import pytest
import spacy
from spacy.training.initialize import init_nlp
from thinc.api import Adam, Config

from spacy_elmo.pipeline.fine_tuning import FineTuning, slanted_triangular
from spacy_elmo.pipeline.model import get_bilm

from .tiny import listening, loader_block, make_examples, make_tagger

BLOCK = {"@misc": "spacy-elmo.FineTuning.v1"}


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
    network = get_bilm(elmo_model(nlp)).network
    return {name: parameter.detach().clone().numpy() for name, parameter in network.named_parameters()}


def train(nlp, n_updates=1, optimizer=None):
    """As `spacy train` does: the weights are changed after all components have returned their gradient."""
    optimizer = optimizer or Adam(0.01)
    for _ in range(n_updates):
        nlp.update(make_examples(nlp), sgd=False)
        for _, component in nlp.pipeline:
            component.finish_update(optimizer)


def moved(nlp, before):
    """Layers with a weight that changed."""
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
    """A config that trains the components of a saved pipeline further."""
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


def test_the_strongest_pull_as_weight_decay_is_back_to_the_pretrained_weights():
    nlp = make_pipeline(l2_to_pretrained=1e6)
    before, optimizer = get_weights(nlp), Adam(0.01, L2_is_weight_decay=True)
    train(nlp, 6, optimizer)
    largest = max(abs(weights - before[name]).max() for name, weights in get_weights(nlp).items())
    assert 0 < largest < 0.05  # one step of Adam


@pytest.mark.parametrize("owned, lag", [(False, 1), (True, 0)])
def test_nlp_update_counts_updates_too(owned, lag):
    """It has the component `elmo` apply the gradient of a batch at the next one, as with spaCy's Tok2Vec."""
    nlp = make_pipeline(owned, unfreeze_every=2)
    found = []
    for _ in range(4):
        before = get_weights(nlp)
        nlp.update(make_examples(nlp), sgd=Adam(0.01))
        found.append(moved(nlp, before))
    assert found == ([[], [], [], [2]] if lag else [[], [], [2], [2]])
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
    """A config of ELMo and a tagger."""
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
        (FineTuning, {"layers": []}, "layers.*at least 1"),
        (FineTuning, {"top_rate": 0.0}, "top_rate.*0.0"),
        (FineTuning, {"layer_decay": 2.6}, "layer_decay.*2.6"),
        (FineTuning, {"l2_to_pretrained": float("nan")}, "l2_to_pretrained.*nan"),
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
