"""Text for training: an endless stream of blocks of sentences with a position that can be saved; held-out sentences."""

import itertools
import random
from collections import deque
from typing import Any, Deque, Dict, Iterator, List, Mapping, Optional, Sequence

from ..corpora.files import Counts
from ..corpora.shards import Shard, read_shards
from ..corpora.texts import Record
from ..errors import Errors

# The tokens of each sentence.
Sentences = List[List[str]]
Block = Sentences


class BlockStream:
    """Streams blocks of consecutive sentences of one shard; the last block of a shard may be shorter.

    Each pass over the corpus yields every sentence once. Blocks are shuffled in a buffer: each draw takes one at
    random, and the next block of the corpus replaces it, so that a block comes at most `shuffle_blocks` positions
    early. Memory holds the buffer and one record.

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
        self._buffer: List[Block] = []
        self._n_buffered = max(1, shuffle_blocks)
        self._random = random.Random(seed)
        self._waiting: Deque[List[str]] = deque()  # sentences of records already read, not yet in a block
        self._records: Optional[Iterator[Record]] = None  # of the current shard
        self._begin_pass()

    def __iter__(self) -> "BlockStream":
        return self

    def __next__(self) -> Block:
        """RETURNS (Block): The tokens of each sentence of a block.
        RAISES (ValueError): EL101 if a whole pass finds no sentence.
        """
        while not self._fill_buffer():
            self._end_pass()
        i = self._random.randrange(len(self._buffer))
        self._buffer[i], self._buffer[-1] = self._buffer[-1], self._buffer[i]
        return self._buffer.pop()

    def state_dict(self) -> Dict[str, Any]:
        """RETURNS (Dict[str, Any]): Plain JSON types. Another stream over the same shards can load it."""
        version, numbers, gauss = self._random.getstate()
        return {
            "layout": dict(self._layout),
            "epoch": self.epoch,
            "order": list(self._order),
            "n_shards": self._n_shards,
            "n_records": self._n_records,
            "waiting": list(self._waiting),
            "is_empty": self._is_empty,
            "counts": self.counts.to_dict(),
            "buffer": {"blocks": list(self._buffer), "random": [version, list(numbers), gauss]},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue at the position of another stream; the current file is skipped line by line up to there.

        RAISES (ValueError): If that stream has other shards or another layout.
        """
        different = [name for name, value in self._layout.items() if state["layout"].get(name) != value]
        if different:
            raise ValueError(
                "The position in the checkpoint belongs to another corpus or layout: "
                f"{_describe(different, state['layout'], self._layout)}. Resume with the corpus and the settings the "
                "run was started with, or start a new run."
            )
        self.epoch, self._order, self._n_shards = state["epoch"], list(state["order"]), state["n_shards"]
        self._n_records, self._is_empty = state["n_records"], state["is_empty"]
        self._waiting = deque(list(sentence) for sentence in state["waiting"])
        self.counts = Counts.from_dict(state["counts"])
        version, numbers, gauss = state["buffer"]["random"]
        self._random.setstate((version, tuple(numbers), gauss))
        self._buffer = [[list(sentence) for sentence in block] for block in state["buffer"]["blocks"]]
        self._records = None

    def _begin_pass(self) -> None:
        self._order = list(range(len(self.shards)))
        if self._shuffle_shards:
            self._random.shuffle(self._order)
        self._n_shards = self._n_records = 0  # complete shards, in the order; records read of the current shard
        self._is_empty = True

    def _end_pass(self) -> None:
        if self._is_empty:
            raise ValueError(Errors.EL101.format(source=_name_some(self.shards)))
        if not self.repeat:
            raise StopIteration
        self.epoch += 1
        self._begin_pass()

    def _fill_buffer(self) -> bool:
        """RETURNS (bool): Whether there is a block; False at the end of a pass."""
        while len(self._buffer) < self._n_buffered and (block := self._read_block()):
            self._buffer.append(block)
        return bool(self._buffer)

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


def read_held_out(
    shards: Sequence[Shard],
    n_sentences: int,
    *,
    max_sentence_tokens: int = 1000,
    counts: Optional[Counts] = None,
) -> Sentences:
    """Select evenly spaced sentences of the held-out text, split as in training; all if there are fewer.

    shards (Sequence[Shard]): The text, small enough to fit in memory.
    counts (Optional[Counts]): Counts of the whole text are added to it.
    RAISES (ValueError): EL101 for a text without sentences.
    """
    stream = BlockStream(shards, block_sentences=1, seed=0, repeat=False, max_sentence_tokens=max_sentence_tokens)
    stream.counts = Counts() if counts is None else counts
    sentences = list(itertools.chain.from_iterable(stream))
    n_found = len(sentences)
    return [sentences[i * n_found // n_sentences] for i in range(n_sentences)] if n_sentences < n_found else sentences


def count_predictions(shards: Sequence[Shard], counts: Optional[Counts] = None) -> int:
    """Predictions per direction of one pass: tokens, and one boundary per sentence. None reads the corpus."""
    if counts is None:
        counts = Counts()
        for _ in read_shards(shards, counts):
            pass
    return counts.n_tokens + counts.n_sentences


def _name_some(shards: Sequence[Shard]) -> str:
    names = [shard.name for shard in shards[:3]]
    return ", ".join(names) + (f" and {len(shards) - 3} more" if len(shards) > 3 else "") if names else "no files"


def _describe(names: Sequence[str], before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    return "; ".join(f"{name} was {_short(before.get(name))}, is {_short(now[name])}" for name in names)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
