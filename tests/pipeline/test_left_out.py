"""Components that are disabled, or take no part in an update, on a biLM that is trained or exchanged."""

import numpy as np
import pytest
import spacy
import torch
from spacy.tokens import Doc
from spacy.training import Example
from spacy.training.initialize import init_nlp
from thinc.api import Adam

from spacy_elmo.ml.elmo_model import get_bilm
from spacy_elmo.ml.listener import N_TOLERATED
from spacy_elmo.ml.loaders import make_random_bilm
from spacy_elmo.pipeline import listened_to

from .placements import task_encoder
from .test_bad_training import source_both
from .tiny import BILM, LISTENER, add_elmo, listening, make_examples

OTHER = 7  # seed
MANY = N_TOLERATED + 2


def make_pipeline(**elmo):
    nlp = spacy.blank("en")
    add_elmo(nlp, **elmo)
    nlp.add_pipe("tagger", config=listening())
    nlp.add_pipe("ner", config={"model": {"tok2vec": LISTENER}})
    nlp.initialize(lambda: make_examples(nlp))
    return nlp


def update(nlp, n=3, **settings):
    optimizer = Adam(0.05)
    for _ in range(n):
        nlp.update(make_examples(nlp), sgd=optimizer, **settings)
    return nlp


@pytest.mark.issue(16)
@pytest.mark.parametrize("how", ["select_pipes", "exclude", "linked again"])
def test_a_component_left_out_of_updates_of_the_bilm_is_told_after_loading(how, tmp_path):
    nlp = update(make_pipeline(model={"frozen": False}))
    if how == "exclude":
        update(nlp, MANY, exclude=["tagger"])
    else:
        with nlp.select_pipes(disable="tagger"):
            if how == "linked again":
                nlp.add_pipe("sentencizer")
            update(nlp, MANY)
    if how == "linked again":
        with pytest.warns(UserWarning, match=r"WL066.*: 'tagger'\."):
            nlp("She sat")
    nlp.to_disk(tmp_path)
    with pytest.warns(UserWarning, match=r"WL066.*with another biLM .*: 'tagger'\."):
        spacy.load(tmp_path)("She sat")


@pytest.mark.issue(16)
def test_a_component_that_takes_part_again_fits_the_bilm(tmp_path):
    nlp = update(make_pipeline(model={"frozen": False}))
    update(nlp, MANY, exclude=["tagger"])
    update(nlp).to_disk(tmp_path)
    spacy.load(tmp_path)("She sat")


@pytest.mark.issue(16)
def test_one_task_after_the_other_is_no_other_bilm(tmp_path):
    nlp = update(make_pipeline(model={"frozen": False}))
    for _ in range(2):
        update(nlp, N_TOLERATED, exclude=["ner"])
        update(nlp, N_TOLERATED, exclude=["tagger"])
    nlp.to_disk(tmp_path)
    spacy.load(tmp_path)("She sat")


@pytest.mark.issue(16)
def test_the_last_gradient_of_a_component_alone_is_no_other_bilm(tmp_path):
    """It reaches the biLM one update later."""
    nlp = spacy.blank("en")
    add_elmo(nlp, model={"frozen": False})
    nlp.add_pipe("tagger", config=listening())
    nlp.add_pipe("textcat")
    nlp.initialize(lambda: make_examples(nlp))
    update(nlp)
    update(nlp, MANY, exclude=["tagger"])
    nlp.to_disk(tmp_path)
    spacy.load(tmp_path)("She sat")


@pytest.mark.issue(16)
@pytest.mark.parametrize("pipes", [["tagger"], ["tagger", "ner"]])
def test_a_component_enabled_after_the_bilm_was_exchanged_is_told(pipes, tmp_path):
    update(make_pipeline()).to_disk(tmp_path)
    nlp = spacy.load(tmp_path, disable=pipes)
    nlp.enable_pipe("tagger")
    nlp("She sat")
    nlp = spacy.load(tmp_path, disable=["tagger", "ner"])
    nlp.get_pipe("elmo").initialize(lambda: [], loader=lambda: make_random_bilm(BILM, OTHER))
    nlp.enable_pipe("tagger")
    with pytest.warns(UserWarning, match=r"WL066.*: 'tagger'\."):
        nlp("She sat")
    assert list(nlp.get_pipe("elmo").listener_map) == ["tagger"]
    nlp("She sat")  # told once


@pytest.mark.issue(16)
@pytest.mark.parametrize("is_trained", [True, False])
def test_a_disabled_component_on_a_bilm_that_is_trained_is_an_error(is_trained, tmp_path):
    config = source_both(tmp_path, ["elmo", "tagger", "ner"], frozen=not is_trained)
    config["nlp"]["disabled"] = ["tagger"]
    if is_trained:
        with pytest.raises(ValueError, match="EL088.*disabled.*'tagger'"):
            init_nlp(config)
    else:
        init_nlp(config)


@pytest.mark.issue(16)
def test_a_disabled_component_beside_another_bilm_is_an_error(tmp_path):
    config = source_both(tmp_path, ["elmo", "tagger", "ner"])
    nlp = update(make_pipeline(seed=OTHER))
    nlp.to_disk(tmp_path / "trained")
    config["components"]["tagger"] = {"source": str(tmp_path / "trained")}
    config["nlp"]["disabled"] = ["tagger"]
    with pytest.raises(ValueError, match="EL083.*disabled.*'tagger'"):
        init_nlp(config)


