"""Compute the layers of sequences in slices of bounded size: distinct words, a lane plan, the initial state."""

import warnings
from collections import defaultdict
from itertools import chain, count
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..bilm.config import BiLMConfig
from ..bilm.layers import find_hooked
from ..bilm.network import BiLSTMStack
from ..bilm.state import State
from ..bilm.transformer import check_lengths
from ..errors import Errors, Warnings
from ..text.lanes import Chunk, SentenceLanes, plan_lanes
from ..text.words import CharacterCodec, Ids, Utf8Codec, WordTable, ranges
from ..util import shorten
from .limits import GPU_MAX_LANES, MAX_LANES
from .runner import Runner, make_runner
from .runtime import HeapTrimmer, Workspace, WorkspacePool, register_fork_handlers
from .word_encoder import BOUNDARIES, WordEncoder

BOS_NUMBER, EOS_NUMBER = 0, 1  # of the boundaries in every slice
MIN_COLUMNS = 4  # a word, and begin, content and end of its characters
# The steady state: maximum number of empty sentences, sentences between two checks of convergence, and the largest
# change from check to check of a state that has converged.
STEADY_SENTENCES, STEADY_CHECK_EVERY, STEADY_CHANGE = 50, 10, 1e-6


class SequenceBatch(NamedTuple):
    """Sequences to compute, empty ones among them.

    sequences (Sequence[Sequence[Any]]): Words of each sequence, without boundaries; with `vectors` rows of a table.
    lengths (List[int]): Words of each sequence.
    vectors (Optional[Tensor]): Shape (2 + U, P), vectors of the boundaries, then of the rows of the table. None: those
        of words are computed slice by slice.
    """

    sequences: Sequence[Sequence[Any]]
    lengths: List[int]
    vectors: Optional[Tensor] = None

    @classmethod
    def make(cls, sequences: Sequence[Sequence[Any]], vectors: Optional[Tensor] = None) -> "SequenceBatch":
        return cls(sequences, [len(sequence) for sequence in sequences], vectors)


class NumberedSequences(NamedTuple):
    """Sequences of a slice as word numbers, with the word vectors.

    vectors (Tensor): Shape (U, P), vectors of the distinct words, boundaries first.
    word_ids (List[List[int]]): Rows of `vectors` for each sequence, without boundaries.
    """

    vectors: Tensor
    word_ids: List[List[int]]

    def tokens(self, *, with_boundaries: bool) -> Ids:
        """The concatenation of all sequences, shape (N,)."""
        sequences = (
            ([BOS_NUMBER, *sequence, EOS_NUMBER] for sequence in self.word_ids) if with_boundaries else self.word_ids
        )
        return np.fromiter(chain.from_iterable(sequences), dtype="int64")

    def lengths(self, *, with_boundaries: bool) -> Ids:
        """The number of tokens of each sequence, shape (sequences,)."""
        return np.array([len(sequence) + 2 * with_boundaries for sequence in self.word_ids], dtype="int64")


class Slice(NamedTuple):
    """Layers of consecutive sequences.

    start (int), stop (int): The first sequence, and the one after the last.
    lengths (List[int]): Words of each sequence.
    rows (Tensor): Shape (L+1, n, D), valid until the next slice is requested or the iteration ends.
    has_boundaries (bool): Whether there are rows of BOS and EOS.
    end (State): The states after the sequences, one row each; with "carry" one row, after the last sequence. Empty with
        "reset" and "steady".
    """

    start: int
    stop: int
    lengths: List[int]
    rows: Tensor
    has_boundaries: bool
    end: State

    def inner(self) -> Tensor:
        """The rows without boundaries: a copy if there are any."""
        if not self.has_boundaries:
            return self.rows
        return self.rows[:, torch.from_numpy(inner_rows(self.lengths)).to(self.rows.device)]


