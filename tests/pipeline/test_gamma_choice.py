"""The weight of ELMo beside n-grams, which `spacy-elmo.ChooseGamma.v1` chooses on training texts."""

import logging
import random
import string

import numpy
import pytest
import spacy
from nn.tiny import make_bilm
from spacy.language import Language
from spacy.tokens import DocBin
from spacy.training.initialize import init_nlp
from thinc.api import Config

from spacy_elmo.pipeline.gamma_choice import choose_gamma, measure_errors
from spacy_elmo.pipeline.listener import ElmoListener
from spacy_elmo.pipeline.starter_config import make_pipeline_config
from spacy_elmo.weights import save_bilm

pytestmark = pytest.mark.issue(62)
CATEGORIES = ("sport", "music")
CALLBACK = {"@callbacks": "spacy-elmo.ChooseGamma.v1"}


@pytest.mark.parametrize("has_wording", [False, True])
def test_what_shows_the_categories_gets_the_weight(has_wording):
    rng = numpy.random.default_rng(0)
    n_grams, elmo = rng.normal(size=(60, 5)) / 5**0.5, rng.normal(size=(60, 5)) * 8
    truth = numpy.eye(2)[((elmo if has_wording else n_grams)[:, 0] > 0).astype(int)]
    errors = measure_errors(n_grams @ n_grams.T, elmo @ elmo.T, truth)
    assert errors.index(min(errors)) in ((3, 4, 5) if has_wording else (0,))


def test_regression_has_an_intercept():
    kernel = numpy.eye(20)
    assert max(measure_errors(kernel, kernel, numpy.ones((20, 1)))) == pytest.approx(0)


def _write_keywords(nlp, n_texts):
    """Texts whose categories n-grams show."""
    for i in range(n_texts):
        doc = nlp.make_doc(f"They {'won a match' if i % 2 else 'sang a song'} on day {i}")
        doc.cats = {name: float(number == i % 2) for number, name in enumerate(CATEGORIES)}
        yield doc


def _write_wording(nlp, n_texts):
    """Texts of random words, whose categories are the sign of the first principal component of ELMo's vectors."""
    generator = random.Random(0)
    words = ["".join(generator.choices(string.ascii_letters, k=5)) for _ in range(6 * n_texts)]
    docs = [nlp.make_doc(" ".join(words[start : start + 6])) for start in range(0, len(words), 6)]
    means = numpy.stack([doc._.elmo_layers.mean(axis=0).ravel() for doc in nlp.pipe([doc.copy() for doc in docs])])
    scores = numpy.linalg.svd(means - means.mean(axis=0))[0][:, 0]
    for doc, score in zip(docs, scores):
        doc.cats = {name: float((score > 0) == bool(number)) for number, name in enumerate(CATEGORIES)}
        yield doc


@pytest.fixture
def initialize(tmp_path):
    save_bilm(make_bilm(), tmp_path / "tiny")

    def initialize_pipeline(component="textcat", n_texts=30, write=_write_keywords, after_init=CALLBACK, **settings):
        nlp = spacy.blank("en")
        nlp.add_pipe("elmo", config={"store": "layers"}).load_weights(tmp_path / "tiny")
        docs = [*write(nlp, n_texts), nlp.make_doc("")]
        docs += [nlp.make_doc(f"without a category {i}") for i in range(20)]
        DocBin(docs=docs).to_disk(tmp_path / "train.spacy")
        text = make_pipeline_config(component, bilm=str(tmp_path / "tiny"), **settings)
        config = Config().from_str(text, interpolate=False)
        config["paths"].update(train=str(tmp_path / "train.spacy"), dev=str(tmp_path / "train.spacy"))
        config["initialize"]["after_init"] = after_init
        return init_nlp(config)

    return initialize_pipeline


def _find_listener(nlp, component="textcat"):
    return next(node for node in nlp.get_pipe(component).model.walk() if isinstance(node, ElmoListener))


def _find_gamma(nlp, component="textcat"):
    gamma = float(_find_listener(nlp, component).mix.get_param("gamma")[0])
    assert nlp.get_pipe_config(component)["model"]["tok2vec"]["initial_gamma"] == pytest.approx(gamma)
    return gamma


def test_init_config_writes_it_for_text_classifiers_with_elmo():
    for options in ({"is_baseline": True}, {}):
        config = Config().from_str(make_pipeline_config("textcat", lang="en", **options), interpolate=False)
        assert config["initialize"]["after_init"] == (None if options else CALLBACK)
    assert "ChooseGamma" not in make_pipeline_config("ner", lang="en")


