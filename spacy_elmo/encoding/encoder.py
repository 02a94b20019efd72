"""Sequences to layers: distinct words, a lane plan, the right initial state, in slices of bounded size."""

from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from torch import Tensor

from ..bilm.model import BiLMNetwork
from ..bilm.state import State
from ..engine.dispatch import MAX_LANES
from ..engine.fork import survive_fork
from ..engine.memory import HeapTrimmer
from ..engine.runner import Runner, make_runner
from ..engine.workspace import Workspace, WorkspacePool
from ..text.lanes import Ids, plan_lanes
from ..text.vocabulary import Vocabulary
from .runs import BOS, BOUNDARIES, EOS, NumberedRuns, Runs, WordRuns, number_words
from .word_encoder import WordEncoder

STEADY_PASSES = 50
STEADY_CHANGE = 1e-6


class Slice(NamedTuple):
    """Layers of some sequences, valid until the next slice is asked for, or the iteration ends.

    start (int), stop (int): The sequences from `start` to before `stop`.
    rows (Tensor): Shape (L+1, n, D).
    has_boundaries (bool): Whether there are rows of the sentence boundaries.
    """

    start: int
    stop: int
    rows: Tensor
    has_boundaries: bool


class Encoder:
    """Everything that is derived from constant weights.

    network (BiLMNetwork), vocabulary (Optional[Vocabulary]), token_embeddings (Optional[Tensor]): See `BiLM`.
    steady_state (Optional[State]): One row, if known.
    """

    def __init__(
        self,
        network: BiLMNetwork,
        vocabulary: Optional[Vocabulary],
        token_embeddings: Optional[Tensor],
        *,
        steady_state: Optional[State] = None,
    ) -> None:
        survive_fork()
        self.network = network
        self.config = network.config
        self.words = WordEncoder(network, vocabulary, token_embeddings)
        self.device = network.device
        self.known_steady_state = steady_state
        self._runner: Optional[Runner] = None
        self._after_boundary: Dict[str, State] = {}
        self._workspaces = WorkspacePool(self.device, 1)
        self._trimmer = HeapTrimmer()

    @property
    def runner(self) -> Runner:
        """RETURNS (Runner): Made when first needed."""
        if self._runner is None:
            self._runner = make_runner(self.network)
        return self._runner

    @property
    def steady_state(self) -> State:
        """The state after empty sentences `<S> </S>`, repeated from zero until it no longer changes.

        RETURNS (State): One row.
        """
        if self.known_steady_state is None:
            self.known_steady_state = self._settle()
        return self.known_steady_state

    def runs(self, runs: Sequence[Sequence[str]]) -> WordRuns:
        """RETURNS (WordRuns): Sequences of words, for `slices`."""
        return WordRuns(runs, self.words.encode)

    def start(self, state: str) -> State:
        """RETURNS (State): With which a sequence begins under a policy, one row."""
        return self.steady_state if state == "steady" else self.network.zero_state(1)

    def prepare(self, state: str) -> None:
        """Derive from the weights now what sequences under a policy need."""
        self.words.prepare()
        self.runner.prepare()
        if state != "carry":
            self._state_after_boundary(state)

    def slices(
        self,
        runs: Runs,
        state: Union[str, State],
        batch_tokens: int,
        *,
        group_lengths: Optional[Sequence[int]] = None,
        with_boundaries: bool = False,
        ends: Optional[List[State]] = None,
    ) -> Iterator[Slice]:
        """Compute the layers of sequences.

        runs (Runs): The sequences.
        state (Union[str, State]): A policy, or a state: sequence i goes on from row i, as in the reference programs.
        batch_tokens (int): Tokens computed at once.
        group_lengths (Optional[Sequence[int]]): For "carry": consecutive sequences through which the state runs on.
        with_boundaries (bool): Keep rows of the boundaries, for "reset" and "steady"; otherwise they are always kept.
        ends (Optional[List[State]]): Gets the states after the sequences of each slice, a row each; for "carry" one
            row, after the last of them. Not for "reset" and "steady".
        YIELDS (Slice): In order.
        """
        with self._workspaces.borrow() as workspace:
            if isinstance(state, State):
                found = self._continue(runs, state, batch_tokens, workspace, ends)
            elif state == "carry":
                groups = group_lengths or [1] * len(runs.lengths)
                found = self._carry(runs, groups, batch_tokens, workspace, ends)
            else:
                found = self._restart(runs, state, batch_tokens, workspace, with_boundaries)
            for part in found:
                yield part
                self._trimmer.count(sum(runs.lengths[part.start : part.stop]))

    def with_grad(self, runs: Sequence[Sequence[str]]) -> Tensor:
        """RETURNS (Tensor): Shape (L+1, N, D), attached to the graph; every sequence from zero, boundaries left out."""
        if not runs:
            return torch.zeros(self.config.n_layers + 1, 0, self.config.output_width, device=self.device)
        distinct, numbers = number_words(runs)
        numbered = NumberedRuns(self.words.spell(distinct), numbers)
        vectors, tokens = numbered.vectors, numbered.tokens(with_boundaries=True)
        plan = plan_lanes(numbered.lengths(with_boundaries=True), MAX_LANES)
        d = self.config.n_directions
        slots = [plan.slots(backward=k == 1) for k in range(d)]
        places = np.zeros((d, plan.n_steps * plan.n_lanes), dtype="int64")
        resets = np.zeros((plan.n_steps, plan.n_lanes), dtype=bool)
        for k in range(d):
            places[k, slots[k]] = tokens
        resets[plan.offsets, plan.lanes] = True
        index = torch.from_numpy(places.reshape(d, plan.n_steps, plan.n_lanes)).to(self.device)
        layers, _ = self.network(
            vectors, index, self.network.zero_state(plan.n_lanes), resets=torch.from_numpy(resets).to(self.device)
        )
        inner = inner_places([len(run) for run in runs])
        rows = [torch.from_numpy(slot[inner]).to(self.device) for slot in slots]
        first = torch.cat([vectors[torch.from_numpy(tokens[inner]).to(self.device)]] * d, dim=1)  # (N, D)
        upper = [torch.cat([layer[k].flatten(0, 1)[rows[k]] for k in range(d)], dim=1) for layer in layers]
        return torch.stack([first, *upper])

    def _restart(
        self, runs: Runs, state: str, batch_tokens: int, workspace: Workspace, with_boundaries: bool
    ) -> Iterator[Slice]:
        """Each sequence from the same state. Without boundaries it is the state after the first one, computed once."""
        start = self.start(state) if with_boundaries else self._state_after_boundary(state)
        for first, stop in _cut_by_budget(runs.lengths, batch_tokens):
            numbered = runs.number(first, stop)
            rows, _ = self._run(numbered, start, with_boundaries=with_boundaries, workspace=workspace)
            yield Slice(first, stop, rows, with_boundaries)

    def _continue(
        self, runs: Runs, start: State, batch_tokens: int, workspace: Workspace, ends: Optional[List[State]]
    ) -> Iterator[Slice]:
        """Each sequence from a row of a state."""
        for first, stop in _cut_by_budget(runs.lengths, batch_tokens):
            numbered, part = runs.number(first, stop), start.rows(first, stop)
            rows, end = self._run(numbered, part, with_boundaries=True, with_end=True, workspace=workspace)
            if ends is not None and end is not None:
                ends.append(end)
            yield Slice(first, stop, rows, True)

    def _carry(
        self,
        runs: Runs,
        group_lengths: Sequence[int],
        batch_tokens: int,
        workspace: Workspace,
        ends: Optional[List[State]],
    ) -> Iterator[Slice]:
        """Sequences of a group are end to end in one lane and nothing is reset between them."""
        last = zero = self.network.zero_state(1)  # `last`: after a group that the budget cut
        for pieces in _cut_groups(runs.lengths, batch_tokens, group_lengths):
            first, stop = pieces[0][0], pieces[-1][1]
            start = State.cat([last if goes_on else zero for _, _, goes_on in pieces])
            sizes = [piece_stop - piece_first for piece_first, piece_stop, _ in pieces]
            rows, end = self._run_groups(runs.number(first, stop), sizes, start, workspace)
            last = end.rows(len(sizes) - 1, len(sizes))
            if ends is not None:
                ends.append(last)
            yield Slice(first, stop, rows, True)

    def _run_groups(
        self, numbered: NumberedRuns, sizes: Sequence[int], start: State, workspace: Workspace
    ) -> Tuple[Tensor, State]:
        """The backward direction reads each sequence from its end, but the sequences of a group in text order."""
        lengths = np.asarray(numbered.lengths(with_boundaries=True), dtype="int64")
        tokens = numbered.tokens(with_boundaries=True)
        stops = np.cumsum(lengths)
        firsts = stops - lengths
        # The token that the backward direction reads at each place: places of a sequence count down from its end.
        reading = np.repeat(stops - 1 + firsts, lengths) - np.arange(len(tokens))
        plan = plan_lanes([int(part.sum()) for part in np.split(lengths, np.cumsum(sizes)[:-1])], MAX_LANES)
        forward = plan.slots()
        slots = (forward, forward[np.argsort(reading)])
        rows, end = self.runner.run(
            numbered.vectors, (tokens, tokens), plan, start, slots=slots, with_end=True, workspace=workspace
        )
        return rows, end if end is not None else start

    def _run(
        self,
        numbered: NumberedRuns,
        start: State,
        *,
        with_boundaries: bool,
        with_end: bool = False,
        workspace: Optional[Workspace] = None,
    ) -> Tuple[Tensor, Optional[State]]:
        tokens = numbered.tokens(with_boundaries=with_boundaries)
        plan = plan_lanes(numbered.lengths(with_boundaries=with_boundaries), MAX_LANES)
        return self.runner.run(
            numbered.vectors, (tokens, tokens), plan, start, with_end=with_end, workspace=workspace
        )

    def _state_after_boundary(self, state: str) -> State:
        """The state after the first boundary is the same for every sentence.

        The forward direction has read `<S>`, the backward one `</S>`; what they would read last is not needed.
        """
        if state not in self._after_boundary:
            words: Tuple[Ids, Ids] = (np.array([BOS]), np.array([EOS]))
            _, end = self.runner.run(self._boundaries(), words, plan_lanes([1], 1), self.start(state), with_end=True)
            self._after_boundary[state] = end if end is not None else self.start(state)
        return self._after_boundary[state]

    def _settle(self) -> State:
        state = self.network.zero_state(1)
        empty = NumberedRuns(self._boundaries(), [[]])
        for _ in range(STEADY_PASSES):
            _, new = self._run(empty, state, with_boundaries=True, with_end=True)
            if new is None or new.distance(state) < STEADY_CHANGE:
                return state if new is None else new
            state = new
        return state

    def _boundaries(self) -> Tensor:
        """RETURNS (Tensor): Shape (2, P), the vectors of `<S>` and `</S>`."""
        return self.words.encode(BOUNDARIES)


