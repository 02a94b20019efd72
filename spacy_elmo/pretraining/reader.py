"""The text of a run as the arrays of its updates, with a position that can be saved and restored; read in this process,
or ahead of the training in a process of its own.
"""

import atexit
import multiprocessing
import os
import pickle
import queue
import signal
import threading
import warnings
import weakref
from collections import deque
from multiprocessing.connection import Connection
from typing import Any, Deque, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
from numpy.typing import NDArray

from ..bilm.config import BiLMConfig
from ..corpora.files import Counts
from ..inference.chunks import PreparedChunk, make_word_table, prepare_chunk
from ..text.lanes import SentenceLanes, WholeSentenceLanes
from ..text.words import Vocabulary, WordTable
from .config import PretrainConfig
from .data import BlockStream

MAX_WORDS = 200_000  # distinct words in the table; above that, words that are in no lane are removed
N_AHEAD = 4  # updates that the process reads ahead; 3 MB each with 1,024 lanes of 32 steps
POLL_S = 5.0  # seconds after which the process looks whether the run still exists

Arrays = Dict[str, NDArray[np.int64]]


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
        words = [self.words[number] for number in kept]
        return lanes.state_dict(), {"words": words, "stream": self.stream}


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
        self.lanes = self._make_lanes()

    def read(self) -> Batch:
        """RETURNS (Batch): The text of the next update."""
        if len(self.table) > MAX_WORDS:
            self.lanes.renumber(self.table.keep(self.lanes.held_numbers()))
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
        self.stream.load_state_dict(record["stream"])
        self.table.keep(np.zeros(0, dtype="int64"))
        self.table.numbers_of(record["words"])
        self.lanes = self._make_lanes()
        self.lanes.load_state_dict(arrays)

    def close(self) -> None:
        """Do nothing: there is no process."""

    def _make_lanes(self) -> SentenceLanes:
        """An encoder without state reads whole sentences only."""
        kind = SentenceLanes if self.network.has_state else WholeSentenceLanes
        blocks = ([self.table.numbers_of(words) for words in block] for block in self.stream)
        return kind(blocks, self.config.batch_size)


class ReadAhead:
    """Has another reader read up to `N_AHEAD` updates ahead in a forked process, which computes with NumPy only.
    Batches, errors and states are those of the other reader. The process is started by the first `read` and ends with
    `close`, with this object, or with this process.

    reader (TextReader): Read in the other process; here it has the position of the last `load_state_dict` or `close`.
    """

    def __init__(self, reader: TextReader) -> None:
        self.reader = reader
        self._received: Deque[Any] = deque()
        self._connection: Optional[Connection] = None
        self._process: Any = None
        self._n_read = 0

    @staticmethod
    def is_possible() -> bool:
        """RETURNS (bool): Whether processes can be forked here."""
        return "fork" in multiprocessing.get_all_start_methods()

    def read(self) -> Batch:
        """See `TextReader.read`.
        RAISES (Exception): The error of the reader, or a RuntimeError if its process was killed.
        """
        if self._connection is None:
            self._start()
        batch = self._received.popleft() if self._received else self._receive()
        if isinstance(batch, BaseException):
            self._stop()
            raise batch
        self._n_read += 1
        self._request("read")
        self.reader.stream.counts, self.reader.stream.epoch = batch.counts, batch.epoch  # for reports
        return batch  # type: ignore[no-any-return]  # unpickled

    def state_dict(self) -> Tuple[Arrays, Dict[str, Any]]:
        """RETURNS (Tuple[Arrays, Dict[str, Any]]): The state after the last batch that `read` returned."""
        if self._connection is None:
            return self.reader.state_dict()
        self._request(self._n_read)
        while not isinstance(answer := self._receive(), tuple) or isinstance(answer, Batch):
            self._received.append(answer)
            if isinstance(answer, _Killed):
                raise answer
        return answer

    def load_state_dict(self, arrays: Arrays, record: Dict[str, Any]) -> None:
        """arrays (Arrays), record (Dict[str, Any]): From `state_dict`."""
        self._stop()
        self.reader.load_state_dict(arrays, record)

    def close(self) -> None:
        """End the process. Another `read` would start one that continues at the same position."""
        if self._connection is None:
            return
        try:
            state = self.state_dict()
        except _Killed:
            self._stop()
            return
        self.load_state_dict(*state)

    def _start(self) -> None:
        context: Any = multiprocessing.get_context("fork")
        (requests, self._connection), (received, answers) = context.Pipe(duplex=True), context.Pipe(duplex=False)
        # One pipe for requests, one for answers: the ends of this process are closed in the other one.
        self._answers = received
        arguments = (self.reader, requests, answers, (self._connection, received), os.getpid())
        self._process = context.Process(target=_serve, args=arguments, name="spacy_elmo text", daemon=True)
        with warnings.catch_warnings():
            # Threads of torch do not exist in the other process, and none of them is needed there.
            warnings.filterwarnings("ignore", message=".*multi-threaded.*fork", category=DeprecationWarning)
            self._process.start()
        requests.close(), answers.close()
        self._finalizer = weakref.finalize(self, _end, self._process, self._connection, received)
        atexit.register(self._finalizer)  # before multiprocessing waits for a process that ignores its signal
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
        try:
            return pickle.loads(self._answers.recv_bytes())
        except (EOFError, OSError):
            self._process.join(POLL_S)
            return _Killed(
                f"The process that reads the text ended with exit code {self._process.exitcode}; -9 means that it was "
                "killed, most often for want of memory. Set the environment variable SPACY_ELMO_READ_AHEAD to 0 to "
                "read in the process that trains"
            )

    def _stop(self) -> None:
        if self._connection is not None:
            atexit.unregister(self._finalizer)
            self._finalizer()
            self._connection = None
            self._received.clear()


class _Killed(RuntimeError):
    """The process of a `ReadAhead` does not exist any more."""


def _end(process: Any, *connections: Connection) -> None:
    """End a process of `_serve`, which has nothing to save."""
    for connection in connections:
        connection.close()
    process.kill()
    process.join()


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
