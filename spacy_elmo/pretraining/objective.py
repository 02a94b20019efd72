"""What pretraining minimises: the negative log likelihood of both directions, over all words or a sample of them.

Sampled softmax as in Jozefowicz et al. (2016) and bilm-tf: log-uniform negatives shared by the whole batch,
scores corrected by the log of the expected count, the target itself never among its negatives.
"""

from typing import Any, List, Optional, Tuple

import torch
from torch import Tensor, nn

from ..bilm.lm_head import SoftmaxHead


class SampledSoftmax(nn.Module):
    """Cross entropy against a fresh sample of words at each call.

    head (SoftmaxHead): Its rows are sorted by frequency, the most frequent word first.
    n_negatives (int): Distinct negatives to expect, below the size of the vocabulary.
    """

    def __init__(self, head: SoftmaxHead, n_negatives: int) -> None:
        super().__init__()
        self.head = head
        n_words = head.weight.shape[0]
        ranks = torch.arange(n_words, dtype=torch.float64)
        log_range = torch.log(torch.tensor(n_words + 1.0, dtype=torch.float64))
        probs = (torch.log(ranks + 2) - torch.log(ranks + 1)) / log_range
        self.n_tries = _tries_for(probs, n_negatives)
        log_counts = torch.log(-torch.expm1(self.n_tries * torch.log1p(-probs)))
        self.register_buffer("log_counts", log_counts.float(), persistent=False)
        self.log_range = float(log_range)

    def forward(self, outputs: Tensor, targets: Tensor, generator: Optional[torch.Generator] = None) -> Tensor:
        """outputs (Tensor): Shape (N, P).
        targets (Tensor): Shape (N,) int64.
        generator (Optional[torch.Generator]): Source of the sample.
        RETURNS (Tensor): Shape (N,), losses in nats; an estimate that full softmax reaches with all words.
        """
        log_counts: Tensor = self.log_counts  # type: ignore[assignment]
        negatives = self._sample(generator, outputs.device)  # (K,) sorted
        weight, bias = self.head.weight, self.head.bias
        places = torch.searchsorted(negatives, targets).clamp_(max=len(negatives) - 1)
        places = torch.where(negatives[places] == targets, places, -1)  # where the target is among the negatives
        sampled_weight = nn.functional.embedding(negatives, weight)  # (K, P)
        corrected = bias[negatives] - log_counts[negatives]
        others: Tensor = _LogSumScores.apply(outputs, sampled_weight, corrected, places)  # type: ignore[no-untyped-call]
        own = (outputs.float() * nn.functional.embedding(targets, weight)).sum(dim=1)
        own = own + bias[targets] - log_counts[targets]
        losses: Tensor = torch.logaddexp(others, own) - own
        return losses

    def _sample(self, generator: Optional[torch.Generator], device: torch.device) -> Tensor:
        uniform = torch.rand(self.n_tries, generator=generator, dtype=torch.float64)
        ranks = torch.exp(uniform * self.log_range).long() - 1
        distinct: Tensor = torch.unique(ranks.clamp_(0, self.head.weight.shape[0] - 1))
        return distinct.to(device)


class _LogSumScores(torch.autograd.Function):
    """log sum_k exp(x W_k + b_k), a block of rows at a time, so that scores stay in the processor's cache."""

    @staticmethod
    def forward(ctx: Any, outputs: Tensor, weight: Tensor, bias: Tensor, hits: Tensor) -> Tensor:
        dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else outputs.dtype
        rows, columns = outputs.to(dtype), weight.to(dtype)
        exps = torch.empty(len(rows), len(columns), dtype=dtype, device=rows.device)
        totals = torch.empty(len(rows), device=rows.device)
        logs = torch.empty_like(totals)
        for block in _blocks(len(rows)):
            scores = (rows[block] @ columns.t()).float().add_(bias)  # (n, K)
            places = hits[block]
            where = (places >= 0).nonzero().squeeze(1)
            scores[where, places[where]] = -1e30
            largest = scores.amax(dim=1, keepdim=True)
            scores.sub_(largest).exp_()
            totals[block] = scores.sum(dim=1)
            logs[block] = totals[block].log() + largest.squeeze(1)
            exps[block] = scores
        ctx.save_for_backward(rows, columns, exps, totals)
        return logs

    @staticmethod
    def backward(ctx: Any, d_logs: Tensor) -> Tuple[Optional[Tensor], ...]:
        rows, columns, exps, totals = ctx.saved_tensors
        scale = (d_logs / totals).unsqueeze(1)
        d_rows = torch.empty_like(rows)
        d_columns = torch.zeros(columns.shape, device=rows.device)
        d_bias = torch.zeros(len(columns), device=rows.device)
        for block in _blocks(len(rows)):
            d_scores = exps[block].float().mul_(scale[block])
            d_bias += d_scores.sum(dim=0)
            d_scores = d_scores.to(rows.dtype)
            d_rows[block] = d_scores @ columns
            d_columns += d_scores.t() @ rows[block]
        return d_rows.float(), d_columns, d_bias, None


def _blocks(n_rows: int, size: int = 256) -> List[slice]:
    return [slice(start, start + size) for start in range(0, n_rows, size)]


def _tries_for(probs: Tensor, n_negatives: int) -> int:
    """Draws with replacement after which `n_negatives` distinct words are expected."""
    low, high = n_negatives, n_negatives
    while _expected_distinct(probs, high) < n_negatives:
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _expected_distinct(probs, middle) < n_negatives else (low, middle)
    return high


def _expected_distinct(probs: Tensor, n_tries: int) -> float:
    return float(-torch.expm1(n_tries * torch.log1p(-probs)).sum())
