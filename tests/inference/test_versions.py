"""Vectors are computed with the current weights, whatever changed them."""

import copy
import subprocess
import sys

import numpy as np
import pytest
import torch
from nn.tiny import make_language_model

from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.text.words import Vocabulary

SENTENCES = [["She", "sat", "on", "the", "bank"], ["Oslo"]]
WORDS = ["<S>", "</S>", "<UNK>", "She", "bank"]
FUSED = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad)


def step_optimizer(make, **settings):
    def change(bilm, other):
        optimizer = make(bilm.network.parameters(), lr=0.1, **settings)
        bilm.encode(SENTENCES, with_grad=True).sum().backward()
        optimizer.step()

    return change


def replace_network(bilm, other):
    bilm.network = other


def replace_encoder(bilm, other):
    bilm.network.encoder = other.encoder


def change_in_place(bilm, other):
    with torch.no_grad():
        bilm.network.char_cnn.embedding.mul_(0.5)


def replace_data(bilm, other):
    for weight, new in zip(bilm.network.parameters(), other.parameters()):
        weight.data = new.detach().clone()


CHANGES = {
    "optimizer.step": step_optimizer(torch.optim.Adam),
    **{f"fused {make.__name__}": step_optimizer(make, fused=True) for make in FUSED},
    "network": replace_network,
    "module": replace_encoder,
    "in place": change_in_place,
    "load_state_dict": lambda bilm, other: bilm.network.load_state_dict(other.state_dict()),
    "load_state_dict, assign": lambda bilm, other: bilm.network.load_state_dict(other.state_dict(), assign=True),
    "data": replace_data,
    "values of data": lambda bilm, other: [weight.data.mul_(0.5) for weight in bilm.network.parameters()],
}


@pytest.mark.issue(15)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("call", ["embed", "encode", "iter_encode", "steady_state", "perplexity"])
def test_changed_weights_are_noticed(change, call):
    bilm = make_language_model(WORDS)
    other = copy.deepcopy(bilm.network)
    for weight in other.parameters():
        weight.data = weight.data * 0.7

    def compute(bilm):
        if call == "steady_state":
            return bilm.steady_state.h.numpy()
        if call == "perplexity":
            return np.array(bilm.perplexity(SENTENCES, state="reset").mean)
        if call == "iter_encode":
            return torch.cat([rows for _, _, rows in bilm.iter_encode(SENTENCES)], dim=1).numpy()
        return np.concatenate(bilm.embed(SENTENCES), axis=1) if call == "embed" else bilm.encode(SENTENCES).numpy()

    before = compute(bilm)
    CHANGES[change](bilm, other)
    after = compute(bilm)
    fresh = compute(BiLM(copy.deepcopy(bilm.network), vocabulary=bilm.vocabulary, head=bilm.head))
    assert not np.allclose(before, after, atol=1e-4)
    np.testing.assert_allclose(after, fresh, atol=1e-6)


@pytest.mark.issue(37)
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
@pytest.mark.parametrize("make", FUSED[:3])
def test_steps_of_fused_optimizers_are_noticed_on_a_gpu(make):
    bilm = make_language_model(WORDS).to("cuda")
    before = bilm.embed(SENTENCES)
    step_optimizer(make, fused=True)(bilm, None)
    after, fresh = bilm.embed(SENTENCES), BiLM(copy.deepcopy(bilm.network)).embed(SENTENCES)
    assert not np.allclose(before[0], after[0], atol=1e-4)
    np.testing.assert_allclose(after[0], fresh[0], atol=1e-6)


@pytest.mark.issue(37)
def test_steps_of_fused_optimizers_are_noticed_if_the_last_values_stay():
    bilm = make_language_model(WORDS)
    before = bilm.embed(SENTENCES)
    optimizer = torch.optim.SGD(bilm.network.parameters(), lr=0.1, fused=True)
    bilm.encode(SENTENCES, with_grad=True).sum().backward()
    for weight in bilm.network.parameters():
        weight.grad[(-1,) * weight.dim()] = 0.0
    optimizer.step()
    after, fresh = bilm.embed(SENTENCES), BiLM(copy.deepcopy(bilm.network)).embed(SENTENCES)
    assert not np.allclose(before[0], after[0], atol=1e-4)
    np.testing.assert_array_equal(after[0], fresh[0])


@pytest.mark.issue(37)
@pytest.mark.parametrize("is_replaced", [False, True])
def test_changed_token_embeddings_are_noticed(is_replaced):
    words = ["<S>", "</S>", "<UNK>", *SENTENCES[0]]
    network, table = make_language_model(WORDS).network, torch.rand(len(words), 8)
    bilm = BiLM(network, vocabulary=Vocabulary(words), token_embeddings=table)
    bilm.embed(SENTENCES)
    if is_replaced:
        bilm.token_embeddings = table * 2
    else:
        table *= 2  # those of <S> and </S>, too, with which states begin
    fresh = BiLM(network, vocabulary=Vocabulary(words), token_embeddings=table * (2 if is_replaced else 1))
    np.testing.assert_array_equal(bilm.embed(SENTENCES)[0], fresh.embed(SENTENCES)[0])


@pytest.mark.slow
@pytest.mark.issue(15)
def test_the_first_vector_does_not_import_the_compiler_of_torch():
    """`torch.nn.init` on meta tensors does, which takes longer than reading the weights."""
    code = (
        "import sys, spacy; nlp = spacy.blank('en'); nlp.add_pipe('elmo'); nlp('Oslo sleeps.')[0]._.elmo;"
        "print('torch._dynamo' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
