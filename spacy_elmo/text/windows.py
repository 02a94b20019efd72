"""Split long token sequences into overlapping windows, and select the tokens to keep from each."""

from typing import List, NamedTuple

from ..errors import Errors


class Window(NamedTuple):
    """A part of a sequence that the biLM reads by itself.

    start (int), end (int): The tokens it reads.
    keep_start (int), keep_end (int): The central tokens, whose vectors are taken from this window.
    """

    start: int
    end: int
    keep_start: int
    keep_end: int


def split_windows(n_tokens: int, max_tokens: int, overlap: int) -> List[Window]:
    """Split a sequence into windows of at most `max_tokens` tokens that overlap by at least `overlap` tokens.

    Each token is kept from the window in which it is furthest from an edge. The last window starts earlier, so that it
    is as long as the others.

    n_tokens (int): Length of the sequence.
    max_tokens (int): Maximum length of a window.
    overlap (int): Minimum number of tokens that neighbouring windows share.
    RETURNS (List[Window]): In order; the kept tokens cover the sequence exactly once. Empty for an empty sequence.
    RAISES (ValueError): EL005 if the windows would not advance.
    """
    if max_tokens < 1 or overlap < 0 or 2 * overlap >= max(max_tokens, 1):
        raise ValueError(Errors.EL005.format(max_tokens=max_tokens, overlap=overlap))
    if n_tokens <= max_tokens:
        return [Window(0, n_tokens, 0, n_tokens)] if n_tokens else []
    last_start = n_tokens - max_tokens
    starts = [*range(0, last_start, max_tokens - overlap), last_start]
    ends = [min(start + max_tokens, n_tokens) for start in starts]
    cuts = [0, *((start + end) // 2 for start, end in zip(starts[1:], ends)), n_tokens]
    return [Window(*edges) for edges in zip(starts, ends, cuts, cuts[1:])]
