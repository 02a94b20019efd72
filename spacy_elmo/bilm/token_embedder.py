"""The token embedder of ELMoForManyLangs (Che et al. 2018): words and characters, concatenated and projected."""

from typing import List, Optional, Sequence

import torch
from torch import Tensor, nn

from .char_cnn import CharCNN
from .config import TokenEmbedderConfig
from .initialization import LSTM, Linear, constant_, new_parameter, uniform_


class CharLSTM(nn.Module):
    """The last states of an LSTM over the characters of a word, in both directions. Padding is not read.

    n_characters (int): Rows of the table, without the mask.
    width (int): E, width of a character vector and of a state.
    """

    def __init__(self, n_characters: int, width: int) -> None:
        super().__init__()
        self.embedding = new_parameter(n_characters + 1, width)
        reset_table(self.embedding)
        self.lstm = LSTM(width, width, bidirectional=True, batch_first=True)

    def forward(self, char_ids: Tensor, lengths: Sequence[int]) -> Tensor:
        """char_ids (Tensor): Shape (U, C) int64.
        lengths (Sequence[int]): Number of ids of each word without padding.
        RETURNS (Tensor): Shape (U, 2E), the forward state first.
        """
        characters = nn.functional.embedding(char_ids, self.embedding)  # (U, C, E)
        packed = nn.utils.rnn.pack_padded_sequence(
            characters, torch.tensor(lengths), batch_first=True, enforce_sorted=False
        )
        _, (last, _) = self.lstm(packed)  # (2, U, E)
        return last.transpose(0, 1).flatten(1)  # type: ignore[no-any-return]  # torch gives LSTM no types


class TokenEmbedder(nn.Module):
    """One vector per word from its row of a word table and from its characters; either may be missing.

    Ids have one column for the word, then those of the characters; all are shifted by one, since 0 is the mask.

    config (TokenEmbedderConfig): Sizes.
    output_width (int): P.
    """

    def __init__(self, config: TokenEmbedderConfig, output_width: int) -> None:
        super().__init__()
        self.config = config
        self.word_embedding: Optional[nn.Parameter] = None
        self.char_cnn: Optional[CharCNN] = None
        self.char_lstm: Optional[CharLSTM] = None
        if config.n_words:
            self.word_embedding = new_parameter(config.n_words + 1, config.word_width)
            reset_table(self.word_embedding)
        if config.char_cnn is not None:
            self.char_cnn = CharCNN(config.char_cnn, config.char_cnn.n_filters)  # without a projection of its own
        elif config.n_characters:
            self.char_lstm = CharLSTM(config.n_characters, config.character_width)
        self.projection = Linear(config.feature_width, output_width)

    def forward(self, ids: Tensor, lengths: Optional[Sequence[int]] = None) -> Tensor:
        """ids (Tensor): Shape (U, 1 + C) int64.
        lengths (Optional[Sequence[int]]): Number of character ids of each word without padding; None: all of them.
        RETURNS (Tensor): Shape (U, P).
        """
        features: List[Tensor] = []
        if self.word_embedding is not None:
            features.append(self.word_vectors(ids))
        if self.char_cnn is not None:
            features.append(self.char_cnn(ids[:, 1:], lengths))
        elif self.char_lstm is not None:
            features.append(self.char_lstm(ids[:, 1:], [ids.shape[1] - 1] * len(ids) if lengths is None else lengths))
        return self.projection(torch.cat(features, dim=1))  # type: ignore[no-any-return]  # a Linear's

    def word_vectors(self, ids: Tensor) -> Tensor:
        """ids (Tensor): Shape (U, 1 + C) int64.
        RETURNS (Tensor): Shape (U, width), rows of the word table.
        """
        return nn.functional.embedding(ids[:, 0], self.word_embedding)  # type: ignore[arg-type]  # not None with words


def reset_table(table: Tensor) -> None:
    """Draw a table from U(-0.25, 0.25), as ELMoForManyLangs; row 0, the mask, is zero."""
    with torch.no_grad():
        uniform_(table, -0.25, 0.25)
    constant_(table[0], 0.0)
