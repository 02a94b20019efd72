"""Word vectors, and their gradients."""

import pytest
import torch

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.model import BiLMNetwork


@pytest.mark.parametrize("is_sparse", [True, False])
def test_gradients_of_words_are_the_same_where_they_are_sparse(is_sparse):
    network = BiLMNetwork(BiLMConfig(n_words=9, n_layers=1, cell_width=6, projection_width=4))
    network.sparse_words = is_sparse
    ids, d_vectors = torch.tensor([2, 7, 2]), torch.randn(3, 4)
    network.word_vectors(ids).backward(d_vectors)
    grad = network.word_embedding.grad
    assert grad.is_sparse == is_sparse
    wanted = torch.zeros(9, 4).index_add_(0, ids, d_vectors)
    torch.testing.assert_close(grad.to_dense() if is_sparse else grad, wanted)
