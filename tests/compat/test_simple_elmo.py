"""`compat.simple_elmo`: signatures, padded arrays, normalized averages, state within a call, bad input."""

import inspect
import shutil

import numpy as np
import pytest
from compat.tiny import BATCHES, N_LAYERS, WIDTH

from spacy_elmo.compat.bilm import BidirectionalLanguageModel
from spacy_elmo.compat.simple_elmo import ElmoModel

TEXTS = [words for batch in BATCHES for words in batch]
CHOICES = {"average": lambda rows: rows.mean(axis=0), "top": lambda rows: rows[-1], "all": lambda rows: rows}


@pytest.fixture
def model(files):
    model = ElmoModel()
    model.load(files.weights.parent, max_batch_size=3)
    return model


def embed(files, *, warmup=True):
    """Layers of all texts in batches of three."""
    found, batches = [], [TEXTS[start : start + 3] for start in range(0, len(TEXTS), 3)]
    state = files.bilm.embed(batches[0], state=None, return_state=True)[1] if warmup else None
    for batch in batches:
        layers, state = files.bilm.embed(batch, state=state, return_state=True)
        found += layers
    return found


def test_signatures_are_those_of_simple_elmo():
    names = {"get_elmo_vectors": "(self, texts, warmup=True, layers='average', session=None)"}
    names["get_elmo_vector_average"] = names["get_elmo_vectors"]
    names["get_elmo_substitutes"] = "(self, data, topn=3, nodelimiters=True)"
    names["load"] = "(self, directory, max_batch_size=32, limit=100, full=False)"
    for name, wanted in names.items():
        parameters = inspect.signature(getattr(ElmoModel, name)).parameters.values()
        bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
        assert str(inspect.Signature(bare)) == wanted


@pytest.mark.parametrize("warmup", [True, False])
@pytest.mark.parametrize("layers", list(CHOICES))
def test_vectors_are_padded(model, files, layers, warmup):
    found = model.get_elmo_vectors(TEXTS, warmup, layers)
    assert found.dtype == np.float64
    assert found.shape == (len(TEXTS), *([N_LAYERS] if layers == "all" else []), 6, WIDTH)
    for rows, wanted, words in zip(found, embed(files, warmup=warmup), TEXTS, strict=True):
        np.testing.assert_allclose(rows[..., : len(words), :], CHOICES[layers](wanted), atol=1e-5)
        assert not rows[..., len(words) :, :].any()


@pytest.mark.parametrize("warmup", [True, False])
@pytest.mark.parametrize("layers", list(CHOICES))
def test_average_over_the_words_has_norm_1(model, files, layers, warmup):
    found = model.get_elmo_vector_average(TEXTS, warmup, layers)
    assert found.dtype == np.float64
    assert found.shape == (len(TEXTS), *([N_LAYERS] if layers == "all" else []), WIDTH)
    for row, wanted, words in zip(found, embed(files, warmup=warmup), TEXTS, strict=True):
        if words:
            mean = CHOICES[layers](wanted).mean(axis=-2)
            np.testing.assert_allclose(row, mean / np.sqrt((mean**2).sum()), atol=1e-5)
            np.testing.assert_allclose((row**2).sum(), 1.0)
        else:
            assert not row.any()


def test_a_bilm_without_state_has_no_warmup(make_manylangs):
    folder, _ = make_manylangs(encoder={"name": "lstm"})
    model = ElmoModel()
    model.load(folder)
    np.testing.assert_array_equal(model.get_elmo_vectors(TEXTS), model.get_elmo_vectors(TEXTS, warmup=False))
    assert model.max_chars == 10
    assert model.batcher is None and model.sentence_character_ids is None  # it has symbols of its own
    assert model.get_elmo_vectors(["ab"]).shape[1] == 2


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


def test_attributes_that_scripts_read(model, files):
    assert (model.batch_size, model.vector_size, model.n_layers, model.max_chars) == (3, WIDTH, N_LAYERS, 50)
    assert model.get_elmo_vectors([]).shape == (0, 0, WIDTH)
    assert model.get_elmo_vector_average([]).shape == (0, WIDTH)
    ids = model.batcher.batch_sentences([["the", "bank"], "abc"])
    assert ids.shape == (2, 5, model.max_chars) and ids.shape[2] == model.sentence_character_ids.shape[2]
    layers = BidirectionalLanguageModel(files.options, files.weights)(ids)["lm_embeddings"]
    np.testing.assert_allclose(layers, model.get_elmo_vectors([["the", "bank"], "abc"], False, "all"), atol=1e-5)
    assert {model.sentence_character_ids: ids}  # a key of a dictionary, as in feed_dict
    model.logger.setLevel(model.logger.level)
    assert ElmoModel().batch_size == 32 and ElmoModel().batcher is None
    message = model.load(files.weights.parent)
    assert f"{N_LAYERS} layers of {WIDTH} dimensions" in message and model.batch_size == 32
