"""Tables of names between files and networks; all problems of arrays at once; vocabularies whose words are rows."""

import h5py
import numpy as np
import pytest
from reference.seeded_weights import VARIANTS, WORDS, make_arrays, make_options, make_softmax, write_model

from spacy_elmo import load_bilm, save_bilm
from spacy_elmo.text.words import Vocabulary
from spacy_elmo.weights.formats.bilm_tf import read_options, tf_datasets
from spacy_elmo.weights.tensor_map import export_arrays, import_arrays, network_shapes

BIAS = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/B"


@pytest.fixture
def make(tmp_path):
    """Write a model with changed options and arrays, give its folder."""

    def write(arrays=None, vocab=None, **changes):
        options = make_options(**changes)
        return write_model(tmp_path / "model", options, make_arrays(options) if arrays is None else arrays, vocab)

    return write


@pytest.mark.parametrize("variant", VARIANTS)
def test_arrays_of_a_table_are_imported_and_exported_bit_for_bit(variant):
    options = make_options(**VARIANTS[variant])
    config = read_options(options, "options.json", n_words=len(WORDS) if "char_cnn" not in options else None)
    arrays = make_arrays(options)
    state = import_arrays(tf_datasets(config), arrays, network_shapes(config))
    again = export_arrays(tf_datasets(config), state)
    assert set(again) == set(arrays) and all((again[name] == arrays[name]).all() for name in arrays)


@pytest.mark.parametrize("value, text", [(3.4e38, "too large"), (np.nan, "not finite")])
@pytest.mark.parametrize("name", ["softmax/W", "char_embed", "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/B"])
def test_values_whose_products_are_not_finite_are_refused(name, value, text, folder):
    arrays = {**make_arrays(make_options()), **make_softmax(make_options())}
    arrays[name].flat[3] = value
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for key, array in arrays.items():
            file.create_dataset(key, data=array)
    with pytest.raises(ValueError, match=f"(?s)EL026.*{text}: {name} has 1 of"):
        load_bilm(folder)


def test_one_error_lists_everything_that_is_wrong(make):
    arrays = make_arrays(make_options())
    del arrays[BIAS], arrays["CNN_proj/b_proj"]
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
        f"missing: {BIAS} [96]",
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


@pytest.mark.parametrize("kind", ["native", "bilm-tf"])
def test_save_refuses_words_that_no_line_can_hold(kind, bilm, tmp_path):
    bad = ["two\nlines", "carriage\r", "half\ud800", "\ufeffx"]
    bilm.vocabulary = Vocabulary([*bad[3:], *WORDS[: -len(bad)], *bad[:3]])  # a byte order mark matters in front
    with pytest.raises(ValueError, match="4 words .*vocab.txt") as error:
        save_bilm(bilm, tmp_path / "model", format=kind)
    assert all(ascii(word) in str(error.value) for word in bad)
    assert not (tmp_path / "model").exists()


def test_a_repeated_word_has_the_later_row_of_the_softmax(folder, tmp_path):
    original = load_bilm(folder)
    words = WORDS[:3] + ["river"] + WORDS[4:]  # instead of "the"
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf8")
    with pytest.warns(UserWarning, match="repeats 1 word.*'river' in the lines 4 and 7"):
        bilm = load_bilm(folder)
    assert bilm.vocabulary.ids(["river", "bank"]).tolist() == [6, 4] and bilm.head.n_words == len(WORDS)
    text = [["She", "sat", ".", "river"]] * 5
    assert bilm.perplexity(text).forward == original.perplexity(text).forward
    save_bilm(bilm, tmp_path / "copy")
    with pytest.warns(UserWarning, match="repeats 1 word"):
        assert load_bilm(tmp_path / "copy").vocabulary == bilm.vocabulary
