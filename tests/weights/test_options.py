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


def test_options_word_table_and_n_tokens_vocab_must_agree():
    with pytest.raises(ValueError, match="EL023.*n_tokens_vocab is 33, but the word table of the weights has 12 rows"):
        read(char_cnn=..., n_tokens_vocab=33)
    with pytest.raises(ValueError, match="EL023.*no word table"):
        read_options(make_options(char_cnn=...), "options.json")
