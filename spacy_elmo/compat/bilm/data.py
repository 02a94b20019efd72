"""`Vocabulary`, `UnicodeCharsVocabulary`, `Batcher` and `TokenBatcher` of bilm-tf: words to arrays of ids."""

from io import StringIO
from typing import Dict, List, Optional, Sequence

import numpy as np
from numpy.typing import NDArray

from ...errors import Errors
from ...text.characters import BOS_CHARACTER, BOW_CHARACTER, EOS_CHARACTER, EOW_CHARACTER, PAD_CHARACTER
from ...text.characters import SENTENCE_BEGIN as BOS
from ...text.characters import SENTENCE_END as EOS
from ...text.vocabulary import UNKNOWN as UNK
from ...weights.sources import Source
from ..arguments import ConfigurationError, PathLike, check_count, check_file, read_sentences

MIN_WORD_LENGTH = 3  # begin of word, one character, end of word
SKIPPED = "!!!MAXTERMID"  # a line of old vocabulary files that is not a word


class Vocabulary:
    """Words and their ids: the numbers of the lines.

    filename (Optional[PathLike]): One word per line, UTF-8, with `<S>`, `</S>` and `<UNK>`; None for these three words,
        which is enough for character ids.
    validate_file (bool): Require these three; otherwise the id of a missing one is -1.
    RAISES (ValueError): EL330 to EL333 for a path without a file, EL332 for a file without one of the three words.
    """

    def __init__(self, filename: Optional[PathLike], validate_file: bool = False) -> None:
        words = [BOS, EOS, UNK]
        if filename is not None:
            text = Source(check_file("vocabulary file", filename)).read_text()
            words = [line.strip() for line in StringIO(text, newline=None)]
        self._id_to_word = [word for word in words if word != SKIPPED]
        self._word_to_id: Dict[str, int] = {word: i for i, word in enumerate(self._id_to_word)}
        self._bos, self._eos, self._unk = (self._word_to_id.get(word, -1) for word in (BOS, EOS, UNK))
        missing = [word for word in (BOS, EOS, UNK) if word not in self._word_to_id]
        if validate_file and missing:
            found = f"a file without {' and '.join(missing)}"
            raise ConfigurationError(
                Errors.EL332.format(name="vocabulary", value=found, wanted=f"a file with {BOS}, {EOS} and {UNK}")
            )

    @property
    def bos(self) -> int:
        """RETURNS (int): Id of `<S>`."""
        return self._bos

    @property
    def eos(self) -> int:
        """RETURNS (int): Id of `</S>`."""
        return self._eos

    @property
    def unk(self) -> int:
        """RETURNS (int): Id of `<UNK>`."""
        return self._unk

    @property
    def size(self) -> int:
        """RETURNS (int): Number of words."""
        return len(self._id_to_word)

    def word_to_id(self, word: str) -> int:
        """RETURNS (int): Id of the word, that of `<UNK>` if it is not in the vocabulary."""
        return self._word_to_id.get(word, self.unk)

    def id_to_word(self, cur_id: int) -> str:
        """RETURNS (str): The word with this id."""
        return self._id_to_word[cur_id]

    def decode(self, cur_ids: Sequence[int]) -> str:
        """RETURNS (str): The words with these ids, with spaces between them."""
        return " ".join(self.id_to_word(number) for number in cur_ids)

    def encode(self, sentence: Sequence[str], reverse: bool = False, split: bool = True) -> NDArray[np.int32]:
        """sentence (Sequence[str]): A string with spaces between the words; with split=False a list of words.
        reverse (bool): The words are in reverse order, so that `</S>` comes first.
        RETURNS (NDArray[np.int32]): Shape (words + 2,), ids with those of `<S>` and `</S>`.
        """
        ids = [self.word_to_id(word) for word in _words(sentence, split)]
        first, last = (self.eos, self.bos) if reverse else (self.bos, self.eos)
        return np.array([first, *ids, last], dtype=np.int32)


