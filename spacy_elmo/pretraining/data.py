"""Text for training: the order of its blocks, and the arrays of each update. Held-out sentences are selected here, too.

The position in the text is the number of updates: blocks are assigned to lanes again when a run is resumed.
"""

import random
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence

import numpy as np
from numpy.typing import NDArray

from ..bilm.config import BiLMConfig
from ..corpora.lines import Counts
from ..corpora.shards import Shard
from ..errors import Errors
from ..text.lanes import Chunk, SentenceBlock, SentenceLanes, WholeSentenceLanes
from ..text.words import Ids, SpelledWords, Vocabulary
from .run_config import PretrainConfig
from .stored_text import StoredText, name_shards, read_sentences

Sentences = List[List[str]]


def order_blocks(
    n_sentences: Sequence[int], *, block_sentences: int, seed: int, shuffle_blocks: int = 0
) -> Iterator[SentenceBlock]:
    """The order of the blocks of consecutive sentences, without end. Each pass yields every sentence once; the last
    block of a file may be shorter.

    Blocks are shuffled in a buffer: each draw takes one at random, and the next one of the text replaces it, so that a
    block comes at most `shuffle_blocks` positions early. The order of the files is shuffled in each pass.

    n_sentences (Sequence[int]): Sentences of each file.
    shuffle_blocks (int): Size of the shuffle buffer; 0 keeps the order of the text.
    """
    ends = np.cumsum(n_sentences).tolist()
    generator = random.Random(seed)
    while True:
        order = list(range(len(ends)))
        if shuffle_blocks:
            generator.shuffle(order)
        blocks = chain.from_iterable(
            _sentence_blocks(ends[i] - n_sentences[i], ends[i], block_sentences) for i in order
        )
        if not shuffle_blocks:
            yield from blocks
            continue
        buffer = list(islice(blocks, shuffle_blocks))
        while buffer:
            i = generator.randrange(len(buffer))
            buffer[i], buffer[-1] = buffer[-1], buffer[i]
            yield buffer.pop()
            buffer += islice(blocks, 1)


def _sentence_blocks(start: int, end: int, size: int) -> Iterator[SentenceBlock]:
    return zip(range(start, end, size), chain(range(start + size, end, size), [end]))


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
    counts = Counts() if counts is None else counts
    sentences = [tokens for shard in shards for tokens in read_sentences(shard, max_sentence_tokens, counts)]
    if not sentences:
        raise ValueError(Errors.EL101.format(source=name_shards(shards)))
    n_all = len(sentences)
    return [sentences[i * n_all // n_sentences] for i in range(n_sentences)] if n_sentences < n_all else sentences


@dataclass(frozen=True)
class PreparedChunk:
    """The arrays of a chunk that a network needs. Each distinct word is there once, sorted by length and then by first
    occurrence, so that results do not depend on the numbers of words.

    words (NDArray): Shape (U, C) character ids, or (U,) vocabulary ids.
    lengths (List[int]): Number of character ids of each word without padding.
    places (Ids): Shape (d, S, B), the word of each input.
    targets (Ids): Shape (d * predictions,), vocabulary ids, without padding.
    begins (NDArray), positions (Optional[Ids]), counted (Optional[NDArray]), n_predictions (int): See `Chunk`; of d
        directions.
    """

    words: NDArray[Any]
    lengths: List[int]
    places: Ids
    targets: Ids
    begins: NDArray[np.bool_]
    positions: Optional[Ids]
    counted: Optional[NDArray[np.bool_]]
    n_predictions: int


def prepare_chunk(words: SpelledWords, chunk: Chunk, n_directions: int, *, with_characters: bool) -> PreparedChunk:
    """The arrays of a chunk."""
    inputs = chunk.inputs[:n_directions].reshape(-1)
    # Scatters over all words are several times as fast as `unique`, which sorts.
    places, index = np.empty(len(words), dtype="int64"), np.arange(len(inputs))
    places[inputs[::-1]] = index[::-1]  # the first occurrence of each word; other rows are not read
    word_numbers = inputs[places[inputs] == index]
    lengths = words.lengths(word_numbers)
    order = np.argsort(lengths.astype("int16"), kind="stable")  # of 16 bits: a radix sort
    word_numbers = word_numbers[order]
    places[word_numbers] = np.arange(len(word_numbers))
    return PreparedChunk(
        words=words.characters(word_numbers) if with_characters else words.targets(word_numbers),
        lengths=lengths[order].tolist(),
        places=places[inputs].reshape(chunk.inputs[:n_directions].shape),
        targets=words.targets(chunk.counted_targets(n_directions)).reshape(-1),
        begins=chunk.begins,
        positions=None if chunk.positions is None else chunk.positions[:n_directions],
        counted=chunk.counted,
        n_predictions=chunk.n_predictions,
    )


class TrainingBatch(NamedTuple):
    """The text of one update.

    chunks (List[PreparedChunk]): The lanes of this rank.
    counts (Counts): Sentences and tokens that all ranks have read up to here; other counts of the whole text.
    epoch (int): Complete passes through the text.
    """

    chunks: List[PreparedChunk]
    counts: Counts
    epoch: int


class LaneReader:
    """Reads a stored text into lanes.

    network (BiLMConfig): Selects character ids or word ids, and the kind of lanes.
    """

    def __init__(
        self, text: StoredText, vocabulary: Vocabulary, network: BiLMConfig, config: PretrainConfig, own_lanes: slice
    ) -> None:
        self.text, self.network, self.config, self.own_lanes = text, network, config, own_lanes
        characters = network.char_cnn
        self.words = text.spelled(vocabulary, 50 if characters is None else characters.max_characters)
        self._n_sentences: List[int] = [source["n_sentences"] for source in text.sources]
        self._n_blocks = sum(-(-n // config.block_sentences) for n in self._n_sentences)

    def seek(self, n_updates: int) -> TrainingBatch:
        """Go to the position after so many updates, which takes a microsecond per block.

        RETURNS (TrainingBatch): Without chunks: what was read up to there.
        """
        config = self.config
        blocks = order_blocks(
            self._n_sentences,
            block_sentences=config.block_sentences,
            seed=config.seed,
            shuffle_blocks=config.shuffle_blocks,
        )
        # An encoder without state reads whole sentences only.
        kind = SentenceLanes if self.network.has_state else WholeSentenceLanes
        self.lanes = kind(self.text.text, blocks, config.batch_size, self.own_lanes)
        self.lanes.skip(n_updates * config.accumulate, config.unroll_steps)
        return self._counted([])

    def read(self) -> TrainingBatch:
        """RETURNS (TrainingBatch): The text of the next update."""
        chunks: List[PreparedChunk] = []
        for _ in range(self.config.accumulate):
            chunk = self.lanes.next_chunk(self.config.unroll_steps)
            if chunk is not None:  # always, since the text is repeated
                has_characters, d = self.network.char_cnn is not None, self.network.n_directions
                chunks.append(prepare_chunk(self.words, chunk, d, with_characters=has_characters))
        return self._counted(chunks)

    def _counted(self, chunks: List[PreparedChunk]) -> TrainingBatch:
        lanes = self.lanes
        epoch = max(0, lanes.n_blocks - 1) // self._n_blocks
        n_tokens = lanes.n_predictions - lanes.n_sentences
        counts = replace(self.text.counts, n_sentences=lanes.n_sentences, n_tokens=n_tokens)
        return TrainingBatch(chunks, counts, epoch)
