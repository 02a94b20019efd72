"""What the recipes share."""

import argparse

import pytest
import torch
from nn.tiny import SENTENCES

from spacy_elmo.nn import Elmo


@pytest.fixture
def common(load_recipe):
    return load_recipe("_common")


def test_frozen_layers_are_those_of_the_module(common, tiny_bilm):
    sentences = [words for words in SENTENCES if words]
    layers = common.FrozenLayers(str(tiny_bilm), sentences)
    elmo = layers.new_mixes(2, dropout=0.0)
    output = elmo.mix(*layers(sentences[::-1]))
    wanted = Elmo(elmo.bilm, 1, dropout=0.0)(sentences[::-1])
    assert torch.equal(output.mask, wanted.mask) and len(output.representations) == 2
    torch.testing.assert_close(output.representations[1], wanted.representations[0], atol=2e-3, rtol=0.0)


def test_word_features_are_zero_behind_a_sentence_and_the_same_everywhere(common):
    features = common.WordFeatures(8)
    vectors = features([["The", "bank", "of", "the"], ["bank"]])
    assert vectors.shape == (2, 4, 8) and not vectors[1, 1:].any()
    torch.testing.assert_close(vectors[0, 1], vectors[1, 0])
    assert not torch.equal(vectors[0, 0], vectors[0, 3])  # The, the


def test_batches_have_every_item_once_and_similar_lengths(common):
    items = [list(range(n)) for n in range(23)]
    batches = list(common.make_batches(items, 5, len))
    assert sorted(len(item) for batch in batches for item in batch) == list(range(23))
    assert max(max(map(len, batch)) - min(map(len, batch)) for batch in batches) == 4
    torch.manual_seed(1)
    first = list(common.make_batches(items, 5, len))
    torch.manual_seed(1)
    assert first == list(common.make_batches(items, 5, len))


def test_training_stops_early_and_keeps_the_best_weights(common, capsys):
    model, scores = torch.nn.Linear(1, 1), iter([1.0, 3.0, 2.0, 2.5, 9.0])
    seen = []

    def score():
        seen.append(model.weight.item())
        return next(scores)

    common.train(model, lambda: [1.0], lambda x: model(torch.ones(1, 1)).sum(), score, epochs=5)
    assert len(seen) == 4 and model.weight.item() == pytest.approx(seen[1])
    assert "epoch 2: loss" in capsys.readouterr().out


@pytest.mark.parametrize("option, conditions", [("", [False, True]), ("with_elmo", [True]), ("without_elmo", [False])])
def test_conditions_and_seeds_that_are_run(common, capsys, option, conditions):
    arguments = argparse.Namespace(seeds=2, with_elmo=option == "with_elmo", without_elmo=option == "without_elmo")
    seen = []

    def run(with_elmo):
        seen.append((with_elmo, torch.rand(1).item()))
        return {"score": 50.0 + with_elmo}

    common.compare(arguments, run)
    assert [with_elmo for with_elmo, _ in seen] == [condition for condition in conditions for _ in range(2)]
    assert len({number for _, number in seen}) == 2  # the same two seeds in each condition
    assert capsys.readouterr().out.count("(5") == len(conditions)
