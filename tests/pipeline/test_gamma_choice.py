"""The weight of ELMo beside n-grams, which `spacy-elmo.ChooseGamma.v1` chooses on training texts."""

import logging

import numpy
import pytest
import spacy
from nn.tiny import make_bilm
from spacy.tokens import DocBin
from spacy.training.initialize import init_nlp
from thinc.api import Config

from spacy_elmo.pipeline.gamma_choice import choose_gamma, measure_errors
from spacy_elmo.pipeline.listener import ElmoListener
from spacy_elmo.pipeline.starter_config import make_pipeline_config
from spacy_elmo.weights import save_bilm

pytestmark = pytest.mark.issue(62)
CATEGORIES = ("sport", "music")


@pytest.mark.parametrize("has_wording", [False, True])
def test_what_shows_the_categories_gets_the_weight(has_wording):
    rng = numpy.random.default_rng(0)
    n_grams, elmo = rng.normal(size=(60, 5)) / 5**0.5, rng.normal(size=(60, 5)) * 8
    truth = numpy.eye(2)[((elmo if has_wording else n_grams)[:, 0] > 0).astype(int)]
    errors = measure_errors(n_grams @ n_grams.T, elmo @ elmo.T, truth)
    assert errors.index(min(errors)) in ((3, 4, 5) if has_wording else (0,))


@pytest.fixture
def initialize(tmp_path):
    save_bilm(make_bilm(), tmp_path / "tiny")

    def initialize_pipeline(component="textcat", n_texts=30, **overrides):
        nlp, docs = spacy.blank("en"), DocBin()
        for i in range(n_texts):
            doc = nlp.make_doc(f"They {'won a match' if i % 2 else 'sang a song'} on day {i}")
            doc.cats = {name: float(number == i % 2) for number, name in enumerate(CATEGORIES)}
            docs.add(doc)
        docs.add(nlp.make_doc(""))
        docs.to_disk(tmp_path / "train.spacy")
        config = Config().from_str(make_pipeline_config(component, bilm=str(tmp_path / "tiny")), interpolate=False)
        config["paths"].update(train=str(tmp_path / "train.spacy"), dev=str(tmp_path / "train.spacy"))
        for name, value in overrides.items():
            config["initialize"][name] = value
        return init_nlp(config)

    return initialize_pipeline


def _find_listener(nlp, component):
    return next(node for node in nlp.get_pipe(component).model.walk() if isinstance(node, ElmoListener))


@pytest.mark.parametrize("component", ["textcat", "textcat_multilabel"])
def test_trained_and_saved_pipelines_have_the_chosen_weight(initialize, caplog, component, tmp_path, monkeypatch):
    caplog.set_level(logging.INFO, "spacy")
    monkeypatch.setattr("spacy_elmo.pipeline.gamma_choice.measure_errors", lambda *_: [3.0, 2.0, 1.0, 2.0, 3.0, 4.0])
    nlp = initialize(component)
    listener = _find_listener(nlp, component)
    assert float(listener.mix.get_param("gamma")[0]) == pytest.approx(0.05)
    assert f"{component}: initial_gamma 0.05, chosen on 30 training texts" in caplog.text
    ngrams = next(node for node in nlp.get_pipe(component).model.walk() if node.name == "ngram_vectors")
    assert not ngrams.get_param("frequencies").any()  # training counts them
    nlp.to_disk(tmp_path / "saved")
    loaded = spacy.load(tmp_path / "saved")
    assert loaded.config["components"][component]["model"]["tok2vec"]["initial_gamma"] == 0.05
    assert _find_listener(loaded, component).mix.get_param("gamma")[0] == listener.mix.get_param("gamma")[0]


def test_without_gain_elmo_gets_no_weight_with_a_warning(initialize, caplog):
    nlp = initialize()  # keywords show the categories
    assert _find_listener(nlp, "textcat").mix.get_param("gamma")[0] == 0
    assert (
        "With 0 it reads n-grams alone; a config of init-config --baseline does so, too, and is faster" in caplog.text
    )


def test_without_the_callback_the_setting_stays(initialize):
    nlp = initialize(after_init=None)
    assert _find_listener(nlp, "textcat").mix.get_param("gamma")[0] == pytest.approx(0.1)


def test_few_texts_leave_the_setting(initialize, caplog):
    nlp = initialize(n_texts=9)
    assert _find_listener(nlp, "textcat").mix.get_param("gamma")[0] == pytest.approx(0.1)
    assert "textcat: initial_gamma stays 0.1; it is chosen on 10 training texts or more, and there are 9" in caplog.text


def test_a_corpus_that_is_not_there_leaves_the_setting(initialize, caplog):
    nlp = initialize()
    gamma = _find_listener(nlp, "textcat").mix.get_param("gamma")[0]
    nlp.config["paths"]["train"] = None  # as in Python, where nlp.initialize has the texts
    choose_gamma(nlp)
    assert "textcat: initial_gamma stays 0; the training corpus of the config was not read: [E913]" in caplog.text
    assert _find_listener(nlp, "textcat").mix.get_param("gamma")[0] == gamma


def test_a_value_of_the_user_is_not_replaced_in_silence(initialize, caplog):
    nlp = initialize()
    caplog.clear()
    nlp.get_pipe_config("textcat")["model"]["tok2vec"]["initial_gamma"] = 0.2
    choose_gamma(nlp)
    assert "replaces 0.2 of the config, which stays with --initialize.after_init null" in caplog.text


def test_a_pipeline_without_such_a_classifier_is_refused():
    with pytest.raises(ValueError, match=r"spacy-elmo.ChooseGamma.v1 in \[initialize.after_init\] found no component"):
        choose_gamma(spacy.blank("en"))
