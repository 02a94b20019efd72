"""`_ElmoCharacterEncoder` of AllenNLP: a vector for each word from its characters."""

from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from ...bilm.char_cnn import CharCNN
from ...bilm.config import CharCNNConfig
from ...bilm.model import BiLMNetwork
from ...errors import Errors
from ...inference.isolation import isolated
from ...inference.words import WORDS_AT_ONCE, ConstantWords
from ...nn.inputs import IdBatch, pad_rows, read_inputs
from ...text.characters import EOW_CHARACTER, PAD_CHARACTER, SENTENCE_BEGIN, SENTENCE_END, character_ids
from ..arguments import PathLike
from ..derived import Derived, DerivingModule
from .boundaries import boundary_index
from .files import load_network
from .parameters import are_parameters, current_weights, from_char_cnn, own_copy, to_char_cnn


class Highway(nn.Module):
    """Parameters of AllenNLP's highway: `_layers.k` with rows of the transform, then of the gate.

    width (int): F.
    n_layers (int): Number of layers.
    """

    def __init__(self, width: int, n_layers: int) -> None:
        super().__init__()
        self._layers = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(n_layers))


class ElmoCharacterEncoder(DerivingModule):
    """Word vectors without context (layer 0), with rows for `<S>` and `</S>`.

    options_file (Optional[PathLike]), weight_file (Optional[PathLike]): See `Elmo`.
    requires_grad (bool): Train the weights.
    RAISES (ValueError): See `Elmo`.
    """

    @isolated
    def __init__(
        self, options_file: Optional[PathLike], weight_file: Optional[PathLike], requires_grad: bool = False
    ) -> None:
        super().__init__()
        self._init_from(load_network(options_file, weight_file), requires_grad)

    @classmethod
    @isolated
    def from_network(cls, network: BiLMNetwork, requires_grad: bool = False) -> "ElmoCharacterEncoder":
        """RETURNS (ElmoCharacterEncoder): With a copy of the weights of the network."""
        encoder = cls.__new__(cls)
        nn.Module.__init__(encoder)
        encoder._init_from(network, requires_grad)
        return encoder

    def _init_from(self, network: BiLMNetwork, requires_grad: bool) -> None:
        char_cnn = network.char_cnn
        assert char_cnn is not None  # checked by `load_network`
        config = char_cnn.config
        self.output_dim, self.requires_grad, self._config = network.config.projection_width, requires_grad, config
        with torch.device("meta"):
            self._char_embedding_weights = nn.Parameter(torch.empty(config.n_characters + 1, config.embedding_width))
            for i, (width, n) in enumerate(config.filters):
                self.add_module(f"char_conv_{i}", nn.Conv1d(config.embedding_width, n, width))
            self._highways = Highway(config.n_filters, config.n_highway)
            self._projection = nn.Linear(config.n_filters, self.output_dim)
        weights = own_copy(from_char_cnn(char_cnn.state_dict()))
        self.load_state_dict(weights, assign=True)
        self._names: List[str] = list(weights)
        self.requires_grad_(requires_grad)
        self._derived: Derived[ConstantWords] = Derived()

    @property
    def max_characters(self) -> int:
        """RETURNS (int): C, ids of a word."""
        return self._config.max_characters

    def get_output_dim(self) -> int:
        """RETURNS (int): P."""
        return self.output_dim

    @isolated
    def forward(self, inputs: Tensor) -> Dict[str, Tensor]:
        """inputs (Tensor): Shape (B, T, C), character ids; rows of zeros are padding. From ids of another width than C,
            such as the 50 of `batch_to_ids`, words are read as if they had been spelled for C.
        RETURNS (Dict[str, Tensor]): `token_embedding` (B, T + 2, P), zeros for padding, and `mask` (B, T + 2).
        RAISES (ValueError): EL017 for invalid ids, EL252 for a batch without sentences.
        """
        table, index, mask = self.encode(inputs)
        return {"token_embedding": pad_rows(table[index[mask]], mask), "mask": mask}

    def encode(self, inputs: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        """Compute each distinct word once.

        inputs (Tensor): See `forward`.
        RETURNS (Tuple[Tensor, Tensor, Tensor]): Vectors (U + 2, P), `<S>` and `</S>` first; the row of each token,
            (B, T + 2), -1 for padding; the mask (B, T + 2).
        RAISES (ValueError): See `forward`.
        """
        batch = _read_ids(inputs, self._config)
        device = self._char_embedding_weights.device
        boundaries = torch.from_numpy(character_ids([SENTENCE_BEGIN, SENTENCE_END], self._config.max_characters))
        table = self._compute(torch.cat([boundaries, batch.char_ids]))
        numbers = torch.zeros_like(batch.mask, dtype=torch.long)
        numbers[batch.mask] = torch.tensor([row + 2 for rows in batch.rows for row in rows], dtype=torch.long)
        index, mask = boundary_index(numbers, batch.mask)
        return table, index.to(device), mask.to(device)

    def _compute(self, char_ids: Tensor) -> Tensor:
        """char_ids (Tensor): Shape (U, C).
        RETURNS (Tensor): Shape (U, P).
        """
        is_content = char_ids != char_ids[:, -1:]  # the last id of a word is its padding
        lengths = (is_content * torch.arange(1, char_ids.shape[1] + 1)).amax(dim=1).numpy()
        order = np.argsort(lengths, kind="stable")  # groups of words of similar length
        parts = [
            self._compute_some(char_ids[some], lengths[some].tolist())
            for some in np.split(order, range(WORDS_AT_ONCE, len(order), WORDS_AT_ONCE))
        ]
        inverse = torch.from_numpy(np.argsort(order, kind="stable"))
        return torch.cat(parts)[inverse.to(parts[0].device)]

    def _compute_some(self, char_ids: Tensor, lengths: Sequence[int]) -> Tensor:
        char_ids = char_ids.to(self._char_embedding_weights.device)
        weights = current_weights(self, self._names)
        if torch.is_grad_enabled() and any(weight.requires_grad for weight in weights.values()):
            return functional_call(self._empty_cnn(), to_char_cnn(weights), (char_ids, lengths))  # type: ignore[no-any-return]  # torch gives Any
        is_kept = are_parameters([*weights.values()])
        constant = self._derived.get(self, lambda: self._derive(weights)) if is_kept else self._derive(weights)
        return constant(char_ids, lengths).to(self._char_embedding_weights.dtype)

    def _empty_cnn(self) -> CharCNN:
        with torch.device("meta"):
            return CharCNN(self._config, self.output_dim)

    def _derive(self, weights: Dict[str, Tensor]) -> ConstantWords:
        char_cnn = self._empty_cnn()
        with torch.no_grad():
            parameters = {name: weight.detach().float() for name, weight in weights.items()}
            char_cnn.load_state_dict(to_char_cnn(parameters), assign=True)
        return ConstantWords(char_cnn)


def _read_ids(inputs: Tensor, config: CharCNNConfig) -> IdBatch:
    """RAISES (ValueError): EL017 for invalid ids, EL252 for a batch without sentences."""
    if not isinstance(inputs, Tensor):
        problem = f"they are a {type(inputs).__name__}, should be a tensor"
        raise ValueError(Errors.EL017.format(problem=problem))
    batch = read_inputs(inputs)
    assert isinstance(batch, IdBatch)
    ids, width, largest = batch.char_ids, config.max_characters, config.n_characters
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) <= largest:
        problem = f"they are {int(ids.min())} to {int(ids.max())}, should be 0 to {largest}"
        raise ValueError(Errors.EL017.format(problem=problem))
    return IdBatch(_of_width(ids.long(), width), batch.rows, batch.mask)


