"""Language models of AllenNLP: those with an LSTM equal PyTorch's own LSTM, the others are named."""

import copy
import json

import numpy as np
import pytest
import torch
from reference.allennlp_state import to_bytes
from reference.numpy_transformer import NumpyTransformer, make_archive
from torch import nn

from spacy_elmo import load_bilm
from spacy_elmo.text.words import character_ids
from spacy_elmo.weights.allennlp_lm import read_language_model

WIDTH, FILTERS = 6, [[1, 4], [3, 5]]
WORDS = ["@@UNKNOWN@@", "<S>", "</S>", "the", "bank", "."]
SENTENCE = ["the", "bank", "café", "."]
BASE = "_text_field_embedder.token_embedder_chars."
ENCODER = BASE + "_encoder._module."
CONFIG = {
    "dataset_reader": {"token_indexers": {"chars": {"type": "elmo_characters"}}},
    "model": {
        "type": "language_model",
        "text_field_embedder": {
            "token_embedders": {
                "chars": {
                    "type": "character_encoding",
                    "embedding": {"num_embeddings": 262, "embedding_dim": 4},
                    "encoder": {
                        "type": "cnn-highway",
                        "embedding_dim": 4,
                        "filters": FILTERS,
                        "num_highway": 1,
                        "projection_dim": WIDTH,
                    },
                }
            }
        },
        "contextualizer": {"type": "lstm", "bidirectional": True, "input_size": WIDTH, "hidden_size": WIDTH},
    },
}


def lstm_of(config):
    settings = config["model"]["contextualizer"]
    n_layers, is_both = settings.get("num_layers", 1), settings["bidirectional"]
    return nn.LSTM(settings["input_size"], settings["hidden_size"], n_layers, bidirectional=is_both, batch_first=True)


def make_state(config, n_words=len(WORDS) + 1):
    torch.manual_seed(0)
    n_filters = sum(n for _, n in FILTERS)
    state = {BASE + "_embedding._module.weight": torch.randn(262, 4)}
    for i, (width, n) in enumerate(FILTERS):
        state[f"{ENCODER}char_conv_{i}.weight"] = torch.randn(n, 4, width)
        state[f"{ENCODER}char_conv_{i}.bias"] = torch.randn(n)
    state[ENCODER + "_highways._layers.0.weight"] = torch.randn(2 * n_filters, n_filters)
    state[ENCODER + "_highways._layers.0.bias"] = torch.randn(2 * n_filters)
    state[ENCODER + "_projection.weight"] = torch.randn(WIDTH, n_filters)
    state[ENCODER + "_projection.bias"] = torch.randn(WIDTH)
    state.update({f"_contextualizer._module.{name}": value for name, value in lstm_of(config).state_dict().items()})
    state["_softmax_loss.softmax_w"] = torch.randn(WIDTH, n_words)
    state["_softmax_loss.softmax_b"] = torch.randn(n_words)
    return state


def write(folder, config, state, words=WORDS):
    (folder / "vocabulary").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocabulary" / "tokens.txt").write_text("".join(f"{word}\n" for word in words))
    (folder / "weights.th").write_bytes(to_bytes(state))
    return folder


def changed(**settings):
    """CONFIG with other settings of the contextualizer."""
    config = copy.deepcopy(CONFIG)
    config["model"]["contextualizer"].update(settings)
    return config


@torch.no_grad()
def run_theirs(config, state, words):
    """Layer 0 and the top layer, with PyTorch's modules."""
    ids = torch.from_numpy(character_ids(["<S>", *words, "</S>"], 50))
    characters = nn.functional.embedding(ids, state[BASE + "_embedding._module.weight"]).transpose(1, 2)
    pooled = []
    for i in range(len(FILTERS)):
        weight, bias = (state[f"{ENCODER}char_conv_{i}.{name}"] for name in ("weight", "bias"))
        pooled.append(nn.functional.conv1d(characters, weight, bias).amax(dim=2).relu())
    features = torch.cat(pooled, dim=1)
    weight, bias = (state[f"{ENCODER}_highways._layers.0.{name}"] for name in ("weight", "bias"))
    new, gate = nn.functional.linear(features, weight, bias).chunk(2, dim=1)
    features = gate.sigmoid() * features + (1 - gate.sigmoid()) * new.relu()
    vectors = nn.functional.linear(features, state[ENCODER + "_projection.weight"], state[ENCODER + "_projection.bias"])
    lstm = lstm_of(config)
    lstm.load_state_dict({name: state[f"_contextualizer._module.{name}"] for name in lstm.state_dict()})
    return vectors, lstm(vectors.unsqueeze(0))[0][0]


