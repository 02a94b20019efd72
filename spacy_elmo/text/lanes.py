"""Lanes: sequences of different length are concatenated (sequence packing), so there is no padding.

Lane plans are for sequences that are known, lanes of text for language modelling: inputs and targets of each lane, in
chunks of steps. As in bilm-tf a sentence of n words has n + 1 predictions: the forward model reads `<S> w1 .. wn` and
predicts `w1 .. wn </S>`, the backward model reads `</S> wn .. w1` and predicts `wn .. w1 <S>`. Both use the same slots.
"""

import heapq
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from ..util import batched
from .words import Ids, WordTable, ranges


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


def plan_lanes(lengths: Union[Ids, Sequence[int]], max_lanes: int) -> LanePlan:
    """Assign sequences, also empty ones, to lanes of about equal length: the longest first, each to the shortest lane.

    The number of lanes is at most the total length divided by the longest, rounded up. More lanes
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
    ranks = np.empty(len(ranked), dtype="int64")
    ranks[[lane for _, lane in ranked]] = np.arange(len(ranked))
    totals = np.array([load for load, _ in ranked], dtype="int64")
    n_active = (totals[None, :] > np.arange(totals[0])[:, None]).sum(axis=1)
    return LanePlan(sizes, ranks[lanes], offsets, n_active.astype("int64"))


# Predictions that `WholeSentenceLanes` keeps ready, as a multiple of a chunk's: short sentences fill the room that long
# ones leave.
ROOM_TO_CHOOSE = 1.25
BLOCKS_AT_ONCE = 1024  # lengths of so many blocks are looked up at once


@dataclass(frozen=True)
class Chunk:
    """Consecutive steps of the lanes of a rank, as word numbers.

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

    def counted_targets(self, n_directions: int) -> Ids:
        """Shape (n_directions, predictions), without padding."""
        targets = self.targets[:n_directions].reshape(n_directions, -1)
        return targets if self.counted is None else targets[:, self.counted.reshape(-1)]


@dataclass(frozen=True)
class NumberedText:
    """Sentences as word numbers of a `WordTable` or of a stored text, without BOS and EOS.

    numbers (NDArray): Shape (T,), the words of all sentences.
    offsets (NDArray): Shape (sentences + 1,), the first word of each sentence, and T.
    """

    numbers: NDArray[Any]
    offsets: NDArray[Any]

    @classmethod
    def from_sentences(cls, sentences: Sequence[Sequence[str]], table: WordTable) -> "NumberedText":
        """The words are added to the table."""
        numbers = table.numbers_of(chain.from_iterable(sentences))
        return cls(numbers, np.cumsum([0, *map(len, sentences)]))

    def take(self, sentences: Ids) -> Tuple[Ids, Ids]:
        """The words of some sentences, concatenated, and the length of each."""
        starts = self.offsets[sentences]
        lengths = self.offsets[sentences + 1] - starts
        return self.numbers[ranges(starts, lengths)].astype("int64"), lengths


# Consecutive sentences that one lane reads: the first one, and the one after the last.
SentenceBlock = Tuple[int, int]


