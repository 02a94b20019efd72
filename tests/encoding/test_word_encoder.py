"""The cache of word vectors: bounded whatever happens, and never wrong."""

import pytest
import torch

from spacy_elmo.bilm.config import BiLMConfig, CharCNNConfig
from spacy_elmo.bilm.model import BiLMNetwork
from spacy_elmo.encoding.facade import BiLM

CONFIG = BiLMConfig(
    char_cnn=CharCNNConfig(embedding_width=4, filters=((1, 8), (2, 8)), n_highway=1),
    n_layers=1,
    cell_width=8,
    projection_width=6,
)
BYTES_PER_WORD = 4 * CONFIG.projection_width
WORDS = [f"w{i}" for i in range(500)]


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    return BiLM(BiLMNetwork(CONFIG))._encoder.words


@pytest.mark.parametrize("n_words", [0, 1, 3, 400, 499])
def test_lower_bound_of_the_cache_evicts_at_once(encoder, n_words):
    wanted = encoder.encode(WORDS).clone()
    encoder.cache.touch(WORDS[:1])
    encoder.cache.max_bytes = n_words * BYTES_PER_WORD
    assert len(encoder.cache) == n_words
    assert encoder.cache._table.untyped_storage().nbytes() <= encoder.cache.max_bytes
    if n_words:
        assert not encoder.cache.missing(WORDS[:1])  # the one used last
    for words in (WORDS, WORDS[-2:], WORDS[:2], ["new", "words"], WORDS[:3]):
        torch.testing.assert_close(encoder.encode(words), encoder.spell(words))
        assert len(encoder.cache) <= n_words
        assert encoder.cache._table.untyped_storage().nbytes() <= encoder.cache.max_bytes
    torch.testing.assert_close(encoder.encode(WORDS), wanted)


def test_higher_bound_of_the_cache_keeps_what_it_holds(encoder):
    encoder.encode(WORDS)
    encoder.cache.max_bytes *= 2
    assert not encoder.cache.missing(WORDS)
