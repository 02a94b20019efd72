"""The softmax of a biLM, with the same weights for both directions (Peters et al. 2018, sec. 3.1)."""

from typing import Any, Dict, List, Optional, Sequence

import torch
from torch import Tensor, nn

from ..errors import Errors
from .initialization import new_parameter, normal_


class LMHead(nn.Module):
    """Base class of all kinds of softmax.

    n_words (int): V.
    width (int): P, the width of one direction.
    """

    def __init__(self, n_words: int, width: int) -> None:
        super().__init__()
        self.n_words = n_words
        self.width = width

    @property
    def n_scores(self) -> int:
        """RETURNS (int): Number of scores that one row of `row_losses` needs."""
        return self.n_words

    def forward(self, outputs: Tensor) -> Tensor:
        """outputs (Tensor): Shape (N, P).
        RETURNS (Tensor): Shape (N, V), logits of all words.
        """
        raise NotImplementedError

    def row_losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The same as `token_losses`, for all rows at once."""
        return _cross_entropy(self(outputs), targets)

    def token_losses(self, outputs: Tensor, targets: Tensor, *, max_scores: int = 2**25) -> Tensor:
        """Compute the negative log likelihood of each target, in blocks of rows.

        outputs (Tensor): Shape (N, P).
        targets (Tensor): Shape (N,) int64.
        max_scores (int): Maximum number of scores in memory at once.
        RETURNS (Tensor): Shape (N,), in nats.
        """
        n_rows = max(1, max_scores // self.n_scores)
        parts = [self.row_losses(rows, wanted) for rows, wanted in zip(outputs.split(n_rows), targets.split(n_rows))]
        return torch.cat(parts) if parts else outputs.new_zeros(0)


class SoftmaxHead(LMHead):
    """The full softmax.

    n_words (int): V.
    width (int): P, the width of one direction.
    """

    def __init__(self, n_words: int, width: int) -> None:
        super().__init__(n_words, width)
        self.weight = new_parameter(n_words, width)
        self.bias = nn.Parameter(torch.zeros(n_words, dtype=torch.float32))
        normal_(self.weight, width**-0.5)

    @classmethod
    def tied(cls, word_table: Optional[nn.Parameter]) -> "SoftmaxHead":
        """Create a softmax that shares its weight with the word embedding (Press & Wolf 2017).

        word_table (Optional[nn.Parameter]): Shape (V, P), `BiLMNetwork.word_embedding`.
        RETURNS (SoftmaxHead): With its own bias.
        RAISES (ValueError): EL013 for character input, which has no word embedding.
        """
        if word_table is None:
            raise ValueError(Errors.EL013)
        n_words, width = word_table.shape
        with torch.device("meta"):
            head = cls(n_words, width)
        head.weight = word_table
        head.bias = nn.Parameter(torch.zeros(n_words, dtype=word_table.dtype, device=word_table.device))
        return head

    def copy_rows(self, other: "SoftmaxHead", rows: Sequence[int], other_rows: Sequence[int]) -> None:
        """Copy weights and biases of the words that two vocabularies share.

        other (SoftmaxHead): The softmax to copy from, of the same width.
        rows (Sequence[int]): Rows of this softmax to overwrite.
        other_rows (Sequence[int]): For each of them, the row to copy.
        """
        with torch.no_grad():
            self.weight[list(rows)] = other.weight[list(other_rows)].to(self.weight)
            self.bias[list(rows)] = other.bias[list(other_rows)].to(self.bias)

    def forward(self, outputs: Tensor) -> Tensor:
        """outputs (Tensor): Shape (N, P).
        RETURNS (Tensor): Shape (N, V), before the softmax.
        """
        return nn.functional.linear(outputs, self.weight, self.bias)


class AdaptiveTail(nn.Module):
    """A cluster of rarer words. Outputs are first projected to a smaller width, so that a word costs less.

    n_words (int): Words of the cluster.
    width (int): P.
    tail_width (int): The smaller width.
    """

    def __init__(self, n_words: int, width: int, tail_width: int) -> None:
        super().__init__()
        self.narrow = new_parameter(tail_width, width)
        self.weight = new_parameter(n_words, tail_width)
        self.bias = nn.Parameter(torch.zeros(n_words, dtype=torch.float32))
        normal_(self.narrow, width**-0.5)
        normal_(self.weight, tail_width**-0.5)

    def forward(self, outputs: Tensor) -> Tensor:
        """outputs (Tensor): Shape (N, P).
        RETURNS (Tensor): Shape (N, words of the cluster), before the softmax.
        """
        return nn.functional.linear(nn.functional.linear(outputs, self.narrow), self.weight, self.bias)


class AdaptiveHead(LMHead):
    """Adaptive softmax over frequent words and clusters of rarer words, each with its own softmax (Grave et al. 2017).

    P(word) = P(word) for a frequent word, P(cluster) * P(word | cluster) for a word of a cluster. It is exact: nothing
    is sampled. Words are sorted by frequency.

    n_words (int): V.
    width (int): P.
    cutoffs (Sequence[int]): First word of each cluster, ascending, below V.
    div_value (float): Cluster k has width P / div_value^(k + 1), k from 0.
    RAISES (ValueError): EL012 for cutoffs that are not ascending between 0 and V, or a divisor below 1.
    """

    def __init__(self, n_words: int, width: int, cutoffs: Sequence[int], div_value: float = 4.0) -> None:
        super().__init__(n_words, width)
        self.cutoffs = [int(cutoff) for cutoff in cutoffs]
        self.div_value = float(div_value)
        bounds = [0, *self.cutoffs, n_words]
        if not self.cutoffs or sorted(set(bounds)) != bounds or self.div_value < 1:
            raise ValueError(Errors.EL012.format(cutoffs=list(cutoffs), div_value=div_value, n_words=n_words))
        n_first = self.cutoffs[0] + len(self.cutoffs)
        self.weight = new_parameter(n_first, width)
        self.bias = nn.Parameter(torch.zeros(n_first, dtype=torch.float32))
        normal_(self.weight, width**-0.5)
        self.tails = nn.ModuleList(
            AdaptiveTail(stop - start, width, max(1, int(width / self.div_value ** (k + 1))))
            for k, (start, stop) in enumerate(zip(bounds[1:], bounds[2:]))
        )

    @property
    def settings(self) -> Dict[str, Any]:
        """RETURNS (Dict[str, Any]): Arguments of the constructor without the width, plain JSON types."""
        return {"n_words": self.n_words, "cutoffs": list(self.cutoffs), "div_value": self.div_value}

    @property
    def n_scores(self) -> int:
        """RETURNS (int): Scores of the first softmax and of the largest cluster."""
        bounds = [*self.cutoffs, self.n_words]
        return self.cutoffs[0] + len(self.cutoffs) + max(stop - start for start, stop in zip(bounds, bounds[1:]))

    def forward(self, outputs: Tensor) -> Tensor:
        """outputs (Tensor): Shape (N, P).
        RETURNS (Tensor): Shape (N, V), log probabilities, which are also logits.
        """
        first = _log_softmax(nn.functional.linear(outputs, self.weight, self.bias))
        n_frequent = self.cutoffs[0]
        parts: List[Tensor] = [first[:, :n_frequent]]
        for k, tail in enumerate(self.tails):
            parts.append(first[:, n_frequent + k, None] + _log_softmax(tail(outputs)))
        return torch.cat(parts, dim=1)

    def row_losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The same as `token_losses`; each cluster is computed for its own targets only.

        Clusters without targets are computed with zero rows, so that all parameters have a gradient in every update.
        """
        n_frequent = self.cutoffs[0]
        cuts = torch.as_tensor(self.cutoffs, device=targets.device)
        cluster = torch.bucketize(targets, cuts, right=True)  # 0: a frequent word
        first_targets = torch.where(cluster == 0, targets, n_frequent - 1 + cluster)
        losses = _cross_entropy(nn.functional.linear(outputs, self.weight, self.bias), first_targets)
        for k, tail in enumerate(self.tails):
            rows = (cluster == k + 1).nonzero().squeeze(1)
            within = _cross_entropy(tail(outputs[rows]), targets[rows] - self.cutoffs[k])
            losses = losses.index_add(0, rows, within)
        return losses


def _cross_entropy(scores: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(_exact(scores), targets, reduction="none")


def _log_softmax(scores: Tensor) -> Tensor:
    return torch.log_softmax(_exact(scores), dim=1)


def _exact(scores: Tensor) -> Tensor:
    """Convert to float32, since sums over many words need it and products under autocast may be in half precision."""
    return scores.float() if scores.dtype in (torch.bfloat16, torch.float16) else scores
