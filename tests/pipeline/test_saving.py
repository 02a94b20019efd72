"""Pipelines to bytes and disk, pickled, sourced, with replaced listeners."""

import json
import pickle
from pathlib import Path

import numpy
import pytest
import spacy
import torch

from spacy_elmo import load_bilm
from spacy_elmo.pipeline.layer_weights import find_task_mixes
from spacy_elmo.pipeline.model import make_random_bilm

from .tiny import (
    BILM,
    LISTENER,
    N_LAYERS,
    WIDTH,
    are_equal,
    get_bilm_weights,
    listening,
    make_examples,
    make_tagger,
    train,
    with_elmo,
)

TEXT = "She sat on the bank of the river."


def check_same(one, two, text=TEXT):
    a, b = one(text), two(text)
    numpy.testing.assert_allclose(a._.elmo_layers, b._.elmo_layers, atol=1e-6)
    assert [token.tag_ for token in a] == [token.tag_ for token in b]


def test_frozen_packaged_bilm_is_saved_by_its_name(tmp_path):
    nlp = spacy.blank("en")
    elmo = nlp.add_pipe("elmo", config={"weights": "en_elmo_sm"})
    nlp.add_pipe("tagger", config=listening())
    nlp.initialize(lambda: make_examples(nlp))
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline")
    loaded.to_disk(tmp_path / "again")
    for one in (loaded, spacy.load(tmp_path / "again"), pickle.loads(pickle.dumps(loaded))):
        check_same(nlp, one)
    model = tmp_path / "again" / "elmo" / "model"
    assert model.stat().st_size < 10_000
    assert load_bilm(tmp_path / "again").digest == load_bilm("en_elmo_sm").digest
    loaded.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    assert len(loaded.get_pipe("tagger").model.to_bytes()) < 100_000
    check_same(loaded, pickle.loads(pickle.dumps(loaded)))
    # Weights without a name, and weights that training may change or a user has changed, are saved themselves.
    for other in ({}, {"weights": "en_elmo_sm", "model": {"frozen": False}}):
        assert len(spacy.blank("en").add_pipe("elmo", config=other).to_bytes()) > 10_000_000
    bias = loaded.get_pipe("elmo").model.shims[0].bilm.network.get_parameter("char_cnn.highways.0.bias")
    with torch.no_grad():
        bias += 0.1
    loaded.to_disk(tmp_path / "changed")
    check_same(loaded, spacy.load(tmp_path / "changed"))
    nlp.remove_pipe("tagger")
    elmo.initialize(lambda: [], loader=lambda: make_random_bilm(BILM, 1))  # not what the name stands for
    assert elmo.from_bytes(elmo.to_bytes()).sizes == (N_LAYERS, WIDTH)

    digest = load_bilm("en_elmo_sm").digest
    content = model.read_bytes()
    for old, new, named in ((digest, "0" * len(digest), digest), ("en_elmo_sm", "en_elmo_md", "has en_elmo_sm")):
        model.write_bytes(content.replace(old.encode(), new.encode()))
        for load in (spacy.load, load_bilm):
            with pytest.raises(ValueError, match=f"was saved with.*{named}.*Install spacy-elmo"):
                load(tmp_path / "again")


def test_settings_that_are_changed_on_loading_leave_weights_and_listeners(tmp_path):
    nlp = make_tagger()
    train(nlp)
    nlp.to_disk(tmp_path / "pipeline")
    changed = {"components": {"elmo": {"model": {"batch_tokens": 7, "contexts": "doc"}}}}
    loaded = spacy.load(tmp_path / "pipeline", config=changed)
    check_same(nlp, loaded)
    elmo = loaded.get_pipe("elmo")
    assert elmo.to_bytes() == nlp.get_pipe("elmo").to_bytes() and elmo.listening_components == ["tagger"]
    assert elmo.model.attrs["settings"].batch_tokens == 7


def test_model_bytes_are_written_and_read_without_pickle(monkeypatch):
    def fail(*args, **settings):
        raise AssertionError("pickled")

    model = make_tagger().get_pipe("elmo").model
    for module, names in ((pickle, ("dumps", "loads")), (torch, ("save", "load"))):
        for name in names:
            monkeypatch.setattr(module, name, fail)
    data = model.to_bytes()
    assert model.from_bytes(data) is model and b"PK\x03\x04" not in data and b"torch" not in data


