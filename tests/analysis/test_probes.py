"""Probes find what is in the vectors, controls only what a word is."""

import numpy as np
import pytest

from spacy_elmo.analysis import vectors as vectors_module
from spacy_elmo.analysis.labelled import LabelledDocs, label_tokens
from spacy_elmo.analysis.probes import (
    control_labels,
    fit_probe,
    majority_baseline,
    probe_layers,
    word_baseline,
)

from .labelled_texts import WIDTH, make_bilm, make_doc

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


@pytest.mark.issue(16)
@pytest.mark.parametrize("n_labels", [2, 5])
def test_probe_finds_labels_that_are_linear_in_vectors(n_labels: int) -> None:
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(n_labels, 8))
    scales = np.asarray([1e-3, 1, 1, 10, 1, 1, 1, 0])  # of different sizes, the last one constant
    plain = rng.normal(size=(600, 8))
    labels = [f"label {i}" for i in (plain @ directions.T).argmax(axis=1)]
    vectors = (plain * scales + 3).astype("float32")
    probe = fit_probe(vectors[:500], labels[:500], c=100.0)
    found = probe.predict(vectors[500:])
    assert probe.is_converged and probe.labels == sorted(set(labels))
    assert probe.weights.shape == (n_labels, 8)
    assert np.mean([a == b for a, b in zip(found, labels[500:])]) > (0.5 if n_labels > 2 else 0.7)
    assert np.mean([a == b for a, b in zip(probe.predict(vectors[:500]), labels[:500])]) > 0.6


@pytest.mark.issue(16)
def test_probe_equals_scikit_learn_on_standardized_vectors() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(1)
    vectors = (rng.normal(size=(200, 6)) * 5 + 2).astype("float32")
    labels = rng.choice(["a", "b", "c"], size=200).tolist()
    reference = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(vectors, labels)
    assert fit_probe(vectors, labels).predict(vectors) == reference.predict(vectors).tolist()


@pytest.mark.issue(16)
def test_stopped_probe_says_so() -> None:
    vectors = np.random.default_rng(0).normal(size=(50, 4)).astype("float32")
    probe = fit_probe(vectors, ["a", "b"] * 25, max_iter=1)
    assert not probe.is_converged and probe.n_iter == 1


@pytest.mark.issue(16)
def test_layers_are_probed_with_controls(train: LabelledDocs, test_docs: LabelledDocs) -> None:
    found = probe_layers(make_bilm(), train, test_docs, control_seeds=(0, 1))
    assert [probe.layer for probe in found] == [0, 1, 2, "mean"]
    for probe in found:
        assert len(probe.control) == 2 and probe.is_converged and probe.n_iter > 0
        assert probe.accuracy.n == 4 and probe.accuracy.low <= probe.accuracy.value <= probe.accuracy.high
        assert probe.selectivity == pytest.approx(probe.accuracy.value - np.mean(probe.control))
    (only,) = probe_layers(make_bilm(), train, test_docs, layers=[1], control_seeds=())
    assert only.layer == 1 and only.accuracy == found[1].accuracy and np.isnan(only.selectivity)


@pytest.mark.issue(16)
def test_token_layer_cannot_tell_two_uses_of_a_word(train: LabelledDocs) -> None:
    """Layer 0 depends on the word alone, so that a probe gives each word one label."""
    twice = label_tokens([make_doc([("the", "DET"), ("cat", "NOUN")], [("cat", "VERB")])], "pos")
    (probe,) = probe_layers(make_bilm(), train, twice, layers=[0], control_seeds=())
    assert probe.accuracy.value == pytest.approx(2 / 3)


@pytest.mark.issue(16)
def test_control_gives_a_word_one_label(train: LabelledDocs, test_docs: LabelledDocs) -> None:
    known, asked = control_labels(train, test_docs, 0)
    labels = {}
    for word, label in zip([*train.words(), *test_docs.words()], [*known, *asked]):
        assert labels.setdefault(word, label) == label
    assert set(labels.values()) <= set(train.labels)
    assert control_labels(train, test_docs, 0) == (known, asked) != control_labels(train, test_docs, 1)


@pytest.mark.issue(16)
def test_baselines_see_no_vector(train: LabelledDocs, test_docs: LabelledDocs) -> None:
    assert majority_baseline(train, test_docs).value == 0.25
    # "flew" is not known: the most frequent label, DET or NOUN, is wrong.
    assert word_baseline(train, test_docs).value == 0.5


@pytest.mark.issue(16)
def test_probe_needs_labels_and_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.zeros((3, WIDTH), dtype="float32")
    with pytest.raises(ValueError, match=r"A probe cannot be trained on.*1 different labels \(a\)"):
        fit_probe(vectors, ["a"] * 3)
    monkeypatch.setattr(vectors_module, "has_sklearn", False)
    with pytest.raises(ValueError, match="A linear probe needs scikit-learn.*spacy-elmo.analysis"):
        fit_probe(vectors, ["a", "b", "a"])
