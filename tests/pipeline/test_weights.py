"""Weights of the component by name: the setting `weights`, `load_weights`, `initialize` with a loader."""

import os
import pickle
import re
import warnings
from pathlib import Path

import numpy
import pytest
import spacy
from thinc.api import Config

import spacy_elmo.pipeline.model as elmo_model
from spacy_elmo.pipeline.model import BiLMLoader, make_random_bilm
from spacy_elmo.pipeline.surprisal import ElmoSurprisal
from spacy_elmo.weights import load_bilm, save_bilm

from .tiny import BILM, add_elmo, listening, loader_block, make_example, make_examples

TEXT = "on the bank"


@pytest.fixture
def path(tmp_path):
    """A biLM in a folder, with other weights than `add_elmo` gives."""
    return write_bilm(tmp_path / "bilm", seed=7)


def write_bilm(path, seed=7, lang=None, **sizes):
    bilm = make_random_bilm({**BILM, **sizes}, seed)
    bilm.meta.update({} if lang is None else {"lang": lang})
    save_bilm(bilm, path)
    return path


def check(nlp, seed=7):
    expected = make_random_bilm(BILM, seed).embed([TEXT.split()])[0]
    numpy.testing.assert_allclose(nlp(TEXT)._.elmo_layers, expected, atol=1e-5)


# The setting


USES = {
    "pipe": lambda nlp, elmo: list(nlp.pipe([TEXT])),
    "predict_nothing": lambda nlp, elmo: elmo.predict([]),
    "update": lambda nlp, elmo: elmo.update(make_examples(nlp)),
    "replace_listeners": lambda nlp, elmo: nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"]),
    "pickle": lambda nlp, elmo: pickle.loads(pickle.dumps(elmo)),
    "to_bytes": lambda nlp, elmo: elmo.to_bytes(),
}


@pytest.mark.parametrize("use", USES)
def test_weights_of_the_config_come_first_whatever_comes_first(path, use):
    nlp = spacy.blank("en")
    elmo = nlp.add_pipe("elmo", config={"weights": str(path)})
    if use == "replace_listeners":
        nlp.add_pipe("tagger", config=listening())
    USES[use](nlp, elmo)
    assert elmo.model.shims[0].bilm.meta["random_seed"] == 7


@pytest.mark.parametrize("name", ["absent", "given in full"])
def test_a_path_that_is_not_there_is_named_in_full(name, elsewhere, tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"weights": str(tmp_path / name) if " " in name else name})
    elsewhere()
    with pytest.raises(ValueError, match=f"EL020.*{tmp_path}.{name}"):
        nlp(TEXT)
    with pytest.raises(ValueError, match="weights is .*should not be empty"):
        spacy.blank("en").add_pipe("elmo", config={"weights": " "})


@pytest.mark.parametrize("name", ["original", "https://host/elmo.hdf5"])
@pytest.mark.parametrize("use", ["setting", "load_weights", "load_bilm", "surprisal"])
def test_a_name_of_no_model_leads_to_the_list_of_published_ones(use, name):
    nlp = spacy.blank("en")
    uses = {
        "setting": lambda: nlp.add_pipe("elmo", config={"weights": name}) and nlp(TEXT),
        "load_weights": lambda: add_elmo(nlp).load_weights(name),
        "load_bilm": lambda: load_bilm(name),
        "surprisal": lambda: nlp.add_pipe("elmo_surprisal", config={"weights": name}) and nlp(TEXT),
    }
    with pytest.raises(ValueError, match=r"(?s)no such.*en_elmo_sm.*`python -m spacy elmo download --list`") as caught:
        uses[use]()
    assert len(str(caught.value)) < 450


def test_a_saved_pipeline_does_not_need_the_path(path, tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"weights": str(path)})
    nlp.to_disk(tmp_path / "pipeline")
    assert nlp.config["components"]["elmo"]["weights"] == str(path)
    path.rename(tmp_path / "moved")
    loaded = spacy.load(tmp_path / "pipeline")
    assert loaded.config["components"]["elmo"]["weights"] == str(path)
    check(loaded)
    loaded.initialize()
    check(loaded)
    check(spacy.util.load_model_from_config(loaded.config, auto_fill=True).from_bytes(loaded.to_bytes()))


@pytest.mark.parametrize(
    "name, config, message",
    [
        ("elmo", {"weights": "bilm"}, r"weights = .*components.elmo.*\[initialize.components.elmo.loader\]"),
        ("bilm", {}, r"\(bilm\) has no component 'elmo'.*Rename.*components.bilm.loader"),
        ("elmo", {"model": {"bilm": {**BILM, "cell_width": 20}}}, "cell_width is 16, not 20"),
    ],
    ids=["beside weights", "of no component", "with other sizes"],
)
def test_a_loader_that_does_not_fit_is_an_error(name, config, message, path, elsewhere):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", name=name, config=config)
    nlp.config["initialize"]["components"]["elmo"] = loader_block(seed=3)
    if "weights" in config:
        with pytest.raises(ValueError, match=r"load_weights\(path\)"):
            nlp(TEXT)
    with pytest.raises(ValueError, match=message):
        nlp.initialize()


