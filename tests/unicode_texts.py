"""Seeded random texts of all of Unicode: control characters, surrogates, emoji, scripts of one to four bytes."""

import random
from typing import List

RANGES = (
    *((0x20, 0x7F), (0xA0, 0x250), (0x370, 0x530), (0x590, 0x700), (0x900, 0xE00)),
    *((0x3040, 0x3100), (0x4E00, 0x9FFF), (0x1F300, 0x1F700), (0x0, 0x110000)),
)


def random_words(n: int, seed: int = 0) -> List[str]:
    """Words of 1 to 12 characters, each of one range."""
    draw = random.Random(seed)
    words = []
    for _ in range(n):
        first, stop = draw.choice(RANGES)
        words.append("".join(chr(draw.randrange(first, stop)) for _ in range(draw.randrange(1, 13))))
    return words


def random_texts(n: int, seed: int = 0, max_tokens: int = 30) -> List[List[str]]:
    """Texts of 1 to `max_tokens` words."""
    draw = random.Random(seed)
    return [random_words(draw.randint(1, max_tokens), seed=draw.getrandbits(32)) for _ in range(n)]
