"""`compat.bilm`: arrays of ids, layers and state, files of vectors, bad input."""

import errno
import os

import h5py
import numpy as np
import pytest
from compat.tiny import BATCHES, CONFIG, N_LAYERS, VOCABULARY, WIDTH, make_bilm, save_files

from spacy_elmo import BiLM, BiLMConfig
from spacy_elmo.bilm.network import BiLMNetwork
from spacy_elmo.compat import bilm as compat
from spacy_elmo.nn import batch_to_ids
from spacy_elmo.text.words import Vocabulary
from spacy_elmo.weights import save_bilm


def make_model(files, **settings):
    return compat.BidirectionalLanguageModel(files.options, files.weights, **settings)


def test_vocabulary_numbers_the_lines(files):
    vocabulary = compat.Vocabulary(files.vocab, validate_file=True)
    assert (vocabulary.bos, vocabulary.eos, vocabulary.unk, vocabulary.size) == (0, 1, 2, len(VOCABULARY))
    found = vocabulary.encode("the old bank")
    assert found.dtype == np.int32 and found.tolist() == [0, 3, 2, 4, 1]
    assert vocabulary.encode(["bank", "the"], reverse=True, split=False).tolist() == [1, 4, 3, 0]
    assert vocabulary.decode([3, 4]) == "the bank"


