"""The softmax over the vocabulary that both directions share (Peters et al. 2018, sec. 3.1)."""

import torch
from torch import Tensor, nn


class SoftmaxHead(nn.Module):
    """Scores of all words, one set of weights for both directions.

    n_words (int): V.
    width (int): P, the width of one direction.
    """

    def __init__(self, n_words: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_words, width))
        self.bias = nn.Parameter(torch.zeros(n_words))
        nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, outputs: Tensor) -> Tensor:
        """outputs (Tensor): Shape (N, P).
        RETURNS (Tensor): Shape (N, V), before the softmax.
        """
        return nn.functional.linear(outputs, self.weight, self.bias)

    def token_losses(self, outputs: Tensor, targets: Tensor, *, max_scores: int = 2**25) -> Tensor:
        """Negative log likelihood of each target, with the scores of a bounded number of rows at a time.

        outputs (Tensor): Shape (N, P).
        targets (Tensor): Shape (N,) int64.
        max_scores (int): Scores held at once.
        RETURNS (Tensor): Shape (N,), in nats.
        """
        n_rows = max(1, max_scores // self.weight.shape[0])
        parts = [
            nn.functional.cross_entropy(self(rows), wanted, reduction="none")
            for rows, wanted in zip(outputs.split(n_rows), targets.split(n_rows))
        ]
        return torch.cat(parts) if parts else outputs.new_zeros(0)
