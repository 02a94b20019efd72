"""Lanes: sequences of different length are concatenated (sequence packing), so there is no padding.

Lane plans for sequences that are known; windows, since sequences that are too long are read in overlapping parts; and
lanes of text for language modelling: inputs and targets of each lane, in chunks of steps. As in bilm-tf a sentence of n
words has n + 1 predictions: the forward model reads `<S> w1 .. wn` and predicts `w1 .. wn </S>`, the backward model
reads `</S> wn .. w1` and predicts `wn .. w1 <S>`. Both use the same slots.
"""

import heapq
from copy import copy
from dataclasses import dataclass
from typing import Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from numpy.typing import NDArray

from .words import Ids, WordTable


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


# Predictions that `WholeSentenceLanes` keeps ready, as a multiple of those of a chunk: short sentences fill the room
# that long ones leave.
ROOM_TO_CHOOSE = 1.25


@dataclass(frozen=True)
class Chunk:
    """Consecutive steps of all lanes, as word numbers of a `WordTable`.

    inputs (Ids): Shape (2, S, B), in the reading order of the forward and the backward direction.
    targets (Ids): Shape (2, S, B).
    begins (NDArray): Shape (S, B) bool, true where a block of sentences begins.
    n_predictions (int): Predictions per direction, of the lanes of all ranks.
    positions (Optional[Ids]): Shape (2, S, B), the position of each input in the text of its sentence, if needed.
    counted (Optional[NDArray]): Shape (S, B) bool, false for padding; None without padding.
    """

    inputs: Ids
    targets: Ids
    begins: NDArray[np.bool_]
    n_predictions: int
    positions: Optional[Ids] = None
    counted: Optional[NDArray[np.bool_]] = None

    def of_lanes(self, lanes: slice) -> "Chunk":
        return Chunk(
            self.inputs[:, :, lanes],
            self.targets[:, :, lanes],
            self.begins[:, lanes],
            self.n_predictions,
            None if self.positions is None else self.positions[:, :, lanes],
            None if self.counted is None else self.counted[:, lanes],
        )

    def counted_targets(self, n_directions: int) -> Ids:
        """Shape (n_directions, predictions), without padding."""
        targets = self.targets[:n_directions].reshape(n_directions, -1)
        return targets if self.counted is None else targets[:, self.counted.reshape(-1)]


class SentenceLanes:
    """Assigns blocks of sentences to B lanes: the next block goes to the lane that ends first. Blocks are consecutive
    sentences that one lane reads, as word numbers without BOS and EOS.
    """

    def __init__(self, blocks: Iterable[Sequence[Ids]], n_lanes: int) -> None:
        self._blocks: Iterator[Sequence[Ids]] = iter(blocks)
        self._free_at: List[Tuple[int, int]] = [(0, lane) for lane in range(n_lanes)]
        self._waiting: List[List[NDArray[np.int64]]] = [[] for _ in range(n_lanes)]
        self._now = 0
        self.n_lanes = n_lanes
        self.n_dropped = 0

    def next_chunk(self, n_steps: int) -> Optional[Chunk]:
        """Get the next S steps of all lanes, None at the end. The last chunk is shorter: it ends where the first lane
        has no text left; `n_dropped` is then the number of predictions left in other lanes.
        """
        end = min(self._now + n_steps, self._fill_lanes(self._now + n_steps))
        n_ready = end - self._now
        if n_ready <= 0:
            self.n_dropped = sum(block.shape[1] for lane in self._waiting for block in lane)
            return None
        self._now = end
        taken: List[NDArray[np.int64]] = []
        for waiting in self._waiting:
            _take(waiting, n_ready, taken)
        by_lane = np.concatenate(taken, axis=1).reshape(5, self.n_lanes, n_ready)
        rows = np.ascontiguousarray(by_lane.transpose(0, 2, 1))  # (5, S, B)
        return Chunk(rows[0:2], rows[2:4], rows[4].astype(bool), rows[0].size)

    def copy(self) -> "SentenceLanes":
        """The same position, for `state_dict`; it shares the arrays and has no more blocks."""
        other = copy(self)
        other._blocks = iter(())
        other._free_at, other._waiting = list(self._free_at), [list(waiting) for waiting in self._waiting]
        return other

    def state_dict(self) -> Dict[str, NDArray[np.int64]]:
        """Positions and contents of the lanes, for `load_state_dict`."""
        held = [block for waiting in self._waiting for block in waiting]
        return {
            "now": np.array([self._now], dtype="int64"),
            "free_at": np.array(self._free_at, dtype="int64"),  # (B, 2), the heap in its internal order
            "n_blocks": np.array([len(waiting) for waiting in self._waiting], dtype="int64"),
            "lengths": np.array([block.shape[1] for block in held], dtype="int64"),
            "rows": np.concatenate([np.zeros((5, 0), dtype="int64"), *held], axis=1),
        }

    def load_state_dict(self, state: Mapping[str, NDArray[np.int64]]) -> None:
        """Continue from a `state_dict`; the caller provides the blocks that follow."""
        self._now = int(state["now"][0])
        self._free_at = [(int(time), int(lane)) for time, lane in state["free_at"]]
        held = iter(np.split(state["rows"], np.cumsum(state["lengths"])[:-1], axis=1))
        self._waiting = [[next(held) for _ in range(n_blocks)] for n_blocks in state["n_blocks"]]

    def held_numbers(self) -> Ids:
        """The distinct word numbers in the lanes, ascending."""
        return np.unique(self.state_dict()["rows"][:4])

    def renumber(self, new_numbers: Ids) -> None:
        """Give old word numbers new ones. Copies of the lanes do not change."""
        self._waiting = [
            [np.concatenate([new_numbers[block[:4]], block[4:]]) for block in waiting] for waiting in self._waiting
        ]

    def _fill_lanes(self, end: int) -> int:
        """Add blocks until all lanes have text up to step `end`; return the step up to which they have."""
        sentences: List[Ids] = []
        lanes: List[int] = []
        sizes: List[int] = []
        while self._free_at[0][0] < end:
            block = next(self._blocks, None)
            if block is None:
                break
            free_at, lane = self._free_at[0]
            sentences += block
            lanes.append(lane)
            sizes.append(sum(map(len, block)) + len(block))
            heapq.heapreplace(self._free_at, (free_at + sizes[-1], lane))
        if sentences:
            rows, stops = read_and_predict(sentences), np.cumsum(sizes)
            rows[4, stops - sizes] = 1
            for lane, start, stop in zip(lanes, (stops - sizes).tolist(), stops.tolist()):
                self._waiting[lane].append(rows[:, start:stop])
        return self._free_at[0][0]


