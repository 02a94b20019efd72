"""The modules of AllenNLP: mixes, layers, state, parameters, the token embedder and the embedder of files."""

import io
import json
from types import MappingProxyType

import h5py
import numpy as np
import pytest
import torch
from compat.tiny import BATCHES, CONFIG, N_LAYERS, WIDTH, assert_close, make_bilm, save_files

from spacy_elmo import BiLMConfig
from spacy_elmo.compat.allennlp import (
    ConfigurationError,
    Elmo,
    ElmoBiLm,
    ElmoEmbedder,
    ElmoTokenEmbedder,
    ScalarMix,
    batch_to_ids,
)

LSTM_NAMES = ("input_linearity.weight", "state_linearity.weight", "state_linearity.bias", "state_projection.weight")


CELLS = [f"_elmo_lstm._elmo_lstm.{name}_layer_{k}" for k in range(2) for name in ("forward", "backward")]


CNN = "_elmo_lstm._token_embedder."


NAMES = [  # in the order of a file of AllenNLP
    CNN + "_char_embedding_weights",
    *(f"{CNN}char_conv_{k}.{part}" for k in range(3) for part in ("weight", "bias")),
    *(f"{CNN}_highways._layers.{k}.{part}" for k in range(2) for part in ("weight", "bias")),
    *(f"{CNN}_projection.{part}" for part in ("weight", "bias")),
    *(f"{cell}.{name}" for cell in CELLS for name in LSTM_NAMES),
    "scalar_mix_0.gamma",
    *(f"scalar_mix_0.scalar_parameters.{k}" for k in range(N_LAYERS)),
]


LINES = ["She sat on the bank .", "the bank", "She sat"]


def make_elmo(files, n=1, **settings):
    return Elmo(files.options, files.weights, n, **{"dropout": 0.0, **settings})


def embed_carried(bilm, batches):
    """For each batch the layers of each sentence with boundaries, the state carried row by row."""
    state, found = None, []
    for batch in batches:
        layers, state = bilm.embed(batch, state=state, return_state=True, boundaries=True)
        found.append(layers)
    return found


@pytest.fixture
def embedder(files):
    return ElmoEmbedder(files.options, files.weights)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_bilm_carries_the_state_of_each_row(files, requires_grad):
    module = ElmoBiLm(files.options, files.weights, requires_grad=requires_grad)
    for batch, wanted in zip(BATCHES, embed_carried(files.bilm, BATCHES)):
        output = module(batch_to_ids(batch))
        assert output["mask"].sum(dim=1).tolist() == [len(words) + 2 for words in batch]
        assert len(output["activations"]) == N_LAYERS
        for k, layer in enumerate(output["activations"]):
            assert layer.shape == (*output["mask"].shape, WIDTH) and not layer[~output["mask"]].any()
            for row, mask, rows in zip(layer, output["mask"], wanted):
                assert_close(row[mask].detach(), rows[k])
    assert [state.shape for state in module._elmo_lstm._states] == [(2, 4, 16), (2, 4, 32)]


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("norm", [False, True])
def test_representations_are_mixes_of_the_layers(files, keep, norm):
    weights, batch = [0.3, -1.0, 0.5], BATCHES[0]
    elmo = make_elmo(files, 2, keep_sentence_boundaries=keep, do_layer_norm=norm, scalar_mix_parameters=weights)
    elmo.scalar_mix_1.gamma.data[0] = 0.5
    output = elmo(batch_to_ids(batch))
    (layers,) = embed_carried(files.bilm, [batch])
    joined = np.concatenate(layers, axis=1)
    mean, deviation = joined.mean(axis=(1, 2)), joined.std(axis=(1, 2))
    shares = np.exp(weights) / np.exp(weights).sum()
    assert set(output) == {"elmo_representations", "mask"} and len(output["elmo_representations"]) == 2
    assert output["mask"].dtype == torch.bool and output["mask"].shape == (3, 6 + 2 * keep)
    for i, rows in enumerate(layers):
        rows = (rows - mean[:, None, None]) / deviation[:, None, None] if norm else rows
        wanted = np.tensordot(shares.astype("float32"), rows, axes=1)
        for found, gamma in zip(output["elmo_representations"], (1.0, 0.5)):
            assert_close(found[i, output["mask"][i]].detach(), gamma * (wanted if keep else wanted[1:-1]))
            assert keep or not found[i, ~output["mask"][i]].any()


