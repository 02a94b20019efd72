"""Perplexities against their definition."""

import copy
import math

import numpy as np
import pytest
import torch
from nn.tiny import make_network

from spacy_elmo.bilm.network import SoftmaxHead
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.text.words import Vocabulary

WIDTH = 8
WORDS = ["<S>", "</S>", "<UNK>", "the", "bank", "sat", "."]
TEXT = [["the", "bank", "sat", "."], ["sat"], ["the", "unseen", "bank"], ["."]] * 6


@pytest.fixture(scope="module", params=["both", "forward"])
def bilm(request):
    network = make_network(directions=request.param)
    return BiLM(network, vocabulary=Vocabulary(WORDS), head=SoftmaxHead(len(WORDS), WIDTH))


@pytest.mark.parametrize("state", ["reset", "steady"])
def test_sentences_by_themselves_equal_the_embeddings_through_the_softmax(bilm, state):
    result = bilm.perplexity(TEXT, state=state)
    losses = []
    for sentence in TEXT:
        rows = torch.from_numpy(bilm.embed([sentence], boundaries=True, state=state)[0][-1])
        pairs = [(rows[:-1, :WIDTH], [*sentence, "</S>"]), (rows[1:, WIDTH:], ["<S>", *sentence])][
            : bilm.config.n_directions
        ]
        ids = [torch.from_numpy(bilm.vocabulary.ids(targets)) for _, targets in pairs]
        scores = [bilm.head(inputs) for inputs, _ in pairs]
        losses.append([torch.nn.functional.cross_entropy(*pair, reduction="none") for pair in zip(scores, ids)])
    forward, *backward = (torch.cat(parts).detach().double().numpy() for parts in zip(*losses))
    n_tokens = sum(len(sentence) + 1 for sentence in TEXT)
    assert result.n_tokens == len(forward) == n_tokens and result.n_dropped == 0
    assert result.forward == pytest.approx(math.exp(forward.mean()), rel=1e-5)
    error = forward.std(ddof=1) / math.sqrt(n_tokens)
    assert result.forward_error == pytest.approx(result.forward * error, rel=1e-4)
    assert result.unk_rate == pytest.approx(6 / n_tokens)
    wanted = [math.exp(part.mean()) for part in backward] or [math.nan]
    assert [result.backward] == pytest.approx(wanted, rel=1e-5, nan_ok=True)


def test_carry_counts_or_reports_every_token(bilm):
    total = sum(len(sentence) + 1 for sentence in TEXT)
    for batch_size in (1, 2, 32):
        result = bilm.perplexity(TEXT, batch_size=batch_size)
        assert result.n_tokens + result.n_dropped == total
        assert result.n_dropped == 0 if batch_size == 1 else result.n_dropped < total / 3


@pytest.mark.parametrize("state", ["reset", "steady", "carry"])
def test_token_losses_are_what_is_averaged(bilm, state):
    losses = bilm.token_losses(TEXT, state=state, batch_size=1)
    assert [part.shape for part in losses] == [(bilm.config.n_directions, len(words) + 1) for words in TEXT]
    wanted = bilm.perplexity(TEXT, state=state, batch_size=1)
    means = np.exp(np.concatenate(losses, axis=1).mean(axis=1, dtype="float64"))
    assert wanted.forward == pytest.approx(float(means[0]), rel=1e-6)
    if len(means) > 1:
        assert wanted.backward == pytest.approx(float(means[1]), rel=1e-6)


@pytest.mark.parametrize("state", ["reset", "steady"])
def test_a_token_loss_is_that_of_its_word(bilm, state):
    """Another word changes its own column, and those that read it: later ones forward, earlier ones backward."""
    words = ["the", "bank", "sat", "."]
    before, after = bilm.token_losses([words, ["the", "sat", "sat", "."]], state=state)
    changed = ~np.isclose(before, after, atol=1e-7)
    assert changed[0].tolist() == [False, True, True, True, True]
    if len(changed) > 1:
        assert changed[1].tolist() == [True, True, False, False, True]


def test_token_embeddings_are_read_with_every_state(bilm):
    """Of one sentence, all states that start from zero give the same losses."""
    table = torch.randn(len(WORDS), WIDTH, generator=torch.Generator().manual_seed(0))
    cached = BiLM(bilm.network, vocabulary=bilm.vocabulary, head=bilm.head, token_embeddings=table)
    (reset,), (carried,) = (cached.token_losses(TEXT[:1], state=state) for state in ("reset", "carry"))
    np.testing.assert_allclose(carried, reset, atol=1e-5)
    assert np.abs(carried - bilm.token_losses(TEXT[:1], state="carry")[0]).max() > 0.01


@pytest.mark.parametrize(
    "arguments",
    [
        {"sentences": []},
        {"sentences": TEXT, "state": "settled"},
        {"sentences": TEXT, "batch_size": 0},
        {"sentences": ["a text that is not tokenized"]},
    ],
)
def test_wrong_input_is_an_error(bilm, arguments):
    with pytest.raises(ValueError, match="should be|okeni"):
        bilm.perplexity(**arguments)


@pytest.mark.parametrize("value, reason", [(1e17, "the largest is"), (float("nan"), "not finite")])
@pytest.mark.parametrize("state", ["carry", "reset"])
def test_perplexity_that_is_not_finite_is_an_error(bilm, value, reason, state):
    head = copy.deepcopy(bilm.head)
    with torch.no_grad():
        head.weight.mul_(value)
    bilm = BiLM(bilm.network, vocabulary=bilm.vocabulary, head=head)
    with pytest.raises(ValueError, match=f"{reason}"):
        bilm.perplexity(TEXT, state=state)
