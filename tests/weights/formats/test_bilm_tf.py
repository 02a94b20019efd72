import json

import numpy as np
import pytest
import torch
from reference.numpy_bilm import NumpyBiLM
from reference.seeded_weights import (
    SENTENCES,
    VARIANTS,
    WORDS,
    make_arrays,
    make_options,
    make_softmax,
    write_arrays,
    write_model,
)

from spacy_elmo import load_bilm
from spacy_elmo.weights.formats.bilm_tf import read_options

CELL = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/"


@pytest.fixture
def make(tmp_path):
    """Write a model with changed options and arrays, give its folder."""

    def write(options=None, arrays=None, vocab=None, **changes):
        options = make_options(**changes) if options is None else options
        return write_model(tmp_path / "model", options, make_arrays(options) if arrays is None else arrays, vocab)

    return write


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_float_types_are_read_as_float32(dtype, make):
    arrays = {name: array.astype(dtype) for name, array in make_arrays(make_options()).items()}
    bilm = load_bilm(make(arrays=arrays))
    assert {tensor.dtype for tensor in bilm.network.state_dict().values()} == {torch.float32}
    wanted = arrays[CELL + "B"].astype("float32")
    np.testing.assert_array_equal(bilm.network.state_dict()["encoder.layers.0.bias"][0].numpy(), wanted)


def rename_one_layer(name):
    return name.replace("MultiRNNCell/Cell0/", "")


def rename_forward(name):
    endings = {"/W_P_0": "/projection/kernel", "/W_0": "/kernel", "/B": "/bias"}
    for ours, theirs in endings.items():
        if name.startswith("RNN_0") and name.endswith(ours):
            return name.replace("RNN_0/RNN", "rnn").removesuffix(ours) + theirs
    return name


@pytest.mark.parametrize(
    "variant, renames",
    [
        ("1layer", [rename_one_layer]),
        ("forward", [rename_forward]),
        ("wordsforward", [rename_one_layer, rename_forward]),
    ],
)
def test_dumps_with_odd_names(variant, renames, make):
    options = make_options(**VARIANTS[variant])
    options.pop("bidirectional", None)  # a dump of one direction is recognized by its arrays
    plain = make_arrays(make_options(**VARIANTS[variant]))
    names = {name: name for name in plain}
    for rename in renames:
        names = {name: rename(new) for name, new in names.items()}
    assert names != {name: name for name in plain}
    regular = load_bilm(make(make_options(**VARIANTS[variant]), plain, WORDS)).network.state_dict()
    odd = load_bilm(make(options, {names[name]: array for name, array in plain.items()}, WORDS)).network.state_dict()
    assert all(torch.equal(odd[key], regular[key]) for key in regular)


def test_mask_row_in_the_file_is_left_out(make):
    arrays = make_arrays(make_options())
    plain = load_bilm(make(arrays=arrays)).network.state_dict()["char_cnn.embedding"]
    arrays["char_embed"] = np.concatenate([np.full((1, 4), 9.0, "float32"), arrays["char_embed"]])
    assert torch.equal(load_bilm(make(arrays=arrays)).network.state_dict()["char_cnn.embedding"], plain)


def test_projection_of_same_width_is_used(make):
    options = make_options(lstm={"dim": 24, "projection_dim": 17})
    rng = np.random.default_rng(5)
    arrays = make_arrays(options)
    arrays["CNN_proj/W_proj"] = rng.normal(0, 0.3, (17, 17)).astype("float32")
    arrays["CNN_proj/b_proj"] = rng.normal(0, 0.3, 17).astype("float32")
    bilm = load_bilm(make(options, arrays))
    wanted, _ = NumpyBiLM(options, arrays).layers(SENTENCES[0])
    np.testing.assert_allclose(bilm.embed(SENTENCES[:1], boundaries=True)[0], wanted, atol=1e-5)


def test_softmax_in_its_own_file(make, tmp_path):
    softmax = make_softmax(make_options())
    path = write_arrays(tmp_path / "softmax.hdf5", softmax)
    folder = make()
    bilm = load_bilm(folder, softmax=path, vocab=make_vocab(tmp_path))
    np.testing.assert_array_equal(bilm.head.weight.detach().numpy(), softmax["softmax/W"])
    np.testing.assert_array_equal(bilm.head.bias.detach().numpy(), softmax["softmax/b"])
    assert load_bilm(folder).head is None


def make_vocab(tmp_path, words=WORDS):
    path = tmp_path / "words.txt"
    path.write_text("\n".join(words), encoding="utf8")  # no line feed at the end
    return path


@pytest.fixture
def embeddings(tmp_path):
    table = np.random.default_rng(3).normal(size=(len(WORDS), 8)).astype("float32")
    return write_arrays(tmp_path / "cached.hdf5", {"embedding": table}), table


def test_token_embeddings_take_the_place_of_characters(make, tmp_path, embeddings):
    path, table = embeddings
    bilm = load_bilm(make(), vocab=make_vocab(tmp_path), token_embeddings=path)
    reference = NumpyBiLM(make_options(), make_arrays(make_options()), WORDS)
    reference.token_embeddings = table
    for found, words in zip(bilm.embed(SENTENCES, boundaries=True), SENTENCES):
        np.testing.assert_allclose(found, reference.layers(words)[0], atol=1e-5)


def test_token_embeddings_of_another_kind(make, tmp_path, embeddings):
    with pytest.raises(ValueError, match="a vocabulary is missing"):
        load_bilm(make(), token_embeddings=embeddings[0])
    for wrong in ({"embedding": np.zeros((12, 9), "float32")}, {"other": np.zeros((12, 8), "float32")}):
        path = write_arrays(tmp_path / "cached.hdf5", wrong)
        with pytest.raises(ValueError, match="cannot be used as token embeddings"):
            load_bilm(make(), vocab=make_vocab(tmp_path), token_embeddings=path)


# Options


def read(**changes):
    return read_options(make_options(**changes), "options.json", n_words=12 if "char_cnn" in changes else None)


def test_options_absent_means_what_bilm_tf_means():
    config = read(lstm={"use_skip_connections": ..., "n_layers": ..., "cell_clip": ..., "proj_clip": 0})
    assert not config.has_skip and config.n_layers == 1
    assert config.cell_clip is None and config.projection_clip is None


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


OPTIONS = {
    "lstm.n_layers": 2_000_000_000,
    "lstm.cell_clip": 1e308,
    "char_cnn.max_characters_per_token": 2**31,
    "char_cnn.filters": [[1, 2**40]],
}


@pytest.mark.parametrize("name", OPTIONS)
def test_sizes_of_options_have_limits(name, folder):
    block, key = name.split(".")
    options = make_options(**{block: {key: OPTIONS[name]}})
    (folder / "options.json").write_text(json.dumps(options))
    with pytest.raises(ValueError, match=f"EL023.*{name}.* should (be|have) at most"):
        load_bilm(folder)
