"""The training text on disk: word numbers, tokenized once and memory-mapped by all processes and all later runs.

A folder has `numbers.bin` (the words of all sentences), `sentences.bin` (where each sentence begins), `words.bin` (the
distinct words in the order of their first occurrence), `spelling.bin` (where each word begins in it), `counts.bin` (how
often it occurs) and `text.json`, which has a hash of what the text was made from. The folder appears by one rename.
"""

import errno
import hashlib
import json
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from ..corpora.lines import Counts
from ..corpora.places import abbreviate
from ..corpora.shards import Shard
from ..errors import Errors
from ..files import atomic_folder
from ..text.lanes import NumberedText
from ..text.words import SpelledWords, Vocabulary, WordTable
from ..util import hides_progress

TEXT_VERSION = 1  # of the files
NUMBERS, SENTENCES, WORDS, SPELLING, COUNTS = "numbers.bin", "sentences.bin", "words.bin", "spelling.bin", "counts.bin"
FILE_TYPES = {NUMBERS: "<u4", SENTENCES: "<i8", WORDS: "u1", SPELLING: "<i8", COUNTS: "<i8"}
RECORD = "text.json"
TOKENS_AT_ONCE = 1 << 12  # that are held as strings, which stay in the cache of the processor
WORDS_AT_ONCE = 1 << 16
COUNTED_AT_ONCE = 1 << 22
MAX_KNOWN_WORDS = 5_000_000  # distinct words in memory, 110 bytes each; above that, known words may get a second number
REPORT_S = 30.0


@dataclass(frozen=True)
class StoredText:
    """A tokenized text.

    text (NumberedText): Memory-mapped; long sentences are split.
    word_counts (NDArray): Shape (U,), occurrences of each word number.
    counts (Counts): Counts of the whole text.
    sources (List[Dict[str, Any]]): Files or data sets, see `Shard.identity`, with `n_sentences`.
    sha256 (str): Hash of its content.
    """

    folder: Path
    text: NumberedText
    word_counts: NDArray[np.int64]
    counts: Counts
    sources: List[Dict[str, Any]]
    sha256: str

    @property
    def n_predictions(self) -> int:
        """RETURNS (int): Predictions per direction of one pass: the tokens, and one boundary per sentence."""
        return self.counts.n_tokens + self.counts.n_sentences

    def words(self) -> Iterator[str]:
        """RETURNS (Iterator[str]): The words by number, `<S>` and `</S>` first."""
        with (self.folder / WORDS).open(encoding="utf8", errors="surrogatepass", newline="\n") as lines:
            for line in lines:
                yield line[:-1]

    def counted_words(self) -> Iterator[Dict[str, int]]:
        """YIELDS (Dict[str, int]): Occurrences of some words; may yield a word twice if it has two numbers."""
        words = self.words()
        for start in range(0, len(self.word_counts), WORDS_AT_ONCE):
            occurrences: Dict[str, int] = {}
            for word, count in zip(words, self.word_counts[start : start + WORDS_AT_ONCE].tolist()):
                occurrences[word] = occurrences.get(word, 0) + count
            yield occurrences

    def spelled(self, vocabulary: Vocabulary, max_characters: int) -> SpelledWords:
        """RETURNS (SpelledWords): The words as characters, memory-mapped, and as targets."""
        targets = vocabulary.ids(self.words()).astype("int32")
        return SpelledWords(_map(self.folder, WORDS), _map(self.folder, SPELLING), targets, max_characters)


def hash_source(shards: Sequence[Shard], settings: Mapping[str, Any]) -> str:
    """RETURNS (str): A hash that changes with settings (plain JSON types), and with sizes and times of files."""
    source = {"version": TEXT_VERSION, **settings, "sources": [shard.identity() for shard in shards]}
    return hashlib.sha256(json.dumps(source, sort_keys=True).encode("utf8")).hexdigest()[:16]


def open_text(folder: Path, source: str = "") -> Optional[StoredText]:
    """source (str): From `hash_source`.
    RETURNS (Optional[StoredText]): The text in a folder, None if it has no complete one of that source.
    """
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf8"))
        is_complete = record["source"] == source and record["size_bytes"] == _sizes(folder)
        return _open_text(folder, record) if is_complete else None
    except (OSError, ValueError, KeyError, TypeError):  # also of another version
        return None


def store_text(
    shards: Sequence[Shard],
    folder: Path,
    *,
    max_sentence_tokens: int,
    source: str = "",
    report: Callable[[int], object] = lambda n_tokens: None,
) -> StoredText:
    """Tokenize a text. Memory holds some of it and its distinct words.

    folder (Path): The folder, which is complete or as before; another text in it is replaced.
    source (str): From `hash_source`.
    report (Callable[[int], object]): Called twice a minute with the number of tokens so far.
    RAISES (ValueError): EL101 for a text without sentences; if the disk is full.
    """
    counts, sources = Counts(), []
    try:
        with atomic_folder(folder, force=True, own_names=(*FILE_TYPES, RECORD)) as place:
            with _Writer(place, report) as writer:
                for shard in shards:
                    n_before = counts.n_sentences
                    for tokens in read_sentences(shard, max_sentence_tokens, counts):
                        writer.add(tokens)
                    sources.append({**shard.identity(), "n_sentences": counts.n_sentences - n_before})
                if not counts.n_sentences:
                    raise ValueError(Errors.EL101.format(source=name_shards(shards)))
                sha256 = writer.finish()
            record = {
                "source": source,
                "size_bytes": _sizes(place),
                "counts": asdict(counts),
                "sources": sources,
                "sha256": sha256,
            }
            (place / RECORD).write_text(json.dumps(record, indent=1), encoding="utf8")
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise ValueError(
            f"The tokenized text does not fit on the disk of '{folder.parent}': {error.strerror}, after "
            f"{counts.n_tokens:,} tokens. It takes 4 bytes per token and 8 per sentence. Free disk space, or set "
            "paths.cache to a folder on another disk."
        ) from error
    return _open_text(folder, record)


