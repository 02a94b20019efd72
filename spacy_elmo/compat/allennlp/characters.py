"""Words of AllenNLP: character ids, the files of a biLM, and `_ElmoCharacterEncoder`, from ids to word vectors."""

from pathlib import Path
from typing import Annotated, Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, cast

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.func import functional_call

from ...bilm.char_cnn import CharCNN
from ...bilm.config import CharCNNConfig
from ...bilm.network import BiLMNetwork
from ...errors import Errors
from ...inference.bilm import BiLM
from ...inference.runtime import isolated
from ...inference.word_encoder import ENCODED_AT_ONCE, ConstantWords
from ...nn import inputs as nn_inputs
from ...nn.inputs import SentenceBatch, pad_rows, read_inputs, strip_boundaries, with_boundaries
from ...settings import Whole
from ...text.words import (
    BOS_CHARACTER,
    BOW_CHARACTER,
    EOS_CHARACTER,
    EOW_CHARACTER,
    PAD_CHARACTER,
    SENTENCE_BEGIN,
    SENTENCE_END,
    Utf8Codec,
    character_ids,
)
from ...weights import load_bilm
from ...weights.formats.allennlp_names import EMBEDDER, allennlp_datasets, char_cnn_datasets
from ...weights.formats.bilm_tf import find_unsupported_settings
from ...weights.tensor_map import export_arrays, import_tensors, to_arrays
from ..common import (
    ConfigurationError,
    Derived,
    DerivingModule,
    PathLike,
    are_parameters,
    check_argument,
    check_file,
    check_no_url,
    current_weights,
    read_sentences,
)

MAX_WORD_LENGTH = 50
TokensToAdd = Dict[str, Annotated[Whole, Field(ge=0, le=PAD_CHARACTER)]]
BOS, EOS = 0, 1  # rows of a table of vectors
PADDING = -1


def batch_to_ids(batch: Iterable[Sequence[str]], max_characters: Optional[int] = None) -> Tensor:
    """batch (Iterable[Sequence[str]]): Tokens of each sentence, without boundaries; a string is a sentence of
        characters.
    max_characters (Optional[int]): C, ids of a word; by default 50, `ELMoCharacterMapper.max_word_length`. The modules
        also take ids of another width than theirs.
    RETURNS (Tensor): Shape (B, S, C), int64; zeros where a sentence has no more words.
    RAISES (ValueError): EL011 for input that is not tokenized, EL060 for an invalid `max_characters`.
    """
    width = ELMoCharacterMapper.max_word_length if max_characters is None else max_characters
    return nn_inputs.batch_to_ids(read_sentences(batch), width)


def _spell(character: int, n_ids: int = MAX_WORD_LENGTH) -> List[int]:
    """Ids, not shifted, of a word with one character."""
    ids = [BOW_CHARACTER, character, EOW_CHARACTER]
    return ids + [PAD_CHARACTER] * (n_ids - len(ids))


class ELMoCharacterMapper:
    """Maps words to rows of 50 ids, shifted by one, since 0 is padding. Ids in the attributes of the class are not
    shifted, as in AllenNLP.

    tokens_to_add (Optional[Dict[str, int]]): Words that have one character of their own, and its id before the shift.
    RAISES (ConfigurationError): For an id that no biLM has.
    """

    max_word_length = MAX_WORD_LENGTH
    beginning_of_sentence_character, end_of_sentence_character = BOS_CHARACTER, EOS_CHARACTER
    beginning_of_word_character, end_of_word_character = BOW_CHARACTER, EOW_CHARACTER
    padding_character = PAD_CHARACTER
    beginning_of_sentence_characters, end_of_sentence_characters = _spell(BOS_CHARACTER), _spell(EOS_CHARACTER)
    bos_token, eos_token = SENTENCE_BEGIN, SENTENCE_END

    def __init__(self, tokens_to_add: Optional[Dict[str, int]] = None) -> None:
        self.tokens_to_add: Dict[str, int] = check_argument("tokens_to_add", tokens_to_add or {}, TokensToAdd)

    def convert_word_to_char_ids(self, word: str) -> List[int]:
        """RETURNS (List[int]): 50 ids."""
        if word not in self.tokens_to_add:
            row: List[int] = character_ids([word], self.max_word_length)[0].tolist()
            return row
        return [character + 1 for character in _spell(self.tokens_to_add[word], self.max_word_length)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ELMoCharacterMapper) and self.tokens_to_add == other.tokens_to_add

    __hash__ = None  # type: ignore[assignment]  # it can change


