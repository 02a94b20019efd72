"""A biLM of the same sizes, but with other weights, under components that were trained with the first one."""

import pickle

import pytest
import spacy
from spacy.tokens import DocBin
from spacy.training.initialize import init_nlp
from thinc.api import Adam, Config

from spacy_elmo.cli.init_config import init_config
from spacy_elmo.ml.elmo_model import get_bilm
from spacy_elmo.ml.listener import TRAINED_WITH
from spacy_elmo.ml.loaders import make_random_bilm
from spacy_elmo.weights import save_bilm

from .placements import make_tagger, task_encoder
from .tiny import BILM, LISTENER, add_elmo, loader_block, make_examples

OWN, OTHER = 1, 7  # seeds


def make_trained(tok2vec=LISTENER, **elmo):
    nlp = make_tagger(tok2vec, seed=OWN, **elmo)
    optimizer = Adam(0.05)
    for _ in range(3):  # the output layer begins with zeros, so that the first update does not reach the biLM
        nlp.update(make_examples(nlp), sgd=optimizer)
    return nlp


def get_listeners(nlp):
    return nlp.get_pipe("elmo").listeners


def write_bilm(path, seed, **settings):
    bilm = make_random_bilm(BILM, seed)
    bilm.meta["name"] = f"seed {seed}"
    save_bilm(bilm, path, **settings)
    return path


@pytest.fixture
def own(tmp_path):
    return write_bilm(tmp_path / "own", OWN)


@pytest.fixture
def other(tmp_path):
    return write_bilm(tmp_path / "other", OTHER)


def check_load_weights_warns(nlp, path):
    message = r"WL066.*\([0-9a-f]{12}.*\) than 'elmo' has \([0-9a-f]{12} seed 7\).*'tagger'"
    with pytest.warns(UserWarning, match=message):
        nlp.get_pipe("elmo").load_weights(path)


@pytest.mark.parametrize("tok2vec", [LISTENER, task_encoder()], ids=["listener", "two listeners"])
def test_loading_another_bilm_under_a_trained_component_is_told_once(own, other, tok2vec):
    nlp = make_trained(tok2vec)
    check_load_weights_warns(nlp, other)
    nlp("She sat")
    nlp.get_pipe("elmo").load_weights(own)
    nlp.get_pipe("elmo").load_weights(other)
    nlp.update(make_examples(nlp))  # from here on it fits the other one
    with pytest.warns(UserWarning, match=r"WL066.*\([0-9a-f]{12} seed 7\) than 'elmo' has \([0-9a-f]{12} seed 1\)"):
        nlp.get_pipe("elmo").load_weights(own)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_the_same_bilm_in_fewer_bits_is_the_same(tmp_path, dtype):
    nlp = make_trained()
    nlp.get_pipe("elmo").load_weights(write_bilm(tmp_path / "bilm", OWN, dtype=dtype))
    assert get_listeners(nlp)[0].trained_with


def test_untrained_components_fit_every_bilm(other):
    nlp = make_tagger(LISTENER)
    nlp.get_pipe("elmo").load_weights(other)
    trained = make_trained()
    trained.config["initialize"]["components"]["elmo"] = loader_block(OTHER)
    trained.initialize(lambda: make_examples(trained))  # anew
    assert get_listeners(trained)[0].trained_with == ""


def test_sourcing_beside_another_bilm_is_told_at_the_first_use():
    same, nlp = spacy.blank("en"), spacy.blank("en")
    add_elmo(same, seed=OWN)
    same.add_pipe("tagger", source=make_trained())
    same("She sat")
    add_elmo(nlp, seed=OTHER)
    nlp.add_pipe("tagger", source=make_trained())
    with pytest.warns(UserWarning, match="WL066.*'tagger'"):
        nlp("She sat")
    nlp.add_pipe("sentencizer")  # links all components again
    nlp("She sat")


def test_a_listener_to_the_nearer_of_two_bilms_is_not_compared_with_the_other():
    nlp = spacy.blank("en")
    add_elmo(nlp, seed=OTHER)
    add_elmo(nlp, name="near", seed=OWN, prefix="near")
    nlp.add_pipe("tagger", config={"model": {"tok2vec": LISTENER}})
    nlp.initialize(lambda: make_examples(nlp))
    nlp.update(make_examples(nlp))
    nlp.add_pipe("sentencizer")
    nlp("She sat")
    copied = to_bytes_and_back(nlp)
    copied("She sat")
    (listener,) = copied.get_pipe("near").listeners
    assert listener.trained_with == copied.get_pipe("near").bilm_label != copied.get_pipe("elmo").bilm_label


@pytest.mark.parametrize("is_frozen", [True, False])
@pytest.mark.parametrize("seed", [OWN, OTHER])
def test_training_with_a_sourced_component_and_another_bilm(tmp_path, is_frozen, seed):
    source = make_trained()
    source.to_disk(tmp_path / "source")
    DocBin(docs=[eg.reference for eg in make_examples(source)]).to_disk(tmp_path / "train.spacy")
    config = Config().from_str(init_config(pipeline="tagger,ner"))
    config["components"]["tagger"] = {"source": str(tmp_path / "source")}
    config["training"]["frozen_components"] = ["tagger"] if is_frozen else []
    config["corpora"]["train"]["path"] = config["corpora"]["dev"]["path"] = str(tmp_path / "train.spacy")
    config["initialize"]["components"]["elmo"] = loader_block(seed)
    if seed == OWN:
        init_nlp(config)
    elif is_frozen:
        with pytest.raises(ValueError, match=r"EL083.*frozen_components.*than 'elmo' has \(.*'tagger'"):
            init_nlp(config)
    else:
        with pytest.warns(UserWarning, match="WL067.*trained further with that one: 'tagger'"):
            init_nlp(config)


