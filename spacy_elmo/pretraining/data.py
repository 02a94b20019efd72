"""Text for training: blocks of sentences, lanes, and the arrays of each update.

The stream of blocks is endless, and its position can be saved and restored, as can that of the reader, which runs in
this process or ahead of the training in a process of its own. Held-out sentences are selected here, too.
"""

import itertools
import multiprocessing
import os
import pickle
import queue
import random
import signal
import threading
import warnings
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.util import Finalize
from typing import Any, Callable, Deque, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from numpy.typing import NDArray

from ..bilm.config import BiLMConfig
from ..corpora.files import Counts, name_some
from ..corpora.shards import Shard, read_shards
from ..corpora.texts import Record
from ..errors import Errors
from ..inference.words import make_word_table
from ..text.lanes import Chunk, SentenceLanes, WholeSentenceLanes
from ..text.words import Ids, Vocabulary, WordTable
from ..util import shorten
from .config import PretrainConfig

MAX_VALUE = 100  # characters of a value in an error message
Sentence = Any  # its tokens, or the numbers of these, see `BlockStream`
Sentences = List[List[str]]
Block = List[Sentence]


class BlockStream:
    """Streams blocks of consecutive sentences of one shard; the last block of a shard may be shorter.

    Each pass over the corpus yields every sentence once. Blocks are shuffled in a buffer: each draw takes one at
    random, and the next block of the corpus replaces it, so that a block comes at most `shuffle_blocks` positions
    early. Memory holds the buffer and one record.

    Sentences are lists of tokens, or what `convert` makes of them when they are read, which a `TextReader` sets.

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
        self.convert: Callable[[List[str]], Sentence] = list
        self._waiting: Deque[Sentence] = deque()  # sentences of records already read, not yet in a block
        self._records: Optional[Iterator[Record]] = None  # of the current shard
        self._begin_pass()

    def __iter__(self) -> "BlockStream":
        return self

    def __next__(self) -> Block:
        """RETURNS (Block): The sentences of a block.
        RAISES (ValueError): EL101 if a whole pass finds no sentence.
        """
        while not self._fill_buffer():
            self._end_pass()
        i = self._random.randrange(len(self._buffer))
        self._buffer[i], self._buffer[-1] = self._buffer[-1], self._buffer[i]
        return self._buffer.pop()

    def state_dict(self) -> Dict[str, Any]:
        """RETURNS (Dict[str, Any]): Plain JSON types, and the sentences that are held. Another stream over the same
        shards can load it, with tokens as sentences.
        """
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
        changes = describe_changes(state["layout"], self._layout)
        if changes:
            raise ValueError(
                f"The position in the checkpoint belongs to another corpus or layout: {'; '.join(changes)}. Resume "
                "with the corpus and the settings the run was started with, or start a new run."
            )
        self.epoch, self._order, self._n_shards = state["epoch"], list(state["order"]), state["n_shards"]
        self._n_records, self._is_empty = state["n_records"], state["is_empty"]
        self._waiting = deque(map(self.convert, state["waiting"]))
        self.counts = Counts.from_dict(state["counts"])
        version, numbers, gauss = state["buffer"]["random"]
        self._random.setstate((version, tuple(numbers), gauss))
        self._buffer = [list(map(self.convert, block)) for block in state["buffer"]["blocks"]]
        self._records = None

    def map_sentences(self, function: Callable[[Sentence], Sentence]) -> None:
        """Replace each sentence that is held; states do not change."""
        self._waiting = deque(map(function, self._waiting))
        self._buffer = [list(map(function, block)) for block in self._buffer]

    def held_sentences(self) -> Iterator[Sentence]:
        """The sentences that are read and not yet returned."""
        return itertools.chain(self._waiting, *self._buffer)

    def _begin_pass(self) -> None:
        self._order = list(range(len(self.shards)))
        if self._shuffle_shards:
            self._random.shuffle(self._order)
        self._n_shards = self._n_records = 0  # complete shards, in the order; records read of the current shard
        self._is_empty = True

    def _end_pass(self) -> None:
        if self._is_empty:
            raise ValueError(Errors.EL101.format(source=name_shards(self.shards)))
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
                    self._waiting.append(self.convert(tokens))
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
        self._waiting.extend(map(self.convert, segments))


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


def name_shards(shards: Sequence[Shard]) -> str:
    """RETURNS (str): The first names and the number of others, for an error."""
    return name_some([shard.name for shard in shards]) or "no files"


def describe_changes(then: Mapping[str, Any], now: Mapping[str, Any], missing: Any = None) -> List[str]:
    """RETURNS (List[str]): Each setting that has another value now, for an error."""
    found = []
    for name in {**then, **now}:
        if then.get(name) != now.get(name):
            old, new = (shorten(str(record.get(name, missing)), MAX_VALUE) for record in (then, now))
            found.append(f"{name}: {old} then, {new} now")
    return found


MAX_WORDS = 200_000  # distinct words in the table; above that, words of text that was returned are removed
N_AHEAD = 4  # updates that the process reads ahead; 3 MB each with 1,024 lanes of 32 steps
POLL_S = 5.0  # seconds after which the process looks whether the run still exists

Arrays = Dict[str, NDArray[np.int64]]


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


def prepare_chunk(table: WordTable, chunk: Chunk, n_directions: int, *, with_characters: bool) -> PreparedChunk:
    """The arrays of a chunk whose words are in the table."""
    inputs = chunk.inputs[:n_directions].reshape(-1)
    # Scatters over the table are several times as fast as `unique`, which sorts.
    places, index = np.empty(len(table), dtype="int64"), np.arange(len(inputs))
    places[inputs[::-1]] = index[::-1]  # the first occurrence of each word; other rows are not read
    numbers = inputs[places[inputs] == index]
    lengths = table.lengths(numbers)
    order = np.argsort(lengths.astype("int16"), kind="stable")  # of 16 bits: a radix sort
    numbers = numbers[order]
    places[numbers] = np.arange(len(numbers))
    return PreparedChunk(
        words=table.characters(numbers) if with_characters else table.targets(numbers),
        lengths=lengths[order].tolist(),
        places=places[inputs].reshape(chunk.inputs[:n_directions].shape),
        targets=table.targets(chunk.counted_targets(n_directions)).reshape(-1),
        begins=chunk.begins,
        positions=None if chunk.positions is None else chunk.positions[:n_directions],
        counted=chunk.counted,
        n_predictions=chunk.n_predictions,
    )


class Batch(NamedTuple):
    """The text of one update.

    chunks (List[PreparedChunk]): This rank's lanes only; fewer than `accumulate` at the end of the text.
    counts (Counts): Of the text read up to here.
    epoch (int): Complete passes through the corpus.
    """

    chunks: List[PreparedChunk]
    counts: Counts
    epoch: int


class Position(NamedTuple):
    """The position of a reader. It shares arrays with the reader, which does not change them.

    words (List[str]): The words by number; those from `n_words` on were added later.
    stream (Dict[str, Any]): See `BlockStream.state_dict`, of sentences as numbers.
    """

    lanes: SentenceLanes
    words: List[str]
    n_words: int
    stream: Dict[str, Any]

    def state_dict(self) -> Tuple[Arrays, Dict[str, Any]]:
        """RETURNS (Tuple[Arrays, Dict[str, Any]]): Arrays of the lanes, and plain JSON types: the words in the lanes,
        and the state of the stream.
        """
        kept = np.union1d(self.lanes.held_numbers(), (WordTable.BEGIN, WordTable.END))
        new_numbers = np.zeros(self.n_words, dtype="int64")
        new_numbers[kept] = np.arange(len(kept))
        lanes = self.lanes.copy()
        lanes.renumber(new_numbers)
        buffer = self.stream["buffer"]
        blocks = [self._spell(block) for block in buffer["blocks"]]
        stream = {**self.stream, "waiting": self._spell(self.stream["waiting"]), "buffer": {**buffer, "blocks": blocks}}
        return lanes.state_dict(), {"words": self._spell([kept])[0], "stream": stream}

    def _spell(self, sentences: Sequence[Ids]) -> Sentences:
        return [[self.words[number] for number in numbers.tolist()] for numbers in sentences]


class TextReader:
    """Reads a stream into lanes.

    network (BiLMConfig): Selects character ids or word ids, and the kind of lanes.
    own_lanes (slice): The lanes of this rank.
    """

    def __init__(
        self,
        stream: BlockStream,
        vocabulary: Vocabulary,
        network: BiLMConfig,
        config: PretrainConfig,
        own_lanes: slice,
    ) -> None:
        self.stream, self.network, self.config, self.own_lanes = stream, network, config, own_lanes
        self.table = make_word_table(network, vocabulary)
        # Before the buffer of the stream: strings that were just read are in the cache of the processor.
        stream.convert = self.table.numbers_of
        self._max_words = MAX_WORDS
        self.lanes = self._make_lanes()

    def read(self) -> Batch:
        """RETURNS (Batch): The text of the next update."""
        if len(self.table) > self._max_words:
            self._forget_words()
        chunks: List[PreparedChunk] = []
        for _ in range(self.config.accumulate):
            chunk = self.lanes.next_chunk(self.config.unroll_steps)
            if chunk is not None:
                own, d = chunk.of_lanes(self.own_lanes), self.network.n_directions
                has_characters = self.network.char_cnn is not None
                chunks.append(prepare_chunk(self.table, own, d, with_characters=has_characters))
        return Batch(chunks, self.stream.counts, self.stream.epoch)

    def position(self) -> Position:
        """RETURNS (Position): The position after the batches read so far; takes a millisecond."""
        words = self.table.words_by_number
        return Position(self.lanes.copy(), words, len(words), self.stream.state_dict())

    def state_dict(self) -> Tuple[Arrays, Dict[str, Any]]:
        """RETURNS (Tuple[Arrays, Dict[str, Any]]): See `Position.state_dict`."""
        return self.position().state_dict()

    def load_state_dict(self, arrays: Arrays, record: Dict[str, Any]) -> None:
        """arrays (Arrays), record (Dict[str, Any]): From `state_dict`."""
        self.table.keep(np.zeros(0, dtype="int64"))
        self.table.numbers_of(record["words"])
        self.stream.load_state_dict(record["stream"])
        self.lanes = self._make_lanes()
        self.lanes.load_state_dict(arrays)

    def close(self) -> None:
        """Do nothing: there is no process."""

    def _forget_words(self) -> None:
        """Remove the words that neither the lanes nor the stream hold."""
        held = np.concatenate([self.lanes.held_numbers(), *self.stream.held_sentences()])
        new_numbers = self.table.keep(held)
        self.lanes.renumber(new_numbers)
        self.stream.map_sentences(lambda numbers: new_numbers[numbers])
        self._max_words = max(MAX_WORDS, 2 * len(self.table))  # a large buffer must not do this at each update

    def _make_lanes(self) -> SentenceLanes:
        """An encoder without state reads whole sentences only."""
        kind = SentenceLanes if self.network.has_state else WholeSentenceLanes
        return kind(self.stream, self.config.batch_size)


class ReadAhead:
    """Has another reader read up to `N_AHEAD` updates ahead in a forked process, which computes with NumPy only.
    Batches, errors and states are those of the other reader; after an error each call raises it again, until a state is
    loaded. The process is started by the first `read` and ends with `close`, with this object, or with this process.

    reader (TextReader): Read in the other process; here it has the position of the last `load_state_dict` or `close`.
    """

    def __init__(self, reader: TextReader) -> None:
        self.reader = reader
        self._received: Deque[Any] = deque()
        self._connection: Optional[Connection] = None
        self._process: Any = None
        self._error: Optional[BaseException] = None  # after which nothing is read
        self._n_read = 0

    @staticmethod
    def is_possible() -> bool:
        """RETURNS (bool): Whether processes can be forked here; a daemon must have none."""
        is_daemon = multiprocessing.current_process().daemon
        return "fork" in multiprocessing.get_all_start_methods() and not is_daemon

    def read(self) -> Batch:
        """See `TextReader.read`.
        RAISES (Exception): The error of the reader, or a RuntimeError if its process was killed.
        """
        if self._error is not None:
            raise self._error
        if self._connection is None:
            self._start()
        batch = self._received.popleft() if self._received else self._receive()
        if isinstance(batch, BaseException):
            self._stop()
            self._error = batch
            raise batch
        self._n_read += 1
        self._request("read")
        self.reader.stream.counts, self.reader.stream.epoch = batch.counts, batch.epoch  # for reports
        return batch  # type: ignore[no-any-return]  # unpickled

    def state_dict(self) -> Tuple[Arrays, Dict[str, Any]]:
        """RETURNS (Tuple[Arrays, Dict[str, Any]]): The state after the last batch that `read` returned."""
        if self._error is not None:
            raise self._error
        if self._connection is None:
            return self.reader.state_dict()
        self._request(self._n_read)
        while not isinstance(answer := self._receive(), tuple) or isinstance(answer, Batch):
            self._received.append(answer)
            if isinstance(answer, _KilledError):
                self._stop()
                self._error = answer
                raise answer
        return answer

    def load_state_dict(self, arrays: Arrays, record: Dict[str, Any]) -> None:
        """arrays (Arrays), record (Dict[str, Any]): From `state_dict`."""
        self._stop()
        self._error = None
        self.reader.load_state_dict(arrays, record)

    def close(self) -> None:
        """End the process. Another `read` would start one that continues at the same position."""
        if self._connection is not None:
            with suppress(_KilledError):
                self.load_state_dict(*self.state_dict())

    def _start(self) -> None:
        context: Any = multiprocessing.get_context("fork")
        (requests, self._connection), (received, answers) = context.Pipe(duplex=True), context.Pipe(duplex=False)
        # One pipe for requests, one for answers: the ends of this process are closed in the other one.
        self._answers: queue.SimpleQueue[Optional[bytes]] = queue.SimpleQueue()
        arguments = (self.reader, requests, answers, (self._connection, received), os.getpid())
        self._process = context.Process(target=_serve, args=arguments, name="spacy_elmo text", daemon=True)
        with warnings.catch_warnings():
            # Threads of torch do not exist in the other process, and none of them is needed there.
            warnings.filterwarnings("ignore", message=".*multi-threaded.*fork", category=DeprecationWarning)
            self._process.start()
        requests.close(), answers.close()
        # In a thread, since an interrupt within an answer would leave the rest of it in the pipe.
        collector = threading.Thread(target=_collect, args=(received, self._answers), daemon=True)
        collector.start()
        ended = self._process, collector, self._connection, received
        # At exit before multiprocessing waits for a process that ignores its signal, and not in a forked process.
        self._finalizer = Finalize(self, _end, ended, exitpriority=10)
        self._n_read = 0
        for _ in range(N_AHEAD):
            self._request("read")

    def _request(self, request: Any) -> None:
        assert self._connection is not None
        try:
            self._connection.send(request)
        except OSError:
            pass  # the process is dead, which the next answer tells

    def _receive(self) -> Any:
        answer = self._answers.get()
        if answer is not None:
            return pickle.loads(answer)
        self._process.join(POLL_S)
        return _KilledError(
            f"The process that reads the text ended with exit code {self._process.exitcode}; -9 means that it was "
            "killed, most often for want of memory. Set the environment variable SPACY_ELMO_READ_AHEAD to 0 to "
            "read in the process that trains"
        )

    def _stop(self) -> None:
        if self._connection is not None:
            self._finalizer()
            self._connection = None
            self._received.clear()


class _KilledError(RuntimeError):
    """The process of a `ReadAhead` does not exist any more."""


def _end(process: Any, collector: threading.Thread, *connections: Connection) -> None:
    """End a process of `_serve`, which has nothing to save."""
    process.kill()
    process.join()
    collector.join(POLL_S)  # at the end of the pipe
    for connection in connections:
        connection.close()


def _collect(connection: Connection, answers: "queue.SimpleQueue[Optional[bytes]]") -> None:
    """Queue all answers, and None at their end."""
    try:
        while True:
            answers.put(connection.recv_bytes())
    except (EOFError, OSError):
        pass
    finally:  # also when there is no memory for an answer: somebody waits
        answers.put(None)


def _serve(
    reader: TextReader, requests: Connection, answers: Connection, others: Tuple[Connection, ...], parent: int
) -> None:
    """Answer requests, in order: "read" for a batch, or the number of batches after which the state is wanted."""
    for number in (signal.SIGINT, signal.SIGTERM):  # they reach both processes: the run decides when to stop
        signal.signal(number, signal.SIG_IGN)
    for connection in others:
        connection.close()
    outgoing: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_send, args=(answers, outgoing), daemon=True).start()
    positions: Deque[Position] = deque([reader.position()], maxlen=N_AHEAD + 2)  # the last one after `n_read` batches
    n_read = 0
    try:
        while True:
            while not requests.poll(POLL_S):
                if os.getppid() != parent:
                    return
            request = requests.recv()
            answer: Any
            if request == "read":
                answer = _read(reader)
                n_read += 1
                positions.append(reader.position())
            else:
                answer = positions[request - n_read - 1].state_dict()
            outgoing.put(pickle.dumps(answer, protocol=5))
    except (EOFError, OSError):  # the run is gone
        return


def _read(reader: TextReader) -> Any:
    """RETURNS (Union[Batch, Exception]): A batch, or the error instead, one that can be sent."""
    try:
        return reader.read()
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return RuntimeError(f"{type(error).__name__}: {error}")
        return error


def _send(answers: Connection, outgoing: queue.SimpleQueue[bytes]) -> None:
    try:
        while True:
            answers.send_bytes(outgoing.get())
    except OSError:  # the run is gone
        return
