"""What the recipes share."""

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


def test_training_stops_early_and_keeps_the_best_weights(common, capsys):
    model, scores = torch.nn.Linear(1, 1), iter([1.0, 3.0, 2.0, 2.5, 9.0])
    seen = []

    def score():
        seen.append(model.weight.item())
        return next(scores)

    common.train(model, lambda: [1.0], lambda x: model(torch.ones(1, 1)).sum(), score, epochs=5)
    assert len(seen) == 4 and model.weight.item() == pytest.approx(seen[1])
    assert "epoch 2: loss" in capsys.readouterr().out
