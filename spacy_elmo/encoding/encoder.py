"""Token runs to layers: distinct words, a lane plan, the right starting state, in slices of bounded size."""

from contextlib import nullcontext
from itertools import chain
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from ..bilm.model import BiLMNetwork
from ..text.characters import SENTENCE_BEGIN, SENTENCE_END
from ..text.lanes import plan_lanes
from ..text.vocabulary import Vocabulary
from .fork import survive_fork
from .runner import LaneRunner
from .state import BiLMState, LayerStates
from .system_memory import HeapTrimmer
from .word_encoder import WordEncoder
from .workspace import Workspace, WorkspacePool

STATES = ("reset", "steady", "carry")
MAX_LANES = 256
STEADY_PASSES = 50
STEADY_CHANGE = 1e-6
Slice = Tuple[int, int, Tensor, bool]
Runs = Sequence[Sequence[str]]


class Encoder:
    """Everything that is derived from weights that stand still.

    network (BiLMNetwork), vocabulary (Optional[Vocabulary]), token_embeddings (Optional[Tensor]): See `BiLM`.
    steady_state (Optional[BiLMState]): One row, if known.
    """

    def __init__(
        self,
        network: BiLMNetwork,
        vocabulary: Optional[Vocabulary],
        token_embeddings: Optional[Tensor],
        *,
        steady_state: Optional[BiLMState] = None,
    ) -> None:
        survive_fork()
        self.network = network
        self.config = network.config
        self.words = WordEncoder(network, vocabulary, token_embeddings)
        self.device = self.words.device
        self._steady = None if steady_state is None else steady_state.to(self.device)
        self._runner: Optional[LaneRunner] = None
        self._after_mark: Dict[str, LayerStates] = {}
        self._workspaces = WorkspacePool(self.device, 1)
        self._trimmer = HeapTrimmer()

    @property
    def runner(self) -> LaneRunner:
        """RETURNS (LaneRunner): Made when first needed."""
        if self._runner is None:
            layers, highways = list(self.network.lstm), list(self.network.between)
            self._runner = LaneRunner(self.config, layers, highways)  # type: ignore[arg-type]
        return self._runner

    @property
    def known_steady_state(self) -> Optional[BiLMState]:
        """RETURNS (Optional[BiLMState]): The settled state if it has been computed or given, else None."""
        return self._steady

    @property
    def steady_state(self) -> BiLMState:
        """The state after empty sentences `<S> </S>`, repeated from zero until it stands still.

        RETURNS (BiLMState): One row.
        """
        if self._steady is None:
            self._steady = self._settle()
        return self._steady

    def slices(
        self,
        runs: Runs,
        state: str,
        batch_tokens: int,
        *,
        group_lengths: Optional[Sequence[int]] = None,
        with_marks: bool = False,
        reuse_memory: bool = False,
    ) -> Iterator[Slice]:
        """Layers of runs under a state policy.

        reuse_memory (bool): Let those of a slice be valid only until the next one is asked for, or the iteration ends.
        YIELDS (Slice): start, stop, layers (L+1, n, D) of runs[start:stop], and whether they hold rows of marks.
        """
        with self._workspaces.borrow() if reuse_memory else nullcontext() as workspace:
            if state == "carry":
                for found, _ in self._carry(runs, batch_tokens, group_lengths or [1] * len(runs), workspace):
                    yield found
                    n_rows = found[2].shape[1]
                    del found
                    if reuse_memory:
                        self._trimmer.count(n_rows)
                return
            start = self._start(state) if with_marks else self._state_after_mark(state)
            for first, stop in _cut_by_budget(runs, batch_tokens):
                rows, _ = self._run(runs[first:stop], start, with_marks=with_marks, workspace=workspace)
                yield first, stop, rows, with_marks
                n_rows = rows.shape[1]
                del rows  # before the next slice is computed
                if reuse_memory:
                    self._trimmer.count(n_rows)

    def continue_rows(
        self, runs: Runs, start: BiLMState, batch_tokens: int
    ) -> Tuple[Iterator[Slice], Callable[[], BiLMState]]:
        """Run i goes on from row i of a state, marks included, as in the reference programs.

        RETURNS (Tuple): Slices, and a function that gives the new state once they are consumed.
        """
        h, c = start.h.clone(), start.c.clone()

        def slices() -> Iterator[Slice]:
            for first, stop in _cut_by_budget(runs, batch_tokens):
                part = BiLMState(h[:, first:stop], c[:, first:stop]).to_layers(self.config)
                rows, ends = self._run(runs[first:stop], part, with_marks=True, with_end=True)
                end = BiLMState.from_layers(ends or [])
                h[:, first:stop], c[:, first:stop] = end.h, end.c
                yield first, stop, rows, True

        return slices(), lambda: BiLMState(h, c)

    def carry_on(self, runs: Runs, batch_tokens: int) -> Tuple[Iterator[Slice], Callable[[], BiLMState]]:
        """From a zero state through all runs, as one text.

        RETURNS (Tuple): Slices, and a function that gives the state, one row, once they are consumed.
        """
        ends = [self._start("reset")]

        def slices() -> Iterator[Slice]:
            for found, ends[0] in self._carry(runs, batch_tokens, [len(runs)]):
                yield found

        return slices(), lambda: BiLMState.from_layers(ends[0])

    def with_grad(self, runs: Runs) -> Tensor:
        """RETURNS (Tensor): Shape (L+1, N, D), attached to the graph; every run from zero, marks read but left out."""
        if not runs:
            return torch.zeros(self.config.n_layers + 1, 0, self.config.output_width, device=self.device)
        distinct, number = _distinct(runs)
        vectors = self.words.spell(distinct)  # (U, P)
        marked = [[number[SENTENCE_BEGIN], *(number[word] for word in run), number[SENTENCE_END]] for run in runs]
        plan = plan_lanes([len(run) for run in marked], MAX_LANES)
        tokens = np.concatenate([np.asarray(run, dtype="int64") for run in marked] or [np.zeros(0, dtype="int64")])
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
        inner = _inner_places([len(run) for run in runs])
        rows = [torch.from_numpy(slot[inner]).to(self.device) for slot in slots]
        first = torch.cat([vectors[torch.from_numpy(tokens[inner]).to(self.device)]] * d, dim=1)  # (N, D)
        upper = [torch.cat([layer[k].flatten(0, 1)[rows[k]] for k in range(d)], dim=1) for layer in layers]
        return torch.stack([first, *upper])

    def _carry(
        self, runs: Runs, batch_tokens: int, group_lengths: Sequence[int], workspace: Optional[Workspace] = None
    ) -> Iterator[Tuple[Slice, LayerStates]]:
        """Sequences of a group lie end to end in one lane and nothing is reset between them.

        YIELDS (Tuple[Slice, LayerStates]): A slice, and the state of its last group, one row.
        """
        last: Optional[LayerStates] = None  # of a group that the budget cut
        zero = self._start("reset")
        for pieces in _cut_groups(runs, batch_tokens, group_lengths):
            starts = [last if goes_on and last is not None else zero for _, _, goes_on in pieces]
            joined = [
                (torch.cat([start[k][0] for start in starts], 1), torch.cat([start[k][1] for start in starts], 1))
                for k in range(self.config.n_layers)
            ]
            groups = [runs[first:stop] for first, stop, _ in pieces]
            rows, ends = self._run_groups(groups, joined, workspace)
            last = [(h[:, -1:], c[:, -1:]) for h, c in ends]
            yield (pieces[0][0], pieces[-1][1], rows, True), last
            del rows

    def _run_groups(
        self, groups: Sequence[Runs], start: LayerStates, workspace: Optional[Workspace]
    ) -> Tuple[Tensor, LayerStates]:
        """The backward direction reads each run from its end, but the runs of a group in text order."""
        distinct, number = _distinct([run for group in groups for run in group])
        tokens: List[int] = []
        reading: List[int] = []  # the token that the backward direction meets at each place
        for run in (run for group in groups for run in group):
            marked = [number[SENTENCE_BEGIN], *(number[word] for word in run), number[SENTENCE_END]]
            reading.extend(reversed(range(len(tokens), len(tokens) + len(marked))))
            tokens.extend(marked)
        plan = plan_lanes([sum(len(run) + 2 for run in group) for group in groups], MAX_LANES)
        forward = plan.slots()
        slots = (forward, forward[np.argsort(np.asarray(reading, dtype="int64"))])
        words = np.asarray(tokens, dtype="int64")
        rows, ends = self.runner.run(
            self.words.encode(distinct), (words, words), plan, start, slots=slots, with_end=True, workspace=workspace
        )
        return rows, ends or []

    def _run(
        self,
        runs: Runs,
        start: LayerStates,
        *,
        with_marks: bool,
        with_end: bool = False,
        workspace: Optional[Workspace] = None,
    ) -> Tuple[Tensor, Optional[LayerStates]]:
        distinct, number = _distinct(runs)
        marked = ([SENTENCE_BEGIN, *run, SENTENCE_END] for run in runs) if with_marks else runs
        tokens = [number[word] for run in marked for word in run]
        plan = plan_lanes([len(run) + 2 * with_marks for run in runs], MAX_LANES)
        words = np.asarray(tokens, dtype="int64")
        vectors = self.words.encode(distinct)
        return self.runner.run(vectors, (words, words), plan, start, with_end=with_end, workspace=workspace)

    def _start(self, state: str) -> LayerStates:
        if state == "steady":
            return self.steady_state.to_layers(self.config)
        return BiLMState.zeros(self.config, 1, self.device).to_layers(self.config)

    def _state_after_mark(self, state: str) -> LayerStates:
        """The state after the first mark is the same for every sentence: no need to compute it again and again.

        The forward direction has read `<S>`, the backward one `</S>`; what they would read last has no use.
        """
        if state not in self._after_mark:
            vectors = self.words.encode([SENTENCE_BEGIN, SENTENCE_END])
            marks = (np.array([0]), np.array([1]))
            _, end = self.runner.run(vectors, marks, plan_lanes([1], 1), self._start(state), with_end=True)
            self._after_mark[state] = end or []
        return self._after_mark[state]

    def _settle(self) -> BiLMState:
        state = BiLMState.zeros(self.config, 1, self.device)
        for _ in range(STEADY_PASSES):
            _, end = self._run([[]], state.to_layers(self.config), with_marks=True, with_end=True)
            new = BiLMState.from_layers(end or [])
            change = max(float((new.h - state.h).abs().max()), float((new.c - state.c).abs().max()))
            state = new
            if change < STEADY_CHANGE:
                break
        return state


