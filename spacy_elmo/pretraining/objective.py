"""The training loss: negative log likelihood of both directions, over all words or a sample of negatives.

Sampled softmax as in Jozefowicz et al. (2016) and bilm-tf: log-uniform negatives shared by the whole batch,
logits corrected by the log of the expected count, the target masked out of the negatives.

A loss in nats is log(1 + exp(log_sum_scores - _own_scores)), in bounded memory, with hand-written backward passes. The
sum excludes the logit of the target, so that small losses are precise.
"""

import sys
from bisect import bisect_left
from typing import Any, Iterator, Optional, Tuple

import numpy as np
import torch
from torch import Tensor, nn

from ..bilm.network import LMHead, SoftmaxHead
from ..inference.runtime import to_device
from .run_config import SoftmaxConfig

MAX_KEPT = 2**26  # logits stored for the backward pass; if there are more, they are computed again
BLOCK_SCORES = 2**19  # logits computed at once: as many as fit in the cache of a processor
GPU_BLOCK_SCORES = 2**27
MASKED = -1e30  # logit of a masked word


def make_objective(head: LMHead, settings: SoftmaxConfig, *, sparse: bool = False) -> nn.Module:
    """Make a module that maps outputs (N, P), targets (N,) and a random generator to losses (N,) in nats.

    head (LMHead): The softmax that is trained, of this kind.
    sparse (bool): Sparse gradients for the sampled softmax, of the rows in the sample.
    RAISES (ValueError): For too many negatives.
    """
    if not isinstance(head, SoftmaxHead):
        return AdaptiveLoss(head)
    if settings.kind == "full":
        return FullSoftmax(head)
    if settings.n_negatives > head.n_words // 2:
        raise ValueError(
            f"The sampled softmax needs {settings.n_negatives} distinct negatives, but the vocabulary has "
            f"{head.n_words} words. In [pretraining.softmax], set n_negatives to at most half the vocabulary "
            'size, or kind = "full".'
        )
    return SampledSoftmax(head, settings.n_negatives, sparse=sparse)


class SampledSoftmax(nn.Module):
    """Cross entropy against a fresh sample of words at each call.

    head (SoftmaxHead): Its rows are sorted by frequency, the most frequent word first.
    n_negatives (int): Expected number of distinct negatives, below the size of the vocabulary.
    """

    def __init__(self, head: SoftmaxHead, n_negatives: int, *, sparse: bool = False) -> None:
        super().__init__()
        self.head = head
        self.sparse = sparse
        ranks = torch.arange(head.n_words, dtype=torch.float64)
        log_range = torch.log(torch.tensor(head.n_words + 1.0, dtype=torch.float64))
        probs = (torch.log(ranks + 2) - torch.log(ranks + 1)) / log_range
        self.n_tries = _tries_for(probs, n_negatives)
        log_counts = torch.log(-torch.expm1(self.n_tries * torch.log1p(-probs)))
        self.register_buffer("log_counts", log_counts.float(), persistent=False)
        self.log_range = float(log_range)

    def forward(self, outputs: Tensor, targets: Tensor, generator: Optional[torch.Generator] = None) -> Tensor:
        """outputs (Tensor): Shape (N, P).
        targets (Tensor): Shape (N,) int64.
        generator (Optional[torch.Generator]): Source of the sample, on the CPU.
        RETURNS (Tensor): Shape (N,), losses in nats, an estimate of the full softmax's.
        """
        log_counts: Tensor = self.log_counts  # type: ignore[assignment]  # a buffer
        negatives = to_device(self.sample(generator).numpy(), outputs.device)  # (K,)
        return sampled_losses(
            outputs,
            self.head.weight,
            self.head.bias,
            targets,
            negatives,
            log_counts[targets],
            log_counts[negatives],
            sparse=self.sparse,
        )

    def sample(self, generator: Optional[torch.Generator] = None) -> Tensor:
        """Draw with replacement, then remove duplicates.

        RETURNS (Tensor): Shape (K,) int64, distinct words; K varies from call to call.
        """
        uniform = torch.rand(self.n_tries, generator=generator, dtype=torch.float64)
        # NumPy, since torch wakes its threads for so few numbers, which takes milliseconds while a GPU waits.
        ranks = np.exp(uniform.numpy() * self.log_range).astype("int64") - 1
        return torch.from_numpy(np.unique(ranks.clip(0, self.head.n_words - 1)))


