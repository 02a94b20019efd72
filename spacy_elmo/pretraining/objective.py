"""The training loss: negative log likelihood of both directions, over all words or a sample of negatives.

Sampled softmax as in Jozefowicz et al. (2016) and bilm-tf: log-uniform negatives shared by the whole batch,
logits corrected by the log of the expected count, the target masked out of the negatives.
"""

from typing import Optional

import numpy as np
import torch
from torch import Tensor, nn

from ..bilm.lm_head import AdaptiveHead, LMHead, SoftmaxHead
from ..errors import Errors
from ..inference.memory import to_device
from .config import SoftmaxConfig
from .scores import gather_rows, log_sum_scores, own_scores


def make_objective(head: LMHead, settings: SoftmaxConfig, *, sparse: bool = False) -> nn.Module:
    """Make a module that maps outputs (N, P), targets (N,) and a random generator to losses (N,) in nats.

    head (LMHead): The softmax that is trained.
    settings (SoftmaxConfig): Kind of softmax.
    sparse (bool): Sparse gradients for the sampled softmax, of the rows in the sample.
    RAISES (ValueError): EL102 for too many negatives, EL117 for another kind of head.
    """
    wanted = AdaptiveHead if settings.kind == "adaptive" else SoftmaxHead
    if not isinstance(head, wanted):
        found = type(head).__name__
        raise ValueError(Errors.EL117.format(kind=settings.kind, found=found, wanted=wanted.__name__))
    if isinstance(head, AdaptiveHead):
        return AdaptiveLoss(head)
    if settings.kind == "full":
        return FullSoftmax(head)
    if settings.n_negatives > head.n_words // 2:
        raise ValueError(Errors.EL102.format(n_negatives=settings.n_negatives, n_words=head.n_words))
    return SampledSoftmax(head, settings.n_negatives, sparse=sparse)


class SampledSoftmax(nn.Module):
    """Cross entropy against a fresh sample of words at each call.

    head (SoftmaxHead): Its rows are sorted by frequency, the most frequent word first.
    n_negatives (int): Expected number of distinct negatives, below the size of the vocabulary.
    sparse (bool): Sparse gradients.
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
        RETURNS (Tensor): Shape (N,), losses in nats, an estimate of those of the full softmax.
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

    outputs (Tensor): Shape (N, P).
    weight (Tensor): Shape (V, P).
    bias (Tensor): Shape (V,).
    targets (Tensor): Shape (N,) int64.
    negatives (Tensor): Shape (K,) int64, distinct words.
    target_log_counts (Tensor): Shape (N,), log of the expected count of each target in the sample.
    negative_log_counts (Tensor): Shape (K,), the same of the negatives.
    sparse (bool): Sparse gradients of `weight` and `bias`.
    RETURNS (Tensor): Shape (N,), in nats.
    """
    n_negatives = len(negatives)
    words, places = torch.unique(torch.cat([negatives, targets]), return_inverse=True)  # each row is read once
    others, own = places[:n_negatives], places[n_negatives:]
    rows, row_bias = gather_rows(weight, words, sparse=sparse), gather_rows(bias, words, sparse=sparse)
    hits = torch.full_like(words, -1)
    hits[others] = torch.arange(n_negatives, device=words.device)
    corrected = row_bias[others] - negative_log_counts
    log_sums = log_sum_scores(outputs, rows.index_select(0, others), corrected, hits[own])
    return nn.functional.softplus(log_sums - own_scores(outputs, rows, row_bias, own) + target_log_counts)


class FullSoftmax(nn.Module):
    """Cross entropy over all words, in bounded memory.

    head (SoftmaxHead): The softmax.
    """

    def __init__(self, head: SoftmaxHead) -> None:
        super().__init__()
        self.head = head

    def forward(self, outputs: Tensor, targets: Tensor, generator: Optional[torch.Generator] = None) -> Tensor:
        """outputs (Tensor): Shape (N, P).
        targets (Tensor): Shape (N,) int64.
        generator (Optional[torch.Generator]): Not used.
        RETURNS (Tensor): Shape (N,), losses in nats.
        """
        weight, bias = self.head.weight, self.head.bias
        log_sums = log_sum_scores(outputs, weight, bias, targets)
        words, own = torch.unique(targets, return_inverse=True)
        return nn.functional.softplus(
            log_sums - own_scores(outputs, gather_rows(weight, words), gather_rows(bias, words), own)
        )


class AdaptiveLoss(nn.Module):
    """Exact cross entropy of an adaptive softmax.

    head (AdaptiveHead): The softmax.
    """

    def __init__(self, head: AdaptiveHead) -> None:
        super().__init__()
        self.head = head

    def forward(self, outputs: Tensor, targets: Tensor, generator: Optional[torch.Generator] = None) -> Tensor:
        """outputs (Tensor): Shape (N, P).
        targets (Tensor): Shape (N,) int64.
        generator (Optional[torch.Generator]): Not used.
        RETURNS (Tensor): Shape (N,), losses in nats.
        """
        return self.head.token_losses(outputs, targets)


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
