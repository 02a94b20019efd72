"""A linear-chain conditional random field: partition function, loss and most probable tags.

Lafferty, McCallum and Pereira (2001): p(y | x) = exp(score(y)) / Z with
score(y) = sum_t emissions[t, y_t] + transitions[y_(t-1), y_t], where y_0 and y_(T+1) are the boundary, the last row and
column of `transitions`. Where annotation is missing, the loss sums over all tags (Tsuboi et al. 2008).

Chains of any lengths are computed together without padding: step t has a row for each chain longer than t, the longest
chain first. Everything is in float64, since scores grow with the length of a chain.
"""

from typing import Callable, List, NamedTuple, Sequence

import torch
from torch import Tensor

FORBIDDEN = -1e4  # a score so low that its exponential is 0
SMALLEST = 1e-300  # of a sum of exponentials, so that its logarithm is finite


def negative_log_likelihood(
    emissions: Tensor, lengths: Sequence[int], transitions: Tensor, admissible: Tensor
) -> Tensor:
    """Loss of each chain: log Z minus the logarithm of the same sum over the sequences that the annotation admits.

    emissions (Tensor): Shape (T, K), scores of K tags for the tokens of all chains.
    lengths (Sequence[int]): Tokens of each chain, at least 1; they sum to T.
    transitions (Tensor): Shape (K+1, K+1), from row to column; `FORBIDDEN` where a transition is not allowed.
    admissible (Tensor): Shape (T, K), bool: the tags that the annotation leaves open, one if a token is annotated, all
        if its annotation is missing.
    RETURNS (Tensor): Shape (B,).
    """
    annotated = emissions.masked_fill(~admissible, FORBIDDEN)
    both = log_partition(torch.cat([emissions, annotated]), [*lengths, *lengths], transitions)
    log_z, log_annotated = both.chunk(2)
    return log_z - log_annotated


def log_partition(emissions: Tensor, lengths: Sequence[int], transitions: Tensor) -> Tensor:
    """The forward algorithm: log Z = log sum_y exp(score(y)).

    emissions, lengths, transitions: See `negative_log_likelihood`.
    RETURNS (Tensor): Shape (B,).
    """
    weights = transitions.double().exp()
    plan = _plan_steps(lengths)
    alphas = _run(emissions, plan, transitions, lambda alpha: _log_product(alpha, weights[:-1, :-1]))
    totals = _log_product(_take_last(alphas), weights[:-1, -1:]).squeeze(1)  # (B,)
    return totals[plan.order.argsort().to(totals.device)]


def find_best_tags(emissions: Tensor, lengths: Sequence[int], transitions: Tensor) -> Tensor:
    """The Viterbi algorithm: argmax_y score(y).

    Backtracking computes the best previous tag again, which is faster than storing backpointers in the forward pass.

    emissions, lengths, transitions: See `negative_log_likelihood`.
    RETURNS (Tensor): Shape (T,), one tag per token.
    """
    transitions = transitions.double()
    inner, plan = transitions[:-1, :-1], _plan_steps(lengths)
    alphas = _run(emissions, plan, transitions, lambda alpha: (alpha[:, :, None] + inner).amax(dim=1))
    tags = (_take_last(alphas) + transitions[:-1, -1]).argmax(dim=1)  # (B,), the last tag of each chain
    steps = [tags[: len(alphas[-1])].clone()]
    for alpha, after in zip(alphas[-2::-1], alphas[:0:-1]):
        n_chains = len(after)
        tags[:n_chains] = (alpha[:n_chains] + inner.T[tags[:n_chains]]).argmax(dim=1)
        steps.append(tags[: len(alpha)].clone())
    found = torch.cat(steps[::-1])  # (T,), step after step
    return torch.empty_like(found).scatter_(0, plan.rows.to(found.device), found)


class _Steps(NamedTuple):
    """How chains are computed together.

    rows (Tensor): Shape (T,), the rows of `emissions` step after step.
    n_active (List[int]): How many of them belong to each step.
    order (Tensor): Shape (B,), the chains from the longest to the shortest.
    """

    rows: Tensor
    n_active: List[int]
    order: Tensor


def _plan_steps(lengths: Sequence[int]) -> _Steps:
    sizes = torch.tensor(lengths)
    starts = sizes.cumsum(0) - sizes
    order = sizes.argsort(descending=True, stable=True)
    sizes, starts = sizes[order], starts[order]
    times = torch.arange(int(sizes.sum())) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    rows = (starts.repeat_interleave(sizes) + times)[times.argsort(stable=True)]
    return _Steps(rows, times.bincount().tolist(), order)


def _run(emissions: Tensor, plan: _Steps, transitions: Tensor, advance: Callable[[Tensor], Tensor]) -> List[Tensor]:
    """Score each tag of each token with what is before it: alpha_t = advance(alpha_(t-1)) + emissions_t.

    RETURNS (List[Tensor]): For each step alpha, shape (n, K).
    """
    first, *later = emissions.double()[plan.rows.to(emissions.device)].split(plan.n_active)
    alphas = [transitions.double()[-1, :-1] + first]
    for step in later:
        alphas.append(advance(alphas[-1][: len(step)]) + step)
    return alphas


def _take_last(alphas: List[Tensor]) -> Tensor:
    """RETURNS (Tensor): Shape (B, K), alpha of the last token of each chain, in the order of the plan."""
    n_longer = [*(len(alpha) for alpha in alphas[1:]), 0]
    return torch.cat([alpha[n:] for alpha, n in zip(alphas[::-1], n_longer[::-1])])


def _log_product(alpha: Tensor, weights: Tensor) -> Tensor:
    """log(exp(alpha) @ weights), without overflow."""
    top = alpha.detach().amax(dim=1, keepdim=True)
    return top + ((alpha - top).exp() @ weights).clamp(min=SMALLEST).log()