def sampled_losses(
    outputs: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    negatives: Tensor,
    target_log_counts: Tensor,
    negative_log_counts: Tensor,
    *,
    sparse: bool = False,
) -> Tensor:
    """Cross entropy of each target against a sample of negatives, like `sampled_softmax_loss` of TensorFlow.

    outputs (Tensor), weight (Tensor), bias (Tensor): Shapes (N, P), (V, P) and (V,).
    targets (Tensor): Shape (N,) int64.
    negatives (Tensor): Shape (K,) int64, distinct words.
    target_log_counts (Tensor): Shape (N,), log of the expected count of each target in the sample.
    negative_log_counts (Tensor): Shape (K,), the same of the negatives.
    sparse (bool): Sparse gradients of `weight` and `bias`.
    RETURNS (Tensor): Shape (N,), in nats.
    """
    n_negatives = len(negatives)
    words, places = torch.unique(torch.cat([negatives, targets]), return_inverse=True)  # each row is read once
    others, target_places = places[:n_negatives], places[n_negatives:]
    rows, row_bias = _gather_rows(weight, words, sparse=sparse), _gather_rows(bias, words, sparse=sparse)
    hits = torch.full_like(words, -1)
    hits[others] = torch.arange(n_negatives, device=words.device)
    corrected = row_bias[others] - negative_log_counts
    log_sums = log_sum_scores(outputs, rows.index_select(0, others), corrected, hits[target_places])
    return nn.functional.softplus(log_sums - _own_scores(outputs, rows, row_bias, target_places) + target_log_counts)


class FullSoftmax(nn.Module):
    """Cross entropy over all words, in bounded memory."""

    def __init__(self, head: SoftmaxHead) -> None:
        super().__init__()
        self.head = head

    def forward(self, outputs: Tensor, targets: Tensor, generator: Optional[torch.Generator] = None) -> Tensor:
        """Losses in nats, shape (N,), of outputs (N, P) and int64 targets (N,); the generator is not used."""
        weight, bias = self.head.weight, self.head.bias
        log_sums = log_sum_scores(outputs, weight, bias, targets)
        words, target_rows = torch.unique(targets, return_inverse=True)
        return nn.functional.softplus(
            log_sums - _own_scores(outputs, _gather_rows(weight, words), _gather_rows(bias, words), target_rows)
        )


class AdaptiveLoss(nn.Module):
    """Exact cross entropy of an adaptive softmax."""

    def __init__(self, head: LMHead) -> None:
        super().__init__()
        self.head = head

    def forward(self, outputs: Tensor, targets: Tensor, generator: Optional[torch.Generator] = None) -> Tensor:
        """Losses in nats, shape (N,), of outputs (N, P) and int64 targets (N,); the generator is not used."""
        return self.head.token_losses(outputs, targets)


def _tries_for(probs: Tensor, n_negatives: int) -> int:
    """Draws with replacement after which `n_negatives` distinct words are expected."""
    tries = range(n_negatives, sys.maxsize)
    log_missed = torch.log1p(-probs)  # log of the probability that a draw is not the word
    return tries[bisect_left(tries, True, key=lambda n: float(-torch.expm1(n * log_missed).sum()) >= n_negatives)]


def log_sum_scores(outputs: Tensor, weight: Tensor, bias: Tensor, hits: Tensor) -> Tensor:
    """log sum_k exp(x W_k + b_k), in bounded memory; the products in the dtype of autocast.

    outputs (Tensor), weight (Tensor), bias (Tensor): Shapes (N, P), (K, P) and (K,).
    hits (Tensor): Shape (N,) int64, the word masked out of each row's sum, -1 for none.
    RETURNS (Tensor): Shape (N,).
    """
    log_sums: Tensor = _LogSumScores.apply(outputs, weight, bias, hits)  # type: ignore[no-untyped-call]  # torch gives apply no types
    return log_sums


def _own_scores(outputs: Tensor, weight: Tensor, bias: Tensor, words: Tensor) -> Tensor:
    """x W_w + b_w, shape (N,), never in half precision.

    outputs (Tensor), weight (Tensor), bias (Tensor): Shapes (N, P), (K, P) and (K,).
    words (Tensor): Shape (N,) int64, the word w of each row.
    """
    return (outputs.to(weight.dtype) * weight.index_select(0, words)).sum(dim=1) + bias[words]


def _gather_rows(table: Tensor, rows: Tensor, *, sparse: bool = False) -> Tensor:
    """table (Tensor): Shape (V, ...).
    rows (Tensor): Shape (K,) int64, distinct and ascending.
    sparse (bool): Whether the gradient of the table is sparse; otherwise it is dense, zero in all other rows.
    RETURNS (Tensor): Shape (K, ...).
    """
    gathered: Tensor = _Rows.apply(table, rows, sparse)  # type: ignore[no-untyped-call]  # torch gives apply no types
    return gathered


