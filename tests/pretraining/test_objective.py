"""The losses of pretraining against their formulas, and their gradients against autograd."""

import math

import pytest
import torch

from spacy_elmo.bilm.network import AdaptiveHead, SoftmaxHead
from spacy_elmo.pretraining import objective
from spacy_elmo.pretraining.objective import (
    FullSoftmax,
    SampledSoftmax,
    log_sum_scores,
    make_objective,
    sampled_losses,
)
from spacy_elmo.pretraining.run_config import SoftmaxConfig

N_WORDS, WIDTH = 300, 8


@pytest.fixture
def sampled():
    torch.manual_seed(0)
    head = SoftmaxHead(N_WORDS, WIDTH)
    torch.nn.init.normal_(head.bias)
    return SampledSoftmax(head, 100)


@pytest.fixture(params=[0, 2**26], ids=["computed twice", "kept"])
def max_kept(request, monkeypatch):
    """Scores are kept for the backward pass, or not."""
    monkeypatch.setattr(objective, "MAX_KEPT", request.param)
    monkeypatch.setattr(objective, "BLOCK_SCORES", 7000)  # several blocks


def _batch(n=700, dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    outputs = torch.randn(n, WIDTH, generator=generator, dtype=dtype, requires_grad=True)
    return outputs, torch.randint(0, N_WORDS, (n,), generator=generator)


def _gradients(losses, outputs, head):
    """Of outputs, weight and bias, for a different share of each loss."""
    shares = torch.linspace(0.5, 2.0, len(losses), dtype=losses.dtype)
    return torch.autograd.grad(losses, (outputs, head.weight, head.bias), shares)


def test_expected_counts_follow_the_log_uniform_distribution(sampled):
    generator = torch.Generator().manual_seed(0)
    n_calls = 1000
    seen = torch.zeros(N_WORDS)
    for _ in range(n_calls):
        seen[sampled.sample(generator)] += 1
    wanted = sampled.log_counts.exp()
    assert abs(float(wanted.sum()) - 100) < 1  # as many distinct words as asked for
    assert float((seen / n_calls - wanted).abs().max()) < 5 * math.sqrt(0.25 / n_calls)


def test_sampled_losses_equal_the_formula(sampled):
    outputs, targets = _batch()
    losses = sampled(outputs, targets, torch.Generator().manual_seed(5))
    negatives = sampled.sample(torch.Generator().manual_seed(5))
    with torch.no_grad():
        all_scores = sampled.head(outputs) - sampled.log_counts
    for row, target, loss in zip(all_scores[:50], targets, losses):
        others = negatives[negatives != target]
        wanted = torch.logsumexp(torch.cat([row[target][None], row[others]]), 0) - row[target]
        assert float(loss.detach()) == pytest.approx(float(wanted), abs=1e-4)


def test_sparse_gradients_hold_the_same_numbers(sampled):
    outputs, targets = _batch(20)
    gradients = []
    for sparse in (False, True):
        sampled.sparse = sparse
        gradients.append(_gradients(sampled(outputs, targets, torch.Generator().manual_seed(5)), outputs, sampled.head))
    negatives = sampled.sample(torch.Generator().manual_seed(5))
    for dense, found in zip(gradients[0][1:], gradients[1][1:]):
        assert found.is_sparse and found.is_coalesced()
        assert torch.equal(found.indices()[0], torch.cat([negatives, targets]).unique())
        assert torch.equal(found.to_dense(), dense)
    assert torch.equal(gradients[0][0], gradients[1][0])


@pytest.mark.parametrize("kind", ["sampled", "full", "log sums"])
def test_losses_and_gradients_equal_those_of_autograd(sampled, max_kept, kind):
    """All words as negatives give the full softmax, whose loss is the cross entropy."""
    outputs, targets = _batch()
    head, none = sampled.head, torch.zeros(N_WORDS)
    wanted = head.token_losses(outputs, targets)
    if kind == "sampled":
        found = sampled_losses(outputs, head.weight, head.bias, targets, torch.arange(N_WORDS), none[targets], none)
    elif kind == "full":
        found = FullSoftmax(head)(outputs, targets)
    else:  # without the target, where there is one
        hits = torch.where(torch.arange(700) % 3 > 0, targets, -1)
        mask = torch.zeros(700, N_WORDS)
        mask[hits >= 0, hits[hits >= 0]] = -1e30
        wanted = torch.logsumexp(head(outputs) + mask, 1)
        found = log_sum_scores(outputs, head.weight, head.bias, hits)
    torch.testing.assert_close(found, wanted)
    for got, want in zip(_gradients(found, outputs, head), _gradients(wanted, outputs, head)):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_gradients_equal_finite_differences(sampled, max_kept):
    head = sampled.head.double()
    outputs, targets = _batch(12, torch.float64)
    counts = sampled.log_counts.double()
    negatives = torch.arange(0, N_WORDS, 9)

    def losses(rows, weight, bias):
        return sampled_losses(rows, weight, bias, targets, negatives, counts[targets], counts[negatives])

    weight, bias = head.weight.detach().requires_grad_(), head.bias.detach().requires_grad_()
    assert torch.autograd.gradcheck(losses, (outputs, weight, bias), fast_mode=True)


@pytest.mark.parametrize("kind", ["sampled", "full", "adaptive"])
def test_autocast_changes_losses_little(kind, sampled):
    outputs, targets = _batch()
    head = AdaptiveHead(N_WORDS, WIDTH, [50, 150]) if kind == "adaptive" else sampled.head
    loss = make_objective(head, SoftmaxConfig(kind=kind, n_negatives=100))
    wanted = loss(outputs, targets, torch.Generator().manual_seed(5))
    with torch.autocast("cpu", torch.bfloat16):
        found = loss(outputs, targets, torch.Generator().manual_seed(5))
    assert found.dtype == torch.float32
    assert 0 < float((found - wanted).detach().abs().max()) < 0.1
    for part in torch.autograd.grad(found.mean(), (outputs, head.weight)):
        assert part.dtype == torch.float32 and bool(torch.isfinite(part).all())
