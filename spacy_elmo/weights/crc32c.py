"""CRC-32C (Castagnoli), vectorized over the words of a message.

The CRC is linear over GF(2). A word of a message may therefore be replaced by zero, if its image k words later (the
remainder that it has become there) is added to the word at that place. Folding does this with whole rows of k words, so
that a message of any length shrinks to k words with the same CRC, at the cost of two table lookups per word.
"""

from functools import cache
from typing import Tuple

import numpy as np
from numpy.typing import NDArray

POLYNOMIAL = 0x82F63B78  # reflected
ROWS = (8192, 64)  # words of a row, from long messages to short ones
MASK_DELTA = 0xA282EAD8

Words = NDArray[np.uint32]


def crc32c(message: "bytes | memoryview") -> int:
    view = memoryview(message).cast("B")
    words: Words = np.frombuffer(view, dtype="<u4", count=len(view) // 4)
    state = 0xFFFFFFFF
    for n_words in ROWS:
        if len(words) >= 2 * n_words:
            words, state = _fold(words, n_words, state), 0
    table = _byte_table().tolist()
    for byte in words.tobytes() + bytes(view[len(view) // 4 * 4 :]):
        state = table[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state ^ 0xFFFFFFFF


def masked_crc32c(message: "bytes | memoryview") -> int:
    """The CRC as LevelDB and TensorFlow store it: rotated, with a constant added."""
    crc = crc32c(message)
    return ((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF


def _fold(words: Words, n_words: int, state: int) -> Words:
    """Shorten a message to one row and the words after the last whole row. `state` is added to its first word."""
    low, high = _skip_tables(4 * n_words)
    n_rows = len(words) // n_words
    folded = words[:n_words].copy()
    folded[0] ^= np.uint32(state)
    for row in words[n_words : n_rows * n_words].reshape(-1, n_words):
        halves = folded.view("<u2")
        folded = low.take(halves[0::2], mode="wrap")  # twice as fast as with a check of the indices
        folded ^= high.take(halves[1::2], mode="wrap")
        folded ^= row
    return np.concatenate([folded, words[n_rows * n_words :]])


@cache
def _byte_table() -> Words:
    table = np.arange(256, dtype="<u4")
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(POLYNOMIAL), table >> 1)
    return table


@cache
def _skip_tables(n_bytes: int) -> Tuple[Words, Words]:
    """What the low and the high half of a word become after `n_bytes` zero bytes."""
    columns = np.left_shift(np.uint32(1), np.arange(32, dtype="<u4"))
    step = _byte_table()[columns & 0xFF] ^ columns >> 8  # the images of the 32 bits after one byte
    while n_bytes:
        if n_bytes & 1:
            columns = _apply(step, columns)
        step, n_bytes = _apply(step, step), n_bytes >> 1
    return _span(columns[:16]), _span(columns[16:])


def _apply(matrix: Words, vectors: Words) -> Words:
    """Product over GF(2); a matrix is the array of its 32 columns."""
    bits = vectors[:, None] >> np.arange(32, dtype="<u4") & 1
    product: Words = np.bitwise_xor.reduce(np.where(bits == 1, matrix, np.uint32(0)), axis=1)
    return product


def _span(columns: Words) -> Words:
    """The images of all 2^16 half words."""
    table: Words = np.zeros(1, dtype="<u4")
    for column in columns:
        table = np.concatenate([table, table ^ column])
    return table
