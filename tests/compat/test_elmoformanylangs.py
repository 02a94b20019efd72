"""`compat.elmoformanylangs`: order, batches by length, state from call to call, padding, layers, bad input."""

import json
import random

import numpy as np
import pytest
import torch
from compat.tiny import BATCHES, N_LAYERS, WIDTH

from spacy_elmo.compat.elmoformanylangs import Embedder

SENTENCES = [words for batch in BATCHES for words in batch]
LONGEST_FIRST = sorted(range(len(SENTENCES)), key=lambda i: -len(SENTENCES[i]))


def embed_sorted(bilm, state=None):
    """Layers in the order of the sentences; rows of the state belong to sorted sentences."""
    found, state = bilm.embed([SENTENCES[i] for i in LONGEST_FIRST], state=state, return_state=True)
    return [found[LONGEST_FIRST.index(i)] for i in range(len(SENTENCES))], state


def assert_close(found, wanted):
    for rows, layers in zip(found, wanted, strict=True):
        assert rows.dtype == np.float32
        np.testing.assert_allclose(rows, layers, atol=1e-5)


def test_state_is_carried_from_call_to_call(files):
    embedder, state = Embedder(files.weights.parent), None
    for _ in range(3):
        wanted, state = embed_sorted(files.bilm, state)
        assert_close(embedder.sents2elmo(SENTENCES, -2), wanted)


@pytest.mark.parametrize("layer", [-2, -1, 0, 1, 2])
def test_layers_are_chosen_by_number(files, layer):
    wanted, _ = embed_sorted(files.bilm)
    choose = {-1: lambda rows: rows.mean(axis=0), -2: lambda rows: rows}.get(layer, lambda rows: rows[layer])
    found = Embedder(files.weights.parent).sents2elmo(SENTENCES, output_layer=layer)
    assert_close(found, [choose(rows) for rows in wanted])
    assert found[0].shape == ((N_LAYERS, 6, WIDTH) if layer == -2 else (6, WIDTH))


def test_batches_come_in_the_order_of_the_random_module(files):
    random.seed(3)
    numbers = list(range(5))
    random.shuffle(numbers)  # what the original draws
    assert numbers != sorted(numbers)
    wanted, state = {}, None
    for number in numbers:
        batch = LONGEST_FIRST[2 * number : 2 * number + 2]
        found, state = files.bilm.embed([SENTENCES[i] for i in batch], state=state, return_state=True)
        wanted.update(zip(batch, found))
    random.seed(3)
    found = Embedder(files.weights.parent, batch_size=2).sents2elmo(SENTENCES, -2)
    assert_close(found, [wanted[i] for i in range(len(SENTENCES))])


PLAIN = {"encoder": {"name": "lstm", "dim": 5, "n_layers": 2}}
PADDED = {
    "characters and words": {},
    "characters": {"word_dim": 0},
    "words": {"char_dim": 0},
    "words without CNN": {"char_dim": 0, "name": "lstm"},
    "tanh, long words": {"activation": "tanh", "max_characters_per_token": 50},
}


def embed_plain(model, size):
    """Vectors of the reference in batches of `size` sentences, the longest first."""
    batches = [LONGEST_FIRST[start : start + size] for start in range(0, len(LONGEST_FIRST), size)]
    found = {i: rows for batch in batches for i, rows in zip(batch, model.padded_top([SENTENCES[i] for i in batch]))}
    return [found[i] for i in range(len(SENTENCES))]


@pytest.mark.parametrize("size", [64, 2])
@pytest.mark.parametrize("kind", PADDED)
def test_the_encoder_lstm_reads_padding(make_manylangs, kind, size):
    folder, model = make_manylangs(**PLAIN, token_embedder=PADDED[kind])
    embedder = Embedder(folder, batch_size=size)
    for _ in range(2):  # no state is carried
        assert_close(embedder.sents2elmo(SENTENCES, -2), embed_plain(model, size))
    alone = Embedder(folder, batch_size=1).sents2elmo(SENTENCES, -2)
    assert_close(alone, embedder.bilm.embed(SENTENCES, layers="top"))
    if size == 64:
        assert max(np.abs(a - b).max(initial=0) for a, b in zip(alone, embedder.sents2elmo(SENTENCES, -2))) > 0.01


def test_a_number_is_a_token_with_the_encoder_lstm(make_manylangs):
    folder, model = make_manylangs(**PLAIN)
    embedder, sentences = Embedder(folder), [["the", "lamp", "a"], ["old", "x"]]
    wanted = model.padded_top(sentences)
    for layer in (0, 1):
        assert_close(embedder.sents2elmo(sentences, layer), [rows[layer] for rows in wanted])
    assert_close(embedder.sents2elmo(sentences), [rows.mean(axis=0) for rows in wanted])
    assert not embedder.sents2elmo([[]])[0].any()
    for layer, texts, found in ((2, sentences, "0 to 1"), (0, [["a"], []], "-2"), (-3, sentences, "0 to 1")):
        with pytest.raises(ValueError, match=f"output_layer is {layer}.*{found}"):
            embedder.sents2elmo(texts, layer)


def test_what_the_original_cannot_compute_is_computed_without_padding(make_manylangs):
    folder, model = make_manylangs(**PLAIN, token_embedder={"name": "lstm"})
    wanted = [model.layers(words)[0][-1] for words in SENTENCES]
    assert_close(Embedder(folder).sents2elmo(SENTENCES, -2), wanted)


ARCHITECTURES = [{}, {"token_embedder": {"word_dim": 0}}, {"token_embedder": {"name": "lstm"}}, PLAIN]


@pytest.mark.parametrize("changes", ARCHITECTURES, ids=["cnn", "characters", "lstm words", "lstm encoder"])
def test_config_has_the_settings_of_the_file(make_manylangs, changes):
    folder, _ = make_manylangs(**changes)
    record = json.loads((folder / "config.json").read_text())
    wanted = json.loads((folder / record["config_path"].rsplit("/", 1)[-1]).read_text())
    found = Embedder(folder).config
    for block in ("encoder", "token_embedder"):
        used = {name: value for name, value in wanted[block].items() if name in found[block]}
        assert {name: found[block][name] for name in used} == used
        assert {"encoder": "projection_dim", "token_embedder": "char_dim"}[block] in used


def test_attributes_of_a_bilm_of_another_program(files):
    embedder = Embedder(files.weights.parent)
    assert embedder.config["encoder"] == {
        "name": "elmo", "projection_dim": 8, "dim": 16, "n_layers": 2, "cell_clip": 0.5, "proj_clip": 0.3
    }  # fmt: skip
    assert embedder.config["token_embedder"]["max_characters_per_token"] == 50
    assert (embedder.char_lexicon, embedder.word_lexicon) == ({}, {})


@pytest.mark.parametrize("changes", [{}, PLAIN], ids=["elmo", "lstm"])
def test_the_model_is_a_module_whose_weights_can_be_changed(make_manylangs, changes):
    folder, _ = make_manylangs(**changes)
    embedder = Embedder(folder)
    before = embedder.sents2elmo([["a", "b"]])
    assert embedder.model.eval().to("cpu") is embedder.model and not embedder.model.training
    assert embedder.word_lexicon["<oov>"] >= 0 and embedder.char_lexicon["<eow>"] >= 0
    embedder.model.requires_grad_(False)
    with torch.no_grad():
        for parameter in embedder.model.parameters():
            parameter.zero_()
    assert before[0].any() and Embedder(folder).model is not embedder.model
    assert not embedder.sents2elmo([["a", "b"]], 0)[0].any()
