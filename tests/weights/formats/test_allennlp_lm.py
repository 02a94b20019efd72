"""Language models of AllenNLP, with a transformer or an LSTM: equal to NumPy or to PyTorch; others are named."""

import json

import numpy as np
import pytest
import torch
from reference.allennlp_state import to_bytes
from reference.numpy_transformer import CHARACTERS, NumpyTransformer, make_archive
from torch import nn

from spacy_elmo import load_bilm
from spacy_elmo.bilm.transformer import sinusoids

SENTENCES = [["She", "sat", "on", "the", "bank", "."], [], ["\N{WATER WAVE}"], ["the"] * 23, ["a" * 60, "the"]]
WORDS = ["@@UNKNOWN@@", "<S>", "</S>", "the", "bank", "."]
POSITIONS = "_contextualizer._position.positional_encoding"
SOFTMAX = "_softmax_loss.softmax_"


@pytest.fixture
def read(tmp_path):
    """Write a folder of AllenNLP and load it."""

    def write_and_load(config, arrays, words=None):
        (tmp_path / "vocabulary").mkdir(exist_ok=True)
        (tmp_path / "config.json").write_text(json.dumps(config))
        if words is not None:
            (tmp_path / "vocabulary" / "tokens.txt").write_text("".join(f"{word}\n" for word in words))
        state = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
        (tmp_path / "weights.th").write_bytes(to_bytes(state))
        return load_bilm(tmp_path)

    return write_and_load


def make_lstm(width=16, projection="after_highway", norm=False, **settings):
    """RETURNS: config, arrays and the LSTM of a model over the characters of the transformer."""
    config, arrays = make_archive(projection=projection, norm=norm, width=width)
    del config["model"]["num_samples"]
    block = {"type": "lstm", "bidirectional": True, "input_size": width, "hidden_size": width, **settings}
    config["model"]["contextualizer"] = block
    torch.manual_seed(0)
    lstm = nn.LSTM(width, width, block.get("num_layers", 1), bidirectional=bool(block["bidirectional"]))
    arrays = {name: value for name, value in arrays.items() if not name.startswith("_contextualizer.")}
    arrays.update({f"_contextualizer._module.{name}": value.numpy() for name, value in lstm.state_dict().items()})
    arrays[f"{SOFTMAX}w"] = torch.randn(width, len(WORDS) + 1).numpy()
    arrays[f"{SOFTMAX}b"] = torch.randn(len(WORDS) + 1).numpy()
    return config, arrays, lstm


def with_softmax(arrays, n_rows, kind="parameter", width=16):
    random = np.random.default_rng(1)
    weight, bias = random.normal(0, 0.5, (n_rows, width)).astype("f4"), random.normal(0, 0.5, n_rows).astype("f4")
    names = {
        "parameter": {"w": weight, "b": bias},
        "sparse": {"w.weight": weight, "b.weight": bias[:, None]},
        "full": {"w": weight.T, "b": bias},
    }
    return {**arrays, **{SOFTMAX + name: array for name, array in names[kind].items()}}, weight, bias


@pytest.mark.parametrize(
    "width, projection, norm", [(16, "after_highway", True), (40, "after_cnn", True), (40, "after_highway", False)]
)
def test_transformer_equals_numpy_reference(width, projection, norm, read):
    config, arrays = make_archive(width=width, projection=projection, norm=norm, n_layers=3)
    bilm = read(config, arrays)
    wanted = [NumpyTransformer(arrays, projection=projection).layers(words) for words in SENTENCES]
    for vectors, layers in zip(bilm.embed(SENTENCES, boundaries=True), wanted):
        np.testing.assert_allclose(vectors, layers, rtol=0, atol=2e-5)
    with_grad = bilm.encode(SENTENCES, boundaries=True, with_grad=True).detach().numpy()
    np.testing.assert_allclose(with_grad, np.concatenate(wanted, axis=1), rtol=0, atol=2e-5)


@pytest.mark.parametrize("kind", ["parameter", "sparse", "full"])
def test_softmax_of_every_kind_equals_numpy_reference(kind, read):
    config, arrays = make_archive()
    if kind == "full":
        del config["model"]["num_samples"]
    arrays, weight, bias = with_softmax(arrays, len(WORDS) + 1, kind)
    bilm = read(config, arrays, WORDS)
    assert bilm.vocabulary is not None and bilm.vocabulary.words == ["<UNK>", *WORDS[1:], "@@PADDING@@"]
    losses = [NumpyTransformer(arrays).losses(words, WORDS, weight, bias) for words in SENTENCES]
    n_tokens = sum(len(words) + 1 for words in SENTENCES)
    perplexity = bilm.perplexity(SENTENCES)
    for direction, total in zip(("forward", "backward"), np.sum(losses, axis=0)):
        assert getattr(perplexity, direction) == pytest.approx(np.exp(total / n_tokens), rel=1e-4)


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
def test_lstm_has_the_vectors_and_losses_of_pytorch(settings, read):
    sentence = ["the", "bank", "café", "."]
    config, arrays, lstm = make_lstm(**settings)
    bilm = read(config, arrays, WORDS)
    reference = NumpyTransformer(arrays, projection=settings.get("projection", "after_highway"))
    words = np.stack([reference.word_vector(word) for word in ["<S>", *sentence, "</S>"]])
    top = lstm(torch.from_numpy(words.astype("float32")))[0]
    width = words.shape[1]
    (vectors,) = bilm.embed([sentence], boundaries=True)
    assert np.abs(vectors[0][:, :width] - words).max() <= 2e-5
    assert np.abs(vectors[-1] - top.numpy()).max() <= 2e-5
    logits = top[:-1, :width].numpy() @ arrays[f"{SOFTMAX}w"] + arrays[f"{SOFTMAX}b"]
    targets = torch.tensor([3, 4, 0, 5, 2])  # rows of the softmax are ids without the padding
    wanted = nn.functional.cross_entropy(torch.from_numpy(logits), targets, reduction="none")
    assert np.abs(bilm.token_losses([sentence])[0][0] - wanted.numpy()).max() <= 1e-4
    assert bilm.meta == {"source_format": "allennlp"}