def test_vocabulary_skips_what_is_no_word(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text(" a \n!!!MAXTERMID\nb\n", encoding="utf8")
    vocabulary = compat.Vocabulary(path)
    assert (vocabulary.word_to_id("b"), vocabulary.word_to_id("c"), vocabulary.bos) == (1, -1, -1)
    with pytest.raises(ValueError, match="<S> and </S> and <UNK>"):
        compat.Vocabulary(path, validate_file=True)
    assert compat.UnicodeCharsVocabulary(path, 5).word_char_ids.tolist()[1] == [258, ord("b"), 259, 260, 260]


def test_characters_are_not_shifted(files):
    vocabulary = compat.UnicodeCharsVocabulary(files.vocab, 50)
    assert vocabulary.word_char_ids.shape == (len(VOCABULARY), 50) and vocabulary.word_char_ids.dtype == np.int32
    found = vocabulary.encode_chars("the old bank")
    assert np.array_equal(found[1:-1] + 1, batch_to_ids([["the", "old", "bank"]])[0].numpy())
    assert found[0, 1] == vocabulary.bos_char and found[-1, 1] == vocabulary.eos_char
    reverse = vocabulary.encode_chars(["old"], reverse=True, split=False)
    assert np.array_equal(reverse[0], vocabulary.eos_chars) and np.array_equal(reverse[-1], vocabulary.bos_chars)
    assert vocabulary.word_to_char_ids("x" * 99)[-1] == vocabulary.eow_char


def test_batchers_shift_and_add_boundaries(files):
    ids = compat.Batcher(files.vocab, 50).batch_sentences(BATCHES[0])
    assert ids.dtype == np.int64 and ids.shape == (3, 8, 50)
    inner = batch_to_ids(BATCHES[0]).numpy()
    assert np.array_equal(ids[0, 1:-1], inner[0]) and np.array_equal(ids[2, 1:3], inner[2, :2])
    assert ids[0, [0, 7], 1].tolist() == [257, 258] and not ids[1, 2:].any()
    words = compat.TokenBatcher(files.vocab).batch_sentences([["the", "old"], ["bank"]])
    assert words.dtype == np.int64 and words.tolist() == [[1, 4, 3, 2], [1, 5, 2, 0]]


def test_model_carries_the_state_of_each_row(files):
    model, batcher, state = make_model(files), compat.Batcher(files.vocab, 50), None
    for batch in BATCHES:
        wanted, state = files.bilm.embed(batch, state=state, return_state=True)
        ops = model(batcher.batch_sentences(batch))
        longest = max(map(len, batch))
        assert ops["lm_embeddings"].shape == (len(batch), N_LAYERS, longest, WIDTH)
        assert ops["token_embeddings"].shape == (len(batch), longest + 2, WIDTH // 2)
        assert ops["lengths"].tolist() == [len(words) for words in batch] == ops["mask"].sum(axis=1).tolist()
        for rows, mask, layers in zip(ops["lm_embeddings"], ops["mask"], wanted):
            np.testing.assert_allclose(rows[:, mask], layers, atol=1e-5)
            assert not rows[:, ~mask].any()
        np.testing.assert_allclose(ops["token_embeddings"][0, 1], wanted[0][0, 0, : WIDTH // 2], atol=1e-5)


def test_dumped_words_replace_the_characters(files, tmp_path):
    compat.dump_token_embeddings(files.vocab, files.options, files.weights, tmp_path / "words.hdf5")
    with h5py.File(tmp_path / "words.hdf5") as file:
        assert file["embedding"].shape == (len(VOCABULARY), WIDTH // 2) and file["embedding"].dtype == np.float32
    by_word = make_model(files, use_character_inputs=False, embedding_weight_file=tmp_path / "words.hdf5")
    batch = [["the", "bank"], ["sat"]]
    found = by_word(compat.TokenBatcher(files.vocab).batch_sentences(batch))
    wanted = make_model(files)(compat.Batcher(files.vocab, 50).batch_sentences(batch))
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, atol=1e-5)


def test_dumped_sentences_continue_each_other(files, tmp_path):
    lines = ["She sat on the bank .", "", "the bank"]
    (tmp_path / "text.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf8")
    out = tmp_path / "out.hdf5"
    compat.dump_bilm_embeddings(files.vocab, tmp_path / "text.txt", files.options, files.weights, str(out))
    wanted = files.bilm.embed([line.split() for line in lines], state="carry")
    with h5py.File(out) as file:
        assert set(file) == {"0", "1", "2"}
        for number, layers in enumerate(wanted):
            assert file[str(number)].shape == layers.shape
            np.testing.assert_allclose(file[str(number)][()], layers, atol=1e-5)


@pytest.mark.parametrize(
    "ids, problem",
    [
        (np.zeros((1, 3), dtype="int64"), "EL017.*\\(1, 3\\).*\\(B, T \\+ 2, 50\\)"),
        (np.zeros((1, 3, 50)), "EL017.*float64"),
        (np.full((1, 3, 50), 262), "EL017.*262"),
        (np.zeros((1, 3, 50), dtype="int64"), "EL017.*row 0 has 0 tokens"),
        (np.array([1, 0, 1]).reshape(1, 3, 1).repeat(50, 2), "EL017.*before the last"),
        (np.ones((5, 3, 50), dtype="int64"), "for 5 sentences.*\\(4\\)"),
        (np.ones((0, 3, 50), dtype="int64"), "for 0 sentences"),
    ],
)
def test_invalid_ids_are_refused(files, ids, problem):
    with pytest.raises(ValueError, match=problem):
        make_model(files, max_batch_size=4)(ids)


def test_a_bilm_of_whole_words_is_refused(tmp_path):
    record = {**CONFIG.to_dict(), "char_cnn": None, "n_words": 3}
    words = BiLM(BiLMNetwork(BiLMConfig.from_dict(record)), vocabulary=Vocabulary(["<S>", "</S>", "<UNK>"]))
    save_bilm(words, tmp_path / "bilm", format="bilm-tf")
    (weights,) = (tmp_path / "bilm").glob("*.hdf5")
    with pytest.raises(ValueError, match="whole words|its vocabulary has 0 words"):
        compat.BidirectionalLanguageModel(tmp_path / "bilm" / "options.json", weights)


@pytest.mark.parametrize("width", [4, 10, 64])
def test_ids_have_the_width_of_the_bilm(tmp_path, width):
    characters = {**CONFIG.to_dict()["char_cnn"], "max_characters": width}
    files = save_files(make_bilm(BiLMConfig.from_dict({**CONFIG.to_dict(), "char_cnn": characters})), tmp_path)
    text = [["a", "internationalization", "\u570b\u969b\u5316" * 7]]
    found = make_model(files)(compat.Batcher(files.vocab, width).batch_sentences(text))["lm_embeddings"][0]
    np.testing.assert_allclose(found, files.bilm.embed(text)[0], atol=1e-5)
    with pytest.raises(ValueError, match=f"EL017.*{width}.*Batcher\\(vocab_file, {width}\\)"):
        make_model(files)(compat.Batcher(files.vocab, 50).batch_sentences(text))


def test_character_ids_need_no_vocabulary(files):
    text = [*BATCHES[0], ["<S>", "</S>", "<UNK>"]]
    found, wanted = (compat.Batcher(path, 50).batch_sentences(text) for path in (None, files.vocab))
    np.testing.assert_array_equal(found, wanted)


def test_a_full_disk_is_an_error_and_leaves_nothing(files, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "text.txt").write_text("She sat on the bank .\n", encoding="utf8")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        compat.dump_bilm_embeddings(
            files.vocab, tmp_path / "text.txt", files.options, files.weights, tmp_path / "out.hdf5"
        )
    for name in ("out.hdf5", "text.txt"):
        with pytest.raises(OSError, match="No space left"):
            compat.dump_token_embeddings(files.vocab, files.options, files.weights, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]
    assert (tmp_path / "text.txt").read_text(encoding="utf8") == "She sat on the bank .\n"
