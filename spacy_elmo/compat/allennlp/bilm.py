"""`_ElmoBiLm` of AllenNLP: the layers of a batch of character ids."""

import logging
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn

from ...errors import Errors
from ...inference.isolation import isolated
from ...nn.inputs import pad_rows
from ...text.characters import SENTENCE_BEGIN, SENTENCE_END
from ..arguments import ConfigurationError, PathLike
from ..derived import DerivingModule
from .boundaries import boundary_index
from .character_encoder import ElmoCharacterEncoder
from .elmo_lstm import ElmoLstm
from .files import load_network
from .indexer import batch_to_ids

logger = logging.getLogger("spacy_elmo")


class ElmoBiLm(DerivingModule):
    """A biLM with the interface, parameter names and state of AllenNLP's `_ElmoBiLm`.

    The LSTM state is carried from batch to batch, row by row: the same sentence gives other vectors the second time.
    `_elmo_lstm.reset_states()` makes it zero.

    options_file (Optional[PathLike]), weight_file (Optional[PathLike]), requires_grad (bool), vocab_to_cache
        (Optional[List[str]]): See `Elmo`.
    RAISES (ValueError): See `Elmo`.
    """

    @isolated
    def __init__(
        self,
        options_file: Optional[PathLike],
        weight_file: Optional[PathLike],
        requires_grad: bool = False,
        vocab_to_cache: Optional[List[str]] = None,
    ) -> None:
        super().__init__()
        network = load_network(options_file, weight_file)
        self._token_embedder = ElmoCharacterEncoder.from_network(network, requires_grad)
        self._requires_grad = requires_grad
        self._word_embedding: Optional[nn.Embedding] = None
        self.register_buffer("_bos_embedding", None, persistent=False)
        self.register_buffer("_eos_embedding", None, persistent=False)
        if vocab_to_cache:
            if requires_grad:
                logger.warning("The biLM is trained, so the cached word vectors become different from computed ones.")
            self.create_cached_cnn_embeddings(vocab_to_cache)
        self._elmo_lstm = ElmoLstm.from_network(network, requires_grad)
        self.num_layers = network.config.n_layers + 1

    @property
    def max_characters(self) -> int:
        """RETURNS (int): C, `max_characters_per_token` of the options: ids of a word."""
        return int(self._token_embedder.max_characters)

    def get_output_dim(self) -> int:
        """RETURNS (int): 2P."""
        return 2 * self._token_embedder.get_output_dim()

    @isolated
    def forward(self, inputs: Tensor, word_inputs: Optional[Tensor] = None) -> Dict[str, Any]:
        """inputs (Tensor): Shape (B, T, C), character ids; rows of zeros are padding.
        word_inputs (Optional[Tensor]): Shape (B, T), indices into `vocab_to_cache`, 0 for padding. Without a cache, or
            with words that are not in it, the character ids are used.
        RETURNS (Dict[str, Any]): `activations`, L+1 tensors (B, T + 2, 2P), and `mask` (B, T + 2).
        RAISES (ValueError): EL017 for invalid ids, EL252 for a batch without sentences.
        """
        layers, mask = self.encode(inputs, word_inputs)
        return {"activations": [pad_rows(rows, mask) for rows in layers], "mask": mask}

    @isolated
    def encode(self, inputs: Tensor, word_inputs: Optional[Tensor] = None) -> Tuple[List[Tensor], Tensor]:
        """Compute the layers without padding.

        inputs (Tensor), word_inputs (Optional[Tensor]): See `forward`.
        RETURNS (Tuple[List[Tensor], Tensor]): L+1 tensors (N, 2P), the rows of one sentence after the other, and the
            mask (B, T + 2), which is True at N places.
        RAISES (ValueError): See `forward`.
        """
        table, index, mask = self._look_up(word_inputs) or self._token_embedder.encode(inputs)
        first = table[index[mask]]  # (N, P)
        return [torch.cat([first, first], dim=-1), *self._elmo_lstm.encode(table, index)], mask

    @isolated
    @torch.no_grad()
    def create_cached_cnn_embeddings(self, tokens: List[str]) -> None:
        """Compute the vectors of words once, for `word_inputs`.

        tokens (List[str]): Words in the order of their indices. The first stands for padding: its vector is zero.
        """
        boundaries = [SENTENCE_BEGIN, SENTENCE_END]
        ids = batch_to_ids([[*boundaries, *tokens]], self.max_characters)
        rows = self._token_embedder(ids)["token_embedding"][0, 1:-1]
        self._bos_embedding, self._eos_embedding = rows[0], rows[1]
        weight = rows[2:].clone()
        weight[:1] = 0.0
        self._word_embedding = nn.Embedding.from_pretrained(weight, freeze=not self._requires_grad, padding_idx=0)

    def _look_up(self, word_inputs: Optional[Tensor]) -> Optional[Tuple[Tensor, Tensor, Tensor]]:
        """RETURNS (Optional[Tuple[Tensor, Tensor, Tensor]]): See `ElmoCharacterEncoder.encode`."""
        if self._word_embedding is None or word_inputs is None:
            return None
        if word_inputs.dim() != 2 or word_inputs.is_floating_point():
            found = f"shape {tuple(word_inputs.shape)}, {word_inputs.dtype}"
            raise ConfigurationError(Errors.EL332.format(name="word_inputs", value=found, wanted="(B, T), torch.int64"))
        if word_inputs.numel() and not 0 <= int(word_inputs.min()) <= int(word_inputs.max()) < len(
            self._word_embedding.weight
        ):
            return None
        table = torch.cat([self._bos_embedding[None], self._eos_embedding[None], self._word_embedding.weight])
        index, mask = boundary_index(word_inputs.long() + 2, word_inputs > 0)
        return table, index.to(table.device), mask.to(table.device)
