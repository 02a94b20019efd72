"""Cutting rows of short words changes no vector."""

import pytest
import torch

from spacy_elmo.bilm.char_cnn import MIN_BUCKET, CharCNN
from spacy_elmo.bilm.config import CharCNNConfig
from spacy_elmo.text.characters import character_ids


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("max_characters", [12, 50])
def test_cut_rows_give_the_same_vectors(activation, max_characters):
    torch.manual_seed(0)
    config = CharCNNConfig(4, ((1, 3), (3, 4), (7, 5)), activation, 1, max_characters)
    char_cnn = CharCNN(config, 6)
    words = sorted(["", "a", "of", "x" * 60, *("w" * (i % 48) + str(i) for i in range(4 * MIN_BUCKET))], key=len)
    ids = torch.from_numpy(character_ids(words, max_characters))
    lengths = (ids != 261).sum(dim=1).tolist()
    with torch.no_grad():
        torch.testing.assert_close(char_cnn(ids, lengths), char_cnn(ids), rtol=0, atol=1e-6)


def test_no_word_gives_no_vector():
    char_cnn = CharCNN(CharCNNConfig(4, ((1, 3),), "relu", 0, 12), 6)
    assert char_cnn(torch.zeros(0, 12, dtype=torch.long), []).shape == (0, 6)


def test_new_weights_are_drawn_as_documented():
    torch.manual_seed(0)
    char_cnn = CharCNN(CharCNNConfig(16, ((2, 300),), "relu", 1, 50), 64)
    assert (char_cnn.embedding[0] == 0).all() and char_cnn.embedding.abs().max() <= 1
    assert char_cnn.filters[0].weight.abs().max() <= 0.05
    bias = char_cnn.highways[0].bias
    assert (bias[:300] == 0).all() and (bias[300:] == -2).all()
    assert abs(float(char_cnn.highways[0].weight.detach().std()) - 300**-0.5) < 0.002