@pytest.mark.parametrize("settings", [{}, {"bidirectional": False}, {"bidirectional": False, "num_layers": 3}])
def test_lstm_language_model_has_the_same_vectors_and_losses(settings, tmp_path):
    config = changed(**settings)
    state = make_state(config)
    bilm = load_bilm(write(tmp_path / "lm", config, state))
    low, top = run_theirs(config, state, SENTENCE)
    (found,) = bilm.embed([SENTENCE], boundaries=True)
    assert np.abs(found[0][:, :WIDTH] - low.numpy()).max() <= 2e-5
    assert np.abs(found[-1] - top.numpy()).max() <= 2e-5
    logits = top[:-1, :WIDTH] @ state["_softmax_loss.softmax_w"] + state["_softmax_loss.softmax_b"]
    targets = torch.tensor([3, 4, 0, 5, 2])  # rows of the softmax are ids without the padding
    wanted = nn.functional.cross_entropy(logits, targets, reduction="none")
    assert np.abs(bilm.token_losses([SENTENCE])[0][0] - wanted.numpy()).max() <= 1e-4
    assert bilm.meta == {"source_format": "allennlp"}


@torch.no_grad()
@pytest.mark.parametrize("projection, norm, width", [("after_cnn", False, 16), ("after_highway", True, 20)])
def test_the_character_cnn_is_that_of_the_transformer(projection, norm, width):
    config, arrays = make_archive(projection=projection, norm=norm, width=width)
    arrays = {name: array for name, array in arrays.items() if not name.startswith("_contextualizer.")}
    lstm_config = {"type": "lstm", "bidirectional": True, "input_size": width, "hidden_size": width}
    config["model"]["contextualizer"] = lstm_config
    lstm = lstm_of(config)
    arrays.update({f"_contextualizer._module.{name}": value.numpy() for name, value in lstm.state_dict().items()})
    (found,) = read_language_model(config, arrays, None, "model.tar.gz").embed([SENTENCE], boundaries=True)
    reference = NumpyTransformer(arrays, projection=projection)
    words = np.stack([reference.word_vector(word) for word in ["<S>", *SENTENCE, "</S>"]])
    np.testing.assert_allclose(found[0], np.concatenate([words, words], axis=1), rtol=0, atol=2e-5)
    wanted = lstm(torch.from_numpy(words.astype("float32")).unsqueeze(0))[0][0].numpy()
    np.testing.assert_allclose(found[1], wanted, rtol=0, atol=2e-5)


@pytest.mark.parametrize("kind", ["gated-cnn-encoder", None])
def test_other_contextualizers_are_named(kind, tmp_path):
    folder = write(tmp_path / "lm", changed(type=kind), make_state(CONFIG))
    found = "no config.json" if kind is None else repr(kind)
    with pytest.raises(ValueError, match=f"contextualizer cannot be read: {found}.*one of: .*lstm"):
        load_bilm(folder)


@pytest.mark.parametrize(
    "place, value, problem",
    [
        (("contextualizer", "num_layers"), 2, "num_layers is 2, should be 1: upper layers read both directions"),
        (("contextualizer", "hidden_size"), 7, "hidden_size is 7, should be input_size"),
        (("contextualizer", "bidirectional"), 1, "bidirectional is 1, should be true or false"),
        (("contextualizer", "bias"), False, "bias is False, should be true"),
        (("encoder", "filters"), "x", "filters is 'x', should be a list"),
    ],
)
def test_language_models_that_are_no_bilm_are_refused(place, value, problem, tmp_path):
    config = copy.deepcopy(CONFIG)
    blocks = {
        "contextualizer": config["model"]["contextualizer"],
        "encoder": config["model"]["text_field_embedder"]["token_embedders"]["chars"]["encoder"],
    }
    blocks[place[0]][place[1]] = value
    with pytest.raises(ValueError) as error:
        load_bilm(write(tmp_path / "lm", config, make_state(CONFIG)))
    assert str(error.value).startswith("No biLM is equal to the language model") and problem in str(error.value)


def test_files_beside_a_language_model_are_refused(tmp_path):
    folder = write(tmp_path / "lm", CONFIG, make_state(CONFIG))
    with pytest.raises(ValueError, match="'other'"):
        load_bilm(f"{folder}#other")
    (tmp_path / "words.txt").write_text("a")
    for name in ("vocab", "softmax"):
        with pytest.raises(ValueError, match=f"{name} cannot be added"):
            load_bilm(folder, **{name: tmp_path / "words.txt"})
