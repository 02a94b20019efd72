"""Log-sum-exp of softmax logits in bounded memory, with hand-written backward passes.

A loss in nats is log(1 + exp(log_sum_scores - own_scores)). The sum excludes the logit of the target, so that small
losses are precise.
"""

from typing import Any, Iterator, Optional, Tuple

import torch
from torch import Tensor

MAX_KEPT = 2**26  # logits stored for the backward pass; if there are more, they are computed again
BLOCK_SCORES = 2**19  # logits computed at once: as many as fit in the cache of a processor
GPU_BLOCK_SCORES = 2**27
MASKED = -1e30  # logit of a masked word


def log_sum_scores(outputs: Tensor, weight: Tensor, bias: Tensor, hits: Tensor) -> Tensor:
    """log sum_k exp(x W_k + b_k), in bounded memory; the products in the dtype of autocast.

    outputs (Tensor): Shape (N, P).
    weight (Tensor): Shape (K, P).
    bias (Tensor): Shape (K,).
    hits (Tensor): Shape (N,) int64, the word masked out of each row's sum, -1 for none.
    RETURNS (Tensor): Shape (N,).
    """
    log_sums: Tensor = _LogSumScores.apply(outputs, weight, bias, hits)  # type: ignore[no-untyped-call]  # torch gives apply no types
    return log_sums


def own_scores(outputs: Tensor, weight: Tensor, bias: Tensor, words: Tensor) -> Tensor:
    """x W_w + b_w, never in half precision.

    outputs (Tensor): Shape (N, P).
    weight (Tensor): Shape (K, P).
    bias (Tensor): Shape (K,).
    words (Tensor): Shape (N,) int64, the word w of each row.
    RETURNS (Tensor): Shape (N,).
    """
    return (outputs.to(weight.dtype) * weight.index_select(0, words)).sum(dim=1) + bias[words]


def gather_rows(table: Tensor, rows: Tensor, *, sparse: bool = False) -> Tensor:
    """table (Tensor): Shape (V, ...).
    rows (Tensor): Shape (K,) int64, distinct and ascending.
    sparse (bool): Whether the gradient of the table is sparse; otherwise it is dense, zero in all other rows.
    RETURNS (Tensor): Shape (K, ...).
    """
    found: Tensor = _Rows.apply(table, rows, sparse)  # type: ignore[no-untyped-call]  # torch gives apply no types
    return found


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
        for block, buffer in _blocks(rows, columns, bias):
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
        for block, buffer in _blocks(rows, columns, bias):
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


def _blocks(rows: Tensor, columns: Tensor, bias: Tensor) -> Iterator[Tuple[slice, Tensor]]:
    """Slice of each block of rows, and a buffer for its logits, shared by all blocks."""
    n_scores = BLOCK_SCORES if rows.device.type == "cpu" else GPU_BLOCK_SCORES
    size = min(len(rows), max(16, n_scores // max(1, len(columns))))
    buffer = torch.empty(size, len(columns), dtype=bias.dtype, device=rows.device)
    for start in range(0, len(rows), max(1, size)):
        yield slice(start, start + size), buffer[: len(rows) - start]
