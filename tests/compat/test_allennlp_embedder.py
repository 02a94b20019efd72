"""`ElmoEmbedder` and the indexer of `compat.allennlp`: arrays, files, state, bad input."""

import io
import json

import h5py
import numpy as np
import pytest
from compat.tiny import BATCHES, N_LAYERS, WIDTH

from spacy_elmo.compat.allennlp import (
    ConfigurationError,
    ElmoEmbedder,
    ELMoTokenCharactersIndexer,
    batch_to_ids,
)

LINES = ["She sat on the bank .", "the bank", "She sat"]


@pytest.fixture
def embedder(files):
    return ElmoEmbedder(files.options, files.weights)


def test_embed_batch_carries_the_state(embedder, files):
    state = None
    assert embedder.embed_sentence([]).shape == (N_LAYERS, 0, WIDTH)
    for batch in [[["the", "bank"]], *BATCHES]:
        wanted, state = files.bilm.embed(batch, state=state, return_state=True)
        vectors = embedder.embed_batch(batch) if len(batch) > 1 else [embedder.embed_sentence(batch[0])]
        for found, rows in zip(vectors, wanted, strict=True):
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, rows, atol=1e-5)


def test_embed_sentences_is_lazy_and_batched(embedder, files):
    found = embedder.embed_sentences((words for batch in BATCHES[1:] for words in batch), batch_size=2)
    wanted, state = files.bilm.embed(BATCHES[1], state=None, return_state=True)
    wanted += files.bilm.embed(BATCHES[2][:2], state=state)
    for rows in wanted:
        np.testing.assert_allclose(next(found), rows, atol=1e-5)
    with pytest.raises(ConfigurationError, match="batch_size is 0"):
        next(embedder.embed_sentences([["a"]], batch_size=0))


@pytest.mark.parametrize("output_format", ["all", "top", "average"])
def test_embed_file_writes_one_dataset_per_line(embedder, files, tmp_path, output_format):
    text = io.StringIO("\n".join(LINES))
    embedder.embed_file(text, str(tmp_path / "out.hdf5"), output_format, batch_size=3)
    wanted = files.bilm.embed([line.split() for line in LINES])
    choose = {"all": lambda rows: rows, "top": lambda rows: rows[-1], "average": lambda rows: rows.mean(axis=0)}
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert set(file) == {"0", "1", "2", "sentence_to_index"}
        for i, rows in enumerate(wanted):
            assert file[str(i)].dtype == np.float32
            np.testing.assert_allclose(file[str(i)][()], choose[output_format](rows), atol=1e-5)
        assert file["sentence_to_index"].shape == (1,)
        assert json.loads(file["sentence_to_index"][0]) == {line: str(i) for i, line in enumerate(LINES)}
    assert text.closed and [path.name for path in tmp_path.iterdir()] == ["out.hdf5"]


def test_embed_file_with_sentences_as_keys(embedder, tmp_path):
    embedder.embed_file(io.StringIO("\n".join(LINES)), tmp_path / "out.hdf5", use_sentence_keys=True)
    with h5py.File(tmp_path / "out.hdf5") as file:
        assert set(file) == set(LINES)
    embedder.embed_file(io.StringIO("a / b\na / b"), tmp_path / "other.hdf5", forget_sentences=True)
    with h5py.File(tmp_path / "other.hdf5") as file:
        assert set(file) == {"0", "1"}


def test_a_failure_leaves_the_old_file(embedder, tmp_path, monkeypatch):
    path = tmp_path / "out.hdf5"
    path.write_bytes(b"old")
    monkeypatch.setattr(embedder, "embed_batch", lambda batch: [np.zeros(1), "not an array"])
    with pytest.raises(ValueError, match="not an array"):
        embedder.embed_file(io.StringIO("a\nb"), path)
    assert path.read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1


def test_indexer_gives_the_ids_of_batch_to_ids():
    class Token:
        text = "bank"

    indexer = ELMoTokenCharactersIndexer()
    indices = indexer.tokens_to_indices(["the", Token()], None)
    found = indexer.as_padded_tensor_dict(indices, {"elmo_tokens": 3})["elmo_tokens"]
    assert found[:2].tolist() == batch_to_ids([["the", "bank"]])[0].tolist() and not found[2].any()
    empty = indexer.as_padded_tensor_dict(indexer.get_empty_token_list(), {"elmo_tokens": 1})
    assert empty["elmo_tokens"].tolist() == [[0] * 50]
    indexer.count_vocab_items("the", {})