def test_components_are_sourced_by_code_and_through_the_config(tmp_path):
    source, nlp = make_tagger(), spacy.blank("en")
    train(source)
    source.to_disk(tmp_path / "source")
    for name in ("elmo", "tagger"):
        nlp.add_pipe(name, source=source)
    check_same(source, nlp)
    assert nlp.get_pipe("elmo").listening_components == ["tagger"]
    nlp.to_disk(tmp_path / "pipeline")
    check_same(source, spacy.load(tmp_path / "pipeline"))
    config = {
        "nlp": {"lang": "en", "pipeline": ["elmo", "tagger", "ner"]},
        "components": {
            "elmo": {"source": str(tmp_path / "source")},
            "tagger": {"source": str(tmp_path / "source")},
            "ner": {"factory": "ner", "model": {"tok2vec": LISTENER}},
        },
    }
    nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    with nlp.select_pipes(enable=["ner"]):
        nlp.initialize(lambda: make_examples(nlp))
    check_same(source, nlp)
    before = get_bilm_weights(nlp)
    train(nlp, exclude=["elmo", "tagger"], annotates=["elmo"])
    check_same(source, nlp)
    assert are_equal(get_bilm_weights(nlp), before)
    assert set(nlp.get_pipe("elmo").listening_components) == {"tagger", "ner"}


def test_memory_zone():
    nlp = make_tagger()
    expected = nlp("Unseen wordforms within zones")._.elmo.copy()
    for _ in range(2):
        with nlp.memory_zone():
            docs = list(nlp.pipe(["Unseen wordforms within zones", "another zoneword"] * 3))
            numpy.testing.assert_allclose(docs[2]._.elmo, expected, atol=1e-6)
            numpy.testing.assert_allclose(docs[2][1]._.elmo, expected[1], atol=1e-6)
    numpy.testing.assert_allclose(nlp("Unseen wordforms within zones")._.elmo, expected, atol=1e-6)


def test_settings_that_do_not_fit_are_no_damage(tmp_path):
    nlp = with_elmo(model={"frozen": False, "fine_tuning": {"@misc": "spacy-elmo.FineTuning.v1"}})
    nlp.to_disk(tmp_path)
    with pytest.raises(ValueError, match="cannot be read.*fine_tuning.layers names"):
        spacy.load(tmp_path, config={"components.elmo.model.fine_tuning.layers": [7]})


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "overwritten"])
def test_damaged_weights_of_a_saved_pipeline_are_told(damage, tmp_path):
    nlp = with_elmo()
    nlp.to_disk(tmp_path)
    path = tmp_path / "elmo" / "model"
    data = path.read_bytes()
    start = data.index(b"projection")
    damaged = {"empty": b"", "cut": data[:-100], "overwritten": data[:start] + bytes(50) + data[start + 50 :]}
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(damaged[damage])
    kind = FileNotFoundError if damage == "missing" else ValueError
    with pytest.raises(kind, match=r"'elmo' cannot be read from '.*elmo'"):
        spacy.load(tmp_path)


@pytest.mark.parametrize(
    "settings, shares",
    [
        ({"mix": "top"}, [0, 0, 1]),
        ({"mix": "mean"}, [1 / 3, 1 / 3, 1 / 3]),
        ({"mix": "fixed", "initial_weights": [0.0, 100.0, 0.0]}, [0, 1, 0]),
    ],
)
def test_a_mix_that_is_changed_on_loading_has_an_effect(settings, shares, tmp_path):
    nlp = make_tagger({**LISTENER, "layer_norm": None})
    train(nlp)
    nlp.to_disk(tmp_path / "one")
    changed = {f"components.tagger.model.tok2vec.{name}": value for name, value in settings.items()}
    spacy.load(tmp_path / "one", config=changed).to_disk(tmp_path / "two")
    for loaded in (spacy.load(tmp_path / "one", config=changed), spacy.load(tmp_path / "two")):
        (mix,) = find_task_mixes(loaded)
        numpy.testing.assert_allclose(mix.shares, shares, atol=1e-6)
        doc = loaded(TEXT)
        (vectors,) = loaded.get_pipe("tagger").model.get_ref("tok2vec").predict([doc])
        wanted = mix.gamma * numpy.einsum("l,ltd->td", shares, doc._.elmo_layers)
        numpy.testing.assert_allclose(vectors, wanted, atol=1e-5)
    block = "components.tagger.model.tok2vec"
    nlp = spacy.load(tmp_path / "one", config={f"{block}.mix": "fixed", f"{block}.initial_weights": [0.0, 1.0]})
    with pytest.raises(ValueError, match="initial_weights has 2 weights.*3 layers"):
        nlp(TEXT)