def read_sentences(shard: Shard, max_tokens: int, counts: Counts) -> Iterator[List[str]]:
    """Stream the sentences of a shard; those longer than `max_tokens` are split. They are added to `counts`."""
    for tokens in shard.read(counts):
        n_tokens = len(tokens)
        counts.n_tokens += n_tokens
        if n_tokens <= max_tokens:
            counts.n_sentences += 1
            yield tokens
            continue
        counts.n_long += 1
        for start in range(0, n_tokens, max_tokens):
            counts.n_sentences += 1
            yield tokens[start : start + max_tokens]


def name_shards(shards: Sequence[Shard]) -> str:
    """RETURNS (str): The first names and the number of others, for an error."""
    return abbreviate([shard.name for shard in shards]) or "no files"


class _Writer:
    """Writes sentences into the files of a folder."""

    def __init__(self, folder: Path, report: Callable[[int], object]) -> None:
        self._folder, self._report = folder, report
        self._stack = ExitStack()
        self._files = {name: self._stack.enter_context((folder / name).open("wb")) for name in FILE_TYPES}
        self._progress = self._stack.enter_context(tqdm(disable=hides_progress(), unit="tok", unit_scale=True))
        self._digests = {name: hashlib.sha256() for name in FILE_TYPES}
        self._sentences: List[List[str]] = []
        self._n_held = self._n_tokens = self._n_bytes = 0
        self._table = WordTable()
        self._first_number = self._n_spelled = 0  # of the table; words of the table in the file
        self._reported = time.monotonic()
        self._write(SENTENCES, np.zeros(1))
        self._write(SPELLING, np.zeros(1))

    def __enter__(self) -> "_Writer":
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def add(self, tokens: List[str]) -> None:
        self._sentences.append(tokens)
        self._n_held += len(tokens)
        if self._n_held >= TOKENS_AT_ONCE:
            self._flush()

    def finish(self) -> str:
        """RETURNS (str): The sha256 of the text, whose files are complete."""
        self._flush()
        self._files[NUMBERS].flush()
        n_words = self._first_number + len(self._table)
        counts = np.zeros(n_words, dtype="int64")
        with (self._folder / NUMBERS).open("rb") as file:
            while len(numbers := np.fromfile(file, FILE_TYPES[NUMBERS], COUNTED_AT_ONCE)):
                counts += np.bincount(numbers, minlength=n_words)
        self._write(COUNTS, counts)
        return hashlib.sha256(b"".join(digest.digest() for digest in self._digests.values())).hexdigest()

    def _flush(self) -> None:
        numbers = self._table.numbers_of(chain.from_iterable(self._sentences)) + self._first_number
        numbers[numbers <= self._first_number + WordTable.END] -= self._first_number  # <S> and </S>
        lengths = np.fromiter(map(len, self._sentences), dtype="int64", count=len(self._sentences))
        self._write(SENTENCES, self._n_tokens + np.cumsum(lengths))
        self._write(NUMBERS, numbers)
        lines = [f"{word}\n".encode("utf8", "surrogatepass") for word in self._table.words[self._n_spelled :]]
        self._write(WORDS, np.frombuffer(b"".join(lines), "uint8"))
        self._write(SPELLING, self._n_bytes + np.cumsum(np.fromiter(map(len, lines), "int64", count=len(lines))))
        self._n_tokens, self._n_bytes = self._n_tokens + len(numbers), self._n_bytes + sum(map(len, lines))
        self._n_spelled = len(self._table)
        if self._n_spelled > MAX_KNOWN_WORDS:
            self._first_number, self._n_spelled, self._table = self._first_number + self._n_spelled, 0, WordTable()
        self._progress.update(self._n_held)
        self._sentences, self._n_held = [], 0
        if time.monotonic() - self._reported > REPORT_S:
            self._reported = time.monotonic()
            self._report(self._n_tokens)

    def _write(self, name: str, values: NDArray[Any]) -> None:
        content = values.astype(FILE_TYPES[name]).tobytes()
        self._files[name].write(content)
        self._digests[name].update(content)


def _sizes(folder: Path) -> Dict[str, int]:
    return {name: (folder / name).stat().st_size for name in FILE_TYPES}


def _open_text(folder: Path, record: Dict[str, Any]) -> StoredText:
    text = NumberedText(_map(folder, NUMBERS), _map(folder, SENTENCES))
    counts = Counts(**record["counts"])
    return StoredText(folder, text, _map(folder, COUNTS), counts, record["sources"], record["sha256"])


def _map(folder: Path, name: str) -> NDArray[Any]:
    """A file as a plain array, since slices of a `memmap` are slow; an empty file cannot be mapped."""
    path = folder / name
    if not path.stat().st_size:
        return np.zeros(0, dtype=FILE_TYPES[name])
    return np.asarray(np.memmap(path, dtype=FILE_TYPES[name], mode="r"))
