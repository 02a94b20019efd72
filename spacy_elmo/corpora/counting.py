"""Count the words of a corpus of any size, with an external merge sort for counts that do not fit in memory."""

import heapq
import tempfile
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from struct import Struct
from typing import Iterable, Iterator, List, Optional, Sequence, Tuple

from ..errors import Errors
from ..text.characters import SENTENCE_BEGIN, SENTENCE_END
from ..text.vocabulary import UNKNOWN, Vocabulary

SPECIAL = (SENTENCE_BEGIN, SENTENCE_END, UNKNOWN)
Entry = Tuple[str, int]
# Sorted files (runs) that are merged at once; operating systems limit open files.
MAX_RUNS = 64
READ_AHEAD = 1 << 18
# Header of a word in a run: its length in bytes and its count.
HEADER = Struct("<IQ")


@dataclass(frozen=True)
class VocabularyCounts:
    """The words of a vocabulary and the totals of the corpus.

    words (List[str]): In order of descending frequency, ties by spelling; without `<S>`, `</S>` and `<UNK>`.
    counts (List[int]): The count of each word.
    n_tokens (int): Tokens of the corpus.
    n_types (int): Distinct words of the corpus, kept or not.
    n_unknown (int): Tokens outside the vocabulary.
    """

    words: List[str]
    counts: List[int]
    n_tokens: int
    n_types: int
    n_unknown: int

    @property
    def unk_rate(self) -> float:
        """RETURNS (float): Share of the tokens outside the vocabulary."""
        return self.n_unknown / max(1, self.n_tokens)

    def vocabulary(self) -> Vocabulary:
        """RETURNS (Vocabulary): `<S>`, `</S>`, `<UNK>`, then the words."""
        return Vocabulary([*SPECIAL, *self.words])


def count_vocabulary(
    sentences: Iterable[Sequence[str]],
    *,
    n_words: Optional[int] = None,
    min_count: int = 1,
    max_entries: int = 5_000_000,
    folder: Optional[Path] = None,
) -> VocabularyCounts:
    """Count words and keep the most frequent ones. Memory use is bounded by `max_entries` words and the words kept; the
    result does not depend on `max_entries`.

    sentences (Iterable[Sequence[str]]): The corpus, read once.
    n_words (Optional[int]): Number of words to keep, without the three special ones; None for all.
    min_count (int): Minimum count of a word.
    max_entries (int): Maximum number of distinct words in memory; then they are written to a temporary file.
    folder (Optional[Path]): Folder of temporary files, by default that of the system. They take about 20 bytes per
        distinct word and file, and are removed at the end.
    RETURNS (VocabularyCounts): Words, counts and totals.
    RAISES (ValueError): EL004 for numbers below 1.
    """
    for name, value in (("n_words", n_words), ("min_count", min_count), ("max_entries", max_entries)):
        if value is not None and value < 1:
            raise ValueError(Errors.EL004.format(name=name, value=value, wanted="1 or more"))
    with tempfile.TemporaryDirectory(prefix=".counts.", dir=folder) as name:
        counter = _RunCounter(Path(name), max_entries)
        for tokens in sentences:
            counter.add(tokens)
        selection = _Selection(n_words, min_count)
        kept = selection.of(counter.merged())
    n_tokens = counter.n_tokens
    return VocabularyCounts(
        words=[word for word, _ in kept],
        counts=[count for _, count in kept],
        n_tokens=n_tokens,
        n_types=selection.n_types,
        n_unknown=n_tokens - sum(count for _, count in kept),
    )


class _RunCounter:
    """Counts words in memory and in files sorted by word (runs)."""

    def __init__(self, folder: Path, max_entries: int) -> None:
        self.n_tokens = 0
        self._folder, self._max_entries = folder, max_entries
        self._counts: Counter[str] = Counter()
        self._runs: List[Path] = []
        self._n_written = 0

    def add(self, tokens: Sequence[str]) -> None:
        """tokens (Sequence[str]): A sentence."""
        self.n_tokens += len(tokens)
        self._counts.update(tokens)
        if len(self._counts) > self._max_entries:
            self._runs.append(self._write(sorted(self._counts.items())))
            self._counts.clear()
            if len(self._runs) >= MAX_RUNS:
                self._runs = [self._join(self._runs)]

    def merged(self) -> Iterator[Entry]:
        """YIELDS (Entry): Each distinct word with its count, sorted by word if there are runs."""
        if not self._runs:
            yield from self._counts.items()
            return
        with ExitStack() as stack:
            yield from _merge([sorted(self._counts.items()), *(_read(path, stack) for path in self._runs)])

    def _join(self, runs: Sequence[Path]) -> Path:
        with ExitStack() as stack:
            joined = self._write(_merge([_read(path, stack) for path in runs]))
        for path in runs:
            path.unlink()
        return joined

    def _write(self, entries: Iterable[Entry]) -> Path:
        path = self._folder / f"{self._n_written}.run"
        self._n_written += 1
        with path.open("wb", buffering=READ_AHEAD) as file:
            for word, count in entries:
                content = word.encode("utf8", "surrogatepass")
                file.write(HEADER.pack(len(content), count) + content)
        return path


class _Selection:
    """Selects the most frequent entries of a stream; holds at most `n_words`."""

    def __init__(self, n_words: Optional[int], min_count: int) -> None:
        self.n_types = 0
        self._n_words, self._min_count = n_words, min_count

    def of(self, entries: Iterable[Entry]) -> List[Entry]:
        """RETURNS (List[Entry]): In order of descending frequency, ties by spelling."""
        frequent = self._frequent(entries)
        if self._n_words is None:
            return sorted(frequent, key=_rank)
        return heapq.nsmallest(self._n_words, frequent, key=_rank)

    def _frequent(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        for entry in entries:
            if entry[0] not in SPECIAL:
                self.n_types += 1
                if entry[1] >= self._min_count:
                    yield entry


def _rank(entry: Entry) -> Tuple[int, str]:
    return -entry[1], entry[0]


def _merge(runs: Sequence[Iterable[Entry]]) -> Iterator[Entry]:
    for word, entries in groupby(heapq.merge(*runs, key=itemgetter(0)), key=itemgetter(0)):
        yield word, sum(count for _, count in entries)


def _read(path: Path, stack: ExitStack) -> Iterator[Entry]:
    file = stack.enter_context(path.open("rb", buffering=READ_AHEAD))

    def entries() -> Iterator[Entry]:
        while header := file.read(HEADER.size):
            n_bytes, count = HEADER.unpack(header)
            yield file.read(n_bytes).decode("utf8", "surrogatepass"), count

    return entries()
