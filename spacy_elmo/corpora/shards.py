"""A corpus as an endless stream of blocks of tokenized sentences, whose position can be saved and restored."""

from collections import deque
from dataclasses import asdict, dataclass, fields
from itertools import chain
from pathlib import Path
from typing import Any, Deque, Dict, Iterable, Iterator, List, Mapping, Optional, Protocol, Sequence

from ..errors import Errors
from ..text.vocabulary import Vocabulary
from . import counting
from .lines import STDIN, decode, open_bytes, read_lines, skip_items
from .shuffle import Block, ShuffleBuffer

# The sentences of a line, paragraph, Doc or row of a data set; empty for an empty line.
Record = List[List[str]]


@dataclass
class Counts:
    """Counts of the text that was read.

    n_sentences (int): Sentences; a split sentence counts once per segment.
    n_tokens (int): Tokens.
    n_empty (int): Records without a token: lines, texts or Docs that were skipped.
    n_long (int): Long sentences that were split.
    n_undecodable (int): Invalid UTF-8 sequences that were replaced by U+FFFD.
    """

    n_sentences: int = 0
    n_tokens: int = 0
    n_empty: int = 0
    n_long: int = 0
    n_undecodable: int = 0

    def to_dict(self) -> Dict[str, int]:
        """RETURNS (Dict[str, int]): Plain JSON types, the inverse of `from_dict`."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, int]) -> "Counts":
        """RETURNS (Counts): The inverse of `to_dict`."""
        return cls(**{item.name: int(record.get(item.name, 0)) for item in fields(cls)})

    def add(self, other: "Counts") -> None:
        """other (Counts): Added to these counts."""
        for item in fields(self):
            setattr(self, item.name, getattr(self, item.name) + getattr(other, item.name))


class Shard(Protocol):
    """One file, or one split of a data set. Subclasses implement `read_records`.

    name (str): For reports, and to identify the corpus when a run is resumed.
    """

    name: str

    def read_records(self, counts: Counts, *, skip: int = 0) -> Iterator[Record]:
        """Stream the records.

        counts (Counts): Empty records and invalid UTF-8 are added to it, when the record is yielded.
        skip (int): Number of records to skip, without tokenizing and counting them.
        YIELDS (Record): The sentences of each record, empty for an empty one.
        RAISES (ValueError): EL109 if there are fewer records than `skip`.
        """
        ...

    def read(self, counts: Counts) -> Iterator[List[str]]:
        """counts (Counts): Empty records and invalid UTF-8 are added to it.
        RETURNS (Iterator[List[str]]): The tokens of each sentence, from the start; none is empty.
        """
        return chain.from_iterable(self.read_records(counts))


class TextShard(Shard):
    """A text file with one tokenized sentence per line, tokens separated by any Unicode white space.

    path (Path): Plain, .gz, .xz or .zst.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name if path != STDIN else "stdin"

    def read_records(self, counts: Counts, *, skip: int = 0) -> Iterator[Record]:
        """See `Shard.read_records`; a record is a line."""
        with open_bytes(self.path) as file:
            for line in skip_items(read_lines(file), skip, name=self.name):
                text, n_replaced = decode(line)
                tokens = text.split()
                counts.n_undecodable += n_replaced
                if tokens:
                    yield [tokens]
                else:
                    counts.n_empty += 1
                    yield []