class UnicodeCharsVocabulary(Vocabulary):
    """A vocabulary with character ids. As in bilm-tf these are not shifted by one, unlike those of `Batcher`.

    filename (Optional[PathLike]), validate_file (bool): See `Vocabulary`.
    max_word_length (int): C, ids per word; longer words are truncated to C - 2 bytes.
    RAISES (ValueError): See `Vocabulary`; EL332 for a `max_word_length` below 3.
    """

    bos_char, eos_char, bow_char, eow_char = BOS_CHARACTER, EOS_CHARACTER, BOW_CHARACTER, EOW_CHARACTER
    pad_char = PAD_CHARACTER

    def __init__(self, filename: Optional[PathLike], max_word_length: int, validate_file: bool = False) -> None:
        super().__init__(filename, validate_file)
        self._max_word_length = check_count("max_word_length", max_word_length, MIN_WORD_LENGTH)
        self.bos_chars, self.eos_chars = self._row([BOS_CHARACTER]), self._row([EOS_CHARACTER])
        self._word_char_ids = np.zeros((self.size, max_word_length), dtype=np.int32)
        for i, word in enumerate(self._id_to_word):
            self._word_char_ids[i] = self._convert_word_to_char_ids(word)
        for number, row in ((self.bos, self.bos_chars), (self.eos, self.eos_chars)):
            if number >= 0:
                self._word_char_ids[number] = row

    @property
    def word_char_ids(self) -> NDArray[np.int32]:
        """RETURNS (NDArray[np.int32]): Shape (V, C), the ids of all words."""
        return self._word_char_ids

    @property
    def max_word_length(self) -> int:
        """RETURNS (int): C."""
        return self._max_word_length

    def word_to_char_ids(self, word: str) -> NDArray[np.int32]:
        """RETURNS (NDArray[np.int32]): Shape (C,); words that are not in the vocabulary are spelled."""
        if word in self._word_to_id:
            row: NDArray[np.int32] = self._word_char_ids[self._word_to_id[word]]
            return row
        return self._convert_word_to_char_ids(word)

    def encode_chars(self, sentence: Sequence[str], reverse: bool = False, split: bool = True) -> NDArray[np.int32]:
        """sentence (Sequence[str]), reverse (bool), split (bool): See `encode`.
        RETURNS (NDArray[np.int32]): Shape (words + 2, C), ids with those of `<S>` and `</S>`.
        """
        rows = [self.word_to_char_ids(word) for word in _words(sentence, split)]
        first, last = (self.eos_chars, self.bos_chars) if reverse else (self.bos_chars, self.eos_chars)
        return np.vstack([first, *rows, last])

    def _convert_word_to_char_ids(self, word: str) -> NDArray[np.int32]:
        return self._row(word.encode("utf8", "ignore")[: self.max_word_length - 2])

    def _row(self, characters: Sequence[int]) -> NDArray[np.int32]:
        row = np.full(self.max_word_length, PAD_CHARACTER, dtype=np.int32)
        row[: len(characters) + 2] = [BOW_CHARACTER, *characters, EOW_CHARACTER]
        return row


class Batcher:
    """Sentences to character ids.

    lm_vocab_file (Optional[PathLike]): See `Vocabulary`.
    max_token_length (int): C, `max_characters_per_token` of the options.
    RAISES (ValueError): See `UnicodeCharsVocabulary`.
    """

    def __init__(self, lm_vocab_file: Optional[PathLike], max_token_length: int) -> None:
        self._lm_vocab = UnicodeCharsVocabulary(lm_vocab_file, max_token_length)
        self._max_token_length = max_token_length

    def batch_sentences(self, sentences: List[List[str]]) -> NDArray[np.int64]:
        """sentences (List[List[str]]): Tokens of each sentence, without boundaries; a string is a sentence of
            characters.
        RETURNS (NDArray[np.int64]): Shape (B, T + 2, C), ids shifted by one, with those of `<S>` and `</S>`; zeros for
            padding.
        RAISES (ValueError): EL011 for input that is not tokenized, EL252 for a batch without sentences.
        """
        batch = _check_batch(sentences)
        ids = np.zeros((len(batch), max(map(len, batch)) + 2, self._max_token_length), dtype=np.int64)
        for row, words in zip(ids, batch):
            row[: len(words) + 2] = self._lm_vocab.encode_chars(words, split=False) + 1
        return ids


class TokenBatcher:
    """Sentences to word ids.

    lm_vocab_file (PathLike): See `Vocabulary`.
    RAISES (ValueError): See `Vocabulary`.
    """

    def __init__(self, lm_vocab_file: PathLike) -> None:
        self._lm_vocab = Vocabulary(lm_vocab_file)

    def batch_sentences(self, sentences: List[List[str]]) -> NDArray[np.int64]:
        """sentences (List[List[str]]): Tokens of each sentence, without boundaries; a string is a sentence of
            characters.
        RETURNS (NDArray[np.int64]): Shape (B, T + 2), ids shifted by one, with those of `<S>` and `</S>`; zeros for
            padding.
        RAISES (ValueError): EL011 for input that is not tokenized, EL252 for a batch without sentences.
        """
        batch = _check_batch(sentences)
        ids = np.zeros((len(batch), max(map(len, batch)) + 2), dtype=np.int64)
        for row, words in zip(ids, batch):
            row[: len(words) + 2] = self._lm_vocab.encode(words, split=False) + 1
        return ids


def _words(sentence: Sequence[str], split: bool) -> Sequence[str]:
    return sentence.split() if split and isinstance(sentence, str) else sentence


def _check_batch(sentences: List[List[str]]) -> List[List[str]]:
    batch = read_sentences(sentences)
    if not batch:
        raise ValueError(Errors.EL252)
    return batch