def inner_places(lengths: Sequence[int]) -> Ids:
    """lengths (Sequence[int]): Words of each sequence.
    RETURNS (Ids): Places of the words in a text whose sequences have boundaries.
    """
    sizes = np.asarray(lengths, dtype="int64")
    firsts = np.cumsum(sizes + 2) - sizes - 1
    return np.repeat(firsts - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())


def _cut_by_budget(lengths: Sequence[int], batch_tokens: int) -> Iterator[Tuple[int, int]]:
    """Consecutive sequences of at most `batch_tokens` together, at least one."""
    start = total = 0
    for i, length in enumerate(lengths):
        if i > start and total + length > batch_tokens:
            yield start, i
            start, total = i, 0
        total += length
    if start < len(lengths):
        yield start, len(lengths)


def _cut_groups(
    lengths: Sequence[int], batch_tokens: int, group_lengths: Sequence[int]
) -> Iterator[List[Tuple[int, int, bool]]]:
    """Like `_cut_by_budget`, each slice as pieces of groups: start, stop, whether it goes on with a cut group."""
    stops = np.cumsum(group_lengths).tolist()
    group = 0
    for start, stop in _cut_by_budget(lengths, batch_tokens):
        pieces: List[Tuple[int, int, bool]] = []
        first = start
        while first < stop:
            while stops[group] <= first:
                group += 1
            begin = stops[group] - group_lengths[group]
            last = min(stop, stops[group])
            pieces.append((first, last, first > begin))
            first = last
        yield pieces