class Encoder:
    """Computes layers with constant weights, and holds everything derived from them.

    words (WordEncoder): Layer 0, with the network.
    steady_state (Optional[State]): The steady state, one row, if known.
    """

    def __init__(self, words: WordEncoder, *, steady_state: Optional[State] = None) -> None:
        register_fork_handlers()
        self.words, self.network = words, words.network
        self.config, self.device = words.network.config, words.network.device
        self.known_steady_state = steady_state
        self._runner: Optional[Runner] = None
        self._after_boundary: Dict[str, State] = {}
        self._workspaces = WorkspacePool(self.device, 1)
        self._trimmer = HeapTrimmer()

    @property
    def runner(self) -> Runner:
        if self._runner is None:
            self._runner = make_runner(self.network)
        return self._runner

    @property
    def steady_state(self) -> State:
        """The state after repeated empty sentences `<S> </S>`, from zero until it converges, one row. Computed on first
        use. It is empty for an encoder without state.
        """
        if self.known_steady_state is None:
            self.known_steady_state = self._compute_steady_state()
        return self.known_steady_state

    def id_sequences(self, char_ids: Union[Tensor, NDArray[np.int64]], index: Sequence[Sequence[int]]) -> SequenceBatch:
        """Sequences as rows of character ids (U, C) of the codec: `index` has those of each sequence. Word vectors have
        gradients if these are enabled.

        RAISES (ValueError): EL017 for invalid ids, or if the biLM reads whole words.
        """
        ids = np.asarray(char_ids.cpu() if isinstance(char_ids, Tensor) else char_ids, dtype="int64")
        codec = self.words.codec
        problem = _id_problem(ids, [row for sequence in index for row in sequence], codec)
        if problem or codec is None:
            raise ValueError(Errors.EL017.format(problem=problem))
        rows = np.concatenate([codec.encode(self.words.boundaries, ids.shape[1])[0], ids])
        return SequenceBatch.make(index, self.words.encode_ids(rows, codec.lengths(rows)))

    def initial_state(self, state: str) -> State:
        """RETURNS (State): Initial state of a sequence under a policy, one row."""
        return self.steady_state if state == "steady" and self.config.has_state else self.network.zero_state(1)

    def pack(self, state: str) -> None:
        """Derive now everything from the weights that sequences under a policy need."""
        self.words.pack()
        _ = self.runner
        if state != "carry" and self.config.has_state:
            self._state_after_boundary(state)

    def slices(
        self,
        batch: SequenceBatch,
        state: Union[str, State],
        batch_tokens: int,
        *,
        group_lengths: Optional[Sequence[int]] = None,
        with_boundaries: bool = False,
    ) -> Iterator[Slice]:
        """Compute the layers of sequences, in slices of about `batch_tokens` tokens.

        state (Union[str, State]): A policy, or a state: sequence i continues from row i, as in bilm-tf and AllenNLP.
        group_lengths (Optional[Sequence[int]]): For "carry": numbers of consecutive sequences that share a state; by
            default each sequence is a group.
        with_boundaries (bool): For "reset" and "steady": include the rows of BOS and EOS. Otherwise they are always
            included.
        YIELDS (Slice): In order.
        RAISES (ValueError): EL340 if the encoder has no state to continue from, EL341 for a sequence that is too long.
        """
        self._check(batch, state)
        uses_modules = self._uses_modules(state)
        is_carried = state == "carry"
        has_boundaries = with_boundaries or is_carried or isinstance(state, State) or not self.config.has_state
        group_stops = np.cumsum(group_lengths or [1] * len(batch.lengths))
        start = end = State(())
        if is_carried:
            start = self.network.zero_state(1)
        elif not uses_modules and not isinstance(state, State):
            # Without rows of boundaries, sequences start after the first boundary, which is computed once.
            start = self.initial_state(state) if has_boundaries else self._state_after_boundary(state)
        with self._workspaces.borrow() as workspace:
            for first, stop in split_slices(batch.lengths, batch_tokens):
                numbered = self._number_slice(batch, first, stop)
                if uses_modules:
                    with torch.no_grad():
                        rows = self._call_modules(numbered, with_boundaries=has_boundaries)
                elif is_carried:
                    sizes, is_continued = split_groups(group_stops, first, stop)
                    starts = State.cat([end if is_continued else start, *[start] * (len(sizes) - 1)])
                    rows, ends = self._run(numbered, starts, workspace, group_sizes=sizes, with_end=True)
                    end = ends.rows(len(sizes) - 1, None)
                elif isinstance(state, State):
                    rows, end = self._run(numbered, state.rows(first, stop), workspace, with_end=True)
                else:
                    rows, end = self._run(numbered, start, workspace, has_boundaries=has_boundaries)
                yield Slice(first, stop, batch.lengths[first:stop], rows, has_boundaries, end)
                self._trimmer.count(sum(batch.lengths[first:stop]))

    def encode_lanes(self, lanes: SentenceLanes, table: WordTable, n_steps: int) -> Iterator[Tuple[Chunk, Tensor]]:
        """Compute lanes of text from the zero state, which is carried on from chunk to chunk of at most `n_steps`
        steps.

        YIELDS (Tuple[Chunk, Tensor]): The chunk, and its layers (L+1, S * B, D), ordered by step, then lane, each
            direction in its own reading order. They are valid until the next chunk.
        """
        self._uses_modules("carry")  # warns of hooks, which have no effect here
        state = self.network.zero_state(lanes.n_own_lanes)
        with self._workspaces.borrow() as workspace:
            while (chunk := lanes.next_chunk(n_steps)) is not None:
                numbers, index = np.unique(chunk.inputs, return_inverse=True)
                vectors = self.words.encode([table.words[i] for i in numbers])
                n_chunk_steps, n_lanes = chunk.begins.shape
                plan = plan_lanes([n_chunk_steps] * n_lanes, MAX_LANES)
                slots = plan.slots().reshape(n_lanes, n_chunk_steps).T.reshape(-1)  # by step, then lane
                forward, backward = index.reshape(2, -1)
                layers, state = self.runner.run(
                    vectors, (forward, backward), plan, state, slots=(slots, slots), with_end=True, workspace=workspace
                )
                yield chunk, layers
                self._trimmer.count(n_chunk_steps * n_lanes)

    def with_grad(self, batch: SequenceBatch, *, with_boundaries: bool = False) -> Tensor:
        """Layers (L+1, N, D) of every sequence from zero, attached to the graph."""
        self._check(batch, "reset")
        if not batch.lengths:
            sizes = (self.config.n_layers + 1, 0, self.config.output_width)
            return torch.zeros(sizes, dtype=torch.float32, device=self.device)
        numbered = self._number_slice(batch, 0, len(batch.lengths), has_gradients=True)
        return self._call_modules(numbered, with_boundaries=with_boundaries)

    def _check(self, batch: SequenceBatch, state: Union[str, State]) -> None:
        """RAISES (ValueError): EL340 if the encoder has no state to continue from, EL341 for a sequence that is too
        long.
        """
        resolve_state(self.config, state)
        if self.config.encoder == "transformer":
            check_lengths([length + 2 for length in batch.lengths], self.config)

    def _uses_modules(self, state: Union[str, State]) -> bool:
        """Whether the encoder is computed by its modules, which have hooks or parametrizations; WL142 if it should be,
        but modules start each sequence from zero, in float32.
        """
        hooked = find_hooked(self.words.modules)
        is_possible = state == "reset" or not self.config.has_state
        precision = self.network.precision
        if hooked and not (is_possible and precision == "float32"):
            names = ", ".join(name for name, module in self.network.named_modules() if name and module in hooked)
            policy = state if isinstance(state, str) else "given"
            warnings.warn(Warnings.WL142.format(names=shorten(names), state=policy, precision=precision), stacklevel=2)
            return False
        return bool(hooked)

    def _number_slice(
        self, batch: SequenceBatch, start: int, stop: int, *, has_gradients: bool = False
    ) -> NumberedSequences:
        """The sequences from `start` to before `stop` as numbers of their distinct words."""
        sequences = batch.sequences[start:stop]
        if batch.vectors is None:
            words, word_ids = number_words(sequences, self.words.boundaries)
            return NumberedSequences(self.words.compute(words) if has_gradients else self.words.encode(words), word_ids)
        rows, numbers = np.unique(np.fromiter(chain.from_iterable(sequences), dtype="int64"), return_inverse=True)
        used_rows = torch.from_numpy(np.concatenate([[BOS_NUMBER, EOS_NUMBER], rows + 2])).to(batch.vectors.device)
        by_sequence = np.split(numbers + 2, np.cumsum(batch.lengths[start:stop])[:-1])
        return NumberedSequences(batch.vectors[used_rows], [word_ids.tolist() for word_ids in by_sequence])

    def _run(
        self,
        numbered: NumberedSequences,
        start: State,
        workspace: Workspace,
        *,
        has_boundaries: bool = True,
        group_sizes: Optional[Sequence[int]] = None,
        with_end: bool = False,
    ) -> Tuple[Tensor, State]:
        """Compute layers (L+1, n, D) with constant weights, and the states after the sequences, or after the groups.

        group_sizes (Optional[Sequence[int]]): Numbers of sequences that are concatenated in one lane, without a reset
            between them. The backward direction reads each sequence from its end, and the sequences in text order.
        """
        tokens = numbered.tokens(with_boundaries=has_boundaries)
        lengths = numbered.lengths(with_boundaries=has_boundaries)
        max_lanes, slots = MAX_LANES if self.device.type == "cpu" else GPU_MAX_LANES, None
        if group_sizes is None:
            plan = plan_lanes(lengths, max_lanes)
        else:
            plan = plan_lanes([group.sum() for group in np.split(lengths, np.cumsum(group_sizes)[:-1])], max_lanes)
            forward, stops = plan.slots(), np.cumsum(lengths)
            # The token that the backward direction reads in the place of each, which is its own inverse.
            mirrored = np.repeat(2 * stops - lengths - 1, lengths) - np.arange(len(tokens))
            slots = forward, forward[mirrored]
        words = tokens, tokens  # of each direction
        return self.runner.run(
            numbered.vectors, words, plan, start, slots=slots, with_end=with_end, workspace=workspace
        )

    def _call_modules(self, numbered: NumberedSequences, *, with_boundaries: bool) -> Tensor:
        """Layers (L+1, N, D) of every sequence from zero, by the modules of the network."""
        vectors, tokens = numbered.vectors, numbered.tokens(with_boundaries=True)
        lengths = numbered.lengths(with_boundaries=True)
        places = np.arange(len(tokens)) if with_boundaries else inner_rows(lengths - 2)  # of the rows to return
        encoder: Any = self.network.encoder
        if isinstance(encoder, BiLSTMStack):
            words = torch.from_numpy(tokens).to(self.device)
            layers: Tensor = encoder.encode(vectors, words, lengths.tolist())  # (L+1, N, D)
            return layers[:, torch.from_numpy(places).to(self.device)]
        return self._call_network(vectors, tokens, lengths, places)

    def _call_network(self, vectors: Tensor, tokens: Ids, lengths: Ids, places: Ids) -> Tensor:
        """Layers (L+1, N, D) by the forward pass of the network over lanes.

        places (Ids): The tokens whose rows are returned.
        """
        plan = plan_lanes(lengths, MAX_LANES)
        d = self.config.n_directions
        slots = [plan.slots(backward=k == 1) for k in range(d)]
        words = np.zeros((d, plan.n_steps * plan.n_lanes), dtype="int64")
        resets = np.zeros((plan.n_steps, plan.n_lanes), dtype=bool)
        for k in range(d):
            words[k, slots[k]] = tokens
        resets[plan.offsets, plan.lanes] = True
        ends = plan.offsets + plan.lengths
        resets[ends[ends < plan.n_steps], plan.lanes[ends < plan.n_steps]] = True  # slots without a token are apart
        index = torch.from_numpy(words.reshape(d, plan.n_steps, plan.n_lanes)).to(self.device)
        layers, _ = self.network(
            vectors, index, self.network.zero_state(plan.n_lanes), resets=torch.from_numpy(resets).to(self.device)
        )
        rows = [torch.from_numpy(slot[places]).to(self.device) for slot in slots]
        first = torch.cat([vectors[torch.from_numpy(tokens[places]).to(self.device)]] * d, dim=1)  # (N, D)
        upper = [torch.cat([layer[k].flatten(0, 1)[rows[k]] for k in range(d)], dim=1) for layer in layers]
        return torch.stack([first, *upper])

    def _state_after_boundary(self, state: str) -> State:
        """The state after the first boundary, which is the same for every sequence.

        The forward direction has read `<S>`, the backward direction `</S>`. The last boundary is not needed.
        """
        if state not in self._after_boundary:
            words: Tuple[Ids, Ids] = (np.array([BOS_NUMBER]), np.array([EOS_NUMBER]))
            start = self.initial_state(state)
            _, end = self.runner.run(self._boundaries(), words, plan_lanes([1], 1), start, with_end=True)
            self._after_boundary[state] = end
        return self._after_boundary[state]

    def _compute_steady_state(self) -> State:
        """The empty sentences between two checks are one sequence, `<S> </S> <S> </S> ...`, which carries the state."""
        state = self.network.zero_state(1)
        tokens = np.tile(np.array([BOS_NUMBER, EOS_NUMBER]), STEADY_CHECK_EVERY)
        plan = plan_lanes([len(tokens)], 1)
        for _ in range(STEADY_SENTENCES // STEADY_CHECK_EVERY):
            before = state
            _, state = self.runner.run(self._boundaries(), (tokens, tokens), plan, before, with_end=True)
            if state.distance(before) < STEADY_CHANGE:
                break
        return state

    def _boundaries(self) -> Tensor:
        """The vectors of `<S>` and `</S>`, shape (2, P)."""
        return self.words.encode(self.words.boundaries)


def split_slices(lengths: Sequence[int], batch_tokens: int) -> Iterator[Tuple[int, int]]:
    """Divide consecutive sequences into slices of at most `batch_tokens` tokens, at least one sequence each.

    YIELDS (Tuple[int, int]): The first sequence, and the one after the last.
    """
    start = total = 0
    for i, length in enumerate(lengths):
        if i > start and total + length > batch_tokens:
            yield start, i
            start, total = i, 0
        total += length
    if start < len(lengths):
        yield start, len(lengths)


def split_groups(group_stops: Ids, start: int, stop: int) -> Tuple[List[int], bool]:
    """The groups of a slice: the number of sequences of each, and whether the first one began in an earlier slice.

    group_stops (Ids): The sequence after each group, ascending. A group may be empty.
    """
    first, last = np.searchsorted(group_stops, [start + 1, stop])
    edges = np.unique([start, *group_stops[first:last], stop])
    return np.diff(edges).tolist(), bool(start > 0 and group_stops[first - 1] != start)


def resolve_state(config: BiLMConfig, state: Any, *, return_state: bool = False) -> Any:
    """The state; for an encoder without recurrent state "reset" instead of None.

    RAISES (ValueError): EL340 if the encoder has no state, and one is given, carried on or to be returned.
    """
    if config.has_state:
        return state
    is_value = state is not None and not isinstance(state, str)
    if return_state or state == "carry" or is_value:
        require_state(config, "return_state=True" if return_state else "a state" if is_value else 'state = "carry"')
    return "reset" if state is None else state


def require_state(config: BiLMConfig, request: str) -> None:
    """RAISES (ValueError): EL340 if the encoder has no state. `request` is what the user asks for."""
    if not config.has_state:
        raise ValueError(Errors.EL340.format(setting=request, encoder=config.encoder))


def number_words(
    sequences: Sequence[Sequence[str]], boundaries: Tuple[str, str] = BOUNDARIES
) -> Tuple[List[str], List[List[int]]]:
    """Distinct words, boundaries first, and the number of each word of each sequence."""
    number_of: Dict[str, int] = defaultdict(count().__next__)
    look_up = number_of.__getitem__
    for word in boundaries:
        look_up(word)
    numbers = [list(map(look_up, sequence)) for sequence in sequences]
    return list(number_of), numbers


def inner_rows(lengths: Union[Ids, Sequence[int]]) -> Ids:
    """Positions of the words in the concatenation of the sequences with BOS and EOS; `lengths` are in words."""
    sizes = np.asarray(lengths, dtype="int64")
    return ranges(np.cumsum(sizes + 2) - sizes - 1, sizes)


def _id_problem(ids: NDArray[np.int64], numbers: List[int], codec: Optional[CharacterCodec]) -> str:
    if codec is None:
        return "this biLM reads whole words"
    width = codec.max_characters
    if ids.ndim != 2 or (ids.shape[1] != width if width else ids.shape[1] < MIN_COLUMNS):
        remedy = f", as `batch_to_ids(sentences, max_characters={width})` makes them"
        is_utf8 = isinstance(codec, Utf8Codec)
        return f"they have shape {ids.shape}, should have (words, {width or 'ids of a word'}){remedy * is_utf8}"
    largest = codec.largest_ids(ids.shape[1])
    if ids.size and not (0 <= ids.min() and (ids <= largest).all()):
        columns = "" if isinstance(largest, int) else " in the first column, 0 to its number of characters in others"
        return f"they are {ids.min()} to {ids.max()}, should be 0 to {np.ravel(largest)[0]}{columns}"
    if numbers and not 0 <= min(numbers) <= max(numbers) < len(ids):
        return f"the index has rows {min(numbers)} to {max(numbers)}, but there are {len(ids)} rows"
    return ""
