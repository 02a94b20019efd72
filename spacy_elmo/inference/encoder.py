"""Compute the layers of sequences in slices of bounded size: distinct words, a lane plan, the initial state."""

import warnings
from collections import defaultdict
from itertools import chain, count
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..bilm.config import BiLMConfig
from ..bilm.layers import find_hooked
from ..bilm.network import BiLMNetwork, BiLSTMStack
from ..bilm.state import State
from ..bilm.transformer import check_lengths
from ..errors import Errors, Warnings
from ..text.lanes import Chunk, SentenceLanes, plan_lanes
from ..text.words import CharacterCodec, Ids, Lexicon, Utf8Codec, Vocabulary, WordTable
from ..util import shorten
from .dispatch import GPU_MAX_LANES, MAX_LANES
from .runner import Runner, make_runner
from .runtime import HeapTrimmer, Workspace, WorkspacePool, register_fork_handlers
from .word_encoder import BOUNDARIES, WordEncoder

BOS, EOS = 0, 1  # numbers of the boundaries in every slice
MIN_COLUMNS = 4  # a word, and begin, content and end of its characters
# Maximum number of empty sentences for the steady state, and of those between checks of convergence.
STEADY_PASSES, STEADY_CHUNK = 50, 10
STEADY_CHANGE = 1e-6


class NumberedSequences(NamedTuple):
    """Sequences of a slice as word numbers, with the word vectors.

    vectors (Tensor): Shape (U, P), vectors of the distinct words, boundaries first.
    word_ids (List[List[int]]): Rows of `vectors` for each sequence, without boundaries.
    """

    vectors: Tensor
    word_ids: List[List[int]]

    def tokens(self, *, with_boundaries: bool) -> Ids:
        """The concatenation of all sequences, shape (N,)."""
        sequences = ([BOS, *sequence, EOS] for sequence in self.word_ids) if with_boundaries else self.word_ids
        return np.fromiter(chain.from_iterable(sequences), dtype="int64")

    def lengths(self, *, with_boundaries: bool) -> List[int]:
        return [len(sequence) + 2 * with_boundaries for sequence in self.word_ids]


class SequenceBatch(NamedTuple):
    """Sequences that are converted to numbers slice by slice, by `load_slice(start, stop)`. Each distinct word of a
    slice has one vector. `lengths` are without boundaries.
    """

    lengths: List[int]
    load_slice: Callable[[int, int], NumberedSequences]


class Slice(NamedTuple):
    """Layers (L+1, n, D) of the sequences from `start` to before `stop`, with BOS and EOS if it `has_boundaries`. They
    are valid until the next slice is requested or the iteration ends.
    """

    start: int
    stop: int
    rows: Tensor
    has_boundaries: bool

    def inner(self, lengths: Sequence[int]) -> Tensor:
        """The rows without boundaries: a copy if there are any. `lengths` are the words of all sequences."""
        if not self.has_boundaries:
            return self.rows
        return self.rows[:, torch.from_numpy(inner_rows(lengths[self.start : self.stop])).to(self.rows.device)]