@pytest.mark.issue(16)
@pytest.mark.parametrize("tok2vec", [LISTENER, task_encoder()], ids=["listener", "two listeners"])
@pytest.mark.parametrize("frozen", [["tagger"], ["tagger", "elmo"]], ids=["elmo is trained", "elmo is frozen"])
@pytest.mark.parametrize("pipeline", ["tagger", "tagger,ner"])
def test_a_frozen_component_beside_another_sourced_bilm_is_an_error(tmp_path, pipeline, frozen, tok2vec):
    """spaCy does not initialize an ELMo component with a `source`."""
    config = source_both(tmp_path, make_trained(tok2vec), OTHER, pipeline)
    config["training"].update(frozen_components=frozen, annotating_components=["elmo"])
    message = r"EL083.*frozen_components.*than 'elmo' has \([0-9a-f]{12}\).*: 'tagger'.*`source` that has it"
    with pytest.raises(ValueError, match=message):
        init_nlp(config)


@pytest.mark.issue(16)
@pytest.mark.parametrize("frozen, seed", [([], OTHER), (["tagger"], OWN)], ids=["trained further", "the same biLM"])
def test_a_sourced_bilm_that_components_can_use_is_no_error(tmp_path, frozen, seed):
    config = source_both(tmp_path, make_trained(), seed, "tagger,ner")
    config["training"]["frozen_components"] = frozen
    if seed == OWN:
        init_nlp(config)
    else:
        with pytest.warns(UserWarning, match="WL066.*'tagger'"):
            init_nlp(config)


@pytest.mark.issue(16)
def test_frozen_components_of_an_earlier_training_are_free_later(other):
    nlp = make_trained()
    nlp.config["training"] = {"frozen_components": ["tagger"]}
    check_load_weights_warns(nlp, other)
    assert nlp.get_pipe("elmo").listening_components == ["tagger"]
    nlp.add_pipe("sentencizer")
    nlp("She sat")


def source_both(folder, trained, seed, pipeline):
    """Config of a training with a trained tagger and an ELMo component of two other pipelines."""
    bilm = spacy.blank("en")
    add_elmo(bilm, seed=seed)
    trained.to_disk(folder / "trained")
    bilm.to_disk(folder / "bilm")
    DocBin(docs=[eg.reference for eg in make_examples(trained)]).to_disk(folder / "train.spacy")
    config = Config().from_str(init_config(pipeline=pipeline))
    config["components"]["tagger"] = {"source": str(folder / "trained")}
    config["components"]["elmo"] = {"source": str(folder / "bilm")}
    config["initialize"]["components"].pop("elmo")
    config["corpora"]["train"]["path"] = config["corpora"]["dev"]["path"] = str(folder / "train.spacy")
    return config


def to_bytes_and_back(nlp):
    return spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())


def pickled(nlp):
    return pickle.loads(pickle.dumps(nlp))


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("copy", [to_bytes_and_back, pickled])
def test_the_bilm_is_saved_with_what_was_trained_on_it(other, copy, frozen):
    nlp = make_trained(model={"frozen": frozen})
    elmo = nlp.get_pipe("elmo")
    assert (elmo.bilm_label == make_tagger(LISTENER).get_pipe("elmo").bilm_label) is frozen
    copied = copy(nlp)
    assert get_listeners(copied)[0].trained_with == copied.get_pipe("elmo").bilm_label == elmo.bilm_label
    check_load_weights_warns(copied, other)
    check_load_weights_warns(nlp, other)


def test_a_pickled_pipeline_remembers_further_training(other):
    nlp = pickled(make_tagger(LISTENER))
    nlp.update(make_examples(nlp))
    check_load_weights_warns(nlp, other)


def test_pipelines_of_earlier_versions_are_loaded_without_a_word(other):
    nlp = make_trained()
    for listener in get_listeners(nlp):
        del listener.attrs[TRAINED_WITH]
    for loaded in (to_bytes_and_back(nlp), pickled(nlp)):
        loaded.get_pipe("elmo").load_weights(other)


def test_replaced_listeners_own_their_bilm(other):
    nlp = make_trained()
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    nlp.get_pipe("elmo").load_weights(other)
    nlp("She sat")


def test_the_label_follows_the_weights():
    elmo = make_tagger(LISTENER).get_pipe("elmo")
    before, bilm = elmo.bilm_label, get_bilm(elmo.model)
    for parameter in bilm.network.parameters():
        parameter.data.neg_()
    bilm.refresh()
    assert len(before) == len(elmo.bilm_label) == 12
    assert elmo.bilm_label != before


def test_a_pickled_listener_of_an_earlier_version_is_complete():
    (listener,) = get_listeners(make_trained())
    state = listener.__getstate__()
    for name in ("owner", "warned_of", "follows_bilm"):
        del state[name]
    older = type(listener).__new__(type(listener))
    older.__setstate__(state)
    assert (older.owner, older.warned_of, older.follows_bilm) == ("", "", False)
