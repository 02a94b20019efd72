"""A word has the same vector, to the last bit, whatever it is computed with."""

import pytest
import torch
from unicode_texts import random_words

from spacy_elmo.bilm.char_cnn import CharCNN
from spacy_elmo.bilm.config import CharCNNConfig
from spacy_elmo.inference.words import ConstantWords
from spacy_elmo.text.characters import Utf8Codec

# Sums over 1,024 features: BLAS splits these.
CONFIG = CharCNNConfig(filters=((1, 64), (3, 192), (7, 768)), n_highway=1)
WORDS = [*"abcdefgh", "the", "", *random_words(40)]


def encode(char_cnn, words):
    ids, lengths = Utf8Codec(50).encode(words)
    return char_cnn(torch.from_numpy(ids), lengths.tolist())


@pytest.fixture(scope="module")
def char_cnn():
    torch.manual_seed(0)
    return CharCNN(CONFIG, 32)


@pytest.mark.parametrize("n_words", [1, 2, 3, 9, 20])
def test_vectors_are_bit_identical_in_every_batch(char_cnn, n_words):
    constant = ConstantWords(char_cnn)
    whole = encode(constant, WORDS)
    parts = [encode(constant, WORDS[i : i + n_words]) for i in range(0, len(WORDS), n_words)]
    assert torch.equal(torch.cat(parts), whole)


@torch.no_grad()
def test_vectors_are_those_of_the_network(char_cnn):
    constant = ConstantWords(char_cnn)
    constant.prepare()
    torch.testing.assert_close(encode(constant, WORDS), encode(char_cnn, WORDS), atol=1e-5, rtol=0)


def test_float64_goes_without_packing(char_cnn):
    """No prepacked products there: torch's own."""
    double = CharCNN(CONFIG, 32).double()
    double.load_state_dict(char_cnn.state_dict())
    found = encode(ConstantWords(double), WORDS)
    assert found.dtype is torch.float64
    torch.testing.assert_close(found.float(), encode(ConstantWords(char_cnn), WORDS), atol=1e-5, rtol=0)