class BlockStream:
    """Streams blocks of consecutive sentences of one shard; the last block of a shard may be shorter.

    Each pass over the corpus yields every sentence once. Memory holds the shuffle buffer and one record.

    shards (Sequence[Shard]): The corpus.
    block_sentences (int): Sentences per block.
    seed (int): Seed of the shuffling.
    shuffle_blocks (int): Size of the shuffle buffer in blocks; 0 keeps the order of a shard.
    shuffle_shards (bool): Shuffle the order of the shards in each pass.
    repeat (bool): Repeat the corpus without end.
    max_sentence_tokens (int): Longer sentences are split at this length.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        *,
        block_sentences: int,
        seed: int,
        shuffle_blocks: int = 0,
        shuffle_shards: bool = False,
        repeat: bool = True,
        max_sentence_tokens: int = 1000,
    ) -> None:
        self.shards = list(shards)
        self.counts = Counts()
        self.epoch = 0
        self.repeat = repeat
        self.max_sentence_tokens = max_sentence_tokens
        self._layout = {
            "shards": [shard.name for shard in self.shards],
            "block_sentences": block_sentences,
            "shuffle_blocks": shuffle_blocks,
            "shuffle_shards": shuffle_shards,
            "max_sentence_tokens": max_sentence_tokens,
        }
        self._block_sentences = block_sentences
        self._shuffle_shards = shuffle_shards
        self._buffer = ShuffleBuffer(shuffle_blocks, seed=seed)
        self._waiting: Deque[List[str]] = deque()  # sentences of records already read, not yet in a block
        self._records: Optional[Iterator[Record]] = None  # of the current shard
        self._begin_pass()

    def __iter__(self) -> "BlockStream":
        return self

    def __next__(self) -> Block:
        """RETURNS (Block): The tokens of each sentence of a block.
        RAISES (ValueError): EL101 if a whole pass finds no sentence.
        """
        self._fill_buffer()
        block = self._buffer.draw()
        while block is None:
            self._end_pass()
            self._fill_buffer()
            block = self._buffer.draw()
        return block

    def state_dict(self) -> Dict[str, Any]:
        """RETURNS (Dict[str, Any]): Plain JSON types. Another stream over the same shards can load it."""
        return {
            "layout": dict(self._layout),
            "epoch": self.epoch,
            "order": list(self._order),
            "n_shards": self._n_shards,
            "n_records": self._n_records,
            "waiting": list(self._waiting),
            "is_empty": self._is_empty,
            "counts": self.counts.to_dict(),
            "buffer": self._buffer.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at the position of another stream; the current file is skipped line by line up to there.

        state (Mapping[str, Any]): From `state_dict`.
        RAISES (ValueError): EL107 if that stream has other shards or another layout.
        """
        different = [name for name, value in self._layout.items() if state["layout"].get(name) != value]
        if different:
            raise ValueError(Errors.EL107.format(different=_describe(different, state["layout"], self._layout)))
        self.epoch, self._order, self._n_shards = state["epoch"], list(state["order"]), state["n_shards"]
        self._n_records, self._is_empty = state["n_records"], state["is_empty"]
        self._waiting = deque(list(sentence) for sentence in state["waiting"])
        self.counts = Counts.from_dict(state["counts"])
        self._buffer.load_state_dict(state["buffer"])
        self._records = None

    def _begin_pass(self) -> None:
        n = len(self.shards)
        self._order = self._buffer.permutation(n) if self._shuffle_shards else list(range(n))
        self._n_shards = self._n_records = 0  # complete shards, in the order; records read of the current shard
        self._is_empty = True

    def _end_pass(self) -> None:
        if self._is_empty:
            raise ValueError(Errors.EL101.format(source=_name_some(self.shards)))
        if not self.repeat:
            raise StopIteration
        self.epoch += 1
        self._begin_pass()

    def _fill_buffer(self) -> None:
        while not self._buffer.is_full:
            block = self._read_block()
            if not block:
                return
            self._buffer.add(block)

    def _read_block(self) -> Block:
        """The next sentences of the current shard, or of the next one; empty at the end of a pass."""
        while self._n_shards < len(self._order):
            block: Block = []
            while len(block) < self._block_sentences and (self._waiting or self._read_record()):
                block.append(self._waiting.popleft())
            if block:
                return block
            self._n_shards, self._n_records, self._records = self._n_shards + 1, 0, None
        return []

    def _read_record(self) -> bool:
        """Queue the sentences of the next record that has any; False at the end of the shard."""
        if self._records is None:
            shard = self.shards[self._order[self._n_shards]]
            self._records = shard.read_records(self.counts, skip=self._n_records)
        counts, longest = self.counts, self.max_sentence_tokens
        for record in self._records:
            self._n_records += 1
            for tokens in record:
                if len(tokens) <= longest:
                    counts.n_tokens += len(tokens)
                    counts.n_sentences += 1
                    self._waiting.append(tokens)
                else:
                    self._split_sentence(tokens)
            if record:
                self._is_empty = False
                return True
        return False

    def _split_sentence(self, tokens: List[str]) -> None:
        n_tokens, longest = len(tokens), self.max_sentence_tokens
        self.counts.n_tokens += n_tokens
        segments = [tokens[i : i + longest] for i in range(0, n_tokens, longest)]
        self.counts.n_sentences += len(segments)
        self.counts.n_long += 1
        self._waiting.extend(segments)


def read_shards(shards: Iterable[Shard], counts: Optional[Counts] = None) -> Iterator[List[str]]:
    """Stream all sentences of a corpus once, in order and without splitting.

    shards (Iterable[Shard]): The corpus.
    counts (Optional[Counts]): Counts of the text are added to it.
    YIELDS (List[str]): The tokens of one sentence.
    """
    counts = Counts() if counts is None else counts
    for shard in shards:
        for tokens in shard.read(counts):
            counts.n_sentences += 1
            counts.n_tokens += len(tokens)
            yield tokens


def count_vocabulary(sentences: Iterable[Sequence[str]], n_words: int) -> Vocabulary:
    """Create a vocabulary of the most frequent words, in order of descending frequency, ties by spelling.

    sentences (Iterable[Sequence[str]]): The training text.
    n_words (int): Number of words to keep, besides `<S>`, `</S>` and `<UNK>`.
    RETURNS (Vocabulary): `<S>`, `</S>`, `<UNK>`, then the words.
    """
    return counting.count_vocabulary(sentences, n_words=n_words).vocabulary()


def _name_some(shards: Sequence[Shard]) -> str:
    names = [shard.name for shard in shards[:3]]
    return ", ".join(names) + (f" and {len(shards) - 3} more" if len(shards) > 3 else "") if names else "no files"


def _describe(names: Sequence[str], before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    return "; ".join(f"{name} was {_short(before.get(name))}, is {_short(now[name])}" for name in names)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
