"""Memory from the system and back to it, past what the C library keeps."""

import ctypes
import mmap
import sys
import time
from functools import cache
from typing import Callable, Optional

from .dispatch import TRIM_TIME, TRIM_TOKENS


def map_pages(n_bytes: int) -> mmap.mmap:
    """Allocate by mmap: the system gets the pages back as soon as nobody refers to them.

    n_bytes (int): At least one.
    RETURNS (mmap.mmap): Zeros. A process that is forked later has a copy of its own.
    """
    if sys.platform == "win32":  # which has no fork
        return mmap.mmap(-1, n_bytes)
    return mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class HeapTrimmer:
    """Returns free memory of the heap now and then, in a long stream.

    Results of products cannot be given a place. The GNU C library hardly ever puts an aligned array where one of the
    same size has been, so that the heap fragments and a process has several times as many free pages as it needs.
    """

    def __init__(self) -> None:
        self._n_tokens, self._n_between = 0, TRIM_TOKENS
        self._ended = time.perf_counter()

    def count(self, n_tokens: int) -> None:
        """n_tokens (int): Computed since the last call."""
        self._n_tokens += n_tokens
        trim = _trim()
        if self._n_tokens < self._n_between or trim is None:
            return
        started = time.perf_counter()
        trim(0)
        ended = time.perf_counter()
        if ended - started > TRIM_TIME * (started - self._ended):
            self._n_between *= 2  # a process with much else in its memory, where this takes long
        else:
            self._n_between = max(TRIM_TOKENS, self._n_between // 2)
        self._n_tokens, self._ended = 0, ended


@cache
def _trim() -> Optional[Callable[[int], int]]:
    """RETURNS (Optional[Callable[[int], int]]): `malloc_trim`, where the C library has it."""
    try:
        function: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # another library, another system
        return None
    return function
