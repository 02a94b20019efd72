"""Words to rows of character ids: UTF-8 bytes between marks, as bilm-tf and AllenNLP number them."""

from typing import List, Sequence

import numpy as np
from numpy.typing import NDArray

SENTENCE_BEGIN = "<S>"
SENTENCE_END = "</S>"

# Ids in the files; every id is shifted by one when used, so that 0 is free for the mask.
BOS_CHARACTER = 256
EOS_CHARACTER = 257
BOW_CHARACTER = 258
EOW_CHARACTER = 259
PAD_CHARACTER = 260

Ids = NDArray[np.int64]


def character_ids(words: Sequence[str], max_characters: int = 50) -> Ids:
    """Number the characters of words.

    words (Sequence[str]): U words; `<S>` and `</S>` stand for BOS and EOS.
    max_characters (int): C, ids per row; a word keeps its first C - 2 bytes.
    RETURNS (Ids): Shape (U, C), shifted by one.
    """
    rows = np.full((len(words), max_characters), PAD_CHARACTER + 1, dtype="int64")
    for row, word in zip(rows, words):
        ids = word_characters(word, max_characters)
        row[: len(ids)] = ids
    return rows


def word_characters(word: str, max_characters: int = 50) -> List[int]:
    """The ids of one word without padding, shifted by one.

    A lone surrogate has no UTF-8 form and vanishes; the cut may split a character of several bytes.

    word (str): Any text.
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
        if len(content) < max_characters - 2 < len(word):  # surrogates vanished from the slice
            content = word.encode("utf8", "ignore")[: max_characters - 2]
    return [BOW_CHARACTER + 1, *(character + 1 for character in content), EOW_CHARACTER + 1]
