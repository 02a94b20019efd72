"""The module for plain PyTorch with a transformer biLM."""

import torch
from transformers_tiny import SENTENCES, make_transformer

from spacy_elmo.nn import Elmo


def test_vectors_do_not_depend_on_the_batch():
    elmo = Elmo(make_transformer(), 1, dropout=0.0)
    together = elmo(SENTENCES)
    for words, row, kept in zip(SENTENCES, together.representations[0], together.mask):
        assert int(kept.sum()) == len(words)
        if words:
            alone = elmo([words]).representations[0][0]
            torch.testing.assert_close(row[: len(words)], alone, rtol=0, atol=1e-5)


def test_gradients_reach_every_layer():
    elmo = Elmo(make_transformer(), 1, trainable=True, dropout=0.0)
    elmo(SENTENCES).representations[0].pow(3).sum().backward()
    assert all(parameter.grad is not None for parameter in elmo.parameters())