def make_rates(num_steps):
    return {"@schedules": "spacy-elmo.slanted_triangular.v1", "max_rate": 0.001, "num_steps": num_steps}


@pytest.mark.issue(16)
def test_an_early_end_of_resumed_training_is_told(tmp_path):
    tuning = {"@misc": "spacy-elmo.FineTuning.v1", "unfreeze_every": 2}
    config = source_both(tmp_path, ["elmo", "tagger"], frozen=False, fine_tuning=tuning)
    config["training"]["max_steps"] = 3
    config["training"]["optimizer"]["learn_rate"] = make_rates(50)
    with pytest.warns(match="WL076"), pytest.warns(match="WL069.*'elmo'.*unfreeze_every is 2"):
        init_nlp(config)


@pytest.mark.issue(16)
def test_an_early_end_is_told_of_a_component_with_a_bilm_of_its_own(tmp_path):
    config = source_both(tmp_path, ["elmo", "tagger"])
    tuning = {"@misc": "spacy-elmo.FineTuning.v1", "unfreeze_every": 2}
    elmo = {"@architectures": "spacy-elmo.ElmoModel.v1", "frozen": False, "fine_tuning": tuning}
    tok2vec = {"@architectures": "spacy-elmo.ElmoTok2Vec.v1", "elmo": elmo}
    config["components"] = {"tagger": {"factory": "tagger", "model": listening()["model"] | {"tok2vec": tok2vec}}}
    config["nlp"]["pipeline"] = ["tagger"]
    config["training"]["max_steps"] = 3
    config["training"]["optimizer"]["learn_rate"] = make_rates(50)
    with pytest.warns(match="WL076"), pytest.warns(match="WL069.*'tagger'.*unfreeze_every is 2"):
        init_nlp(config)


@pytest.mark.issue(16)
@pytest.mark.parametrize("has_docs", [True, False])
def test_resumed_training_without_a_batch_is_an_error(has_docs, tmp_path):
    config = source_both(tmp_path, ["elmo", "tagger"])
    config["training"]["batcher"].update(discard_oversize=True, size=2, tolerance=0.0)
    if not has_docs:
        config["corpora"]["train"]["max_length"] = 1
    with pytest.raises(ValueError, match="EL435" if has_docs else "EL082.*max_length = 1"):
        init_nlp(config)


@pytest.mark.issue(16)
def test_resumed_training_is_checked_once(monkeypatch, tmp_path):
    """Not while spaCy links components: the check reads the training part."""
    checked = []
    monkeypatch.setattr(listened_to, "check_resumed_training", lambda nlp, elmo: checked.append(elmo.name))
    init_nlp(source_both(tmp_path, ["elmo", "tagger"]))
    assert checked == ["elmo"]


@pytest.mark.issue(16)
@pytest.mark.parametrize("exclude", [[], ["ner"]])
def test_rehearsal_after_an_update_that_a_component_did_not_answer(exclude):
    nlp = update(make_pipeline(model={"frozen": False}))
    optimizer = nlp.resume_training()
    plain = Example.from_dict(nlp.make_doc("one two"), {})
    nlp.update(make_examples(nlp) if exclude else [plain], sgd=optimizer, exclude=exclude)
    nlp.rehearse([Example.from_dict(nlp.make_doc("Rivers flow north"), {})], sgd=optimizer)


@pytest.mark.issue(16)
@pytest.mark.parametrize("tok2vec", [LISTENER, task_encoder()], ids=["listener", "task encoder"])
def test_a_text_classifier_trains_the_bilm_beside_a_doc_without_tokens(tok2vec):
    nlp = spacy.blank("en")
    elmo = add_elmo(nlp, model={"frozen": False})
    model = {"@architectures": "spacy-elmo.TextCatReduce.v1", "exclusive_classes": True, "use_reduce_max": True}
    nlp.add_pipe("textcat", config={"model": {**model, "tok2vec": tok2vec}})
    nlp.initialize(lambda: make_examples(nlp))
    network = get_bilm(elmo.model).network
    before = {name: weights.clone() for name, weights in network.state_dict().items()}
    empty = Example.from_dict(Doc(nlp.vocab, words=[]), {"cats": {"SHORT": 1.0, "LONG": 0.0}})
    optimizer = Adam(0.01)
    for _ in range(3):
        nlp.update([empty, *make_examples(nlp)], sgd=optimizer)
    assert not all(torch.equal(weights, before[name]) for name, weights in network.state_dict().items())


@pytest.mark.issue(16)
def test_a_learned_mix_that_was_the_top_layer_learns_from_all(tmp_path):
    nlp = spacy.blank("en")
    add_elmo(nlp)
    nlp.add_pipe("tagger", config=listening(mix="top"))
    nlp.initialize(lambda: make_examples(nlp))
    update(nlp).to_disk(tmp_path)
    loaded = spacy.load(tmp_path, config={"components.tagger.model.tok2vec.mix": "learned"})
    (listener,) = loaded.get_pipe("elmo").listeners
    before = listener.mix.get_param("w").copy()
    update(loaded)
    assert np.abs(before).max() < 1 and not (listener.mix.get_param("w") == before).any()
