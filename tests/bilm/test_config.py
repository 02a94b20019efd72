"""Sizes and switches."""

import pytest
from transformers_tiny import TRANSFORMER

from spacy_elmo.bilm.config import BiLMConfig, CharCNNConfig, TokenEmbedderConfig

SIZES = TRANSFORMER["transformer"]


def transformer(**changes):
    return {**TRANSFORMER, **changes}


def test_config_round_trips_through_plain_types():
    config = BiLMConfig(char_cnn=CharCNNConfig(filters=((1, 4), (2, 8)), n_highway=0), cell_width=8, projection_width=4)
    assert BiLMConfig.from_dict(config.to_dict()) == config


def test_token_embedder_round_trips_through_plain_types():
    embedder = TokenEmbedderConfig(n_characters=9, character_width=4, n_words=5, word_width=2, filters=((1, 3),))
    config = BiLMConfig(token_embedder=embedder, cell_width=4, projection_width=8, always_project=True)
    assert BiLMConfig.from_dict(config.to_dict()) == config
    assert (config.has_projection, embedder.feature_width, embedder.char_cnn.n_filters) == (True, 5, 3)


@pytest.mark.parametrize(
    "settings, name",
    [
        ({"n_words": 5, "cell_widht": 8}, "EL001.*cell_widht"),
        ({}, "is invalid.*exactly one"),
        ({"n_words": 3, "char_cnn": {}}, "is invalid.*exactly one"),
        ({"char_cnn": {"filters": [[60, 4]]}}, "is invalid.*60"),
        ({"char_cnn": {"activation": "gelu"}}, "is invalid.*gelu"),
        ({"n_words": 5, "cell_width": 4, "projection_width": 8}, "is invalid.*projection_width"),
        ({"n_words": 5, "highway_between": True}, "is invalid.*has_skip should be false"),
        ({"char_cnn": {"codec": "lexicon", "n_characters": 9}}, "is invalid.*only a token_embedder has"),
        (
            {"token_embedder": {"n_words": 5}},
            "is invalid.*token_embedder.n_words should be 0 if word_width is, and only then",
        ),
        ({"token_embedder": {}}, "is invalid.*neither characters nor words"),
        ({"token_embedder": {"n_words": 5, "word_width": 1, "kind": "rnn"}}, "is invalid.*kind is 'rnn'"),
        ({"token_embedder": {"n_characters": 5, "character_width": 1}}, "is invalid.*filters has 0 sizes"),
        ({"n_words": 5, "encoder_depth": 2}, "is invalid.*encoder_depth is 2, should be 1"),
        ({"n_words": 5, "encoder": "bilstm"}, "is invalid.*n_layers is 2, should be 1 for 'bilstm'"),
        ({"n_words": 5, "encoder": "bilstm", "n_layers": 1, "directions": "forward"}, "is invalid.*should be 'both'"),
        (
            {"n_words": 5, "encoder": "bilstm", "n_layers": 1, "highway_between": True, "has_skip": False},
            "is invalid.*highway_between is true, should be false for 'bilstm'",
        ),
        (transformer(transformer={**SIZES, "n_heads": 3}), r"n_heads is 3, should divide projection_width \(8\)"),
        (transformer(transformer={**SIZES, "max_positions": 2}), "max_positions is 2, should be at least 3"),
        (transformer(transformer=None), "transformer is null"),
        (transformer(projection_width=9), "projection_width is 9, should be an even number"),
        (transformer(cell_width=16, has_skip=False), "cell_width should be left out.*has_skip should be left out"),
        (transformer(encoder="gru"), "encoder is 'gru'"),
    ],
)
def test_wrong_settings_are_named(settings, name):
    with pytest.raises(ValueError, match=name):
        BiLMConfig.from_dict(settings)