def test_both_classifiers_of_a_pipeline_get_a_weight_which_is_saved(initialize, caplog, tmp_path):
    caplog.set_level(logging.INFO, "spacy")
    nlp = initialize("textcat,textcat_multilabel", 60, _write_wording)
    for component in ("textcat", "textcat_multilabel"):
        gamma = _find_gamma(nlp, component)
        assert gamma > 0.1  # ELMo's vectors show the categories, random words do not
        assert f"{component}: initial_gamma {gamma:g} was chosen on 60 texts of corpora.train." in caplog.text
        ngrams = next(node for node in nlp.get_pipe(component).model.walk() if node.name == "ngram_vectors")
        assert not ngrams.get_param("frequencies").any()  # training counts them
    assert {record.levelname for record in caplog.records if "gamma" in record.message} == {"INFO"}
    nlp.to_disk(tmp_path / "saved")
    loaded = spacy.load(tmp_path / "saved")
    assert _find_gamma(loaded, "textcat") == _find_gamma(nlp, "textcat")


def test_without_gain_elmo_gets_no_weight_with_a_warning(initialize, caplog):
    assert _find_gamma(initialize()) == 0
    assert "With 0 it reads n-grams alone, as in a config of init-config --baseline, which is faster" in caplog.text


def test_a_bilm_that_is_fine_tuned_gets_a_weight(initialize):
    assert _find_gamma(initialize(fine_tune=True)) == pytest.approx(0.02)  # with 0 it would get no gradient


def test_without_the_callback_the_setting_stays(initialize):
    assert _find_gamma(initialize(after_init=None)) == pytest.approx(0.1)


def test_few_texts_with_categories_leave_the_setting(initialize, caplog):
    assert _find_gamma(initialize(n_texts=9)) == pytest.approx(0.1)
    text = "textcat: initial_gamma stays 0.1; it was not chosen on corpora.train: it takes 10 texts with its categories"
    assert f"{text}, and there are 9" in caplog.text


def test_categories_that_do_not_differ_leave_the_setting(initialize, caplog):
    def write(nlp, n_texts):
        for doc in _write_keywords(nlp, n_texts):
            doc.cats = dict.fromkeys(CATEGORIES, 1.0)
            yield doc

    assert _find_gamma(initialize("textcat_multilabel", write=write), "textcat_multilabel") == pytest.approx(0.1)
    assert "its categories are the same in all of 30 texts" in caplog.text


def test_texts_with_some_of_the_categories_are_read(initialize, caplog):
    def write(nlp, n_texts):
        for number, doc in enumerate(_write_keywords(nlp, n_texts)):
            doc.cats = {CATEGORIES[0]: doc.cats[CATEGORIES[0]]} if number % 3 else doc.cats
            yield doc

    assert _find_gamma(initialize("textcat_multilabel", write=write), "textcat_multilabel") == 0
    assert "initial_gamma 0 was chosen on 30 texts" in caplog.text


def test_a_corpus_that_is_not_there_leaves_the_setting(initialize, caplog):
    nlp = initialize()
    nlp.config["paths"]["train"] = None  # as in Python, where nlp.initialize has the texts
    choose_gamma(nlp)
    assert "textcat: initial_gamma stays 0; it was not chosen on corpora.train: [E913]" in caplog.text
    assert _find_gamma(nlp) == 0


def test_a_value_of_the_user_is_not_replaced_in_silence(initialize, caplog):
    nlp = initialize(write=_write_wording, n_texts=60)
    assert not caplog.records
    nlp.get_pipe_config("textcat")["model"]["tok2vec"]["initial_gamma"] = 0.03
    choose_gamma(nlp)
    assert "To keep the 0.03 of the config, train with --initialize.after_init null." in caplog.text


def test_frozen_classifiers_and_other_components_stay(initialize):
    nlp = initialize(after_init=None)

    @Language.factory("named_model", default_config={"model": "small"})
    def make_named(nlp, name, model):
        return lambda doc: doc

    nlp.add_pipe("named_model")
    with nlp.select_pipes(disable=["textcat"]):  # as spaCy does with frozen and sourced components
        choose_gamma(nlp)
    assert _find_gamma(nlp) == pytest.approx(0.1)


def test_long_texts_are_read_in_part(initialize, caplog):
    def write(nlp, n_texts):
        for doc in _write_keywords(nlp, n_texts):
            long = nlp.make_doc(f"{doc.text} " * 80)
            long.cats = doc.cats
            yield long

    caplog.set_level(logging.INFO, "spacy")
    initialize(write=write, n_texts=210)
    assert "was chosen on 200 texts" in caplog.text  # of 500 tokens each


def test_a_pipeline_without_such_a_classifier_is_refused():
    with pytest.raises(ValueError, match=r"spacy-elmo.ChooseGamma.v1 in \[initialize.after_init\] found no component"):
        choose_gamma(spacy.blank("en"))
