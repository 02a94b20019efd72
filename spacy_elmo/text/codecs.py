"""Character codecs: they convert words to character ids. The config of a biLM selects one by name."""

from typing import Callable, Dict, List, Optional, Protocol, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from .characters import PAD_CHARACTER, SENTENCE_BEGIN, SENTENCE_END, Ids, character_ids
from .lexicon import BOS, EOS, FIRST, LAST, OOV, PAD, Lexicon


class CharacterCodec(Protocol):
    """Converts words to rows of character ids. Id 0 is the mask and occurs in no word.

    boundaries (Tuple[str, str]): The words that are BOS and EOS.
    """

    boundaries: Tuple[str, str]

    @property
    def max_characters(self) -> Optional[int]:
        """RETURNS (Optional[int]): C, ids per row; None if it is that of the longest word."""

    def largest_ids(self, n_columns: int) -> Union[int, Ids]:
        """n_columns (int): C of some rows.
        RETURNS (Union[int, Ids]): The largest id of all columns, or of each, shape (C,).
        """

    def lengths(self, ids: Ids) -> Ids:
        """ids (Ids): Shape (U, C).
        RETURNS (Ids): Shape (U,), the number of ids of each word without padding, as `encode` gives it or more.
        """

    def encode(self, words: Sequence[str], n_columns: int = 0) -> Tuple[Ids, Ids]:
        """words (Sequence[str]): U words.
        n_columns (int): Minimum of C where rows are as long as the longest word.
        RETURNS (Tuple[Ids, Ids]): Character ids (U, C), and the number of ids of each word without padding (U,).
        """


class Utf8Codec:
    """UTF-8 bytes between begin-of-word and end-of-word ids, as in bilm-tf and AllenNLP.

    max_characters (int): C.
    """

    padding = PAD_CHARACTER + 1  # ids are shifted by one
    n_characters = PAD_CHARACTER + 1
    boundaries = (SENTENCE_BEGIN, SENTENCE_END)

    def __init__(self, max_characters: int) -> None:
        self.max_characters = max_characters

    def largest_ids(self, n_columns: int) -> int:
        """See `CharacterCodec.largest_ids`."""
        return self.n_characters

    def lengths(self, ids: Ids) -> Ids:
        """See `CharacterCodec.lengths`. The last id of a row is taken for the padding, which need not be ours."""
        return _last_place(ids != ids[:, -1:])

    def encode(self, words: Sequence[str], n_columns: int = 0) -> Tuple[Ids, Ids]:
        """See `CharacterCodec.encode`."""
        rows = character_ids(words, self.max_characters)
        return rows, (rows != self.padding).sum(axis=1)


MAX_SPELLED = 10_000  # characters of a word that an LSTM reads, since all words of a batch have rows of its length


class LexiconCodec:
    """Ids of a word and of its Unicode characters in the tables of a lexicon, as in ELMoForManyLangs. The first column
    is the word, 1 without a word table; the others are the characters, none without a character table.

    lexicon (Lexicon): The tables.
    max_characters (Optional[int]): Longer words are truncated to two characters less, for the word table, too.
    is_fixed (bool): Whether each row has `max_characters` ids of characters, or those of the longest word.
    """

    # Not the symbols themselves: a text that has these as words may get them truncated.
    boundaries = ("\0" + BOS, "\0" + EOS)

    def __init__(self, lexicon: Lexicon, max_characters: Optional[int], *, is_fixed: bool) -> None:
        self.lexicon = lexicon
        self._max_content = None if max_characters is None else max_characters - 2
        self._has_characters = bool(lexicon.characters)
        self.max_characters: Optional[int] = 1 if not self._has_characters else None
        if self._has_characters and is_fixed and max_characters is not None:
            self.max_characters = 1 + max_characters

    def largest_ids(self, n_columns: int) -> Ids:
        """See `CharacterCodec.largest_ids`."""
        n_words, n_characters = max(len(self.lexicon.words), 1), len(self.lexicon.characters)
        return np.array([n_words, *[n_characters] * (n_columns - 1)], dtype="int64")

    def lengths(self, ids: Ids) -> Ids:
        """See `CharacterCodec.lengths`."""
        padding = self.lexicon.character_ids.get(PAD, 0) + 1
        least = 1 if self._has_characters else 0  # an LSTM reads at least one
        lengths: Ids = np.maximum(_last_place(ids[:, 1:] != padding), least)
        return lengths

    def encode(self, words: Sequence[str], n_columns: int = 0) -> Tuple[Ids, Ids]:
        """See `CharacterCodec.encode`."""
        cut = [word[1:] if word in self.boundaries else word[: self._max_content] for word in words]
        spelled = [self._spell(word) for word in cut]
        lengths = np.array([len(ids) for ids in spelled], dtype="int64")
        width = self.max_characters or max(n_columns, 1 + int(lengths.max(initial=0)))
        rows = np.full((len(words), width), self.lexicon.character_ids.get(PAD, 0) + 1, dtype="int64")
        rows[:, 0] = [self._word_id(word) for word in cut]
        for row, ids in zip(rows, spelled):
            row[1 : 1 + len(ids)] = ids
        return rows, lengths

    def _spell(self, word: str) -> List[int]:
        if not self._has_characters:
            return []
        ids = self.lexicon.character_ids
        content = (word,) if word in (BOS, EOS) else word[:MAX_SPELLED]
        return [ids[symbol] + 1 for symbol in (FIRST, *(c if c in ids else OOV for c in content), LAST)]

    def _word_id(self, word: str) -> int:
        ids = self.lexicon.word_ids
        return ids.get(word, ids.get(OOV, 0)) + 1


CODECS: Dict[str, Callable[[int], CharacterCodec]] = {"utf8": Utf8Codec}


def _last_place(is_content: NDArray[np.bool_]) -> Ids:
    """RETURNS (Ids): Shape (U,), the number of the last column of each row that is true, counted from 1; 0 for none."""
    lengths: Ids = (is_content * np.arange(1, is_content.shape[1] + 1)).max(axis=1, initial=0)
    return lengths


def make_codec(name: str = "utf8", max_characters: int = 50) -> CharacterCodec:
    """name (str): `CharCNNConfig.codec`.
    max_characters (int): `CharCNNConfig.max_characters`.
    RETURNS (CharacterCodec): The codec.
    """
    return CODECS[name](max_characters)