def _distinct(runs: Runs) -> Tuple[List[str], Dict[str, int]]:
    """Distinct words in the order met, marks first, and the number of each."""
    words = list(dict.fromkeys(chain([SENTENCE_BEGIN, SENTENCE_END], *runs)))
    return words, {word: number for number, word in enumerate(words)}


def _cut_by_budget(runs: Runs, batch_tokens: int) -> Iterator[Tuple[int, int]]:
    """Consecutive runs of at most `batch_tokens` together, at least one."""
    start = total = 0
    for i, run in enumerate(runs):
        if i > start and total + len(run) > batch_tokens:
            yield start, i
            start, total = i, 0
        total += len(run)
    if start < len(runs):
        yield start, len(runs)


def _cut_groups(runs: Runs, batch_tokens: int, group_lengths: Sequence[int]) -> Iterator[List[Tuple[int, int, bool]]]:
    """Like `_cut_by_budget`, each slice as pieces of groups: start, stop, whether it goes on with a cut group."""
    stops = np.cumsum(group_lengths).tolist()
    group = 0
    for start, stop in _cut_by_budget(runs, batch_tokens):
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


def _inner_places(lengths: Sequence[int]) -> np.ndarray:
    """Places of the words in a text whose sentences stand between marks."""
    sizes = np.asarray(lengths, dtype="int64")
    firsts = np.cumsum(sizes + 2) - sizes - 1
    return np.repeat(firsts - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
