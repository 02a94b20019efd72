"""Words as integers: the words that a biLM can predict, and the distinct words of a text."""

from typing import Dict, Iterable, List, Optional, Sequence

import numpy as np
from numpy.typing import NDArray

from .characters import SENTENCE_BEGIN, SENTENCE_END, CharacterCodec, Ids, Utf8Codec

UNKNOWN = "<UNK>"
BYTE_ORDER_MARK = "\ufeff"


class Vocabulary:
    """Words and their ids.

    words (Sequence[str]): In the order of the ids; includes `<S>`, `</S>` and `<UNK>`, by convention first. A word that
        is there twice has the later id, as in bilm-tf.
    RAISES (ValueError): If one of the three is missing.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words: List[str] = list(words)
        self._ids: Dict[str, int] = {word: i for i, word in enumerate(self.words)}
        missing = [word for word in (SENTENCE_BEGIN, SENTENCE_END, UNKNOWN) if word not in self._ids]
        if missing:
            raise ValueError(
                f"The vocabulary is invalid, missing special words: {', '.join(missing)}. A vocabulary has one word "
                "per line, among them `<S>`, `</S>` and `<UNK>`. Use the one that the model was trained with, or "
                "create one with `python -m spacy elmo vocab`."
            )
        self.bos_id = self._ids[SENTENCE_BEGIN]
        self.eos_id = self._ids[SENTENCE_END]
        self.unk_id = self._ids[UNKNOWN]

    @classmethod
    def from_lines(cls, lines: Iterable[str]) -> "Vocabulary":
        """From one word per line, with or without line ends; an initial byte order mark is skipped."""
        words = [line.rstrip("\r\n") for line in lines]
        return cls([words[0].removeprefix(BYTE_ORDER_MARK), *words[1:]] if words else words)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.words == other.words

    def ids(self, words: Iterable[str]) -> NDArray[np.int64]:
        """The id of each word; unknown words have the id of `<UNK>`."""
        return np.fromiter((self._ids.get(word, self.unk_id) for word in words), dtype="int64")


class _Numbers(Dict[str, int]):
    """A word that is looked up for the first time gets the next number. `words` has them by number."""

    def __init__(self) -> None:
        super().__init__()
        self.words: List[str] = []

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self.words)
        self.words.append(word)
        return number


class WordTable:
    """Numbers words in the order of their first occurrence; `<S>` is 0 and `</S>` is 1. The character ids of each word
    are computed once, however often it occurs.

    vocabulary (Optional[Vocabulary]): Ids of the words as targets.
    codec (Optional[CharacterCodec]): With rows of fixed size; by default UTF-8 bytes.
    """

    BEGIN = 0
    END = 1

    def __init__(self, vocabulary: Optional[Vocabulary] = None, codec: Optional[CharacterCodec] = None) -> None:
        self.vocabulary = vocabulary
        self._codec = Utf8Codec(50) if codec is None else codec
        self._numbers = _Numbers()
        self._targets = np.zeros(1024, dtype="int64")
        self._n_columns = self._codec.max_characters or 0
        self._rows = np.zeros((1024, self._n_columns), dtype="int16")
        self._lengths = np.zeros(1024, dtype="int64")
        self._n_encoded = 0
        self.numbers_of((SENTENCE_BEGIN, SENTENCE_END))

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def words(self) -> List[str]:
        """The words by number, `<S>` and `</S>` first."""
        return list(self._numbers.words)

    @property
    def words_by_number(self) -> List[str]:
        """The same, not copied: new words are added to it, and `keep` begins another list."""
        return self._numbers.words

    def keep(self, numbers: Ids) -> Ids:
        """Remove all words but these, `<S>` and `</S>`, so that the size of the table does not depend on the length of
        the text. Return the new number of each old number, 0 for removed words.
        """
        kept = np.union1d(numbers, (self.BEGIN, self.END)).astype("int64")
        new_numbers = np.zeros(len(self), dtype="int64")
        new_numbers[kept] = np.arange(len(kept))
        words = self._numbers.words
        self._numbers = _Numbers()
        self._n_encoded = 0
        self.numbers_of([words[number] for number in kept])
        return new_numbers

    def numbers_of(self, words: Sequence[str]) -> Ids:
        """The numbers of words; new words are added."""
        return np.fromiter(map(self._numbers.__getitem__, words), dtype="int64", count=len(words))

    def characters(self, numbers: Ids) -> NDArray[np.int16]:
        """Character ids (U, C) of numbered words, shifted by one; int16."""
        self._encode_new_words()
        return self._rows[numbers]

    def lengths(self, numbers: Ids) -> Ids:
        """The number of character ids of each word without padding."""
        self._encode_new_words()
        return self._lengths[numbers]

    def targets(self, numbers: Ids) -> Ids:
        """Vocabulary ids of numbered words, in the shape of `numbers`."""
        self._encode_new_words()
        return self._targets[numbers]

    def _encode_new_words(self) -> None:
        n_words = len(self)
        if n_words == self._n_encoded:
            return
        if n_words > len(self._rows):
            n_rows = max(n_words, 2 * len(self._rows))
            self._rows = np.resize(self._rows, (n_rows, self._n_columns))
            self._targets = np.resize(self._targets, n_rows)
            self._lengths = np.resize(self._lengths, n_rows)
        new = self._numbers.words[self._n_encoded :]
        rows, lengths = self._codec.encode(new)
        self._rows[self._n_encoded : n_words] = rows
        self._lengths[self._n_encoded : n_words] = lengths
        if self.vocabulary is not None:
            self._targets[self._n_encoded : n_words] = self.vocabulary.ids(new)
        self._n_encoded = n_words