def test_ids_with_more_dimensions_keep_their_shape(files):
    batch = [["one", "two"], ["three"], ["the", "bank"], ["She"]]
    ids = batch_to_ids(batch)
    flat, deep = make_elmo(files)(ids), make_elmo(files)(ids.view(2, 2, 2, 50))
    assert deep["mask"].shape == (2, 2, 2) and deep["elmo_representations"][0].shape == (2, 2, 2, WIDTH)
    assert_close(deep["elmo_representations"][0].view(4, 2, WIDTH), flat["elmo_representations"][0])


def test_parameters_have_the_names_and_shapes_of_allennlp(files):
    elmo = make_elmo(files)
    state = elmo.state_dict()
    assert list(state) == NAMES == [name for name, _ in elmo.named_parameters()]
    shapes = [tuple(state[f"{CELLS[0]}.{name}"].shape) for name in LSTM_NAMES]
    assert shapes == [(64, 8), (64, 8), (64,), (8, 16)]
    assert state[CNN + "_char_embedding_weights"].shape == (262, 4)
    assert state[CNN + "char_conv_2.weight"].shape == (4, 4, 3)
    assert state[CNN + "_highways._layers.1.weight"].shape == (40, 20)


def test_parameters_have_the_values_of_allennlp(files):
    """Gates are i, f, j, o with the forget bias inside; the gate of a highway carries."""
    state, ours = make_elmo(files).state_dict(), files.bilm.network.state_dict()
    i, j, f, o = ours["encoder.layers.1.bias"][1].chunk(4)
    assert torch.equal(state[f"{CELLS[3]}.state_linearity.bias"], torch.cat([i, f + 1.0, j, o]))
    i, j, f, o = ours["encoder.layers.0.input_weight"][0].t().chunk(4)
    assert torch.equal(state[f"{CELLS[0]}.input_linearity.weight"], torch.cat([i, f, j, o]))
    transform, gate = ours["char_cnn.highways.0.weight"].chunk(2)
    assert torch.equal(state[CNN + "_highways._layers.0.weight"], torch.cat([transform, -gate]))


@pytest.mark.parametrize("requires_grad", [False, True])
def test_gradients_reach_what_is_trained(files, requires_grad):
    embedder = ElmoTokenEmbedder(files.options, files.weights, requires_grad=requires_grad, dropout=0.0)
    for batch in BATCHES[:2]:  # the second with a carried state
        embedder(batch_to_ids(batch)).square().sum().backward()
    for name, parameter in embedder.named_parameters():
        assert (parameter.grad is not None) is (requires_grad or "scalar_mix" in name), name
        assert parameter.requires_grad is (requires_grad or "scalar_mix" in name)


def test_cached_words_give_the_same_vectors(files):
    words = ["@@PADDING@@", "@@UNKNOWN@@", "the", "bank", "sat"]
    batch = [["the", "bank"], ["sat"]]
    word_ids = torch.tensor([[2, 3], [4, 0]])
    plain, cached = (make_elmo(files, vocab_to_cache=cache) for cache in (None, words))
    wanted = plain(batch_to_ids(batch))
    found = cached(batch_to_ids([["x", "y"], ["z"]]), word_ids)  # the characters are not read
    assert_close(found["elmo_representations"][0], wanted["elmo_representations"][0])
    assert torch.equal(found["mask"], wanted["mask"])
    assert cached._elmo_lstm._word_embedding.weight.shape == (5, 8)
    assert "_elmo_lstm._word_embedding.weight" in cached.state_dict()
    deep = cached(batch_to_ids(batch).view(2, 1, 2, 50), word_ids.view(2, 1, 2))
    assert deep["elmo_representations"][0].shape == (2, 1, 2, WIDTH)
    plain, cached = (make_elmo(files, vocab_to_cache=cache) for cache in (None, words))
    found, wanted = cached(batch_to_ids(batch), word_ids + 5), plain(batch_to_ids(batch))  # outside of the cache
    assert_close(found["elmo_representations"][0], wanted["elmo_representations"][0])


def test_a_module_replaces_the_files(files):
    module = ElmoBiLm(files.options, files.weights)
    elmo = Elmo(None, None, 2, dropout=0.0, module=module)
    wanted = make_elmo(files, 2)(batch_to_ids(BATCHES[0]))["elmo_representations"][1]
    assert_close(elmo(batch_to_ids(BATCHES[0]))["elmo_representations"][1], wanted)
    assert elmo.get_output_dim() == WIDTH
    with pytest.raises(ConfigurationError, match="either files or module"):
        Elmo(files.options, files.weights, 1, module=module)


