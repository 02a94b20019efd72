"""The encoder `lstm` of ELMoForManyLangs over a padded batch: both directions read the padding, as in the original."""

from typing import List, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..bilm.model import BiLSTM
from ..inference.bilm import BiLM
from ..inference.encoder import BOS, EOS, number_words
from ..inference.isolation import isolated
from ..inference.words import WordEncoder
from ..text.characters import PAD


def reads_padding(bilm: BiLM) -> bool:
    """bilm (BiLM): Any.
    RETURNS (bool): Whether the original pads the sentences of this model. It cannot compute a plain LSTM above LSTMs
        over characters; these models are computed sentence by sentence.
    """
    embedder = bilm.config.token_embedder
    if bilm.config.encoder != "bilstm" or embedder is None:
        return False
    return embedder.kind == "cnn" or not embedder.n_characters


class PaddedBiLSTM:
    """bilm (BiLM): One for which `reads_padding` is true."""

    def __init__(self, bilm: BiLM) -> None:
        self.bilm = bilm

    @isolated
    @torch.no_grad()
    def embed(self, batch: Sequence[Sequence[str]]) -> List[NDArray[np.float32]]:
        """Shorter sentences have the word `<pad>` behind `<eos>`, so that a vector depends on the longest sentence.

        batch (Sequence[Sequence[str]]): Tokens of each sentence, one or more sentences.
        RETURNS (List[NDArray[np.float32]]): Shape (T, D) for each sentence, the projected last layer.
        """
        words = self.bilm._encoder.words
        distinct, runs = number_words(batch, words.boundaries)
        vectors = torch.cat([words.encode(distinct), self._padding(words)])
        longest = max(map(len, runs)) + 2
        rows = [[BOS, *run, EOS] + [len(distinct)] * (longest - 2 - len(run)) for run in runs]
        encoder = self.bilm.network.encoder
        assert isinstance(encoder, BiLSTM)  # checked by `reads_padding`
        tokens = torch.tensor(rows, device=vectors.device).flatten()
        top = encoder.encode(vectors, tokens, [longest] * len(rows))[-1]  # (B * S, D)
        padded = top.view(len(rows), longest, -1).cpu().numpy()
        return [part[1 : len(run) + 1].copy() for part, run in zip(padded, runs)]

    def _padding(self, words: WordEncoder) -> Tensor:
        """RETURNS (Tensor): Shape (1, P), the vector of the word `<pad>`, all characters of which are `<pad>`."""
        lexicon, codec = self.bilm.lexicon, words.codec
        assert lexicon is not None and codec is not None  # a token embedder has both
        ids = np.full((1, codec.max_characters or 1), lexicon.character_ids.get(PAD, 0) + 1, dtype="int64")
        ids[0, 0] = lexicon.word_ids.get(PAD, 0) + 1
        return words.encode_ids(ids, codec.lengths(ids))
