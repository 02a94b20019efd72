"""Lane plans: sequences of different length are concatenated in lanes (sequence packing), so there is no padding.

Windows: sequences that are too long are read in overlapping parts.
"""

import heapq
from dataclasses import dataclass
from typing import List, NamedTuple, Sequence, Tuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class LanePlan:
    """Position of each sequence: S steps, B lanes, slot = step * B + lane.

    Lanes are sorted by length, the longest first, so the active lanes of a step are always the first ones.

    lengths (Ids): Tokens of each sequence.
    lanes (Ids): Lane of each sequence.
    offsets (Ids): Step at which each sequence begins.
    n_active (Ids): Shape (S,), active lanes at each step.
    """

    lengths: Ids
    lanes: Ids
    offsets: Ids
    n_active: Ids

    @property
    def n_steps(self) -> int:
        return len(self.n_active)

    @property
    def n_lanes(self) -> int:
        return int(self.n_active[0]) if len(self.n_active) else 0

    def slots(self, *, backward: bool = False) -> Ids:
        """The slot of each token, (N,), sequence by sequence; the backward direction reads its last token first."""
        firsts = np.cumsum(self.lengths) - self.lengths
        places = np.arange(self.lengths.sum()) - np.repeat(firsts, self.lengths)
        if backward:
            places = np.repeat(self.lengths, self.lengths) - 1 - places
        steps = np.repeat(self.offsets, self.lengths) + places
        slots: Ids = steps * self.n_lanes + np.repeat(self.lanes, self.lengths)
        return slots

    def begins(self) -> List[Tuple[Ids, Ids]]:
        """For each step the lanes in which a sequence begins, and its number."""
        return self._by_step(self.offsets)

    def ends(self) -> List[Tuple[Ids, Ids]]:
        """For each step the lanes in which a sequence ends, and its number."""
        return self._by_step(self.offsets + self.lengths - 1)

    def _by_step(self, steps: Ids) -> List[Tuple[Ids, Ids]]:
        sequences = np.flatnonzero(self.lengths)
        sequences = sequences[np.argsort(steps[sequences], kind="stable")]
        edges = np.searchsorted(steps[sequences], np.arange(self.n_steps + 1))
        return [(self.lanes[sequences[start:end]], sequences[start:end]) for start, end in zip(edges[:-1], edges[1:])]


def plan_lanes(lengths: Sequence[int], max_lanes: int) -> LanePlan:
    """Assign sequences, also empty ones, to lanes of about equal length: the longest first, each to the shortest lane.

    The number of lanes is at most the total length divided by that of the longest sequence, rounded up. More lanes
    would not reduce the number of steps.
    """
    sizes = np.asarray(lengths, dtype="int64").reshape(-1)
    lanes, offsets = np.zeros_like(sizes), np.zeros_like(sizes)
    if not sizes.any():
        return LanePlan(sizes, lanes, offsets, np.zeros(0, dtype="int64"))
    n_lanes = int(min(max_lanes, np.count_nonzero(sizes), -(-sizes.sum() // sizes.max())))
    loads = [(0, lane) for lane in range(n_lanes)]
    for sequence in np.argsort(-sizes, kind="stable").tolist():
        size = int(sizes[sequence])
        if not size:
            break
        load, lane = loads[0]
        lanes[sequence], offsets[sequence] = lane, load
        heapq.heapreplace(loads, (load + size, lane))
    ranked = sorted(loads, key=lambda item: (-item[0], item[1]))
    new_number = np.empty(len(ranked), dtype="int64")
    new_number[[lane for _, lane in ranked]] = np.arange(len(ranked))
    totals = np.array([load for load, _ in ranked], dtype="int64")
    n_active = (totals[None, :] > np.arange(totals[0])[:, None]).sum(axis=1)
    return LanePlan(sizes, new_number[lanes], offsets, n_active.astype("int64"))


class Window(NamedTuple):
    """A part of a sequence that the biLM reads by itself: tokens from `start` to before `end`. Vectors of the central
    tokens, from `keep_start` to before `keep_end`, are taken from this window.
    """

    start: int
    end: int
    keep_start: int
    keep_end: int


def split_windows(n_tokens: int, max_tokens: int, overlap: int) -> List[Window]:
    """Split a sequence into windows of at most `max_tokens` tokens that overlap by at least `overlap` tokens.

    Each token is kept from the window in which it is furthest from an edge: the kept tokens cover the sequence exactly
    once. The last window starts earlier, so that it is as long as the others. An empty sequence has none.

    RAISES (ValueError): If the windows would not advance.
    """
    if max_tokens < 1 or overlap < 0 or 2 * overlap >= max(max_tokens, 1):
        raise ValueError(
            f"A window of {max_tokens} tokens with an overlap of {overlap} does not advance. Set max_tokens to 1 or "
            "more and the overlap to less than half of it."
        )
    if n_tokens <= max_tokens:
        return [Window(0, n_tokens, 0, n_tokens)] if n_tokens else []
    last_start = n_tokens - max_tokens
    starts = [*range(0, last_start, max_tokens - overlap), last_start]
    ends = [min(start + max_tokens, n_tokens) for start in starts]
    cuts = [0, *((start + end) // 2 for start, end in zip(starts[1:], ends)), n_tokens]
    return [Window(*edges) for edges in zip(starts, ends, cuts, cuts[1:])]