def test_dropout_in_training_only(files):
    elmo = make_elmo(files, dropout=0.5)
    output = elmo(batch_to_ids(BATCHES[0]))
    assert 0.2 < (output["elmo_representations"][0][output["mask"]] == 0).float().mean() < 0.8
    output = elmo.eval()(batch_to_ids(BATCHES[0]))
    assert (output["elmo_representations"][0][output["mask"]] != 0).float().mean() > 0.99


def test_token_embedder_projects(files):
    params = {"type": "elmo_token_embedder", "options_file": str(files.options), "weight_file": str(files.weights)}
    embedder = ElmoTokenEmbedder.from_params(params={**params, "projection_dim": 5}, vocab=None)
    assert embedder.get_output_dim() == embedder.output_dim == 5
    assert embedder(batch_to_ids(BATCHES[0])).shape == (3, 6, 5)
    assert embedder(torch.ones(1, 1, 1, 50, dtype=torch.long)).shape == (1, 1, 1, 5)
    assert {"_projection.weight", "_elmo.scalar_mix_0.gamma"} <= set(embedder.state_dict())
    assert Elmo.from_params({**params, "num_output_representations": 2}).get_output_dim() == WIDTH


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@torch.no_grad()
def test_other_types_of_the_parameters(files, dtype):
    elmo, ids = make_elmo(files), batch_to_ids(BATCHES[0])
    wanted = elmo(ids)["elmo_representations"][0]
    elmo._elmo_lstm._elmo_lstm.reset_states()
    found = elmo.to(dtype)(ids)["elmo_representations"][0]
    assert found.dtype == dtype and (found - wanted).abs().max() < 0.1


def test_a_bilm_that_does_not_fit_is_refused(tmp_path):
    record = CONFIG.to_dict()
    misfit = save_files(make_bilm(BiLMConfig.from_dict({**record, "cell_width": 8})), tmp_path)
    with pytest.raises(ConfigurationError, match="no projection.*spacy_elmo.nn.Elmo"):
        Elmo(misfit.options, misfit.weights, 1)


def test_given_weights_are_not_trained():
    mix = ScalarMix(3, initial_scalar_parameters=[1.0, 2.0, 3.0], trainable=False)
    assert [parameter.item() for parameter in mix.scalar_parameters] == [1.0, 2.0, 3.0]
    assert not any(parameter.requires_grad for parameter in mix.parameters())
    assert list(mix.state_dict()) == ["gamma", *(f"scalar_parameters.{k}" for k in range(3))]


class AllenNLPVocabulary:
    """The one method of AllenNLP's class that is used."""

    def get_token_to_index_vocabulary(self, namespace):
        return {"tokens": {"@@PADDING@@": 0, "@@UNKNOWN@@": 1, "bank": 2}}[namespace]


@pytest.mark.parametrize("cls", [Elmo, ElmoTokenEmbedder])
def test_from_params_takes_the_forms_of_all_versions(files, cls):
    params = {"type": "elmo_token_embedder", "options_file": str(files.options), "weight_file": str(files.weights)}
    params.update({"num_output_representations": 1} if cls is Elmo else {"projection_dim": 5})
    width = 16 if cls is Elmo else 5
    vocab, before = AllenNLPVocabulary(), dict(params)
    for call in (
        lambda: cls.from_params(params),
        lambda: cls.from_params(params=params),
        lambda: cls.from_params(None, params),
        lambda: cls.from_params(vocab, params),
        lambda: cls.from_params(vocab=vocab, params=params),
        lambda: cls.from_params(params, vocab=vocab),
        lambda: cls.from_params(MappingProxyType(params), extra=1),
    ):
        assert call().get_output_dim() == width
    assert params == before
    cached = {**params, "namespace_to_cache": "tokens"}
    for module in (cls.from_params(vocab, cached), cls.from_params(cached, vocab=vocab)):
        found = module(torch.zeros(1, 1, 50, dtype=torch.long), torch.tensor([[2]]))
        wanted = module(batch_to_ids([["bank"]]))
        assert type(found) is type(wanted)
    for bad in (lambda: cls.from_params(vocab), lambda: cls.from_params(None, cached)):
        with pytest.raises((ConfigurationError, AttributeError), match="params|vocabulary"):
            bad()


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
