import pytest
from reference.seeded_weights import OPTIONS, make_options

from spacy_elmo.weights.bilm_tf import read_options


def read(**changes):
    return read_options(make_options(**changes), "options.json", n_words=12 if "char_cnn" in changes else None)


def test_options_absent_means_what_bilm_tf_means():
    config = read(
        lstm={"use_skip_connections": ..., "n_layers": ..., "cell_clip": ..., "proj_clip": 0},
    )
    assert not config.has_skip
    assert config.n_layers == 1
    assert config.cell_clip is None and config.projection_clip is None


def test_options_projection_of_the_file_counts():
    same_width = make_options(lstm={"dim": 24, "projection_dim": 17})
    assert not read_options(same_width, "options.json").has_cnn_projection
    assert read_options(same_width, "options.json", has_projection=True).has_cnn_projection
    assert read_options(OPTIONS, "options.json", has_projection=True) == read_options(OPTIONS, "options.json")


def test_options_lists_all_problems_at_once():
    with pytest.raises(ValueError) as error:
        read(
            lstm={"dim": ..., "n_layers": "two", "use_skip_connections": 1},
            char_cnn={"filters": [[1, 2, 3]], "n_characters": 263, "activation": 3, "embedding": ...},
        )
    for part in (
        "lstm.dim is missing",
        "lstm.n_layers is 'two'",
        "lstm.use_skip_connections is 1",
        "char_cnn.filters",
        "n_characters is 263",
        "char_cnn.activation is 3",
        "char_cnn.embedding.dim is missing",
    ):
        assert part in str(error.value)


def test_options_lists_wrong_kinds_and_wrong_values_together_in_the_names_of_the_file():
    with pytest.raises(ValueError) as error:
        read(
            lstm={"n_layers": 0, "projection_dim": 32, "cell_clip": -1, "proj_clip": float("nan")},
            char_cnn={"n_characters": 300, "activation": "gelu", "embedding": {"dim": 0}, "filters": [[60, 8], [1, 0]]},
        )
    for part in (
        "lstm.n_layers is 0, should be 1 or more",
        "lstm.projection_dim is 32, should be 1 to lstm.dim (24)",
        "lstm.cell_clip is -1, should be 0 or more, or null for none",
        "lstm.proj_clip is nan",
        "char_cnn.n_characters is 300, should be 261 (training) or 262 (inference)",
        "char_cnn.activation is 'gelu', should be one of: relu, tanh",
        "char_cnn.embedding.dim is 0, should be 1 or more",
        "char_cnn.filters has [60, 8], should be 1 to 50 characters wide",
        "char_cnn.filters has [1, 0], should have 1 filter or more",
    ):
        assert part in str(error.value)
    assert ".." not in str(error.value)
    assert not [name for name in OUR_NAMES if name in str(error.value)]


OUR_NAMES = ("cell_width", "projection_width", "projection_clip", "embedding_width", "max_characters ")


@pytest.mark.parametrize(
    "changes, part",
    [
        ({"char_cnn": {"filters": []}}, "char_cnn.filters is empty"),
        ({"char_cnn": {"n_highway": -1}}, "char_cnn.n_highway is -1"),
        ({"char_cnn": {"max_characters_per_token": 3, "filters": [[1, 4]]}}, "max_characters_per_token is 3"),
        ({"char_cnn": "small"}, "char_cnn is 'small', should be a block of settings"),
        ({"bidirectional": "no"}, "bidirectional is 'no'"),
    ],
)
def test_options_that_fit_no_bilm(changes, part):
    with pytest.raises(ValueError) as error:
        read(**changes)
    assert part in str(error.value) and "EL023" in str(error.value)


def test_options_word_table_and_n_tokens_vocab_must_agree():
    with pytest.raises(ValueError, match="EL023.*n_tokens_vocab is 33, but the word table of the weights has 12 rows"):
        read(char_cnn=..., n_tokens_vocab=33)
    with pytest.raises(ValueError, match="EL023.*no word table"):
        read_options(make_options(char_cnn=...), "options.json")
