"""The words of a run: counted in its text, read from a file, or taken from the biLM that training starts from."""

import heapq
import sqlite3
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from tqdm import tqdm

from ..corpora.lines import Counts
from ..corpora.places import OnMessage, find_sources, ignore_message, is_vocabulary
from ..corpora.shards import DATASET_PREFIX, find_shards, read_shards
from ..corpora.texts import PunctuationCheck, warn_of_raw_text
from ..errors import Errors, Warnings
from ..files import AnyPath, atomic_file, check_output_file, temporary_folder, to_path
from ..inference.bilm import BiLM
from ..text.words import SENTENCE_BEGIN, SENTENCE_END, UNKNOWN, Vocabulary
from ..util import MAX_NAMED, hides_progress
from ..weights.archive import File
from ..weights.tensor_map import read_vocabulary, write_vocabulary
from .run_config import PathsConfig

SPECIAL = (SENTENCE_BEGIN, SENTENCE_END, UNKNOWN)
Entry = Tuple[str, int]


@dataclass(frozen=True)
class VocabularyCounts:
    """The words of a vocabulary and the totals of the corpus.

    words (List[str]): In order of descending frequency, ties by spelling; without `<S>`, `</S>` and `<UNK>`.
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
    sentences: Iterable[Union[Sequence[str], Mapping[str, int]]],
    *,
    n_words: Optional[int] = None,
    min_count: int = 1,
    max_entries: int = 5_000_000,
    folder: Optional[Path] = None,
) -> VocabularyCounts:
    """Count words and keep the most frequent words. Memory use is bounded by `max_entries` words, 110 bytes each, and
    the words kept; the result does not depend on `max_entries`.

    sentences (Iterable[Union[Sequence[str], Mapping[str, int]]]): Their tokens, or occurrences of words.
    n_words (Optional[int]): Number of words to keep, without the three special ones; None for all.
    max_entries (int): Maximum number of distinct words in memory; if there are more, counts are added up in a temporary
        file in `folder`, by default the system's.
    """
    counts: Counter[str] = Counter()
    table: Optional[sqlite3.Connection] = None
    with ExitStack() as stack:
        place = stack.enter_context(temporary_folder(".counts", folder))
        for tokens in sentences:
            counts.update(tokens)
            if len(counts) > max_entries:
                table = table or stack.enter_context(closing(_make_table(place / "counts.sqlite")))
                _move_counts(counts, table)
        if table is not None:
            _move_counts(counts, table)
        n_tokens = n_types = 0
        for word, count in _iter_counts(counts, table):
            n_tokens += count
            n_types += word not in SPECIAL
        frequent = (entry for entry in _iter_counts(counts, table) if entry[1] >= min_count and entry[0] not in SPECIAL)
        ranked = sorted(frequent, key=_rank) if n_words is None else heapq.nsmallest(n_words, frequent, key=_rank)
    words, word_counts = [word for word, _ in ranked], [count for _, count in ranked]
    return VocabularyCounts(words, word_counts, n_tokens, n_types, n_tokens - sum(word_counts))


def save_vocabulary(
    places: Sequence[str],
    output: Path,
    *,
    n_words: Optional[int] = 30000,
    min_count: int = 2,
    format: str = "auto",
    lang: Optional[str] = None,
    running_text: bool = False,
    max_entries: int = 5_000_000,
    force: bool = False,
    on_message: OnMessage = ignore_message,
    warn: OnMessage = ignore_message,
) -> Tuple[Counts, VocabularyCounts]:
    """Count the words of a corpus and write the most frequent words atomically, one per line.

    places (Sequence[str]): See `find_shards`, also for `format`, `lang` and `running_text`.
    n_words (Optional[int]), min_count (int), max_entries (int): See `count_vocabulary`.
    on_message (OnMessage): Called with a message on files that are not read.
    warn (OnMessage): Called with a warning if the text looks like raw text, or if no token is `<UNK>`.
    RAISES (ValueError): EL101 for a corpus without sentences; see `find_shards`, and `check_output_file` for an output
        that exists, also with `force` if it is a text of the corpus.
    """
    _check_output(output, places, force=force)
    shards = find_shards(
        places, lang=lang, format=format, running_text=running_text, on_message=on_message, output=output
    )
    output.parent.mkdir(parents=True, exist_ok=True)
    counts, check = Counts(), PunctuationCheck()
    with tqdm(disable=hides_progress(), unit="tok", unit_scale=True) as progress:

        def sentences() -> Iterator[List[str]]:
            for tokens in check.watch(read_shards(shards, counts)):
                yield tokens
                progress.update(len(tokens))

        vocabulary = count_vocabulary(
            sentences(), n_words=n_words, min_count=min_count, max_entries=max_entries, folder=output.parent
        )
    if not counts.n_sentences:
        raise ValueError(Errors.EL101.format(source=", ".join(map(str, places))))
    warn_of_raw_text(check, places, lang, warn)
    if not vocabulary.n_unknown:
        warn(Warnings.WL102)
    with atomic_file(output) as temporary:
        write_vocabulary(temporary, vocabulary.vocabulary())
    return counts, vocabulary


def _check_output(output: Path, places: Sequence[str], *, force: bool) -> None:
    """An earlier vocabulary in a folder of texts is left out, and replaced; any other file there is a text."""
    sources: List[AnyPath] = []
    for place in places if output.exists() else ():
        if place.startswith(DATASET_PREFIX):
            sources.append(place.removeprefix(DATASET_PREFIX).split(":")[0])
        elif not is_vocabulary(output) or to_path(place).is_file():
            sources += [source.name for source in find_sources(place)]
    check_output_file(output, force=force, sources=sources)


def _iter_counts(counts: "Counter[str]", table: Optional[sqlite3.Connection]) -> Iterable[Entry]:
    if table is None:
        return counts.items()
    rows = table.execute("SELECT word, n FROM counts")
    return ((word.decode("utf8", "surrogatepass"), count) for word, count in rows)


def _make_table(path: Path) -> sqlite3.Connection:
    table = sqlite3.connect(path, isolation_level=None)
    table.execute("PRAGMA journal_mode = OFF")
    table.execute("PRAGMA synchronous = OFF")
    # Bytes, since words may have unpaired surrogates.
    table.execute("CREATE TABLE counts (word BLOB PRIMARY KEY, n INTEGER) WITHOUT ROWID")
    return table


def _move_counts(counts: "Counter[str]", table: sqlite3.Connection) -> None:
    """Add counts to the table and clear them; in the order of the table, so that each of its pages is written once."""
    rows = ((word.encode("utf8", "surrogatepass"), count) for word, count in sorted(counts.items()))
    try:
        table.execute("BEGIN")
        table.executemany("INSERT INTO counts VALUES (?, ?) ON CONFLICT (word) DO UPDATE SET n = n + excluded.n", rows)
        table.execute("COMMIT")
    except sqlite3.Error as error:
        raise OSError(f"The counts of words cannot be written to the disk: {error}. Free disk space.") from error
    counts.clear()


def _rank(entry: Entry) -> Tuple[int, str]:
    return -entry[1], entry[0]


def choose_vocabulary(
    init: Optional[BiLM], paths: PathsConfig, *, is_new_head: bool, warn: OnMessage = ignore_message
) -> Optional[Vocabulary]:
    """The vocabulary of the file or of the biLM that training starts from; None if the words must be counted.

    Rows of a word embedding and of a softmax belong to words, so a biLM that keeps them keeps its vocabulary.

    is_new_head (bool): Whether the softmax of that biLM is replaced.
    warn (OnMessage): Called with a warning about a file in another order.
    RAISES (ValueError): For a vocabulary file that is missing, damaged or does not fit the biLM.
    """
    vocabulary = read_vocabulary(File(to_path(paths.vocab)), is_needed=True) if paths.vocab else None
    n_rows = _n_rows(init, is_new_head)
    if init is None or n_rows is None:
        if vocabulary is not None:
            _check_words(vocabulary, str(paths.vocab), warn)
        return vocabulary
    problem = ""
    if init.vocabulary is None and (vocabulary is None or len(vocabulary) != n_rows):
        described = "no vocabulary is given" if vocabulary is None else f"'{paths.vocab}' has {len(vocabulary):,} words"
        problem = (
            f"has {n_rows} rows in its word embedding or softmax, but no vocabulary for them; {described}. Set "
            "paths.vocab to the vocabulary it was trained with, one word per line in the order of the rows."
        )
    elif init.vocabulary is not None and vocabulary is not None and vocabulary.words != init.vocabulary.words:
        problem = _describe_other_words(vocabulary.words, init.vocabulary.words, init.config.n_words is not None)
    if problem:
        raise ValueError(f"The biLM '{paths.init}' {problem}")
    return init.vocabulary or vocabulary


def _describe_other_words(words: Sequence[str], known: Sequence[str], is_word_input: bool) -> str:
    n_different = len(set(words) ^ set(known))
    different = f"{n_different} words that differ from them" if n_different else "another order"
    problem = f"has {len(known)} words, but the vocabulary in paths.vocab has {different}: "
    if is_word_input:
        return problem + (
            "its word embedding has one row for each of its own words. Remove paths.vocab. Only a biLM with character "
            "input can be trained with another vocabulary."
        )
    return problem + (
        "its softmax cannot predict others. Remove paths.vocab, or set vocabulary.new_head = true to train a new "
        "softmax."
    )


def _n_rows(init: Optional[BiLM], is_new_head: bool) -> Optional[int]:
    """Rows of the word embedding or softmax that training keeps; None without such rows."""
    if init is None:
        return None
    if init.config.n_words is not None:
        return init.config.n_words
    return None if init.head is None or is_new_head else init.head.n_words


def _check_words(vocabulary: Vocabulary, path: str, warn: OnMessage) -> None:
    """ValueError for blank lines of a vocabulary for a new softmax; warn if it is not in the order of `elmo vocab`."""
    blank = [str(line) for line, word in enumerate(vocabulary.words, start=1) if not word.strip()]
    if blank:
        raise ValueError(
            f"The vocabulary '{path}' has {len(blank)} blank line(s): {', '.join(blank[:MAX_NAMED])}. Tokens are never "
            "blank, so the rows of these lines would not be trained. Remove the lines."
        )
    if tuple(vocabulary.words[: len(SPECIAL)]) != SPECIAL:
        first, expected = ", ".join(vocabulary.words[: len(SPECIAL)]), ", ".join(SPECIAL)
        warn(
            f"The vocabulary '{path}' starts with {first}; by convention it starts with {expected}, then words in "
            "order of descending frequency, which the sampled and the adaptive softmax rely on. `elmo vocab` creates "
            "a vocabulary in this order."
        )
