"""The transformer language model of AllenNLP: read, saved and loaded again."""

import copy

import numpy as np
import pytest
import torch
from reference.numpy_transformer import NumpyTransformer, make_archive
from transformers_tiny import make_transformer

from spacy_elmo import load_bilm, save_bilm
from spacy_elmo.bilm.transformer import sinusoids
from spacy_elmo.weights.allennlp_lm import read_language_model

SENTENCES = [["She", "sat", "on", "the", "bank", "."], [], ["\N{WATER WAVE}"], ["the"] * 23, ["a" * 60, "the"]]
WORDS = ["@@UNKNOWN@@", "<S>", "</S>", "the", "bank", "."]
POSITIONS = "_contextualizer._position.positional_encoding"
CHARACTERS = "_text_field_embedder.token_embedder_token_characters."


def read(config, arrays, words=None):
    return read_language_model(config, arrays, words, "model.tar.gz")


def with_softmax(arrays, n_rows, kind="parameter", width=16):
    random = np.random.default_rng(1)
    weight, bias = random.normal(0, 0.5, (n_rows, width)).astype("f4"), random.normal(0, 0.5, n_rows).astype("f4")
    names = {
        "parameter": {"softmax_w": weight, "softmax_b": bias},
        "sparse": {"softmax_w.weight": weight, "softmax_b.weight": bias[:, None]},
        "full": {"softmax_w": weight.T, "softmax_b": bias},
    }
    return {**arrays, **{f"_softmax_loss.{name}": array for name, array in names[kind].items()}}, weight, bias


@pytest.mark.parametrize(
    "width, projection, norm", [(16, "after_highway", True), (40, "after_cnn", True), (40, "after_highway", False)]
)
def test_archive_equals_numpy_reference(width, projection, norm):
    config, arrays = make_archive(width=width, projection=projection, norm=norm, n_layers=3)
    bilm = read(config, arrays)
    wanted = [NumpyTransformer(arrays, projection=projection).layers(words) for words in SENTENCES]
    for found, layers in zip(bilm.embed(SENTENCES, boundaries=True), wanted):
        np.testing.assert_allclose(found, layers, rtol=0, atol=2e-5)
    with_grad = bilm.encode(SENTENCES, boundaries=True, with_grad=True).detach().numpy()
    np.testing.assert_allclose(with_grad, np.concatenate(wanted, axis=1), rtol=0, atol=2e-5)


@pytest.mark.parametrize("kind", ["parameter", "sparse", "full"])
def test_softmax_of_every_kind_equals_numpy_reference(kind):
    config, arrays = make_archive()
    if kind == "full":
        del config["model"]["num_samples"]
    arrays, weight, bias = with_softmax(arrays, len(WORDS) + 1, kind)
    bilm = read(config, arrays, WORDS)
    assert bilm.vocabulary is not None and bilm.vocabulary.words == ["<UNK>", *WORDS[1:], "@@PADDING@@"]
    losses = [NumpyTransformer(arrays).losses(words, WORDS, weight, bias) for words in SENTENCES]
    n_tokens = sum(len(words) + 1 for words in SENTENCES)
    found = bilm.perplexity(SENTENCES)
    for direction, total in zip(("forward", "backward"), np.sum(losses, axis=0)):
        assert getattr(found, direction) == pytest.approx(np.exp(total / n_tokens), rel=1e-4)


def test_positions_of_the_archive_are_compared():
    config, arrays = make_archive()
    table = sinusoids(5000, 16).numpy()[None]
    assert read(config, {**arrays, POSITIONS: table}).config.encoder == "transformer"
    with pytest.raises(ValueError, match=r"(?s)1 problem\(s\):\n- _contextualizer._position"):
        read(config, {**arrays, POSITIONS: table + 0.1})


BASE = ("model", "text_field_embedder", "token_embedders", "token_characters")
INDEXER = ("dataset_reader", "token_indexers", "token_characters")


@pytest.mark.parametrize(
    "path, value, message",
    [
        (("model", "type"), "crf_tagger", "model.type is 'crf_tagger'"),
        (("model", "bidirectional"), False, "model.bidirectional is False"),
        (
            ("model", "contextualizer", "input_dim"),
            20,
            "n_heads is 8, should divide model.contextualizer.input_dim (20)",
        ),
        ((*BASE[:-1], "tokens"), {"type": "embedding"}, "one embedder that is not"),
        (BASE[:-1], None, "token_embedders"),
        ((*BASE, "embedding", "num_embeddings"), 300, "300, should be 262, for the bytes"),
        ((*BASE, "encoder", "filters"), [[60, 1]], "should be 1 to 50 characters wide"),
        (
            (*BASE, "encoder", "projection_location"),
            "after_all",
            "projection_location is 'after_all', should be 'after_highway' or",
        ),
        ((*INDEXER, "type"), "characters", "'characters', should be 'elmo_characters'"),
        ((*INDEXER, "tokens_to_add"), {"<X>": 3}, "tokens_to_add is {'<X>': 3}, should be left out"),
    ],
)
def test_configs_that_cannot_be_read_are_refused(path, value, message):
    config, arrays = make_archive()
    config = copy.deepcopy(config)
    block = config
    for name in path[:-1]:
        block = block[name]
    block[path[-1]] = value
    with pytest.raises(ValueError, match="No biLM is equal to the language model") as caught:
        read(config, arrays)
    assert message in str(caught.value)


def test_all_problems_are_in_one_error():
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
def test_vocabularies_that_do_not_fit_leave_the_softmax_out(words, reason):
    config, arrays = make_archive()
    with pytest.warns(UserWarning, match=f"(?s)WL313.*{reason}"):
        bilm = read(config, with_softmax(arrays, 9)[0], words)
    assert bilm.head is None and bilm.embed([["the"]])[0].shape == (3, 1, 32)


@pytest.mark.parametrize("dtype, tolerance", [("float32", 0.0), ("float16", 0.01), ("int8", 0.2)])
def test_native_format_round_trips(tmp_path, dtype, tolerance):
    bilm = make_transformer(head=True)
    save_bilm(bilm, tmp_path / "saved", dtype=dtype)
    loaded = load_bilm(tmp_path / "saved")
    assert loaded.config == bilm.config and loaded.vocabulary == bilm.vocabulary
    for one, other in zip(loaded.embed(SENTENCES), bilm.embed(SENTENCES)):
        assert np.abs(one - other).max(initial=0) <= tolerance
    if dtype == "float32":
        weights = loaded.network.state_dict()
        assert all(torch.equal(weights[name], weight) for name, weight in bilm.network.state_dict().items())


def test_export_to_bilm_tf_is_refused(tmp_path):
    wanted = r"encoder is 'transformer'.*char_cnn.has_layer_norm"
    with pytest.raises(ValueError, match=wanted):
        save_bilm(make_transformer(), tmp_path / "saved", format="bilm-tf")
    assert not (tmp_path / "saved").exists()