def test_a_path_that_no_loader_reads_is_told(path):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    nlp.config["paths"]["bilm"] = str(path)
    with pytest.warns(UserWarning, match=r"bilm.*'elmo' has no loader"):
        nlp.initialize()
    nlp.initialize()  # it has its weights
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    nlp.add_pipe("elmo", name="second", config={"prefix": "second", "weights": str(path)})
    nlp.config["paths"]["bilm"] = str(path)
    nlp.initialize()  # it is read


# The weights of the package, and loaders


@pytest.fixture
def packaged(monkeypatch, tmp_path):
    """A packaged biLM: tiny, in a folder of its own."""
    save_bilm(make_random_bilm(BILM, 7), tmp_path / "packaged")
    load = elmo_model.load_bilm
    monkeypatch.setattr(elmo_model, "load_bilm", lambda name: load(tmp_path / "packaged"))
    return monkeypatch


def test_untouched_component_takes_the_packaged_weights(packaged, tmp_path):
    def fresh():
        nlp = spacy.blank("en")
        nlp.add_pipe("elmo")
        return nlp

    check(fresh())
    nlp = fresh()
    nlp.initialize()
    check(nlp)
    nlp.initialize()
    check(nlp)
    doc = next(fresh().pipe([TEXT]))
    numpy.testing.assert_allclose(doc._.elmo_layers, nlp(TEXT)._.elmo_layers, atol=1e-5)
    check(fresh().from_bytes(fresh().to_bytes()))
    fresh().to_disk(tmp_path / "pipeline")
    packaged.setattr(elmo_model, "load_bilm", None)
    check(spacy.load(tmp_path / "pipeline"))


def test_loader_of_the_config_is_never_passed_over(packaged):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    nlp.config["initialize"]["components"]["elmo"] = loader_block()
    for use in (lambda: nlp("text"), nlp.to_bytes, lambda: list(nlp.pipe(["text"] * 3, n_process=2))):
        with pytest.raises(ValueError, match="loader that was not called"):
            use()
        assert nlp.get_pipe("elmo").sizes is None
    nlp.initialize()
    assert nlp("text")._.elmo.any()


# Languages


LANGUAGE = "WL064.*'en'.*'ru'.*rusvectores-lemmas, manylangs-ru"
LANGUAGES = [("en", "en"), ("en", "en-GB"), ("xx", "en"), ("de", "xx"), ("de", None), ("ru", "en")]


@pytest.mark.parametrize("how", ["setting", "load_weights", "loader"])
@pytest.mark.parametrize("lang, trained_on", LANGUAGES)
def test_another_language_is_one_warning(tmp_path, how, lang, trained_on):
    path = write_bilm(tmp_path / "bilm", lang=trained_on)
    nlp = spacy.blank(lang)
    elmo = nlp.add_pipe("elmo", config={"weights": str(path)} if how == "setting" else {})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        if how == "load_weights":
            elmo.load_weights(path)
        elif how == "loader":
            loader = {"@misc": "spacy-elmo.BiLMLoader.v1", "path": str(path)}
            nlp.config["initialize"]["components"]["elmo"] = {"loader": loader}
            nlp.initialize()
        nlp(TEXT), nlp(TEXT)
    messages = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
    assert len(messages) == (lang == "ru") and all(re.search(LANGUAGE, message) for message in messages)


# Another working directory


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Go to the folder of the biLM, and later to another one."""
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    return lambda: monkeypatch.chdir(tmp_path / "other")


@pytest.mark.parametrize("name", ["bilm", "./bilm", "other/../bilm", "~/bilm"])
def test_a_path_of_the_config_means_the_same_in_another_folder(name, path, elsewhere, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    nlp, copied, loaded = (spacy.blank("en") for _ in range(3))
    nlp.add_pipe("elmo", config={"weights": name})
    loader, surprisal = BiLMLoader(name), ElmoSurprisal(weights=name)
    elsewhere()
    copied.add_pipe("elmo", source=nlp)
    loaded.add_pipe("elmo").initialize(lambda: [make_example(loaded)], loader=loader)
    for each in (copied, pickle.loads(pickle.dumps(nlp)), nlp, loaded):
        check(each)
    with pytest.raises(ValueError, match="EL007"):  # read, and without a softmax
        surprisal.bilm  # noqa: B018
    assert nlp.config["components"]["elmo"]["weights"] == name  # the config stays portable
    nlp.to_disk(tmp_path / "saved")
    assert Config().from_disk(tmp_path / "saved" / "config.cfg")["components"]["elmo"]["weights"] == name
    check(spacy.load(tmp_path / "saved"))


@pytest.mark.parametrize(
    "convert", [os.fsencode, Path, str, os.path.relpath], ids=["bytes", "Path", "text", "relative"]
)
def test_weights_are_loaded_from_paths_of_every_type(convert, path):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo").load_weights(convert(path))
    check(nlp)
