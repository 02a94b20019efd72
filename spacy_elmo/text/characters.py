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
    n_words, longest = len(words), max_characters - 2
    contents = [word[:max_characters].encode("utf8", "ignore")[:longest] for word in words]
    sizes = np.fromiter(map(len, contents), dtype="int64", count=n_words)
    rows = np.full((n_words, max_characters), PAD_CHARACTER + 1, dtype="int64")
    rows[:, 0] = BOW_CHARACTER + 1
    places = np.repeat(np.arange(n_words) * max_characters + 1 - (np.cumsum(sizes) - sizes), sizes)
    flat = np.frombuffer(b"".join(contents), dtype="uint8")
    rows.reshape(-1)[places + np.arange(len(flat))] = flat.astype("int64") + 1
    rows[np.arange(n_words), sizes + 1] = EOW_CHARACTER + 1
    for row, word in zip(rows, words):
        if len(word) > longest or word in (SENTENCE_BEGIN, SENTENCE_END):
            ids = word_characters(word, max_characters)
            row[: len(ids)], row[len(ids) :] = ids, PAD_CHARACTER + 1
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
