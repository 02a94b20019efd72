"""`compat.simple_elmo`: padded arrays, averages, state within a call, bad input."""

import shutil

import numpy as np
import pytest
from compat.tiny import BATCHES, N_LAYERS, WIDTH

from spacy_elmo.compat.simple_elmo import ElmoModel

TEXTS = [words for batch in BATCHES for words in batch]
CHOICES = {"average": lambda rows: rows.mean(axis=0), "top": lambda rows: rows[-1], "all": lambda rows: rows}


@pytest.fixture
def model(files):
    model = ElmoModel()
    model.load(files.weights.parent, max_batch_size=3)
    return model


def embed(files, state=None):
    """Layers of all texts in batches of three, and the last state."""
    found = []
    for start in range(0, len(TEXTS), 3):
        layers, state = files.bilm.embed(TEXTS[start : start + 3], state=state, return_state=True)
        found += layers
    return found, state


@pytest.mark.parametrize("layers", list(CHOICES))
def test_vectors_are_padded(model, files, layers):
    found = model.get_elmo_vectors(TEXTS, layers=layers)
    assert found.dtype == np.float32
    assert found.shape == (len(TEXTS), *([N_LAYERS] if layers == "all" else []), 6, WIDTH)
    for rows, wanted, words in zip(found, embed(files)[0], TEXTS, strict=True):
        np.testing.assert_allclose(rows[..., : len(words), :], CHOICES[layers](wanted), atol=1e-5)
        assert not rows[..., len(words) :, :].any()


@pytest.mark.parametrize("layers", list(CHOICES))
def test_average_is_over_the_words(model, files, layers):
    found = model.get_elmo_vector_average(TEXTS, layers)
    assert found.shape == (len(TEXTS), *([N_LAYERS] if layers == "all" else []), WIDTH)
    for row, wanted, words in zip(found, embed(files)[0], TEXTS, strict=True):
        if words:
            np.testing.assert_allclose(row, CHOICES[layers](wanted).mean(axis=-2), atol=1e-5)
        else:
            assert not row.any()


def test_calls_are_independent_without_a_session(model, files):
    first, second = (model.get_elmo_vectors(TEXTS) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    session = object()
    assert np.array_equal(model.get_elmo_vectors(TEXTS, session=session), first)
    _, state = embed(files)
    wanted = embed(files, state)[0][0].mean(axis=0)
    np.testing.assert_allclose(model.get_elmo_vectors(TEXTS, session=session)[0], wanted, atol=1e-5)
    np.testing.assert_array_equal(model.get_elmo_vectors(TEXTS, session=object()), first)


def test_attributes(model):
    assert (model.max_batch_size, model.vector_size, model.n_layers) == (3, WIDTH, N_LAYERS)
    assert model.get_elmo_vectors([]).shape == (0, 0, WIDTH)
    assert ElmoModel().max_batch_size == 32


def test_the_preferred_weights_of_a_folder(files, tmp_path):
    folder = shutil.copytree(files.weights.parent, tmp_path / "folder")
    shutil.copy(files.weights, folder / "model.hdf5")
    (folder / "a.hdf5").write_bytes(b"not HDF5")
    model = ElmoModel()
    model.load(folder)
    assert model.get_elmo_vectors([["the"]]).shape == (1, 1, WIDTH)
    (folder / "model.hdf5").unlink()
    with pytest.raises(ValueError, match="EL0.*a.hdf5"):
        model.load(folder)


def test_bad_input_is_refused(model, files):
    for call in (lambda: ElmoModel().get_elmo_vectors([["a"]]), lambda: ElmoModel().vector_size):
        with pytest.raises(ValueError, match="EL334.*load"):
            call()
    with pytest.raises(ValueError, match="EL332.*layers is 'mean'.*'average'"):
        model.get_elmo_vectors([["a"]], layers="mean")
    with pytest.raises(ValueError, match="EL011"):
        model.get_elmo_vectors(["not tokenized"])
    with pytest.raises(ValueError, match="EL330"):
        model.load("http://vectors.nlpl.eu/repository/20/193.zip")
    with pytest.raises(ValueError, match="EL332.*max_batch_size"):
        model.load(files.weights.parent, max_batch_size=0)
    with pytest.raises(ValueError, match="EL007.*softmax"):
        model.load(files.weights.parent, full=True)
    with pytest.raises(ValueError, match="EL020"):
        model.load("nowhere")
    with pytest.raises(NotImplementedError, match="EL335.*token_losses"):
        model.get_elmo_substitutes(["a text"])
