"""The words a biLM can predict, in the order of its softmax rows."""

from typing import Dict, Iterable, List, Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import Errors
from .characters import SENTENCE_BEGIN, SENTENCE_END

UNKNOWN = "<UNK>"
BYTE_ORDER_MARK = "\ufeff"


class Vocabulary:
    """Words and their ids.

    words (Sequence[str]): In the order of the ids; includes `<S>`, `</S>` and `<UNK>`, by convention first. A word that
        is there twice has the later id, as in bilm-tf.
    RAISES (ValueError): EL003 if one of the three is missing.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words: List[str] = list(words)
        self._ids: Dict[str, int] = {word: i for i, word in enumerate(self.words)}
        missing = [word for word in (SENTENCE_BEGIN, SENTENCE_END, UNKNOWN) if word not in self._ids]
        if missing:
            raise ValueError(Errors.EL003.format(missing=", ".join(missing)))
        self.bos_id = self._ids[SENTENCE_BEGIN]
        self.eos_id = self._ids[SENTENCE_END]
        self.unk_id = self._ids[UNKNOWN]

    @classmethod
    def from_lines(cls, lines: Iterable[str]) -> "Vocabulary":
        """lines (Iterable[str]): One word per line, with or without line ends; an initial byte order mark is skipped.
        RETURNS (Vocabulary): The words in the order of the lines.
        """
        words = [line.rstrip("\r\n") for line in lines]
        return cls([words[0].removeprefix(BYTE_ORDER_MARK), *words[1:]] if words else words)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.words == other.words

    def ids(self, words: Iterable[str]) -> NDArray[np.int64]:
        """RETURNS (NDArray[np.int64]): The id of each word; unknown words have the id of `<UNK>`."""
        return np.fromiter((self._ids.get(word, self.unk_id) for word in words), dtype="int64")