class ELMoTokenCharactersIndexer:
    """The part of AllenNLP's indexer that needs no other part of AllenNLP.

    namespace (str): Kept, without effect.
    tokens_to_add (Optional[Dict[str, int]]): See `ELMoCharacterMapper`.
    token_min_padding_length (int): Kept, without effect on these ids, as in AllenNLP.
    """

    def __init__(
        self,
        namespace: str = "elmo_characters",
        tokens_to_add: Optional[Dict[str, int]] = None,
        token_min_padding_length: int = 0,
    ) -> None:
        self._namespace, self._token_min_padding_length = namespace, token_min_padding_length
        self._mapper = ELMoCharacterMapper(tokens_to_add)

    def count_vocab_items(self, token: Any, counter: Any) -> None:
        """Characters need no vocabulary."""

    def get_empty_token_list(self) -> Dict[str, List[Any]]:
        """RETURNS (Dict[str, List[Any]]): Ids of no words."""
        return {"elmo_tokens": []}

    def tokens_to_indices(self, tokens: Sequence[Any], vocabulary: Any = None) -> Dict[str, List[List[int]]]:
        """tokens (Sequence[Any]): Strings, or objects with an attribute `text`.
        vocabulary (Any): Not used.
        RETURNS (Dict[str, List[List[int]]]): 50 ids for each word.
        """
        words = [token if isinstance(token, str) else token.text for token in tokens]
        return {"elmo_tokens": [self._mapper.convert_word_to_char_ids(word) for word in words]}

    @isolated
    def as_padded_tensor_dict(
        self, tokens: Mapping[str, List[List[int]]], padding_lengths: Mapping[str, int]
    ) -> Dict[str, Tensor]:
        """tokens (Mapping[str, List[List[int]]]): From `tokens_to_indices`.
        padding_lengths (Mapping[str, int]): Rows of the result, under `elmo_tokens`.
        RETURNS (Dict[str, Tensor]): Shape (rows, 50), zeros for padding.
        """
        length = padding_lengths["elmo_tokens"]
        rows = torch.zeros(length, self._mapper.max_word_length, dtype=torch.long)
        ids = tokens["elmo_tokens"][:length]
        if ids:
            rows[: len(ids)] = torch.tensor(ids)
        return {"elmo_tokens": rows}


_MODEL = "https://allennlp.s3.amazonaws.com/models/elmo/2x4096_512_2048cnn_2xhighway/elmo_2x4096_512_2048cnn_2xhighway_"
# What AllenNLP downloads if no files are named. Here they are the defaults, too, and raise an error with what to do.
DEFAULT_OPTIONS_FILE = _MODEL + "options.json"
DEFAULT_WEIGHT_FILE = _MODEL + "weights.hdf5"


def load_network(options_file: Optional[PathLike], weight_file: Optional[PathLike]) -> BiLMNetwork:
    """The network of options.json and an HDF5 file; with None as `options_file` of everything that `load_bilm` takes,
    such as "en_elmo_sm" or a folder. ValueError for a URL, a biLM that AllenNLP's modules cannot hold, and files that
    are missing or cannot be read.
    """
    if options_file is None and isinstance(weight_file, (str, Path)):
        check_no_url("weight_file", weight_file)
        bilm = load_bilm(weight_file)
    else:
        options = check_file("options_file", options_file)
        bilm = load_bilm(options=options, weights=check_file("weight_file", weight_file))
    return check_fit(bilm)


def check_fit(bilm: BiLM) -> BiLMNetwork:
    """The network of a biLM. ConfigurationError for properties that AllenNLP's modules do not have."""
    config, characters = bilm.config, bilm.config.char_cnn
    checks = [
        (characters is not None, "it has no character CNN of its own, should read characters"),
        (characters is None or config.has_cnn_projection, "its character CNN has no projection, should have one"),
        (config.directions == "both", "it is forward only, should have both directions"),
        (config.has_projection, "its LSTMs have no projection, should have projection_width below cell_width"),
        (bilm.token_embeddings is None, "it has token embeddings, which would be computed from characters instead"),
        (bilm.precision == "float32", f"its precision is {bilm.precision}, should be float32"),
    ]
    problems = find_unsupported_settings(config) + [text for is_fine, text in checks if not is_fine]
    if problems:
        raise ConfigurationError(
            f"This biLM does not fit the module of AllenNLP: {'; '.join(problems)}. Use `spacy_elmo.nn.Elmo`, which "
            "takes every biLM."
        )
    return bilm.network


def export_weights(network: BiLMNetwork, prefix: str) -> Dict[str, Tensor]:
    """Copies of the weights of a module of AllenNLP's biLM, by their names in it."""
    table = [dataset for dataset in allennlp_datasets(network.config) if dataset.name.startswith(prefix)]
    arrays = export_arrays(table, to_arrays(network))
    return {name.removeprefix(prefix): torch.from_numpy(array) for name, array in arrays.items()}


def boundary_index(rows: Tensor, mask: Tensor) -> Tuple[Tensor, Tensor]:
    """Surround each sequence with `BOS` and `EOS`: from rows of a table (B, T) and the mask (B, T), True for the first
    tokens of each row, to rows (B, T + 2), with `PADDING` outside the sequences, and the mask (B, T + 2).
    """
    new_mask = with_boundaries(mask.cpu()).to(mask.device)  # (B, T + 2)
    index = torch.full_like(new_mask, PADDING, dtype=torch.long)
    index[:, 1:-1][mask] = rows[mask]
    index[:, 0] = BOS
    index.scatter_(1, mask.sum(dim=1, keepdim=True) + 1, EOS)
    return index, new_mask