class WholeSentenceLanes(SentenceLanes):
    """Fills the lanes of each chunk with whole sentences, each into the lane with the most room. A sentence that does
    not fit waits for the next chunk, where it is among the first; until then it is held in the list of the first lane.
    The rest of a lane is padding. A sentence has at most n - 1 words for chunks of n steps.
    """

    def next_chunk(self, n_steps: int) -> Optional[Chunk]:
        """Get the next sentences of all lanes, None at the end of the text; the last chunk has more padding."""
        self._fill(n_steps)
        if not self._waiting[0]:
            return None
        rows = np.zeros((5, n_steps, self.n_lanes), dtype="int64")
        rows[:4] = WordTable.BEGIN
        positions = np.zeros((2, n_steps, self.n_lanes), dtype="int64")
        used = np.zeros(self.n_lanes, dtype="int64")
        waiting: List[NDArray[np.int64]] = []
        for sentence in self._waiting[0]:
            lane, size = int(used.argmin()), sentence.shape[1]
            place = slice(used[lane], used[lane] + size)
            if place.stop > n_steps:
                waiting.append(sentence)
                continue
            rows[:, place, lane] = sentence
            rows[4, place.start, lane] = 1
            positions[0, place, lane] = np.arange(size)
            positions[1, place, lane] = np.arange(size, 0, -1)  # of </S>, which follows the n words, down to the first
            used[lane] += size
        self._waiting[0] = waiting
        self._now += int(used.sum())
        padded = np.flatnonzero(used < n_steps)
        rows[4, used[padded], padded] = 1  # padding is a sequence of its own
        counted = np.arange(n_steps)[:, None] < used
        return Chunk(rows[0:2], rows[2:4], rows[4].astype(bool), int(used.sum()), positions, counted)

    def _fill(self, n_steps: int) -> None:
        wanted = ROOM_TO_CHOOSE * n_steps * self.n_lanes
        n_held = sum(sentence.shape[1] for sentence in self._waiting[0])
        while n_held < wanted:
            block = next(self._blocks, None)
            if block is None:
                return
            rows, stops = read_and_predict(block), np.cumsum([len(sentence) + 1 for sentence in block])
            self._waiting[0] += np.split(rows, stops[:-1], axis=1)
            n_held += rows.shape[1]


def _take(waiting: List[NDArray[np.int64]], n_steps: int, taken: List[NDArray[np.int64]]) -> None:
    """Move the first steps of a lane to `taken`, each of shape (5, n)."""
    while n_steps:
        block = waiting[0]
        n = block.shape[1]
        if n <= n_steps:
            taken.append(block)
            del waiting[0]
            n_steps -= n
        else:
            taken.append(block[:, :n_steps])
            waiting[0] = block[:, n_steps:]
            return


def read_and_predict(sentences: Sequence[Ids]) -> NDArray[np.int64]:
    """Forward and backward inputs, forward and backward targets, and zeros, to be 1 where a block begins: shape (5, sum
    of n + 1), for one or more sentences of n words.
    """
    sizes = np.fromiter(map(len, sentences), dtype="int64", count=len(sentences)) + 1
    stops = np.cumsum(sizes)
    starts = stops - sizes
    rows = np.zeros((5, stops[-1]), dtype="int64")
    is_word = np.ones(stops[-1], dtype=bool)
    is_word[starts] = False
    rows[0, is_word] = np.concatenate(sentences)
    mirrored = np.repeat(starts + stops, sizes) - np.arange(stops[-1])  # the last word follows the first place
    rows[1, is_word] = rows[0, mirrored[is_word]]
    rows[0, starts], rows[1, starts] = WordTable.BEGIN, WordTable.END
    rows[2:4, :-1] = rows[:2, 1:]
    rows[2, stops - 1], rows[3, stops - 1] = WordTable.END, WordTable.BEGIN
    return rows