def test_concatenated_layers_are_trained_saved_and_replaced(tmp_path):
    nlp = make_tagger({**LISTENER, "mix": "concat", "layer_norm": None})
    train(nlp)
    nlp.to_disk(tmp_path / "one")
    loaded = spacy.load(tmp_path / "one")
    doc = loaded(TEXT)
    (vectors,) = loaded.get_pipe("tagger").model.get_ref("tok2vec").predict([doc])
    (mix,) = find_task_mixes(loaded)
    wanted = mix.gamma * numpy.concatenate(doc._.elmo_layers, axis=1)
    numpy.testing.assert_allclose(vectors, wanted, atol=1e-6)
    tags = [token.tag_ for token in doc]
    loaded.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    assert [token.tag_ for token in loaded(TEXT)] == tags == [token.tag_ for token in nlp(TEXT)]
    with pytest.raises(ValueError, match=r"'learned|\"learned.*gives vectors of width.*Use the `mix` of the training"):
        spacy.load(tmp_path / "one", config={"components.tagger.model.tok2vec.mix": "learned"})(TEXT)


# Files of commit 148bc93b load and give the same numbers


# tests/fixtures/pipeline_148bc93b was trained for 15 updates on `tiny.make_examples`: a biLM that is trained with
# `fine_tuning`, an NER on a listener with a mix of its own, a tagger on a task encoder with a BiLSTM, a `crf_ner` on
# joined vectors, and a text classifier with a frozen biLM of its own (`ElmoTok2Vec`). Names of settings and the
# digest of the biLM, which have changed since, are those of today.
FIXTURES = Path(__file__).parents[1] / "fixtures"
FOUND = json.loads((FIXTURES / "results_148bc93b.json").read_text(encoding="utf8"))


@pytest.mark.filterwarnings("ignore:.*W095")  # it was trained with spaCy 3.8.18
@pytest.mark.parametrize("is_copied", [False, True])
def test_a_pipeline_gives_the_same_vectors_annotations_and_scores(is_copied):
    nlp = spacy.load(FIXTURES / "pipeline_148bc93b")
    if is_copied:
        nlp = spacy.blank("xx").from_config(nlp.config).from_bytes(nlp.to_bytes())
    for doc, wanted in zip(nlp.pipe(FOUND["texts"]), FOUND["docs"]):
        numpy.testing.assert_allclose(doc._.elmo, numpy.reshape(wanted["elmo"], (len(doc), 16)), atol=2e-6)
        if any(token.is_space for token in doc):
            continue  # encoders of tasks read white space then
        assert [token.tag_ for token in doc] == wanted["tags"]
        assert [[ent.start, ent.end, ent.label_] for ent in doc.ents] == wanted["ents"]
        assert doc.cats == pytest.approx(wanted["cats"], abs=2e-6)
        if len(doc):
            scores = {
                "tagger": nlp.get_pipe("tagger").model.predict([doc])[0],
                "ner": nlp.get_pipe("ner").model.get_ref("tok2vec").predict([doc])[0],
                "crf_ner": nlp.get_pipe("crf_ner").model.predict([doc]).emissions[0],
            }
            for name, rows in wanted["scores"].items():
                numpy.testing.assert_allclose(scores[name], rows, atol=1e-5, err_msg=name)


@pytest.mark.filterwarnings("ignore:.*W095")  # it was trained with spaCy 3.8.18
def test_a_pipeline_can_be_trained_further():
    nlp = spacy.load(FIXTURES / "pipeline_148bc93b")
    before = nlp(FOUND["texts"][0])._.elmo.copy()
    losses = train(nlp, 2)
    assert numpy.isfinite(list(losses.values())).all()
    assert abs(nlp(FOUND["texts"][0])._.elmo - before).max() > 0


def test_a_bilm_gives_the_same_vectors():
    stacks = load_bilm(FIXTURES / "bilm_148bc93b").embed(FOUND["sentences"])
    for stack, wanted in zip(stacks, FOUND["stacks"], strict=True):
        numpy.testing.assert_allclose(stack, wanted, atol=2e-6)