class _LogSumScores(torch.autograd.Function):
    """Computes blocks of rows whose logits fit in the cache. Up to `MAX_KEPT` logits are stored for the backward pass,
    except in float16, whose range is too small for the factors of rows.
    """

    @staticmethod
    def forward(ctx: Any, outputs: Tensor, weight: Tensor, bias: Tensor, hits: Tensor) -> Tensor:
        dtype = _product_dtype(outputs)
        rows, columns = outputs.to(dtype), weight.to(dtype)
        is_kept = len(rows) * len(columns) <= MAX_KEPT and dtype != torch.float16 and any(ctx.needs_input_grad)
        exps = rows.new_empty(len(rows), len(columns)) if is_kept else None
        is_in_place = exps is not None and dtype == bias.dtype
        totals = torch.empty(len(rows), dtype=bias.dtype, device=rows.device)
        logs = torch.empty_like(totals)
        for block, buffer in _logit_blocks(rows, columns, bias):
            out = exps[block] if exps is not None and is_in_place else buffer
            scores = _scores(rows[block], columns, bias, hits[block], out)
            largest = scores.amax(dim=1, keepdim=True)
            torch.sum(scores.sub_(largest).exp_(), dim=1, out=totals[block])
            torch.add(totals[block].log(), largest.squeeze(1), out=logs[block])
            if exps is not None and not is_in_place:
                exps[block] = scores
        ctx.save_for_backward(rows, columns, bias, hits, logs, totals, exps)
        return logs

    @staticmethod
    def backward(ctx: Any, d_logs: Tensor) -> Tuple[Optional[Tensor], ...]:
        rows, columns, bias, hits, logs, totals, exps = ctx.saved_tensors
        needs_rows = ctx.needs_input_grad[0]  # False for a frozen biLM
        if exps is not None:
            return _gradients_of_kept(exps, rows, columns, d_logs / totals, bias.dtype, needs_rows)
        d_rows = torch.empty_like(rows) if needs_rows else None
        d_columns = torch.zeros(columns.shape, dtype=bias.dtype, device=rows.device)
        d_bias = torch.zeros_like(bias)
        for block, buffer in _logit_blocks(rows, columns, bias):
            scores = _scores(rows[block], columns, bias, hits[block], buffer)
            d_scores = scores.sub_(logs[block].unsqueeze(1)).exp_().mul_(d_logs[block].unsqueeze(1))
            d_bias += d_scores.sum(dim=0)
            d_scores = d_scores.to(rows.dtype)
            if d_rows is not None:
                d_rows[block] = d_scores @ columns
            if d_scores.dtype == d_columns.dtype:
                d_columns.addmm_(d_scores.t(), rows[block])
            else:
                d_columns += d_scores.t() @ rows[block]
        return None if d_rows is None else d_rows.to(bias.dtype), d_columns, d_bias, None


def _gradients_of_kept(
    exps: Tensor, rows: Tensor, columns: Tensor, factors: Tensor, dtype: torch.dtype, needs_rows: bool
) -> Tuple[Optional[Tensor], ...]:
    """Gradients of rows, columns and bias. Factors (N,) multiply the narrow operand of each product, not the logits."""
    d_rows = (exps @ columns).to(dtype).mul_(factors.unsqueeze(1)) if needs_rows else None
    d_columns = exps.t() @ (rows * factors.unsqueeze(1)).to(exps.dtype)
    d_bias = exps.t() @ factors.to(exps.dtype)
    return d_rows, d_columns.to(dtype), d_bias.to(dtype), None


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, words: Tensor, sparse: bool) -> Tensor:
        ctx.save_for_backward(words)
        ctx.shape, ctx.sparse = table.shape, sparse
        return table.index_select(0, words)

    @staticmethod
    def backward(ctx: Any, d_rows: Tensor) -> Tuple[Optional[Tensor], ...]:
        (words,) = ctx.saved_tensors
        if ctx.sparse:
            places = words.unsqueeze(0)
            d_table = torch.sparse_coo_tensor(places, d_rows, ctx.shape, is_coalesced=True, check_invariants=False)
        else:
            d_table = d_rows.new_zeros(ctx.shape).index_copy_(0, words, d_rows)
        return d_table, None, None


def _scores(rows: Tensor, columns: Tensor, bias: Tensor, hits: Tensor, out: Tensor) -> Tensor:
    """Shape (n, K), in the dtype of the bias; the target is masked out."""
    if rows.dtype == out.dtype:
        torch.addmm(bias, rows, columns.t(), out=out)
    else:
        torch.add(rows @ columns.t(), bias, out=out)
    places = hits.clamp(min=0).unsqueeze(1)  # (n, 1)
    there = out.gather(1, places)
    return out.scatter_(1, places, there.masked_fill_((hits >= 0).unsqueeze(1), MASKED))


def _product_dtype(outputs: Tensor) -> torch.dtype:
    device = outputs.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else outputs.dtype


def _logit_blocks(rows: Tensor, columns: Tensor, bias: Tensor) -> Iterator[Tuple[slice, Tensor]]:
    """Slice of each block of rows, and a buffer for its logits, shared by all blocks."""
    n_scores = BLOCK_SCORES if rows.device.type == "cpu" else GPU_BLOCK_SCORES
    size = min(len(rows), max(16, n_scores // max(1, len(columns))))
    buffer = torch.empty(size, len(columns), dtype=bias.dtype, device=rows.device)
    for start in range(0, len(rows), max(1, size)):
        yield slice(start, start + size), buffer[: len(rows) - start]