class SentenceLanes:
    """Assigns blocks of sentences to B lanes: the next block goes to the lane that ends first.

    text (NumberedText): The sentences.
    blocks (Iterable[SentenceBlock]): In the order in which they are read.
    n_lanes (int): B, of all ranks.
    own_lanes (slice): The lanes that chunks contain.
    n_own_lanes (int): Number of these lanes.
    n_blocks (int), n_sentences (int), n_predictions (int): Assigned so far to all lanes.
    n_dropped (int): Predictions that are in no chunk; known at the end.
    """

    def __init__(
        self, text: NumberedText, blocks: Iterable[SentenceBlock], n_lanes: int, own_lanes: slice = slice(None)
    ) -> None:
        self.text = text
        self.n_blocks = self.n_sentences = self.n_predictions = self.n_dropped = 0
        self._own_lanes = range(n_lanes)[own_lanes]
        self.n_own_lanes = len(self._own_lanes)
        self._blocks = self._measure(blocks)
        self._free_at: List[Tuple[int, int]] = [(0, lane) for lane in range(n_lanes)]
        self._waiting: List[List[NDArray[np.int64]]] = [[] for _ in self._own_lanes]
        self._now = 0

    def next_chunk(self, n_steps: int) -> Optional[Chunk]:
        """Get the next S steps of all lanes, None at the end. The last chunk is shorter: it ends where the first lane
        has no text left; `n_dropped` is then the number of predictions left in other lanes.
        """
        self._read(list(self._assign(self._now + n_steps)))
        n_ready = min(n_steps, self._free_at[0][0] - self._now)
        if n_ready <= 0:
            self.n_dropped = self.n_predictions - self._now * len(self._free_at)
            return None
        self._now += n_ready
        taken: List[NDArray[np.int64]] = []
        for waiting in self._waiting:
            _take(waiting, n_ready, taken)
        by_lane = np.concatenate(taken, axis=1).reshape(5, self.n_own_lanes, n_ready)
        rows = np.ascontiguousarray(by_lane.transpose(0, 2, 1))  # (5, S, B)
        return Chunk(rows[0:2], rows[2:4], rows[4].astype(bool), n_ready * len(self._free_at))

    def skip(self, n_chunks: int, n_steps: int) -> None:
        """Before the first chunk: assign the blocks of chunks, and read only the text that follows them."""
        self._now = n_chunks * n_steps
        newest = {lane: (lane, begin, block) for lane, begin, block in self._assign(self._now)}
        self._read(list(newest.values()))

    def _measure(self, blocks: Iterable[SentenceBlock]) -> Iterator[Tuple[SentenceBlock, int]]:
        """Blocks and their predictions. The lengths of many blocks are looked up at once."""
        for next_blocks in batched(blocks, BLOCKS_AT_ONCE):
            edges = np.array(next_blocks)  # (blocks, 2)
            sizes = np.diff(self.text.offsets[edges] + edges)
            yield from zip(next_blocks, sizes[:, 0].tolist())

    def _next_block(self) -> Optional[Tuple[SentenceBlock, int]]:
        measured = next(self._blocks, None)
        if measured is not None:
            (first, stop), size = measured
            self.n_blocks += 1
            self.n_sentences += stop - first
            self.n_predictions += size
        return measured

    def _assign(self, end: int) -> Iterator[Tuple[int, int, SentenceBlock]]:
        """Assign blocks until all lanes have text up to step `end`, or the text ends.

        YIELDS (Tuple[int, int, SentenceBlock]): Blocks of the own lanes: the lane, the step at which it begins, the
            block.
        """
        free_at = self._free_at
        while free_at[0][0] < end and (measured := self._next_block()) is not None:
            begin, lane = free_at[0]
            heapq.heapreplace(free_at, (begin + measured[1], lane))
            if lane in self._own_lanes:
                yield lane, begin, measured[0]

    def _read(self, assigned: Sequence[Tuple[int, int, SentenceBlock]]) -> None:
        """Add blocks to their lanes, without the steps before this one."""
        if not assigned:
            return
        firsts, stops = np.array([block for _, _, block in assigned]).T
        sentences = ranges(firsts, stops - firsts)
        rows = _read_and_predict(*self.text.take(sentences))
        ends = np.cumsum(self.text.offsets[stops] - self.text.offsets[firsts] + stops - firsts).tolist()
        start = 0
        for (lane, begin, _), end in zip(assigned, ends):
            rows[4, start] = 1
            self._waiting[lane - self._own_lanes.start].append(rows[:, start + max(0, self._now - begin) : end])
            start = end


