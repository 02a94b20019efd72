"""The replacements give the numbers of AllenNLP, bilm-tf and ELMoForManyLangs."""

import json

import h5py
import numpy as np
import pytest
import torch
from parity.cases import Case, largest_difference, limit_of, read_json

from spacy_elmo.compat import bilm as compat_bilm
from spacy_elmo.compat.allennlp import Elmo, ElmoBiLm, ElmoEmbedder, batch_to_ids, remove_sentence_boundaries
from spacy_elmo.compat.elmoformanylangs import Embedder

WITH_MIXES = ("fixture", "tiny-2layer")
# ELMoForManyLangs' own float32 numbers are off by more than 2e-5 for one model, and more after a second call.
MANY_LANGS_LIMITS = {"layers": 5e-5, "second_call": 2e-4}
STATEFUL = ("fixture", "tiny-1layer", "tiny-2layer", "tiny-3layer-tanh", "tiny-odd-4layer", "tiny-smallclip")


@pytest.fixture(params=STATEFUL)
def case(request, shared_data, tmp_path):
    return Case(shared_data.parent, request.param, tmp_path)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_allennlp_carries_the_state(case, requires_grad):
    module, rows = ElmoBiLm(case.options, case.weights, requires_grad=requires_grad), []
    for batch in case.facts["stateful_batches"]:
        output = module(batch_to_ids(case._texts_of(batch)))
        pairs = [remove_sentence_boundaries(layer, output["mask"]) for layer in output["activations"]]
        rows.append(torch.stack([layer[mask] for layer, mask in pairs]).detach().numpy())
    limit, states = limit_of(case.bilm.config.n_layers), module._elmo_lstm._states
    assert largest_difference(np.concatenate(rows, axis=1), case.truth["stateful"]) <= limit
    assert largest_difference(states[0], case.truth["state_h"]) <= limit
    assert largest_difference(states[1], case.truth["state_c"]) <= limit


@pytest.mark.parametrize("name", WITH_MIXES)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_allennlp_mixes(name, requires_grad, shared_data, tmp_path):
    case = Case(shared_data.parent, name, tmp_path)
    facts = case.facts["mix"]
    keys = [key for key in case.truth if key.startswith("allennlp_mix_") and "mask" not in key]
    assert len(keys) == 5
    for key in keys:
        has_marks, is_default = key.endswith("marks1"), key.endswith("default")
        settings = {"do_layer_norm": "norm1" in key, "keep_sentence_boundaries": has_marks, "dropout": 0.0}
        elmo = Elmo(case.options, case.weights, 1, requires_grad=requires_grad, **settings)
        if not is_default:
            mix = {f"scalar_mix_0.scalar_parameters.{k}": torch.tensor([w]) for k, w in enumerate(facts["weights"])}
            elmo.load_state_dict({**elmo.state_dict(), **mix, "scalar_mix_0.gamma": torch.tensor([facts["gamma"]])})
        output = elmo(batch_to_ids(case._texts_of(facts["batch"])))
        found = output["elmo_representations"][0].detach()
        assert largest_difference(found, case.truth[key]) <= limit_of(2), key  # padding included
        assert np.array_equal(output["mask"], case.truth[f"allennlp_mix_mask_marks{int(has_marks)}"])


@pytest.mark.parametrize("name", WITH_MIXES)
def test_allennlp_boundaries_and_cached_words(name, shared_data, tmp_path):
    case = Case(shared_data.parent, name, tmp_path)
    rows = []
    for words in case._texts_of(case.facts["boundaries"]):
        module = ElmoBiLm(case.options, case.weights)
        rows.append(torch.cat(module(batch_to_ids([words]))["activations"]).numpy())
    assert largest_difference(np.concatenate(rows, axis=1), case.truth["allennlp_with_marks"]) <= limit_of(2)
    module.create_cached_cnn_embeddings(["@@PADDING@@", *case.facts["vocab"]])
    found = module._word_embedding.weight.detach()[1:]
    assert largest_difference(found, case.truth["allennlp_cached_vectors"]) <= limit_of(2)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_allennlp_gives_its_own_test_data(shared_data, requires_grad):
    root = shared_data / "elmo-fixtures" / "allennlp"
    columns = [[text.split() for text in column] for column in read_json(root / "sentences.json")]
    module = ElmoBiLm(root / "options.json", root / "lm_weights.hdf5", requires_grad=requires_grad)
    embedder = ElmoEmbedder(root / "options.json", root / "lm_weights.hdf5")
    for i, batch in enumerate(zip(*columns)):
        output = module(batch_to_ids(list(batch)))
        top, mask = remove_sentence_boundaries(output["activations"][2], output["mask"])
        for k, layers in enumerate(embedder.embed_batch(list(batch))):
            with h5py.File(root / f"lm_embeddings_{k}.hdf5") as file:
                wanted = np.concatenate(file[str(i)][()], axis=1)
            assert largest_difference(top[k][mask[k]].detach(), wanted) <= limit_of(2)
            assert largest_difference(layers[2], wanted) <= limit_of(2)