def test_positions_of_the_archive_are_compared(read):
    config, arrays = make_archive()
    table = sinusoids(5000, 16).numpy()[None]
    assert read(config, {**arrays, POSITIONS: table}).config.encoder == "transformer"
    with pytest.raises(ValueError, match=r"(?s)1 problem\(s\):\n- _contextualizer._position"):
        read(config, {**arrays, POSITIONS: table + 0.1})


EMBEDDERS = "model.text_field_embedder.token_embedders"
BASE = f"{EMBEDDERS}.token_characters"
LSTM = "model.contextualizer"


@pytest.mark.parametrize(
    "path, value, message",
    [
        ("model.type", "crf_tagger", "model.type is 'crf_tagger'"),
        ("model.bidirectional", False, "model.bidirectional is False"),
        (f"{LSTM}.input_dim", 20, "n_heads is 8, should divide model.contextualizer.input_dim (20)"),
        (f"{EMBEDDERS}.tokens", {"type": "embedding"}, "one embedder that is not"),
        (EMBEDDERS, None, "token_embedders"),
        (f"{BASE}.embedding.num_embeddings", 300, "300, should be 262, for the bytes"),
        (f"{BASE}.encoder.filters", [[60, 1]], "should be 1 to 50 characters wide"),
        (f"{BASE}.encoder.projection_location", "after_all", "is 'after_all', should be 'after_highway' or"),
        ("dataset_reader.token_indexers.token_characters.type", "characters", "should be 'elmo_characters'"),
        ("dataset_reader.token_indexers.token_characters.tokens_to_add", {"<X>": 3}, "{'<X>': 3}, should be left out"),
        (f"{LSTM}.type", "gated-cnn-encoder", "contextualizer cannot be read: 'gated-cnn-encoder'"),
        (f"{LSTM}.type", None, "contextualizer cannot be read: no config.json"),
        ("lstm num_layers", 2, "num_layers is 2, should be 1: upper layers read both directions"),
        ("lstm hidden_size", 7, "hidden_size is 7, should be input_size"),
        ("lstm bidirectional", 1, "bidirectional is 1, should be true or false"),
        ("lstm bias", False, "bias is False, should be true"),
    ],
)
def test_configs_that_cannot_be_read_are_refused(path, value, message, read):
    kind, _, name = path.rpartition(" ")
    config, arrays = make_lstm(**{name: value})[:2] if kind else make_archive()
    if not kind:
        *places, name = path.split(".")
        block = config
        for place in places:
            block = block[place]
        block[name] = value
    with pytest.raises(ValueError, match="No biLM is equal to the language model|one of: .*lstm") as caught:
        read(config, arrays)
    assert message in str(caught.value)


def test_all_problems_are_in_one_error(read):
    config, arrays = make_archive()
    arrays, _, _ = with_softmax(arrays, 9, width=15)
    del arrays["_contextualizer._backward_transformer.norm.beta"]
    arrays["_contextualizer.other"] = np.zeros(3, dtype="f4")
    arrays[CHARACTERS + "_embedding._module.weight"] = np.full((262, 4), np.nan, dtype="f4")
    with pytest.raises(ValueError, match=r"4 problem\(s\)") as caught:
        read(config, arrays, WORDS)
    for part in ("missing: _cont", "unexpected: _cont", "not finite: _text", "softmax_w is [9, 15], should be [9, 16]"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "words, reason", [(["@@UNKNOWN@@", "the"], "special words: <S>, </S>"), (WORDS, "7 words.*9 rows")]
)
def test_vocabularies_that_do_not_fit_leave_the_softmax_out(words, reason, read):
    config, arrays = make_archive()
    with pytest.warns(UserWarning, match=f"(?s)WL313.*{reason}"):
        bilm = read(config, with_softmax(arrays, 9)[0], words)
    assert bilm.head is None and bilm.embed([["the"]])[0].shape == (3, 1, 32)


def test_files_beside_a_language_model_are_refused(read, tmp_path):
    read(*make_lstm()[:2], WORDS)
    with pytest.raises(ValueError, match="'other'"):
        load_bilm(f"{tmp_path}#other")
    (tmp_path / "words.txt").write_text("a")
    for name in ("vocab", "softmax"):
        with pytest.raises(ValueError, match=f"{name} cannot be added"):
            load_bilm(tmp_path, **{name: tmp_path / "words.txt"})
