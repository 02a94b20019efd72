"""Vectors of words from their characters: convolutions, highways and a projection (Kim et al. 2016; Peters et al. 2018,
sec. 3.4). The token embedder of ELMoForManyLangs (Che et al. 2018) reads characters and words.
"""

from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from .config import CharCNNConfig, TokenEmbedderConfig
from .layers import LSTM, Highway, LayerNorm, Linear, constant_, find_hooked, new_parameter, normal_, uniform_

N_BUCKETS = 6  # maximum number of buckets of words of similar length, each computed by separate products
MIN_BUCKET = 64  # minimum number of words in a bucket
MIN_WINDOWS = 16  # minimum number of windows in a bucket: products of fewer rows have other rounding errors


def has_mask_row(name: str) -> bool:
    """Whether the first row of an entry of a network's state dict is the mask, which occurs in no word."""
    return name.endswith("embedding") and name != "word_embedding"  # the table of words without characters


class CharFilter(nn.Module):
    """Filters of one width: a valid convolution over the characters, then the maximum over positions. The activation
    selects the initial distribution, as in bilm-tf.
    """

    def __init__(self, width: int, n: int, embedding_width: int, activation: str) -> None:
        super().__init__()
        self.weight = new_parameter(n, embedding_width, width)
        self.bias = nn.Parameter(torch.zeros(n, dtype=torch.float32))
        if activation == "relu":
            uniform_(self.weight, -0.05, 0.05)
        else:
            normal_(self.weight, (width * embedding_width) ** -0.5)

    def forward(self, characters: Tensor) -> Tensor:
        """From characters (U, C, E) to (U, n), before the activation."""
        n, embedding_width, width = self.weight.shape
        windows = characters.unfold(1, width, 1)  # (U, C - width + 1, E, width), a view
        n_words, n_windows = windows.shape[:2]
        rows = windows.reshape(n_words * n_windows, embedding_width * width)
        weight = self.weight.reshape(n, -1)
        # Rounding errors of products with a single filter, or over a number of values that is no multiple of 4, depend
        # on the place of a row in memory, and so on the other words of the batch: filters and values of 0 are added.
        n_zeros, n_more_filters = -rows.shape[1] % 4, int(n == 1)
        if n_zeros or n_more_filters:
            rows = nn.functional.pad(rows, (0, n_zeros))
            weight = nn.functional.pad(weight, (0, n_zeros, 0, n_more_filters))
        scores = (rows @ weight.t())[:, :n]  # (U * windows, n): one large product
        return scores.reshape(n_words, n_windows, n).amax(dim=1) + self.bias

    def train_on(self, buckets: Sequence[Tensor], embedding: Tensor) -> Tensor:
        """The same as `forward` from character ids, with a backward pass at a third of the cost.

        There are few distinct characters. The product of each character with the weights of each position is computed
        once, and the score of a window is a sum of rows of that table. Only the maximum gets a gradient; of several
        equal ones, the first.

        buckets (Sequence[Tensor]): Each of shape (U_k, C_k), int64.
        RETURNS (Tensor): Shape (sum U_k, n), before the activation.
        """
        n, embedding_width, width = self.weight.shape
        table = embedding @ self.weight.permute(1, 2, 0).reshape(embedding_width, width * n)  # (262, width * n)
        pooled: Tensor = _LargestWindow.apply(table.view(-1, width, n), *buckets)  # type: ignore[no-untyped-call]  # torch gives apply no types
        return pooled + self.bias


