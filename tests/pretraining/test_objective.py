"""Sampled softmax against the formula and against the full softmax."""

import math

import pytest
import torch

from spacy_elmo.bilm.lm_head import SoftmaxHead
from spacy_elmo.pretraining.objective import SampledSoftmax, _LogSumScores

N_WORDS, WIDTH = 300, 8


@pytest.fixture
def sampled():
    torch.manual_seed(0)
    return SampledSoftmax(SoftmaxHead(N_WORDS, WIDTH), 100)


def test_expected_counts_follow_the_log_uniform_distribution(sampled):
    generator = torch.Generator().manual_seed(0)
    n_calls = 3000
    seen = torch.zeros(N_WORDS)
    for _ in range(n_calls):
        seen[sampled._sample(generator, torch.device("cpu"))] += 1
    wanted = sampled.log_counts.exp()
    assert abs(float(wanted.sum()) - 100) < 1  # as many distinct words as asked for
    assert float((seen / n_calls - wanted).abs().max()) < 5 * math.sqrt(0.25 / n_calls)


def test_losses_equal_the_formula(sampled):
    outputs, targets = torch.randn(700, WIDTH), torch.randint(0, N_WORDS, (700,))
    losses = sampled(outputs, targets, torch.Generator().manual_seed(5))
    negatives = sampled._sample(torch.Generator().manual_seed(5), torch.device("cpu"))
    with torch.no_grad():
        scores = sampled.head(outputs) - sampled.log_counts
    for row, target, loss in zip(scores[:50], targets, losses):
        others = negatives[negatives != target]
        wanted = torch.logsumexp(torch.cat([row[target][None], row[others]]), 0) - row[target]
        assert float(loss.detach()) == pytest.approx(float(wanted), abs=1e-4)


def test_gradients_equal_autograd():
    torch.manual_seed(0)
    outputs, weight, bias = (torch.randn(*shape, requires_grad=True) for shape in ((700, 8), (90, 8), (90,)))
    hits = torch.randint(-1, 90, (700,))
    seed = torch.randn(700)
    mask = torch.zeros(700, 90)
    rows = (hits >= 0).nonzero().squeeze(1)
    mask[rows, hits[rows]] = -1e30
    wanted = torch.logsumexp(outputs @ weight.t() + bias + mask, 1)
    found = _LogSumScores.apply(outputs, weight, bias, hits)
    torch.testing.assert_close(found, wanted)
    parameters = (outputs, weight, bias)
    for got, want in zip(torch.autograd.grad(found, parameters, seed), torch.autograd.grad(wanted, parameters, seed)):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
