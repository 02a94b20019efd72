"""Lanes of text for language modelling: inputs and targets of each lane, in chunks of steps.

As in bilm-tf a sentence of n words has n + 1 predictions: the forward model reads `<S> w1 .. wn` and predicts
`w1 .. wn </S>`, the backward model reads `</S> wn .. w1` and predicts `wn .. w1 <S>`. Both use the same slots.
"""

import heapq
from dataclasses import dataclass
from typing import Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np
from numpy.typing import NDArray

from .word_table import Ids, WordTable


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
        """RETURNS (Chunk): The selected lanes."""
        return Chunk(
            self.inputs[:, :, lanes],
            self.targets[:, :, lanes],
            self.begins[:, lanes],
            self.n_predictions,
            None if self.positions is None else self.positions[:, :, lanes],
            None if self.counted is None else self.counted[:, lanes],
        )

    def counted_targets(self, n_directions: int) -> Ids:
        """RETURNS (Ids): Shape (n_directions, predictions), without padding."""
        targets = self.targets[:n_directions].reshape(n_directions, -1)
        return targets if self.counted is None else targets[:, self.counted.reshape(-1)]


class SentenceLanes:
    """Assigns blocks of sentences to lanes: the next block goes to the lane that ends first.

    blocks (Iterable[Sequence[Ids]]): Consecutive sentences that one lane reads, as word numbers without BOS and EOS.
    n_lanes (int): B.
    """

    def __init__(self, blocks: Iterable[Sequence[Ids]], n_lanes: int) -> None:
        self._blocks: Iterator[Sequence[Ids]] = iter(blocks)
        self._free_at: List[Tuple[int, int]] = [(0, lane) for lane in range(n_lanes)]
        self._waiting: List[List[NDArray[np.int64]]] = [[] for _ in range(n_lanes)]
        self._now = 0
        self.n_lanes = n_lanes
        self.n_dropped = 0

    def next_chunk(self, n_steps: int) -> Optional[Chunk]:
        """Get the next steps of all lanes. The last chunk is shorter: it ends where the first lane has no text left.

        n_steps (int): S.
        RETURNS (Optional[Chunk]): None at the end; `n_dropped` is then the number of predictions left in other lanes.
        """
        end = self._now + n_steps
        while self._free_at[0][0] < end:
            block = self._next_block()
            if block is None:
                end = self._free_at[0][0]
                break
            free_at, lane = heapq.heappop(self._free_at)
            self._waiting[lane].append(block)
            heapq.heappush(self._free_at, (free_at + block.shape[1], lane))
        n_ready = end - self._now
        if n_ready <= 0:
            self.n_dropped = sum(block.shape[1] for lane in self._waiting for block in lane)
            return None
        self._now = end
        rows = np.stack([self._take(lane, n_ready) for lane in range(self.n_lanes)], axis=2)  # (5, S, B)
        return Chunk(rows[0:2], rows[2:4], rows[4].astype(bool), rows[0].size)

    def state_dict(self) -> Dict[str, NDArray[np.int64]]:
        """RETURNS (Dict[str, NDArray]): Positions and contents of the lanes, for `load_state_dict`."""
        held = [block for waiting in self._waiting for block in waiting]
        return {
            "now": np.array([self._now], dtype="int64"),
            "free_at": np.array(self._free_at, dtype="int64"),  # (B, 2), the heap in its internal order
            "n_blocks": np.array([len(waiting) for waiting in self._waiting], dtype="int64"),
            "lengths": np.array([block.shape[1] for block in held], dtype="int64"),
            "rows": np.concatenate([np.zeros((5, 0), dtype="int64"), *held], axis=1),
        }

    def load_state_dict(self, state: Mapping[str, NDArray[np.int64]]) -> None:
        """state (Mapping[str, NDArray]): From `state_dict`; the caller provides the blocks that follow."""
        self._now = int(state["now"][0])
        self._free_at = [(int(time), int(lane)) for time, lane in state["free_at"]]
        held = iter(np.split(state["rows"], np.cumsum(state["lengths"])[:-1], axis=1))
        self._waiting = [[next(held) for _ in range(n_blocks)] for n_blocks in state["n_blocks"]]

    def held_numbers(self) -> Ids:
        """RETURNS (Ids): The distinct word numbers in the lanes, ascending."""
        return np.unique(self.state_dict()["rows"][:4])

    def renumber(self, new_numbers: Ids) -> None:
        """new_numbers (Ids): The new number of each old word number."""
        for waiting in self._waiting:
            for block in waiting:
                block[:4] = new_numbers[block[:4]]

    def _next_block(self) -> Optional[NDArray[np.int64]]:
        sentences = next(self._blocks, None)
        if sentences is None:
            return None
        block = np.concatenate([read_and_predict(sentence) for sentence in sentences], axis=1)
        block[4, 0] = 1
        return block

    def _take(self, lane: int, n_steps: int) -> NDArray[np.int64]:
        taken: List[NDArray[np.int64]] = []
        waiting = self._waiting[lane]
        while n_steps > 0:
            block = waiting.pop(0)
            taken.append(block[:, :n_steps])
            if block.shape[1] > n_steps:
                waiting.insert(0, block[:, n_steps:])
            n_steps -= taken[-1].shape[1]
        return np.concatenate(taken, axis=1)


def read_and_predict(words: Ids) -> NDArray[np.int64]:
    """words (Ids): Shape (n,), a sentence.
    RETURNS (NDArray): Shape (5, n + 1): forward and backward inputs, forward and backward targets, and zeros, to be 1
        where a block begins.
    """
    n_words = len(words)
    rows = np.zeros((5, n_words + 1), dtype="int64")
    rows[0, 0], rows[0, 1:] = WordTable.BEGIN, words
    rows[1, 0], rows[1, 1:] = WordTable.END, words[::-1]
    rows[2, :n_words], rows[2, n_words] = words, WordTable.END
    rows[3, :n_words], rows[3, n_words] = words[::-1], WordTable.BEGIN
    return rows
