"""`ELMoCharacterMapper`, `ELMoTokenCharactersIndexer` and `batch_to_ids` of AllenNLP: words to character ids."""

from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence

import torch
from torch import Tensor

from ...errors import Errors
from ...inference.isolation import isolated
from ...nn import inputs
from ...text.characters import (
    BOS_CHARACTER,
    BOW_CHARACTER,
    EOS_CHARACTER,
    EOW_CHARACTER,
    PAD_CHARACTER,
    SENTENCE_BEGIN,
    SENTENCE_END,
    character_ids,
)
from ..arguments import ConfigurationError, read_sentences

MAX_WORD_LENGTH = 50


def batch_to_ids(batch: Iterable[Sequence[str]], max_characters: Optional[int] = None) -> Tensor:
    """batch (Iterable[Sequence[str]]): Tokens of each sentence, without boundaries; a string is a sentence of
        characters.
    max_characters (Optional[int]): C, ids of a word; by default 50, `ELMoCharacterMapper.max_word_length`. The modules
        also take ids of another width than theirs.
    RETURNS (Tensor): Shape (B, S, C), int64; zeros where a sentence has no more words.
    RAISES (ValueError): EL011 for input that is not tokenized, EL060 for an invalid `max_characters`.
    """
    width = ELMoCharacterMapper.max_word_length if max_characters is None else max_characters
    return inputs.batch_to_ids(read_sentences(batch), width)


def _spell(character: int, n_ids: int = MAX_WORD_LENGTH) -> List[int]:
    """RETURNS (List[int]): Ids, not shifted, of a word with one character."""
    ids = [BOW_CHARACTER, character, EOW_CHARACTER]
    return ids + [PAD_CHARACTER] * (n_ids - len(ids))


class ELMoCharacterMapper:
    """Maps words to rows of 50 ids, shifted by one, since 0 is padding. Ids in the attributes of the class are not
    shifted, as in AllenNLP.

    tokens_to_add (Optional[Dict[str, int]]): Words that have one character of their own, and its id before the shift.
    RAISES (ConfigurationError): EL332 for an id that no biLM has.
    """

    max_word_length = MAX_WORD_LENGTH
    beginning_of_sentence_character, end_of_sentence_character = BOS_CHARACTER, EOS_CHARACTER
    beginning_of_word_character, end_of_word_character = BOW_CHARACTER, EOW_CHARACTER
    padding_character = PAD_CHARACTER
    beginning_of_sentence_characters, end_of_sentence_characters = _spell(BOS_CHARACTER), _spell(EOS_CHARACTER)
    bos_token, eos_token = SENTENCE_BEGIN, SENTENCE_END

    def __init__(self, tokens_to_add: Optional[Dict[str, int]] = None) -> None:
        self.tokens_to_add = dict(tokens_to_add or {})
        for word, number in self.tokens_to_add.items():
            if not 0 <= number <= PAD_CHARACTER:
                wanted = f"0 to {PAD_CHARACTER}"
                raise ConfigurationError(Errors.EL332.format(name=f"id of {word!r}", value=number, wanted=wanted))

    def convert_word_to_char_ids(self, word: str) -> List[int]:
        """RETURNS (List[int]): 50 ids."""
        if word not in self.tokens_to_add:
            row: List[int] = character_ids([word], self.max_word_length)[0].tolist()
            return row
        return [number + 1 for number in _spell(self.tokens_to_add[word], self.max_word_length)]

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
        kept = tokens["elmo_tokens"][:length]
        if kept:
            rows[: len(kept)] = torch.tensor(kept)
        return {"elmo_tokens": rows}
