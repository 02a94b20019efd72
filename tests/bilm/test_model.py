"""Word vectors and their gradients, and parameters by layer."""

import pytest
import torch

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.model import BiLMNetwork, layer_parameters


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


CHARACTERS = {"embedding_width": 4, "filters": [[1, 8]], "n_highway": 1}
SIZES = {"n_layers": 3, "cell_width": 8, "projection_width": 4}


@pytest.mark.parametrize("words", [{"char_cnn": CHARACTERS}, {"n_words": 9}])
@pytest.mark.parametrize("highway_between", [True, False])
def test_every_parameter_belongs_to_one_layer(words, highway_between):
    settings = {**SIZES, **words, "highway_between": highway_between, "has_skip": not highway_between}
    network = BiLMNetwork(BiLMConfig.from_dict(settings))
    layers = layer_parameters(network)
    named = [(name, id(parameter)) for layer in layers for name, parameter in layer.items()]
    assert sorted(named) == sorted((name, id(parameter)) for name, parameter in network.named_parameters())
    assert len(layers) == 4
    for number, layer in enumerate(layers[1:], start=1):
        highways = {f"encoder.highways.{number - 2}."} if highway_between and number > 1 else set()
        assert {name[: name.rindex(".") + 1] for name in layer} == {f"encoder.layers.{number - 1}.", *highways}
    assert all(name.startswith(("char_cnn.", "word_embedding")) for name in layers[0])
