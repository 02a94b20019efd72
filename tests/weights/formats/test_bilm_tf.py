import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

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

from spacy_elmo import load_bilm, save_bilm
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


def test_one_error_lists_everything_that_is_wrong(make):
    arrays = make_arrays(make_options())
    del arrays[CELL + "B"], arrays["CNN_proj/b_proj"]
    arrays["CNN_high_7/W_carry"] = np.zeros((3, 4), "float32")
    arrays["char_embed"] = arrays["char_embed"][:200]
    arrays["CNN/b_cnn_0"] = np.array([1, 2, 3])
    arrays["CNN/b_cnn_1"][2] = np.nan
    arrays["CNN/b_cnn_2"] = np.full(9, 1e300)
    arrays["softmax/W"] = np.zeros((9, 5), "float32")
    with pytest.raises(ValueError) as error:
        load_bilm(make(arrays=arrays))
    for part in (
        "9 problem(s)",
        f"missing: {CELL}B [96]",
        "missing: CNN_proj/b_proj [8]",
        "unexpected: CNN_high_7/W_carry [3, 4]",
        "wrong shape: char_embed is [200, 4], should be [261, 4]",
        "wrong type: CNN/b_cnn_0 is int64",
        "not finite: CNN/b_cnn_1 has 1 of 5 values",
        "not finite: CNN/b_cnn_2 has 9 of 9 values",
        "missing: softmax/b [9]",
        "wrong shape: softmax/W is [9, 5], should be [9, 8]",
    ):
        assert part in str(error.value)


WRITER = "import h5py, sys; file = h5py.File(sys.argv[1], 'a'); print('open', flush=True); sys.stdin.read()"


@pytest.mark.issue(48)
def test_a_file_that_another_program_writes_is_not_called_damaged(make):
    (path,) = make().glob("*.hdf5")
    with subprocess.Popen([sys.executable, "-c", WRITER, path], stdin=PIPE, stdout=PIPE) as writer:
        writer.stdout.readline()
        with pytest.raises(OSError, match="EL037.*unable to lock file.*wait until it is closed") as caught:
            load_bilm(path.parent)
    assert "damaged" not in str(caught.value)
    load_bilm(path.parent)


@pytest.mark.issue(48)
@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.EMFILE])
@pytest.mark.parametrize("library", ["h5py.File", "zipfile.ZipFile", "pathlib.Path.open"])
def test_errors_of_the_system_are_not_called_damage(library, number, make, tmp_path, monkeypatch):
    folder = make()
    if "zip" in library:
        folder = Path(shutil.make_archive(str(tmp_path / "zipped"), "zip", folder))

    def fail(*args, **settings):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(library, fail)
    with pytest.raises(OSError, match=f"EL037.*{os.strerror(number)}"):
        load_bilm(folder)


def test_vocabulary_without_special_words_is_ignored_only_if_not_needed(make):
    folder = make(vocab=["a", "b"])
    with pytest.warns(UserWarning, match="WL020"):
        assert load_bilm(folder).vocabulary is None
    with pytest.raises(ValueError, match="cannot be used as vocabulary"):
        load_bilm(folder, vocab=folder / "vocab.txt")
    (folder / "vocab.txt").unlink()
    with pytest.raises(ValueError, match="its vocabulary has"):
        load_bilm(make(char_cnn=...))


def test_vocabulary_words_may_hold_unicode_line_ends(make, tmp_path):
    words = [*WORDS, "a\u2028b", "c\x85d", "e\x0bf"]
    folder = make(vocab=words)
    assert load_bilm(folder).vocabulary.words == words
    save_bilm(load_bilm(folder), tmp_path / "native")
    assert load_bilm(tmp_path / "native").vocabulary.words == words


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
