"""From character ids to word vectors: convolutions, highways, a projection (Kim et al. 2016; Peters et al. 2018)."""

from typing import List, Optional, Sequence

import torch
from torch import Tensor, nn

from .config import N_CHARACTERS, CharCNNConfig
from .highway import Highway

N_BUCKETS = 6  # groups of words of like length, each a product of its own
MIN_BUCKET = 64  # words


class CharFilter(nn.Module):
    """Filters of one width: a valid convolution over the characters, then the maximum over positions.

    width (int): Characters a filter sees.
    n (int): Number of filters.
    embedding_width (int): E.
    activation (str): Its name decides the initial range, as in bilm-tf.
    """

    def __init__(self, width: int, n: int, embedding_width: int, activation: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n, embedding_width, width))
        self.bias = nn.Parameter(torch.zeros(n))
        if activation == "relu":
            nn.init.uniform_(self.weight, -0.05, 0.05)
        else:
            nn.init.normal_(self.weight, std=(width * embedding_width) ** -0.5)

    def forward(self, characters: Tensor) -> Tensor:
        """characters (Tensor): Shape (U, C, E).
        RETURNS (Tensor): Shape (U, n), before the activation.
        """
        n, embedding_width, width = self.weight.shape
        windows = characters.unfold(1, width, 1)  # (U, C - width + 1, E, width), a view
        n_words, n_windows = windows.shape[:2]
        rows = windows.reshape(n_words * n_windows, embedding_width * width)
        scores = rows @ self.weight.reshape(n, -1).t()  # (U * windows, n): one large product
        return scores.view(n_words, n_windows, n).amax(dim=1) + self.bias


class CharCNN(nn.Module):
    """One vector per word from its character ids.

    config (CharCNNConfig): Sizes.
    output_width (int): P; without a projection (mostly where F == P) the highways' output is the vector.
    """

    def __init__(self, config: CharCNNConfig, output_width: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Parameter(torch.empty(N_CHARACTERS + 1, config.embedding_width))
        self.filters = nn.ModuleList(
            CharFilter(width, n, config.embedding_width, config.activation) for width, n in config.filters
        )
        self.highways = nn.ModuleList(Highway(config.n_filters) for _ in range(config.n_highway))
        self.projection = nn.Linear(config.n_filters, output_width) if config.projects_to(output_width) else None
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        nn.init.uniform_(self.embedding, -1.0, 1.0)
        with torch.no_grad():
            self.embedding[0] = 0.0  # the mask, which no word holds
        if self.projection is not None:
            nn.init.normal_(self.projection.weight, std=self.config.n_filters**-0.5)
            nn.init.zeros_(self.projection.bias)

    def forward(self, char_ids: Tensor, lengths: Optional[Sequence[int]] = None) -> Tensor:
        """Beyond a word's last id every window sees only padding: one such window stands for all of them, so rows of
        short words are cut. For speed words of like length should stand side by side.

        char_ids (Tensor): Shape (U, C) int64.
        lengths (Optional[Sequence[int]]): Ids of each word without padding; None looks at whole rows.
        RETURNS (Tensor): Shape (U, P).
        """
        features = torch.cat([self._pool(rows) for rows in self._cut(char_ids, lengths)])  # (U, F)
        features = torch.relu(features) if self.config.activation == "relu" else torch.tanh(features)
        for highway in self.highways:
            features = highway(features)
        return features if self.projection is None else self.projection(features)  # (U, P)

    def _pool(self, char_ids: Tensor) -> Tensor:
        characters = nn.functional.embedding(char_ids, self.embedding)  # (U, C, E)
        return torch.cat([char_filter(characters) for char_filter in self.filters], dim=1)  # (U, F)

    def _cut(self, char_ids: Tensor, lengths: Optional[Sequence[int]]) -> List[Tensor]:
        if lengths is None or not len(lengths):
            return [char_ids]
        size = max(MIN_BUCKET, -(-len(lengths) // N_BUCKETS))
        widest = max(width for width, _ in self.config.filters)
        return [
            rows[:, : max(lengths[i * size : (i + 1) * size]) + widest] for i, rows in enumerate(char_ids.split(size))
        ]
