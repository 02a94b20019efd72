"""Probes find what is in the vectors, controls only what a word is; every score stands beside its baselines."""

import numpy as np
import pytest
import spacy
from nn.tiny import SIZES, WIDTH
from spacy.training import Example

from spacy_elmo.analysis.labelled_docs import LabelledDocs, ProbeData, label_tokens
from spacy_elmo.analysis.probes import (
    fit_probe,
    is_pipeline,
    iter_probes,
    majority_baseline,
    open_pipeline,
    parse_layers,
    probe_data,
    probe_layers,
    word_baseline,
)
from spacy_elmo.pipeline.model import ElmoSettings
from spacy_elmo.weights import save_bilm

from .labelled_texts import make_bilm, make_doc

pytest.importorskip("sklearn", reason="needs scikit-learn")
TRAIN = [
    [("the", "DET"), ("cat", "NOUN"), ("sat", "VERB")],
    [("a", "DET"), ("cat", "NOUN"), ("ran", "VERB")],
    [("the", "DET"), ("dog", "NOUN")],
] * 3
TEST = [[("the", "DET"), ("cat", "NOUN"), ("flew", "VERB")], [("dog", "VERB")]]


@pytest.fixture(scope="module")
def train() -> LabelledDocs:
    return label_tokens([make_doc(*TRAIN)], "pos")


@pytest.fixture(scope="module")
def test_docs() -> LabelledDocs:
    return label_tokens([make_doc(*TEST)], "pos")


def test_probe_equals_scikit_learn_on_standardized_vectors() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(1)
    vectors = (rng.normal(size=(200, 6)) * 5 + 2).astype("float32")
    labels = rng.choice(["a", "b", "c"], size=200).tolist()
    reference = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(vectors, labels)
    assert fit_probe(vectors, labels).predict(vectors) == reference.predict(vectors).tolist()
    stopped = fit_probe(vectors, labels, max_iter=1)
    assert not stopped.is_converged and stopped.n_iter == 1


def test_layers_are_probed_with_controls(train: LabelledDocs, test_docs: LabelledDocs) -> None:
    found = probe_layers(make_bilm(), train, test_docs, control_seeds=(0, 1))
    assert [probe.layer for probe in found] == [0, 1, 2, "mean"]
    for probe in found:
        assert len(probe.control) == 2 and probe.is_converged and probe.n_iter > 0
        assert probe.accuracy.n == 4 and probe.accuracy.low <= probe.accuracy.value <= probe.accuracy.high
        assert probe.selectivity == pytest.approx(probe.accuracy.value - np.mean(probe.control))
    (only,) = probe_layers(make_bilm(), train, test_docs, layers=[1], control_seeds=())
    assert only.layer == 1 and only.accuracy == found[1].accuracy and np.isnan(only.selectivity)
    # The baselines see no vector; "flew" is not known: the most frequent label, DET or NOUN, is wrong.
    assert majority_baseline(train, test_docs).value == 0.25 and word_baseline(train, test_docs).value == 0.5
    record = probe_data(
        make_bilm(), ProbeData("pos", train, test_docs, False, 0), layers=[0, "mean"], control_seeds=[0, 1]
    )
    assert (record["n_train"], record["n_test"], record["n_labels"]) == (24, 4, 3)
    baselines = {name: score["value"] for name, score in record["baselines"].items()}
    assert baselines == {"majority": 0.25, "word": 0.5}
    assert [row["layer"] for row in record["layers"]] == [0, "mean"]
    assert all(len(row["control"]) == 2 and 0 <= row["nearest"]["low"] <= 1 for row in record["layers"])


def test_token_layer_cannot_tell_two_uses_of_a_word(train: LabelledDocs) -> None:
    """Layer 0 depends on the word alone, so that a probe gives each word one label."""
    twice = label_tokens([make_doc([("the", "DET"), ("cat", "NOUN")], [("cat", "VERB")])], "pos")
    (probe,) = iter_probes(make_bilm(), train, twice, layers=[0], control_seeds=[], with_nearest=True)
    assert probe.accuracy.value == pytest.approx(2 / 3) == probe.nearest.value


def test_probe_needs_labels() -> None:
    vectors = np.zeros((3, WIDTH), dtype="float32")
    with pytest.raises(ValueError, match=r"A probe cannot be trained on.*1 different labels \(a\)"):
        fit_probe(vectors, ["a"] * 3)


def test_component_with_a_biLM_of_its_own_is_probed(tmp_path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": {"contexts": "doc"}})
    listener = {"@architectures": "spacy-elmo.ElmoListener.v1"}
    nlp.add_pipe("tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}})
    nlp.config["initialize"]["components"]["elmo"] = {"loader": {"@misc": "spacy-elmo.RandomBiLM.v1", "bilm": SIZES}}
    examples = [Example.from_dict(nlp.make_doc("the bank"), {"tags": ["DT", "NN"]})]
    nlp.initialize(lambda: examples)
    words = [["the", "bank"]]
    wanted = open_pipeline_of(nlp, tmp_path / "listening").encode(words)
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    nlp.remove_pipe("elmo")
    np.testing.assert_array_equal(open_pipeline_of(nlp, tmp_path / "replaced").encode(words), wanted)


def open_pipeline_of(nlp, path):
    nlp.to_disk(path)
    opened = open_pipeline(path)
    assert opened.reading == ElmoSettings(contexts="doc")
    return opened.bilm


def test_pipeline_brings_its_biLM_and_its_reading(tmp_path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": {"contexts": "doc", "state": "carry"}}).initialize(
        lambda: [], loader=make_bilm
    )
    nlp.config["initialize"]["components"]["elmo"] = {"loader": {"@misc": "spacy-elmo.RandomBiLM.v1", "bilm": SIZES}}
    nlp.to_disk(tmp_path / "pipeline")
    opened = open_pipeline(str(tmp_path / "pipeline"))
    assert opened.reading == ElmoSettings(contexts="doc", state="carry")
    words = [["the", "bank"]]
    np.testing.assert_array_equal(opened.bilm.encode(words).numpy(), make_bilm().encode(words).numpy())
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(ValueError, match="has no component `elmo`.*none"):
        open_pipeline(str(tmp_path / "blank"))
    save_bilm(make_bilm(), tmp_path / "bilm")
    assert open_pipeline(str(tmp_path / "bilm")).reading is None
    assert not is_pipeline("en_elmo_sm") and not is_pipeline(str(tmp_path))
    assert parse_layers(None, make_bilm()) == [0, 1, 2, "mean"] and parse_layers("mean, 1,1", make_bilm()) == [
        "mean",
        1,
    ]
    with pytest.raises(ValueError, match="Unknown layer.*'3'.*0, 1, 2, mean"):
        parse_layers("0,3", make_bilm())
