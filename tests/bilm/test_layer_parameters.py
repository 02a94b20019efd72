"""Parameters by layer."""

import pytest

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.model import BiLMNetwork, layer_parameters

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