class CharCNN(nn.Module):
    """One vector of width P per word from its character ids. Without a projection (by default if F == P) the output of
    the highways is the vector.
    """

    def __init__(self, config: CharCNNConfig, output_width: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = new_parameter(config.n_characters + 1, config.embedding_width)
        self.filters = nn.ModuleList(
            CharFilter(width, n, config.embedding_width, config.activation) for width, n in config.filters
        )
        width = config.highway_width(output_width)
        self.highways = nn.ModuleList(Highway(width) for _ in range(config.n_highway))
        self.projection = Linear(config.n_filters, output_width) if config.projects_to(output_width) else None
        self.norm = LayerNorm(output_width) if config.has_layer_norm else None
        uniform_(self.embedding, -1.0, 1.0)
        constant_(self.embedding[0], 0.0)  # the mask, which occurs in no word
        if self.projection is not None:
            normal_(self.projection.weight, config.n_filters**-0.5)
            constant_(self.projection.bias, 0.0)

    def forward(self, char_ids: Tensor, lengths: Optional[Sequence[int]] = None) -> Tensor:
        """Encode words. Windows that begin after the last id of a word contain only padding and are all equal, so rows
        of short words are truncated after the first of these. Words sorted by length are faster.

        char_ids (Tensor): Shape (U, C) int64.
        lengths (Optional[Sequence[int]]): Number of ids of each word without padding; None uses whole rows.
        RETURNS (Tensor): Shape (U, P).
        """
        features = self.pool(char_ids, lengths)
        for module in self.upper_modules():
            features = module(features)
        return features  # (U, P)

    def upper_modules(self) -> List[nn.Module]:
        """The modules after `pool`, in order."""
        projection = [] if self.projection is None else [self.projection]
        projects_first = self.config.projection == "after_cnn"
        ordered = [*projection, *self.highways] if projects_first else [*self.highways, *projection]
        return ordered if self.norm is None else [*ordered, self.norm]

    def pool(self, char_ids: Tensor, lengths: Optional[Sequence[int]] = None) -> Tensor:
        """The input of the highways, shape (U, F), see `forward`."""
        buckets = self._bucket(char_ids, lengths)
        is_hooked = bool(find_hooked(self.filters))
        if char_ids.device.type != "cpu" and not is_hooked:
            features = self._pool_at_once(buckets, char_ids.shape[1])
        elif torch.is_grad_enabled() and not is_hooked:
            features = self._pool_with_grad(buckets)
        else:
            features = torch.cat([self._pool(rows) for rows in buckets])  # (U, F)
        return torch.relu(features) if self.config.activation == "relu" else torch.tanh(features)

    def _pool(self, char_ids: Tensor) -> Tensor:
        characters = nn.functional.embedding(char_ids, self.embedding)  # (U, C, E)
        return torch.cat([char_filter(characters) for char_filter in self.filters], dim=1)  # (U, F)

    def _pool_at_once(self, buckets: Sequence[Tensor], n_columns: int) -> Tensor:
        """One product for all filters of a bucket, for GPUs, where launching a product takes longer than its zeros.

        Narrower filters are padded to the widest with zeros. Rows shorter than `n_columns` end with a window of
        padding for the widest filter, so that no other filter has a window that it lacks.
        """
        filters: Any = list(self.filters)
        widest = max(width for width, _ in self.config.filters)
        weights = [char_filter.weight for char_filter in filters]
        padded = [nn.functional.pad(weight, (0, widest - weight.shape[2])) for weight in weights]
        matrix = torch.cat(padded).flatten(1).t()  # (E * widest, F)
        bias = torch.cat([char_filter.bias for char_filter in filters])
        pooled: List[Tensor] = []
        for rows in buckets:
            if rows.shape[1] == n_columns:
                pooled.append(self._pool(rows))
                continue
            windows = nn.functional.embedding(rows, self.embedding).unfold(1, widest, 1)  # (U, W, E, widest), a view
            scores = windows.reshape(-1, len(matrix)) @ matrix  # (U * W, F)
            pooled.append(scores.view(*windows.shape[:2], -1).amax(dim=1) + bias)
        return torch.cat(pooled)  # (U, F)

    def _pool_with_grad(self, buckets: Sequence[Tensor]) -> Tensor:
        with torch.autocast("cpu", enabled=False):  # mostly sums of rows, which need float32
            columns = [char_filter.train_on(buckets, self.embedding) for char_filter in self.filters]  # type: ignore[operator]  # a CharFilter
            return torch.cat(columns, dim=1)  # (U, F)

    def _bucket(self, char_ids: Tensor, lengths: Optional[Sequence[int]]) -> List[Tensor]:
        if lengths is None or not len(lengths):
            return [char_ids]
        size = max(MIN_BUCKET, -(-len(lengths) // N_BUCKETS))
        widest = max(width for width, _ in self.config.filters)
        buckets = char_ids.split(size)
        longest = [max(lengths[i * size : (i + 1) * size]) for i in range(len(buckets))]
        return [rows[:, : max(n, -(-MIN_WINDOWS // len(rows))) + widest] for rows, n in zip(buckets, longest)]


class CharLSTM(nn.Module):
    """The last states of an LSTM over the characters of a word, in both directions. Padding is not read. Characters and
    states have the same width E; the table has a row for each character and one for the mask.
    """

    def __init__(self, n_characters: int, width: int) -> None:
        super().__init__()
        self.embedding = new_parameter(n_characters + 1, width)
        _reset_table(self.embedding)
        self.lstm = LSTM(width, width, bidirectional=True, batch_first=True)

    def forward(self, char_ids: Tensor, lengths: Sequence[int]) -> Tensor:
        """From ids (U, C), and the number of ids of each word without padding, to (U, 2E), the forward state first."""
        characters = nn.functional.embedding(char_ids, self.embedding)  # (U, C, E)
        packed = nn.utils.rnn.pack_padded_sequence(
            characters, torch.tensor(lengths), batch_first=True, enforce_sorted=False
        )
        _, (last, _) = self.lstm(packed)  # (2, U, E)
        return last.transpose(0, 1).flatten(1)  # type: ignore[no-any-return]  # torch gives LSTM no types


class TokenEmbedder(nn.Module):
    """One vector of width P per word from its row of a word table and from its characters; either may be missing.

    Ids have one column for the word, then one for each character; all are shifted by one, since 0 is the mask.
    """

    def __init__(self, config: TokenEmbedderConfig, output_width: int) -> None:
        super().__init__()
        self.config = config
        self.word_embedding: Optional[nn.Parameter] = None
        self.char_cnn: Optional[CharCNN] = None
        self.char_lstm: Optional[CharLSTM] = None
        if config.n_words:
            self.word_embedding = new_parameter(config.n_words + 1, config.word_width)
            _reset_table(self.word_embedding)
        if config.char_cnn is not None:
            self.char_cnn = CharCNN(config.char_cnn, config.char_cnn.n_filters)  # without a projection of its own
        elif config.n_characters:
            self.char_lstm = CharLSTM(config.n_characters, config.character_width)
        self.projection = Linear(config.feature_width, output_width)

    def forward(self, ids: Tensor, lengths: Optional[Sequence[int]] = None) -> Tensor:
        """From ids (U, 1 + C) int64 to (U, P).

        lengths (Optional[Sequence[int]]): Number of character ids of each word without padding; None: all of them.
        """
        return self.projection(self.features(ids, lengths))  # type: ignore[no-any-return]  # a Linear's

    def features(
        self, ids: Tensor, lengths: Optional[Sequence[int]], *, characters: Optional[Callable[..., Tensor]] = None
    ) -> Tensor:
        """What is projected, shape (U, features), see `forward`. `characters` replaces `char_cnn` or `char_lstm`."""
        features: List[Tensor] = []
        if self.word_embedding is not None:
            features.append(nn.functional.embedding(ids[:, 0], self.word_embedding))
        if self.char_cnn is not None:
            features.append((characters or self.char_cnn)(ids[:, 1:], lengths))
        elif self.char_lstm is not None:
            n_characters = [ids.shape[1] - 1] * len(ids) if lengths is None else lengths
            features.append((characters or self.char_lstm)(ids[:, 1:], n_characters))
        return torch.cat(features, dim=1)


def _reset_table(table: Tensor) -> None:
    """Draw a table from U(-0.25, 0.25), as ELMoForManyLangs; row 0, the mask, is zero."""
    with torch.no_grad():
        uniform_(table, -0.25, 0.25)
    constant_(table[0], 0.0)


class _LargestWindow(torch.autograd.Function):
    """Maximum over all windows of a word of the sum of table rows, for each filter. Table: (262, width, n)."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, *buckets: Tensor) -> Tensor:
        _, width, n = table.shape
        pooled: List[Tensor] = []
        saved: List[Tensor] = []
        for char_ids in buckets:
            rows = char_ids.unfold(1, width, 1) * width + torch.arange(width)  # (U, W, width), rows of the flat table
            scores = nn.functional.embedding_bag(rows.flatten(0, 1), table.flatten(0, 1), mode="sum")  # (U * W, n)
            scores = scores.view(*rows.shape[:2], n)
            pooled.append(scores.amax(dim=1))  # (U, n)
            saved += [rows, _first_equal(scores, pooled[-1])]
        ctx.save_for_backward(*saved)
        ctx.shape = table.shape
        return torch.cat(pooled)

    @staticmethod
    def backward(ctx: Any, d_pooled: Tensor) -> Tuple[Optional[Tensor], ...]:
        saved = ctx.saved_tensors
        buckets = list(zip(saved[::2], saved[1::2]))
        _, width, n = ctx.shape
        d_table = d_pooled.new_zeros(ctx.shape)
        for (rows, largest_at), d_scores in zip(buckets, d_pooled.split([len(rows) for rows, _ in buckets])):
            largest_rows = rows.mul(n).gather(1, largest_at.unsqueeze(2).expand(-1, -1, width))  # (U, n, width)
            places = largest_rows.add_(torch.arange(n).unsqueeze(1)).view(-1)
            d_table.view(-1).index_add_(0, places, d_scores.unsqueeze(2).expand(-1, -1, width).reshape(-1))
        return (d_table, *[None] * len(buckets))


def _first_equal(scores: Tensor, largest: Tensor) -> Tensor:
    """The first position, (U, n), at which scores (U, W, n) have their largest value over W. Several times as fast as
    `max` with indices.
    """
    n_windows = scores.shape[1]
    countdown = torch.arange(n_windows, 0, -1, dtype=torch.uint8 if n_windows < 256 else torch.int32).unsqueeze(1)
    is_largest = (scores == largest.unsqueeze(1)).to(countdown.dtype)
    n_windows_left = is_largest.mul_(countdown).amax(dim=1)  # from the first largest one on
    return (n_windows - n_windows_left.long()).clamp_(max=n_windows - 1)  # NaN has no maximum: the last position
