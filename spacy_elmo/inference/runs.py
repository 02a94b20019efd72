"""Sequences of words as sequences of integers. Each distinct word of a slice has one vector."""

from itertools import chain
from typing import Callable, Dict, List, NamedTuple, Protocol, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from ..text.characters import SENTENCE_BEGIN, SENTENCE_END
from ..text.lanes import Ids

BOUNDARIES = (SENTENCE_BEGIN, SENTENCE_END)  # of biLMs whose codec has no others
BOS, EOS = 0, 1  # numbers of the boundaries in every slice


class NumberedRuns(NamedTuple):
    """Sequences of a slice as word numbers, with the word vectors.

    vectors (Tensor): Shape (U, P), vectors of the distinct words, boundaries first.
    runs (List[List[int]]): Rows of `vectors` for each sequence, without boundaries.
    """

    vectors: Tensor
    runs: List[List[int]]

    def tokens(self, *, with_boundaries: bool) -> Ids:
        """RETURNS (Ids): Shape (N,), the concatenation of all sequences."""
        runs = ([BOS, *run, EOS] for run in self.runs) if with_boundaries else self.runs
        return np.fromiter(chain.from_iterable(runs), dtype="int64")

    def lengths(self, *, with_boundaries: bool) -> List[int]:
        """RETURNS (List[int]): Tokens of each sequence."""
        return [len(run) + 2 * with_boundaries for run in self.runs]


class Runs(Protocol):
    """Sequences that are converted to numbers slice by slice.

    lengths (List[int]): Words of each sequence.
    """

    lengths: List[int]

    def number(self, start: int, stop: int) -> NumberedRuns:
        """RETURNS (NumberedRuns): The sequences from `start` to before `stop`."""


class WordRuns:
    """Sequences of words.

    runs (Sequence[Sequence[str]]): The sequences; empty ones are allowed.
    encode (Callable[[List[str]], Tensor]): Computes the vectors of distinct words.
    boundaries (Tuple[str, str]): The words that are BOS and EOS.
    """

    def __init__(
        self,
        runs: Sequence[Sequence[str]],
        encode: Callable[[List[str]], Tensor],
        boundaries: Tuple[str, str] = BOUNDARIES,
    ) -> None:
        self.lengths = [len(run) for run in runs]
        self._runs, self._encode, self._boundaries = runs, encode, boundaries

    def number(self, start: int, stop: int) -> NumberedRuns:
        """See `Runs.number`."""
        distinct, runs = number_words(self._runs[start:stop], self._boundaries)
        return NumberedRuns(self._encode(distinct), runs)


class IdRuns:
    """Sequences of rows of a table of word vectors.

    vectors (Tensor): Shape (U + 2, P), boundaries first.
    runs (Sequence[Sequence[int]]): Rows of the table for each sequence; row 0 is the first after the boundaries.
    """

    def __init__(self, vectors: Tensor, runs: Sequence[Sequence[int]]) -> None:
        self.lengths = [len(run) for run in runs]
        self._vectors, self._runs = vectors, runs

    def number(self, start: int, stop: int) -> NumberedRuns:
        """See `Runs.number`."""
        rows = self._runs[start:stop]
        used, numbers = np.unique(np.fromiter(chain.from_iterable(rows), dtype="int64"), return_inverse=True)
        kept = np.concatenate([[BOS, EOS], used + 2])
        flat = (numbers + 2).tolist()
        stops = np.cumsum([len(run) for run in rows]).tolist()
        runs = [flat[first:last] for first, last in zip([0, *stops], stops)]
        return NumberedRuns(self._vectors[torch.from_numpy(kept).to(self._vectors.device)], runs)


def number_words(
    runs: Sequence[Sequence[str]], boundaries: Tuple[str, str] = BOUNDARIES
) -> Tuple[List[str], List[List[int]]]:
    """runs (Sequence[Sequence[str]]): Words of each sequence.
    boundaries (Tuple[str, str]): The words that are BOS and EOS.
    RETURNS (Tuple[List[str], List[List[int]]]): Distinct words, boundaries first, and the number of each word.
    """
    distinct = list(dict.fromkeys(chain(boundaries, *runs)))
    number: Dict[str, int] = {word: i for i, word in enumerate(distinct)}
    return distinct, [[number[word] for word in run] for run in runs]
