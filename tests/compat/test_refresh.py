"""Writes that torch does not count, such as those of a study of ablations: every public module has `clear_caches`."""

import numpy as np
import pytest
import torch
from compat.tiny import BATCHES

from spacy_elmo.compat import allennlp
from spacy_elmo.compat.elmoformanylangs import Embedder
from spacy_elmo.compat.simple_elmo import ElmoModel
from spacy_elmo.nn import Elmo, batch_to_ids

SENTENCES = BATCHES[0]


def zero_the_first_half(weight):
    weight.data[: -(-len(weight) // 2)] = 0


def scale_in_numpy(weight):
    weight.detach().numpy()[..., :-1] *= 1.5


def make_simple(files):
    model = ElmoModel()
    model.load(files.weights.parent)
    return model


def compute_allennlp(module):
    for part in module.modules():
        if isinstance(part, allennlp.ElmoLstm):
            part.reset_states()
    output = module(batch_to_ids(SENTENCES))
    return output.get("elmo_representations", [output.get("token_embedding")])[-1].detach().numpy().copy()


# How each is made, what it computes, and what has its weights.
MODULES = {
    "nn.Elmo": (
        lambda files: Elmo(files.weights.parent, dropout=0.0),
        lambda elmo: elmo(SENTENCES).representations[0].detach().numpy(),
        lambda elmo: elmo.encoder,
    ),
    "AllenNLP Elmo": (
        lambda files: allennlp.Elmo(files.options, files.weights, 1, dropout=0.0),
        compute_allennlp,
        lambda elmo: elmo._elmo_lstm,
    ),
    "ElmoCharacterEncoder": (
        lambda files: allennlp.ElmoCharacterEncoder(files.options, files.weights),
        compute_allennlp,
        lambda module: module,
    ),
    "simple_elmo": (make_simple, lambda model: model.get_elmo_vectors(SENTENCES), lambda model: model.bilm.network),
}


@pytest.mark.parametrize("write", [zero_the_first_half, scale_in_numpy])
@pytest.mark.parametrize("name", MODULES)
def test_refresh_makes_every_module_compute_with_the_weights_that_are_there(files, name, write):
    make, compute, weights_of = MODULES[name]
    module, fresh = make(files), make(files)
    before = compute(module)
    for one in (module, fresh):  # the second has computed nothing yet
        for weight in weights_of(one).parameters():
            write(weight)
    (module.bilm if name == "simple_elmo" else module).clear_caches()
    after = compute(module)
    assert not np.allclose(after, before, atol=1e-4)
    np.testing.assert_allclose(after, compute(fresh), atol=1e-6)


def test_refresh_reaches_models_of_elmoformanylangs(make_manylangs):
    folder, _ = make_manylangs(encoder={"name": "lstm"})
    embedders = [Embedder(folder), Embedder(folder)]
    before = embedders[0].sents2elmo(SENTENCES)[0]
    for embedder in embedders:
        for weight in embedder.bilm.network.parameters():
            zero_the_first_half(weight)
    embedders[0].bilm.clear_caches()
    after, fresh = (embedder.sents2elmo(SENTENCES)[0] for embedder in embedders)
    assert not np.allclose(after, before, atol=1e-4)
    np.testing.assert_allclose(after, fresh, atol=1e-6)


def test_refresh_keeps_the_carried_state(files):
    modules = [allennlp.ElmoBiLm(files.options, files.weights) for _ in range(2)]
    for module in modules:
        module(batch_to_ids(SENTENCES))
    modules[0].clear_caches()
    first, second = (module(batch_to_ids(SENTENCES))["activations"][-1] for module in modules)
    torch.testing.assert_close(first, second)
