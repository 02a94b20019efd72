"""Cutting long token runs into overlapping windows, and which tokens to take from each."""

from typing import List, NamedTuple

from ..errors import Errors


class Window(NamedTuple):
    """A stretch of a run that the biLM reads as one sequence.

    start (int), end (int): The tokens it reads.
    keep_start (int), keep_end (int): The tokens whose vectors are taken from it, the most central ones.
    """

    start: int
    end: int
    keep_start: int
    keep_end: int


def split_windows(n_tokens: int, max_tokens: int, overlap: int) -> List[Window]:
    """Cover a run by windows of at most `max_tokens`, neighbours sharing at least `overlap`.

    Each token is kept from the window in which it stands furthest from an edge. The last window is moved back, so
    that it is as long as the others.

    n_tokens (int): Length of the run.
    max_tokens (int): Longest window.
    overlap (int): Tokens that neighbours share at least.
    RETURNS (List[Window]): In order; the kept parts cover the run exactly once. Empty for an empty run.
    RAISES (ValueError): EL005 if the windows would not get on.
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