def test_bilm_tf_files(shared_data, tmp_path):
    """Row k of its batches is the file of sentences k, computed one by one."""
    root = shared_data / "elmo-fixtures" / "bilm-tf" / "model"
    for k, texts in enumerate(read_json(root / "lm_embeddings_sentences.json")):
        (tmp_path / "text.txt").write_text("\n".join(texts), encoding="utf8")
        files = (root / "options.json", root / "lm_weights.hdf5", tmp_path / "out.hdf5")
        compat_bilm.dump_bilm_embeddings(root / "vocab_test.txt", tmp_path / "text.txt", *files)
        with h5py.File(tmp_path / "out.hdf5") as found, h5py.File(root / f"lm_embeddings_{k}.hdf5") as wanted:
            assert set(found) == set(wanted)
            for name in wanted:
                assert largest_difference(found[name][2], np.concatenate(wanted[name][()], axis=1)) <= limit_of(2)


def test_bilm_tf_state_and_cached_words(case, tmp_path):
    words = ["<S>", "</S>", "<UNK>", *case.facts.get("vocab", [])]
    (tmp_path / "vocab.txt").write_text("\n".join(words), encoding="utf8")
    model = compat_bilm.BidirectionalLanguageModel(case.options, case.weights)
    batcher, rows = compat_bilm.Batcher(tmp_path / "vocab.txt", 50), []
    for batch in case.facts["stateful_batches"]:
        ops = model(batcher.batch_sentences(case._texts_of(batch)))
        rows.append(ops["lm_embeddings"].transpose(1, 0, 2, 3)[:, ops["mask"]])
    limit = limit_of(case.bilm.config.n_layers)
    assert largest_difference(np.concatenate(rows, axis=1), case.truth["stateful"]) <= limit
    if "bilm_tf_cached_vectors" not in case.truth:
        return
    cached = tmp_path / "cached.hdf5"
    compat_bilm.dump_token_embeddings(tmp_path / "vocab.txt", case.options, case.weights, cached)
    with h5py.File(cached) as file:
        assert largest_difference(file["embedding"][()], case.truth["bilm_tf_cached_vectors"]) <= limit
    rows, batcher = [], compat_bilm.TokenBatcher(tmp_path / "vocab.txt")
    for sentence in case.facts["vocab_sentences"]:
        model = compat_bilm.BidirectionalLanguageModel(case.options, case.weights, False, cached, max_batch_size=1)
        rows.append(model(batcher.batch_sentences([sentence]))["lm_embeddings"][0])
    assert largest_difference(np.concatenate(rows, axis=1), case.truth["bilm_tf_cached_stateless"]) <= limit


@pytest.mark.parametrize("name", ["chars", "chars-words", "words"])
def test_elmoformanylangs(name, shared_data):
    folder = shared_data / "elmo-groundtruth" / "emfl" / name
    sentences = json.loads((folder / "sentences.json").read_text(encoding="utf8"))
    truth = np.load(folder / "truth.npz")
    embedder = Embedder(folder)
    for array, limit in MANY_LANGS_LIMITS.items():  # the second call goes on with the state of the first
        found = np.concatenate(embedder.sents2elmo(sentences, -2), axis=1)
        assert largest_difference(found, truth[array]) <= limit, array
    assert largest_difference(truth["layers"], truth["second_call"]) > 0.01
    average = np.concatenate(Embedder(folder).sents2elmo(sentences))
    assert largest_difference(average, truth["average"]) <= MANY_LANGS_LIMITS["layers"]