def remove_sentence_boundaries(tensor: Tensor, mask: Tensor) -> Tuple[Tensor, Tensor]:
    """tensor (Tensor): Shape (B, T + 2, D), with rows of `<S>` and `</S>`.
    mask (Tensor): Shape (B, T + 2), True for tokens and boundaries.
    RETURNS (Tuple[Tensor, Tensor]): Rows of the tokens (B, T, D), zeros outside the mask, and the mask (B, T).
    """
    return strip_boundaries(tensor, mask)


class Highway(nn.Module):
    """Parameters of AllenNLP's highways of width F: `_layers.k` with rows of the transform, then of the gate."""

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
        """RETURNS (ElmoCharacterEncoder): One with a copy of the weights of the network."""
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
        weights = export_weights(network, EMBEDDER)
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
        RAISES (ValueError): EL017 for invalid ids; for a batch without sentences.
        """
        self.warn_of_hooks()
        table, index, mask = self.encode(inputs)
        return {"token_embedding": pad_rows(table[index[mask]], mask), "mask": mask}

    def encode(self, inputs: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        """Compute each distinct word once. Returns the vectors (U + 2, P), `<S>` and `</S>` first; the row of each
        token, (B, T + 2), -1 for padding; the mask (B, T + 2). ValueError as `forward`.
        """
        char_ids, batch = _read_ids(inputs, self._config)
        device = self._char_embedding_weights.device
        boundaries = torch.from_numpy(character_ids([SENTENCE_BEGIN, SENTENCE_END], self._config.max_characters))
        table = self._compute(torch.cat([boundaries, char_ids]))
        table_rows = torch.zeros_like(batch.mask, dtype=torch.long)
        table_rows[batch.mask] = torch.tensor([row + 2 for rows in batch.sentences for row in rows], dtype=torch.long)
        index, mask = boundary_index(table_rows, batch.mask)
        return table, index.to(device), mask.to(device)

    def _compute(self, char_ids: Tensor) -> Tensor:
        """From character ids (U, C) to vectors (U, P)."""
        lengths = Utf8Codec(self._config.max_characters).lengths(char_ids.numpy())
        order = np.argsort(lengths, kind="stable")  # groups of words of similar length
        vectors = [
            self._compute_group(char_ids[rows], lengths[rows].tolist())
            for rows in np.split(order, range(ENCODED_AT_ONCE, len(order), ENCODED_AT_ONCE))
        ]
        inverse = torch.from_numpy(np.argsort(order, kind="stable"))
        return torch.cat(vectors)[inverse.to(vectors[0].device)]

    def _compute_group(self, char_ids: Tensor, lengths: Sequence[int]) -> Tensor:
        char_ids = char_ids.to(self._char_embedding_weights.device)
        weights = current_weights(self, self._names)
        if torch.is_grad_enabled() and any(weight.requires_grad for weight in weights.values()):
            return functional_call(self._empty_cnn(), self._to_ours(weights), (char_ids, lengths))  # type: ignore[no-any-return]  # torch gives Any
        is_cached = are_parameters([*weights.values()])
        constant = self._derived.get(self, lambda: self._derive(weights)) if is_cached else self._derive(weights)
        return constant(char_ids, lengths).to(self._char_embedding_weights.dtype)

    def _empty_cnn(self) -> CharCNN:
        with torch.device("meta"):
            return CharCNN(self._config, self.output_dim)

    def _derive(self, weights: Dict[str, Tensor]) -> ConstantWords:
        char_cnn = self._empty_cnn()
        with torch.no_grad():
            parameters = {name: weight.detach().float() for name, weight in weights.items()}
            char_cnn.load_state_dict(self._to_ours(parameters), assign=True)
        return ConstantWords(char_cnn)

    def _to_ours(self, parameters: Dict[str, Tensor]) -> Dict[str, Tensor]:
        """The parameters of our `CharCNN`, attached to the graph."""
        table = char_cnn_datasets(self._config, self.output_dim, "_char_embedding_weights", "")
        return {name.removeprefix("char_cnn."): value for name, value in import_tensors(table, parameters).items()}


def _read_ids(inputs: Tensor, config: CharCNNConfig) -> Tuple[Tensor, SentenceBatch]:
    """Ids of the distinct words (U, C), and the batch. ValueError EL017 for invalid ids; for no sentences."""
    problem = "" if isinstance(inputs, Tensor) else f"they are a {type(inputs).__name__}, should be a tensor"
    if not problem:
        batch = read_inputs(inputs)
        ids, largest = cast(Tensor, batch.char_ids), config.n_characters
        if not ids.numel() or 0 <= int(ids.min()) <= int(ids.max()) <= largest:
            return _of_width(ids.long(), config.max_characters), batch
        problem = f"they are {int(ids.min())} to {int(ids.max())}, should be 0 to {largest}"
    raise ValueError(Errors.EL017.format(problem=problem))


def _of_width(ids: Tensor, width: int) -> Tensor:
    """From ids (U, C') of words in UTF-8 to those that the words have in rows of another width, (U, C). ValueError
    EL017 for rows of another width that are not words or that may be truncated.
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
