"""Entailment: attention and pooling, and the recipe as a whole."""

import pytest
import torch
from examples.writing import write_jsonl, write_parts

LINES = [
    {"premise_words": premise.split(), "hypothesis_words": hypothesis.split(), "label": label}
    for premise, hypothesis, label in [
        ("A man sleeps .", "A man is awake .", "contradiction"),
        ("Two dogs run in a field .", "Animals run .", "entailment"),
        ("A woman reads", "A woman reads a novel at home", "neutral"),
    ]
]


@pytest.fixture
def nli(load_recipe):
    return load_recipe("nli")


def test_scores_do_not_depend_on_padding(nli, read_lines, tiny_bilm):
    torch.manual_seed(0)
    pairs = read_lines(nli.read_pairs, LINES)
    layers = nli.FrozenLayers(str(tiny_bilm), [text for pair in pairs for text in pair[:2]])
    for given in (None, layers):
        model = nli.ESIM(given).eval()
        together = model(pairs)
        assert together.shape == (3, 3)
        for pair, scores in zip(pairs, together):
            torch.testing.assert_close(model([pair])[0], scores, atol=1e-5, rtol=0.0)


def test_recipe_prints_scores_of_both_conditions(run_recipe, tiny_bilm, tmp_path):
    write_parts(tmp_path / "data" / "snli-cad", LINES)
    write_parts(tmp_path / "data" / "sick", LINES)
    write_jsonl(tmp_path / "data" / "breaking-nli" / "test.jsonl.gz", LINES)
    printed = run_recipe("nli", "--data", tmp_path / "data", "--bilm", tiny_bilm, "--epochs", 1, "--seeds", 1)
    for name in ("snli-cad, test", "breaking-nli, entailment", "breaking-nli, contradiction", "sick, test"):
        assert printed.count(f"\n{name}") == 2


@pytest.mark.issue(42)
def test_n_grams_are_scored_without_a_network(run_recipe, load_recipe, tmp_path, monkeypatch):
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    for task in ("snli-cad", "sick"):
        write_parts(tmp_path / task, 10 * LINES)
    monkeypatch.setattr(load_recipe("nli"), "FrozenLayers", lambda *_: pytest.fail("layers are computed"))
    printed = run_recipe("nli", "--data", tmp_path, "--n-grams").splitlines()
    rows = [
        f"{model}, {kind}"
        for kind in ("hypothesis", "differing words", "pair")
        for model in ("naive Bayes", "regression")
    ]
    assert [line.rsplit(maxsplit=1)[0].split("  ")[-1].strip() for line in printed] == 2 * rows
    assert {line.split()[-1] for line in printed} == {"100.00"}  # the test part has the pairs of the training part