def _of_width(ids: Tensor, width: int) -> Tensor:
    """ids (Tensor): Shape (U, C'), of words in UTF-8.
    width (int): C.
    RETURNS (Tensor): Shape (U, C), the ids that the words have in rows of this width.
    RAISES (ValueError): EL017 for rows of another width that are not words or that may be truncated.
    """
    n_ids = ids.shape[1]
    if n_ids == width:
        return ids
    lengths = ((ids != PAD_CHARACTER + 1) * torch.arange(1, n_ids + 1)).amax(dim=1)  # (U,)
    last = ids.gather(1, (lengths - 1).clamp_min(0).unsqueeze(1)).squeeze(1)
    is_cut = lengths == n_ids if n_ids < width else lengths == 0
    if bool(((last != EOW_CHARACTER + 1) | is_cut).any()):
        problem = (
            f"they have {n_ids} for each word, this biLM reads {width} (max_characters_per_token), and a word has no "
            f"end or fills all {n_ids}; should be `batch_to_ids(sentences, max_characters={width})`"
        )
        raise ValueError(Errors.EL017.format(problem=problem))
    n_kept = min(n_ids, width)
    rows = ids.new_full((len(ids), width), PAD_CHARACTER + 1)
    rows[:, :n_kept] = ids[:, :n_kept]
    rows[lengths > width, -1] = EOW_CHARACTER + 1
    return rows
