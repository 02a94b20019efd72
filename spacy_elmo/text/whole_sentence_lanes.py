"""Lanes of whole sentences, for an encoder without state, which cannot continue a sentence in the next chunk."""

from typing import Dict, Iterable, List, Mapping, Optional, Sequence

import numpy as np
from numpy.typing import NDArray

from .sentence_lanes import Chunk, SentenceLanes, read_and_predict
from .word_table import Ids, WordTable

# Predictions kept ready, as a multiple of those of a chunk: short sentences fill the room that long ones leave.
ROOM_TO_CHOOSE = 1.25


class WholeSentenceLanes(SentenceLanes):
    """Fills the lanes of each chunk with whole sentences, each into the lane with the most room. A sentence that does
    not fit waits for the next chunk, where it is among the first. The rest of a lane is padding.

    blocks (Iterable[Sequence[Ids]]): Sentences, as word numbers without BOS and EOS; each has at most n - 1 words for
        chunks of n steps.
    n_lanes (int): B.
    """

    def __init__(self, blocks: Iterable[Sequence[Ids]], n_lanes: int) -> None:
        super().__init__(blocks, n_lanes)
        self._held: List[NDArray[np.int64]] = []  # (5, n + 1) each, in text order

    def next_chunk(self, n_steps: int) -> Optional[Chunk]:
        """Get the next sentences of all lanes.

        n_steps (int): S.
        RETURNS (Optional[Chunk]): None at the end of the text; the last chunk has more padding.
        """
        self._fill(n_steps)
        if not self._held:
            return None
        rows = np.zeros((5, n_steps, self.n_lanes), dtype="int64")
        rows[:4] = WordTable.BEGIN
        positions = np.zeros((2, n_steps, self.n_lanes), dtype="int64")
        used = np.zeros(self.n_lanes, dtype="int64")
        waiting: List[NDArray[np.int64]] = []
        for sentence in self._held:
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
        self._held = waiting
        self._now += int(used.sum())
        padded = np.flatnonzero(used < n_steps)
        rows[4, used[padded], padded] = 1  # padding is a sequence of its own
        counted = np.arange(n_steps)[:, None] < used
        return Chunk(rows[0:2], rows[2:4], rows[4].astype(bool), int(used.sum()), positions, counted)

    def state_dict(self) -> Dict[str, NDArray[np.int64]]:
        """RETURNS (Dict[str, NDArray]): In the form of `SentenceLanes`, all sentences in the first lane."""
        self._waiting[0] = self._held
        return super().state_dict()

    def load_state_dict(self, state: Mapping[str, NDArray[np.int64]]) -> None:
        """state (Mapping[str, NDArray]): From `state_dict`; the caller provides the blocks that follow."""
        super().load_state_dict(state)
        self._held = self._waiting[0]

    def renumber(self, new_numbers: Ids) -> None:
        """new_numbers (Ids): The new number of each old word number."""
        self._waiting[0] = self._held
        super().renumber(new_numbers)
        self._held = self._waiting[0]

    def copy(self) -> SentenceLanes:
        """See `SentenceLanes.copy`."""
        self._waiting[0] = self._held
        other = super().copy()
        assert isinstance(other, WholeSentenceLanes)
        other._held = other._waiting[0]
        return other

    def _fill(self, n_steps: int) -> None:
        wanted = ROOM_TO_CHOOSE * n_steps * self.n_lanes
        n_held = sum(sentence.shape[1] for sentence in self._held)
        while n_held < wanted:
            block = next(self._blocks, None)
            if block is None:
                return
            rows, stops = read_and_predict(block), np.cumsum([len(sentence) + 1 for sentence in block])
            self._held += np.split(rows, stops[:-1], axis=1)
            n_held += rows.shape[1]
