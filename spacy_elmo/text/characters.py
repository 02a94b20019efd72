"""Character ids of words: UTF-8 bytes between begin-of-word and end-of-word ids, as in bilm-tf and AllenNLP."""

from typing import List, Sequence

import numpy as np
from numpy.typing import NDArray

SENTENCE_BEGIN = "<S>"
SENTENCE_END = "</S>"

# Ids as in the weights files. At run time every id is shifted by one, since 0 is the mask.
BOS_CHARACTER = 256
EOS_CHARACTER = 257
BOW_CHARACTER = 258
EOW_CHARACTER = 259
PAD_CHARACTER = 260

Ids = NDArray[np.int64]


def character_ids(words: Sequence[str], max_characters: int = 50) -> Ids:
    """Convert words to character ids.

    words (Sequence[str]): U words; `<S>` and `</S>` are BOS and EOS.
    max_characters (int): C, ids per row; longer words are truncated to C - 2 bytes.
    RETURNS (Ids): Shape (U, C), shifted by one.
    """
    rows = np.full((len(words), max_characters), PAD_CHARACTER + 1, dtype="int64")
    for row, word in zip(rows, words):
        ids = word_characters(word, max_characters)
        row[: len(ids)] = ids
    return rows


def word_characters(word: str, max_characters: int = 50) -> List[int]:
    """Convert one word to character ids without padding, shifted by one.

    Unpaired surrogates cannot be encoded in UTF-8 and are dropped. Truncation may split a multi-byte character.

    word (str): Any string.
    max_characters (int): C.
    RETURNS (List[int]): At most C ids.
    """
    content: Sequence[int]
    if word == SENTENCE_BEGIN:
        content = (BOS_CHARACTER,)
    elif word == SENTENCE_END:
        content = (EOS_CHARACTER,)
    else:
        content = word[:max_characters].encode("utf8", "ignore")[: max_characters - 2]
        if len(content) < max_characters - 2 < len(word):  # surrogates were dropped from the slice
            content = word.encode("utf8", "ignore")[: max_characters - 2]
    return [BOW_CHARACTER + 1, *(character + 1 for character in content), EOW_CHARACTER + 1]