class WholeSentenceLanes(SentenceLanes):
    """Fills the lanes of each chunk with whole sentences, each into the lane with the most room. A sentence that does
    not fit is placed in the next chunk, among the first. The rest of a lane is padding. A sentence has at most n - 1
    words for chunks of n steps.
    """

    _postponed: Sequence[Tuple[int, int]] = ()  # sentences that are not in a chunk yet, with their predictions

    def next_chunk(self, n_steps: int) -> Optional[Chunk]:
        """Get the next sentences of all lanes, None at the end of the text; the last chunk has more padding."""
        placed, used = self._place(n_steps)
        if not used.any():
            return None
        n_lanes = self.n_own_lanes
        places = np.array([place for place in placed if place[1] in self._own_lanes], dtype="int64").reshape(-1, 3)
        words, lengths = self.text.take(places[:, 0])
        sizes = lengths + 1
        slots = np.repeat((places[:, 1] - self._own_lanes.start), sizes) + ranges(places[:, 2], sizes) * n_lanes
        rows = np.zeros((5, n_steps * n_lanes), dtype="int64")
        rows[:4] = WordTable.BEGIN
        rows[:, slots] = _read_and_predict(words, lengths)
        positions = np.zeros((2, n_steps * n_lanes), dtype="int64")
        positions[0, slots] = ranges(np.zeros_like(sizes), sizes)
        positions[1, slots] = np.repeat(sizes, sizes) - positions[0, slots]  # of </S>, which follows the n words, to 1
        rows[4, places[:, 2] * n_lanes + places[:, 1] - self._own_lanes.start] = 1
        own_used = used[self._own_lanes]
        padded = np.flatnonzero(own_used < n_steps)
        rows[4, own_used[padded] * n_lanes + padded] = 1  # padding is a sequence of its own
        shape = (-1, n_steps, n_lanes)
        by_step, counted = rows.reshape(shape), np.arange(n_steps)[:, None] < own_used
        begins = by_step[4].astype(bool)
        return Chunk(by_step[:2], by_step[2:4], begins, int(used.sum()), positions.reshape(shape), counted)

    def skip(self, n_chunks: int, n_steps: int) -> None:
        """See `SentenceLanes.skip`."""
        for _ in range(n_chunks):
            self._place(n_steps)

    def _place(self, n_steps: int) -> Tuple[List[Tuple[int, int, int]], Ids]:
        """The sentences of the next chunk, each with its lane and the step at which it begins; the steps used in each
        lane.
        """
        lanes = [(0, lane) for lane in range(len(self._free_at))]
        candidates, offsets = list(self._postponed), self.text.offsets
        n_missing = ROOM_TO_CHOOSE * n_steps * len(lanes) - sum(size for _, size in candidates)
        while n_missing > 0 and (measured := self._next_block()) is not None:
            (first, stop), size = measured
            sizes = np.diff(offsets[first : stop + 1]) + 1
            candidates += zip(range(first, stop), sizes.tolist())
            n_missing -= size
        placed: List[Tuple[int, int, int]] = []
        postponed: List[Tuple[int, int]] = []
        for sentence, size in candidates:
            used, lane = lanes[0]
            if used + size > n_steps:
                postponed.append((sentence, size))
            else:
                placed.append((sentence, lane, used))
                heapq.heapreplace(lanes, (used + size, lane))
        self._postponed = postponed
        return placed, np.array([used for used, _ in sorted(lanes, key=itemgetter(1))], dtype="int64")


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


def _read_and_predict(words: Ids, lengths: Ids) -> NDArray[np.int64]:
    """Forward and backward inputs, forward and backward targets, and zeros, to be 1 where a block begins: shape (5, sum
    of n + 1), for concatenated sentences of n words each.
    """
    sizes = lengths + 1
    stops = np.cumsum(sizes)
    starts = stops - sizes
    n_predictions = int(sizes.sum())
    rows = np.zeros((5, n_predictions), dtype="int64")
    is_word = np.ones(n_predictions, dtype=bool)
    is_word[starts] = False
    rows[0, is_word] = words
    mirrored = np.repeat(starts + stops, sizes) - np.arange(n_predictions)  # the last word follows the first place
    rows[1, is_word] = rows[0, mirrored[is_word]]
    rows[0, starts], rows[1, starts] = WordTable.BEGIN, WordTable.END
    rows[2:4, :-1] = rows[:2, 1:]
    rows[2, stops - 1], rows[3, stops - 1] = WordTable.END, WordTable.BEGIN
    return rows
