"""Vectors are computed with the current weights, whatever changed them."""

import copy

import numpy as np
import pytest
import torch
from nn.tiny import make_language_model
from own_process import run_script

from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.text.words import Vocabulary

SENTENCES = [["She", "sat", "on", "the", "bank"], ["Oslo"]]
WORDS = ["<S>", "</S>", "<UNK>", "She", "bank"]
FUSED = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad)


def step_optimizer(make, keeps_last=False, **settings):
    def change(bilm, other):
        optimizer = make(bilm.network.parameters(), lr=0.1, **settings)
        bilm.encode(SENTENCES, with_grad=True).sum().backward()
        for weight in bilm.network.parameters() if keeps_last else ():
            weight.grad[(-1,) * weight.dim()] = 0.0
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
    "fused SGD that keeps the last values": step_optimizer(torch.optim.SGD, keeps_last=True, fused=True),
    "network": replace_network,
    "module": replace_encoder,
    "in place": change_in_place,
    "load_state_dict": lambda bilm, other: bilm.network.load_state_dict(other.state_dict()),
    "load_state_dict, assign": lambda bilm, other: bilm.network.load_state_dict(other.state_dict(), assign=True),
    "data": replace_data,
    "values of data": lambda bilm, other: [weight.data.mul_(0.5) for weight in bilm.network.parameters()],
}


CALLS = {
    "embed": lambda bilm: np.concatenate(bilm.embed(SENTENCES), axis=1),
    "encode": lambda bilm: bilm.encode(SENTENCES).numpy(),
    "iter_encode": lambda bilm: torch.cat([rows for _, _, rows in bilm.iter_encode(SENTENCES)], dim=1).numpy(),
    "steady_state": lambda bilm: bilm.steady_state.h.numpy(),
    "perplexity": lambda bilm: bilm.perplexity(SENTENCES, state="reset").mean,
}


def check_change(call, change, device="cpu"):
    bilm = make_language_model(WORDS).to(device)
    other = copy.deepcopy(bilm.network)
    for weight in other.parameters():
        weight.data = weight.data * 0.7
    before = np.array(CALLS[call](bilm))
    CHANGES[change](bilm, other)
    after = np.array(CALLS[call](bilm))
    fresh = CALLS[call](BiLM(copy.deepcopy(bilm.network), vocabulary=bilm.vocabulary, head=bilm.head))
    assert not np.allclose(before, after, atol=1e-4)
    np.testing.assert_allclose(after, fresh, atol=1e-6)


@pytest.mark.issue(15)
@pytest.mark.issue(37)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("call", CALLS)
def test_changed_weights_are_noticed(change, call):
    check_change(call, change)


@pytest.mark.issue(37)
@pytest.mark.gpu
@pytest.mark.parametrize("make", FUSED[:3])
def test_steps_of_fused_optimizers_are_noticed_on_a_gpu(make):
    check_change("embed", f"fused {make.__name__}", "cuda")


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
    code = "import sys, spacy; nlp = spacy.blank('en'); nlp.add_pipe('elmo'); nlp('Oslo sleeps.')[0]._.elmo;"
    assert run_script(code + "print('torch._dynamo' in sys.modules)") == "False\n"
