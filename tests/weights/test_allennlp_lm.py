"""Language models of AllenNLP: those with an LSTM equal PyTorch's own LSTM, the others are named."""

import json

import numpy as np
import pytest
import torch
from reference.allennlp_state import to_bytes
from reference.numpy_transformer import NumpyTransformer, make_archive
from torch import nn

from spacy_elmo import load_bilm

WIDTH = 16
WORDS = ["@@UNKNOWN@@", "<S>", "</S>", "the", "bank", "."]
SENTENCE = ["the", "bank", "café", "."]


def make_model(projection="after_highway", norm=False, width=WIDTH, **settings):
    """RETURNS: config, tensors and the LSTM of a model over the characters of the transformer."""
    config, arrays = make_archive(projection=projection, norm=norm, width=width)
    del config["model"]["num_samples"]
    lstm_settings = {"type": "lstm", "bidirectional": True, "input_size": width, "hidden_size": width, **settings}
    config["model"]["contextualizer"] = lstm_settings
    torch.manual_seed(0)
    n_layers = lstm_settings.get("num_layers", 1)
    lstm = nn.LSTM(width, width, n_layers, bidirectional=bool(lstm_settings["bidirectional"]), batch_first=True)
    state = {name: torch.from_numpy(value) for name, value in arrays.items() if not name.startswith("_contextualizer.")}
    state.update({f"_contextualizer._module.{name}": value for name, value in lstm.state_dict().items()})
    state["_softmax_loss.softmax_w"] = torch.randn(width, len(WORDS) + 1)
    state["_softmax_loss.softmax_b"] = torch.randn(len(WORDS) + 1)
    return config, state, lstm


def write(folder, config, state):
    (folder / "vocabulary").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocabulary" / "tokens.txt").write_text("".join(f"{word}\n" for word in WORDS))
    (folder / "weights.th").write_bytes(to_bytes(state))
    return folder


@torch.no_grad()
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"bidirectional": False},
        {"bidirectional": False, "num_layers": 3},
        {"projection": "after_cnn"},
        {"norm": True, "width": 20},
    ],
)
def test_lstm_language_model_has_the_same_vectors_and_losses(settings, tmp_path):
    config, state, lstm = make_model(**settings)
    bilm = load_bilm(write(tmp_path / "lm", config, state))
    arrays = {name: value.numpy() for name, value in state.items()}
    reference = NumpyTransformer(arrays, projection=settings.get("projection", "after_highway"))
    words = np.stack([reference.word_vector(word) for word in ["<S>", *SENTENCE, "</S>"]])
    top = lstm(torch.from_numpy(words.astype("float32")).unsqueeze(0))[0][0]
    width = words.shape[1]
    (found,) = bilm.embed([SENTENCE], boundaries=True)
    assert np.abs(found[0][:, :width] - words).max() <= 2e-5
    assert np.abs(found[-1] - top.numpy()).max() <= 2e-5
    logits = top[:-1, :width] @ state["_softmax_loss.softmax_w"] + state["_softmax_loss.softmax_b"]
    targets = torch.tensor([3, 4, 0, 5, 2])  # rows of the softmax are ids without the padding
    wanted = nn.functional.cross_entropy(logits, targets, reduction="none")
    assert np.abs(bilm.token_losses([SENTENCE])[0][0] - wanted.numpy()).max() <= 1e-4
    assert bilm.meta == {"source_format": "allennlp"}


@pytest.mark.parametrize("kind", ["gated-cnn-encoder", None])
def test_other_contextualizers_are_named(kind, tmp_path):
    config, state, _ = make_model(type=kind)
    found = "no config.json" if kind is None else repr(kind)
    with pytest.raises(ValueError, match=f"contextualizer cannot be read: {found}.*one of: .*lstm"):
        load_bilm(write(tmp_path / "lm", config, state))


@pytest.mark.parametrize(
    "name, value, problem",
    [
        ("num_layers", 2, "num_layers is 2, should be 1: upper layers read both directions"),
        ("hidden_size", 7, "hidden_size is 7, should be input_size"),
        ("bidirectional", 1, "bidirectional is 1, should be true or false"),
        ("bias", False, "bias is False, should be true"),
    ],
)
def test_language_models_that_are_no_bilm_are_refused(name, value, problem, tmp_path):
    config, state, _ = make_model(**{name: value})
    with pytest.raises(ValueError, match=f"(?s)No biLM is equal to the language model.*{problem}"):
        load_bilm(write(tmp_path / "lm", config, state))


def test_files_beside_a_language_model_are_refused(tmp_path):
    folder = write(tmp_path / "lm", *make_model()[:2])
    with pytest.raises(ValueError, match="'other'"):
        load_bilm(f"{folder}#other")
    (tmp_path / "words.txt").write_text("a")
    for name in ("vocab", "softmax"):
        with pytest.raises(ValueError, match=f"{name} cannot be added"):
            load_bilm(folder, **{name: tmp_path / "words.txt"})