class Encoder:
    """Computes layers with constant weights, and holds everything derived from them. The arguments are those of `BiLM`;
    the steady state has one row.
    """

    def __init__(
        self,
        network: BiLMNetwork,
        vocabulary: Optional[Vocabulary],
        token_embeddings: Optional[Tensor],
        lexicon: Optional[Lexicon] = None,
        *,
        steady_state: Optional[State] = None,
    ) -> None:
        register_fork_handlers()
        self.network = network
        self.config = network.config
        self.words = WordEncoder(network, vocabulary, token_embeddings, lexicon)
        self.device = network.device
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
        use. Of an encoder without state, the empty state.
        """
        if self.known_steady_state is None:
            self.known_steady_state = self._compute_steady_state()
        return self.known_steady_state

    def sequences(self, sequences: Sequence[Sequence[str]], *, has_gradients: bool = False) -> SequenceBatch:
        """The words of each sequence, for `slices` or `with_grad`; empty ones are allowed."""
        words = self.words
        encode = words.compute if has_gradients else words.encode

        def load_slice(start: int, stop: int) -> NumberedSequences:
            distinct, numbers = number_words(sequences[start:stop], words.boundaries)
            return NumberedSequences(encode(distinct), numbers)

        return SequenceBatch([len(sequence) for sequence in sequences], load_slice)

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
        vectors = self.words.encode_ids(rows, codec.lengths(rows))  # (U + 2, P), boundaries first

        def load_slice(start: int, stop: int) -> NumberedSequences:
            parts = index[start:stop]
            used, numbers = np.unique(np.fromiter(chain.from_iterable(parts), dtype="int64"), return_inverse=True)
            used_rows = np.concatenate([[BOS, EOS], used + 2])
            flat = (numbers + 2).tolist()
            stops = np.cumsum([len(sequence) for sequence in parts]).tolist()
            sequences = [flat[first:last] for first, last in zip([0, *stops], stops)]
            return NumberedSequences(vectors[torch.from_numpy(used_rows).to(vectors.device)], sequences)

        return SequenceBatch([len(sequence) for sequence in index], load_slice)

    def start(self, state: str) -> State:
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
        sequences: SequenceBatch,
        state: Union[str, State],
        batch_tokens: int,
        *,
        group_lengths: Optional[Sequence[int]] = None,
        with_boundaries: bool = False,
        ends: Optional[List[State]] = None,
    ) -> Iterator[Slice]:
        """Compute the layers of sequences.

        state (Union[str, State]): A policy, or a state: sequence i continues from row i, as in bilm-tf and AllenNLP.
        group_lengths (Optional[Sequence[int]]): For "carry": numbers of consecutive sequences that share a state.
        with_boundaries (bool): For "reset" and "steady": include the rows of BOS and EOS. Otherwise they are always
            included.
        ends (Optional[List[State]]): Filled with the states after the sequences of each slice, one row each; for
            "carry" one row, after the last sequence. Not used for "reset" and "steady".
        YIELDS (Slice): In order.
        RAISES (ValueError): EL340 if the encoder has no state to continue from, EL341 for a sequence that is too long.
        """
        self._check(sequences, state)
        with self._workspaces.borrow() as workspace:
            if self._calls_modules(state):
                slices = self._each_with_modules(sequences, batch_tokens, with_boundaries)
            elif self.config.has_state and not isinstance(state, State) and state == "carry":
                groups = group_lengths or [1] * len(sequences.lengths)
                slices = self._carry(sequences, groups, batch_tokens, workspace, ends)
            else:
                slices = self._each(sequences, state, batch_tokens, workspace, with_boundaries, ends)
            for computed in slices:
                yield computed
                self._trimmer.count(sum(sequences.lengths[computed.start : computed.stop]))

    def lanes(self, lanes: SentenceLanes, table: WordTable, n_steps: int) -> Iterator[Tuple[Chunk, Tensor]]:
        """Compute lanes of text from the zero state, which is carried on from chunk to chunk of at most `n_steps`
        steps.

        YIELDS (Tuple[Chunk, Tensor]): The chunk, and its layers (L+1, S * B, D), ordered by step, then lane, each
            direction in its own reading order. They are valid until the next chunk.
        """
        self._calls_modules("carry")
        state = self.network.zero_state(lanes.n_lanes)
        with self._workspaces.borrow() as workspace:
            while (chunk := lanes.next_chunk(n_steps)) is not None:
                numbers, index = np.unique(chunk.inputs, return_inverse=True)
                words = table.words
                vectors = self.words.encode([words[i] for i in numbers])
                steps, n_lanes = chunk.begins.shape
                plan = plan_lanes([steps] * n_lanes, MAX_LANES)
                slots = plan.slots().reshape(n_lanes, steps).T.reshape(-1)
                forward, backward = index.reshape(2, -1)
                layers, end = self.runner.run(
                    vectors, (forward, backward), plan, state, slots=(slots, slots), with_end=True, workspace=workspace
                )
                state = state if end is None else end
                yield chunk, layers
                self._trimmer.count(steps * n_lanes)

    def with_grad(self, sequences: SequenceBatch, *, with_boundaries: bool = False) -> Tensor:
        """Layers (L+1, N, D) of every sequence from zero, attached to the graph; `sequences` were made with
        gradients.
        """
        self._check(sequences, "reset")
        if not sequences.lengths:
            sizes = (self.config.n_layers + 1, 0, self.config.output_width)
            return torch.zeros(sizes, dtype=torch.float32, device=self.device)
        return self._call_modules(sequences.load_slice(0, len(sequences.lengths)), with_boundaries=with_boundaries)

    def _call_modules(self, numbered: NumberedSequences, *, with_boundaries: bool) -> Tensor:
        """Layers (L+1, N, D) of every sequence from zero, by the modules of the network."""
        vectors, tokens = numbered.vectors, numbered.tokens(with_boundaries=True)
        places = np.arange(len(tokens))  # of the rows to return
        if not with_boundaries:
            places = inner_rows(numbered.lengths(with_boundaries=False))
        encoder: Any = self.network.encoder
        if isinstance(encoder, BiLSTMStack):
            lengths = numbered.lengths(with_boundaries=True)
            layers: Tensor = encoder.encode(vectors, torch.from_numpy(tokens).to(self.device), lengths)  # (L+1, N, D)
            return layers[:, torch.from_numpy(places).to(self.device)]
        return self._lanes_with_grad(vectors, tokens, numbered.lengths(with_boundaries=True), places)

    def _lanes_with_grad(self, vectors: Tensor, tokens: Ids, lengths: List[int], places: Ids) -> Tensor:
        """places (Ids): Of the tokens whose rows are returned."""
        plan = plan_lanes(lengths, MAX_LANES)
        d = self.config.n_directions
        slots = [plan.slots(backward=k == 1) for k in range(d)]
        words = np.zeros((d, plan.n_steps * plan.n_lanes), dtype="int64")
        resets = np.zeros((plan.n_steps, plan.n_lanes), dtype=bool)
        for k in range(d):
            words[k, slots[k]] = tokens
        resets[plan.offsets, plan.lanes] = True
        ends = plan.offsets + np.asarray(plan.lengths)
        resets[ends[ends < plan.n_steps], plan.lanes[ends < plan.n_steps]] = True  # slots without a token are apart
        index = torch.from_numpy(words.reshape(d, plan.n_steps, plan.n_lanes)).to(self.device)
        layers, _ = self.network(
            vectors, index, self.network.zero_state(plan.n_lanes), resets=torch.from_numpy(resets).to(self.device)
        )
        rows = [torch.from_numpy(slot[places]).to(self.device) for slot in slots]
        first = torch.cat([vectors[torch.from_numpy(tokens[places]).to(self.device)]] * d, dim=1)  # (N, D)
        upper = [torch.cat([layer[k].flatten(0, 1)[rows[k]] for k in range(d)], dim=1) for layer in layers]
        return torch.stack([first, *upper])

    def _calls_modules(self, state: Union[str, State]) -> bool:
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

    def _each_with_modules(self, sequences: SequenceBatch, batch_tokens: int, with_boundaries: bool) -> Iterator[Slice]:
        """`_each` from zero by the modules of the network, so that their hooks are called."""
        for first, stop in _split_by_budget(sequences.lengths, batch_tokens):
            with torch.no_grad():
                rows = self._call_modules(sequences.load_slice(first, stop), with_boundaries=with_boundaries)
            yield Slice(first, stop, rows, with_boundaries)

    def _check(self, sequences: SequenceBatch, state: Union[str, State]) -> None:
        check_state_of(self.config, state)
        if self.config.encoder == "transformer":
            check_lengths([length + 2 for length in sequences.lengths], self.config)

    def _each(
        self,
        sequences: SequenceBatch,
        state: Union[str, State],
        batch_tokens: int,
        workspace: Workspace,
        with_boundaries: bool,
        ends: Optional[List[State]],
    ) -> Iterator[Slice]:
        """Each sequence starts from its row of a state, or all from the same one. Without boundary rows, this is the
        state after the first boundary, which is computed once. Encoders without state read boundaries in any case.
        """
        is_by_row = isinstance(state, State)
        has_boundaries = with_boundaries or is_by_row or not self.config.has_state
        if isinstance(state, State):
            start = state
        else:
            start = self.start(state) if has_boundaries else self._state_after_boundary(state)
        for first, stop in _split_by_budget(sequences.lengths, batch_tokens):
            initial = start.rows(first, stop) if is_by_row else start
            numbered = sequences.load_slice(first, stop)
            tokens = numbered.tokens(with_boundaries=has_boundaries)
            plan = plan_lanes(numbered.lengths(with_boundaries=has_boundaries), self._max_lanes)
            rows, end = self.runner.run(
                numbered.vectors, (tokens, tokens), plan, initial, with_end=is_by_row, workspace=workspace
            )
            if ends is not None and end is not None and is_by_row:
                ends.append(end)
            yield Slice(first, stop, rows, has_boundaries)

    def _carry(
        self,
        sequences: SequenceBatch,
        group_lengths: Sequence[int],
        batch_tokens: int,
        workspace: Workspace,
        ends: Optional[List[State]],
    ) -> Iterator[Slice]:
        """The sequences of a group are concatenated in one lane, and the state is not reset between them."""
        last = zero = self.network.zero_state(1)  # `last`: after a group that continues in the next slice
        for segments in _split_groups(sequences.lengths, batch_tokens, group_lengths):
            first, stop = segments[0][0], segments[-1][1]
            start = State.cat([last if is_continued else zero for _, _, is_continued in segments])
            sizes = [segment_stop - segment_first for segment_first, segment_stop, _ in segments]
            rows, end = self._run_groups(sequences.load_slice(first, stop), sizes, start, workspace)
            last = end.rows(len(sizes) - 1, len(sizes))
            if ends is not None:
                ends.append(last)
            yield Slice(first, stop, rows, True)

    def _run_groups(
        self, numbered: NumberedSequences, sizes: Sequence[int], start: State, workspace: Workspace
    ) -> Tuple[Tensor, State]:
        """The backward direction reads each sequence from its end, and the sequences of a group in text order."""
        lengths = np.asarray(numbered.lengths(with_boundaries=True), dtype="int64")
        tokens = numbered.tokens(with_boundaries=True)
        stops = np.cumsum(lengths)
        firsts = stops - lengths
        # The token that the backward direction reads at each position, counted down from the end of each sequence.
        reading = np.repeat(stops - 1 + firsts, lengths) - np.arange(len(tokens))
        plan = plan_lanes([int(part.sum()) for part in np.split(lengths, np.cumsum(sizes)[:-1])], self._max_lanes)
        forward = plan.slots()
        slots = (forward, forward[np.argsort(reading)])
        rows, end = self.runner.run(
            numbered.vectors, (tokens, tokens), plan, start, slots=slots, with_end=True, workspace=workspace
        )
        return rows, end if end is not None else start

    def _state_after_boundary(self, state: str) -> State:
        """The state after the first boundary, which is the same for every sequence.

        The forward direction has read `<S>`, the backward direction `</S>`. The last boundary is not needed.
        """
        if state not in self._after_boundary:
            words: Tuple[Ids, Ids] = (np.array([BOS]), np.array([EOS]))
            _, end = self.runner.run(self._boundaries(), words, plan_lanes([1], 1), self.start(state), with_end=True)
            self._after_boundary[state] = end if end is not None else self.start(state)
        return self._after_boundary[state]

    def _compute_steady_state(self) -> State:
        """A chunk of empty sentences is one sequence, `<S> </S> <S> </S> ...`, so that the state is carried on."""
        state = self.network.zero_state(1)
        tokens = np.tile(np.array([BOS, EOS]), STEADY_CHUNK)
        plan = plan_lanes([len(tokens)], 1)
        for _ in range(STEADY_PASSES // STEADY_CHUNK):
            _, new = self.runner.run(self._boundaries(), (tokens, tokens), plan, state, with_end=True)
            if new is None or new.distance(state) < STEADY_CHANGE:
                return state if new is None else new
            state = new
        return state

    @property
    def _max_lanes(self) -> int:
        return MAX_LANES if self.device.type == "cpu" else GPU_MAX_LANES

    def _boundaries(self) -> Tensor:
        """The vectors of `<S>` and `</S>`, shape (2, P)."""
        return self.words.encode(self.words.boundaries)


def check_state_of(config: BiLMConfig, state: Any, *, return_state: bool = False) -> Any:
    """The state; "reset" instead of None if the encoder has no state. EL340 if it has none and one is wanted."""
    if config.has_state:
        return state
    is_value = state is not None and not isinstance(state, str)
    if return_state or state == "carry" or is_value:
        reject_state(config, "return_state=True" if return_state else "a state" if is_value else 'state = "carry"')
    return "reset" if state is None else state


def reject_state(config: BiLMConfig, request: str) -> None:
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


def inner_rows(lengths: Sequence[int]) -> Ids:
    """Positions of the words in the concatenation of the sequences with BOS and EOS; `lengths` are in words."""
    sizes = np.asarray(lengths, dtype="int64")
    firsts = np.cumsum(sizes + 2) - sizes - 1
    return np.repeat(firsts - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())


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


def _split_by_budget(lengths: Sequence[int], batch_tokens: int) -> Iterator[Tuple[int, int]]:
    """Slices of consecutive sequences with at most `batch_tokens` tokens in total, at least one sequence each."""
    start = total = 0
    for i, length in enumerate(lengths):
        if i > start and total + length > batch_tokens:
            yield start, i
            start, total = i, 0
        total += length
    if start < len(lengths):
        yield start, len(lengths)


def _split_groups(
    lengths: Sequence[int], batch_tokens: int, group_lengths: Sequence[int]
) -> Iterator[List[Tuple[int, int, bool]]]:
    """Like `_split_by_budget`, each slice as segments of groups: start, stop, whether it continues a group."""
    stops = np.cumsum(group_lengths).tolist()
    group = 0
    for start, stop in _split_by_budget(lengths, batch_tokens):
        segments: List[Tuple[int, int, bool]] = []
        first = start
        while first < stop:
            while stops[group] <= first:
                group += 1
            begin = stops[group] - group_lengths[group]
            last = min(stop, stops[group])
            segments.append((first, last, first > begin))
            first = last
        yield segments
