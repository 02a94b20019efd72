"""Softmax heads: full, adaptive and tied; exact, in bounded memory."""

import copy
import math

import pytest
import torch

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.network import AdaptiveHead, BiLMNetwork, SoftmaxHead

N_WORDS, WIDTH = 60, 16


@pytest.fixture(params=["full", "adaptive"])
def head(request):
    torch.manual_seed(0)
    if request.param == "full":
        head = SoftmaxHead(N_WORDS, WIDTH)
    else:
        head = AdaptiveHead(N_WORDS, WIDTH, [10, 25], div_value=2.0)
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter)
    return head.double()


@pytest.fixture
def rows():
    return torch.randn(90, WIDTH, dtype=torch.float64), torch.arange(90) % N_WORDS


def test_losses_and_gradients_are_those_of_the_scores(head, rows):
    outputs, targets = rows[0].requires_grad_(), rows[1]
    wanted = torch.nn.functional.cross_entropy(head(outputs), targets, reduction="none")
    losses = head.token_losses(outputs, targets)
    torch.testing.assert_close(losses, wanted)
    seed, inputs = torch.randn(len(targets), dtype=torch.float64), [outputs, *head.parameters()]
    for ours, other in zip(torch.autograd.grad(losses, inputs, seed), torch.autograd.grad(wanted, inputs, seed)):
        torch.testing.assert_close(ours, other)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("kind", ["full", "adaptive"])
@pytest.mark.parametrize("n_words, n_rows", [(30, 1), (2048, 512), (2049, 513), (30000, 600)])
def test_losses_without_gradients_equal_those_in_float64(n_words, n_rows, kind, mode):
    """In the mean too: a float32 sum over 30,000 words in one run loses its small terms, and 2e-6 of the mean loss."""
    torch.manual_seed(0)
    cutoffs = [n_words // 4, n_words // 2]
    head = SoftmaxHead(n_words, WIDTH) if kind == "full" else AdaptiveHead(n_words, WIDTH, cutoffs)
    with torch.no_grad():
        head.bias[: n_words // 5] = -math.inf  # words that cannot occur
    outputs, targets = 5 * torch.randn(n_rows, WIDTH), torch.randint(n_words // 4, n_words, (n_rows,))
    scores = copy.deepcopy(head).double()(outputs.double())
    wanted = torch.nn.functional.cross_entropy(scores, targets, reduction="none").detach()
    with mode():
        errors = head.token_losses(outputs, targets).double() - wanted
    assert errors.abs().max() <= 1e-5 and errors.mean().abs() <= 1e-6


def test_adaptive_head_equals_the_one_of_torch():
    torch.manual_seed(0)
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(WIDTH, N_WORDS, [10, 25], div_value=4.0, head_bias=True)
    ours = AdaptiveHead(N_WORDS, WIDTH, [10, 25], div_value=4.0)
    with torch.no_grad():
        ours.weight.copy_(theirs.head.weight)
        ours.bias.copy_(theirs.head.bias)
        for our_tail, their_tail in zip(ours.tails, theirs.tail):
            our_tail.narrow.copy_(their_tail[0].weight)
            our_tail.weight.copy_(their_tail[1].weight)
    outputs, targets = torch.randn(80, WIDTH), torch.randint(0, N_WORDS, (80,))
    torch.testing.assert_close(ours.token_losses(outputs, targets), -theirs(outputs, targets).output)
    torch.testing.assert_close(ours(outputs), theirs.log_prob(outputs))


def test_sums_are_exact_under_autocast(head, rows):
    outputs, targets = rows[0].float(), rows[1]
    wanted = head.float().token_losses(outputs, targets)
    with torch.autocast("cpu", torch.bfloat16):
        found = head.token_losses(outputs, targets)
    assert found.dtype == torch.float32
    assert float((found - wanted).detach().abs().mean()) < 0.1


@pytest.mark.parametrize("cutoffs, div_value", [([], 4), ([0, 5], 4), ([9, 5], 4), ([5, 5], 4), ([60], 4), ([5], 0.5)])
def test_impossible_clusters_are_an_error(cutoffs, div_value):
    with pytest.raises(ValueError, match="adaptive softmax.*60 words"):
        AdaptiveHead(N_WORDS, WIDTH, cutoffs, div_value)


def test_tied_head_is_the_word_table():
    network = BiLMNetwork(BiLMConfig(n_words=9, cell_width=8, projection_width=4))
    head = SoftmaxHead.tied(network.word_embedding)
    assert head.weight is network.word_embedding and (head.n_words, head.width) == (9, 4)
    loss = head.token_losses(torch.randn(3, 4), torch.tensor([1, 2, 3])).mean()
    loss.backward()
    assert network.word_embedding.grad is not None and math.isfinite(float(loss.detach()))
