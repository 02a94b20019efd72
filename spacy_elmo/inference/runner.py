"""Runs a network with constant weights; `dispatch` selects the path for each plan."""

from typing import Any, Callable, Dict, List, Optional, Protocol, Tuple

import torch
from torch import Tensor

from ..bilm.graphs import uses_graphs
from ..bilm.model import BiLMNetwork
from ..bilm.state import LSTMState, State
from ..text.lanes import Ids, LanePlan
from .dispatch import Path, Sizes, choose_path
from .lane_graphs import LaneGraphs
from .lanes import LaneRun, Schedule
from .packed import LayerCombiner, PackedLayer, Pairs, Stack, split_directions
from .products import has_packing
from .quantization import precision_of
from .single_sequence import UnpackedLayer, run_single_sequence
from .threads import run_parallel
from .transformer import TransformerRunner
from .whole_sequences import WholeSequenceRunner
from .workspace import Workspace, WorkspacePool


class Runner(Protocol):
    """Runs one kind of encoder over word vectors."""

    def run(
        self,
        vectors: Tensor,
        words: Tuple[Ids, ...],
        plan: LanePlan,
        start: State,
        *,
        slots: Optional[Tuple[Ids, ...]] = None,
        with_end: bool = False,
        workspace: Optional[Workspace] = None,
    ) -> Tuple[Tensor, Optional[State]]:
        """Compute all layers of all tokens of a plan.

        vectors (Tensor): Shape (U, P), vectors of the distinct words.
        words (Tuple[Ids, ...]): For each direction shape (N,), the word of each token in text order.
        plan (LanePlan): Positions of the sequences.
        start (State): Initial states, one row for all sequences, or one row each.
        slots (Optional[Tuple[Ids, ...]]): For each direction shape (N,), the slot of each token; None for those of the
            plan, where the backward direction reads each sequence from its end.
        with_end (bool): Also return the states after each sequence.
        workspace (Optional[Workspace]): Memory for the layers; None for new memory.
        RETURNS (Tuple[Tensor, Optional[State]]): Layers (L+1, N, D), and states with one row per sequence.
        """

    def prepare(self) -> None:
        """Derive now everything from the weights that the first call would derive, so that processes can share it."""


class LSTMRunner:
    """Runs an LSTM stack. The weights are prepared for each path on its first use.

    network (BiLMNetwork): With constant weights, in any precision.
    """

    def __init__(self, network: BiLMNetwork) -> None:
        self.config = config = network.config
        self.device, self.precision = network.device, precision_of(network)
        encoder: Any = network.encoder
        layers, combiner = list(encoder.layers), LayerCombiner(config, list(encoder.highways))
        self.sizes = Sizes(config.n_directions, config.cell_width, config.projection_width)
        self._has_packing = has_packing(layers[0].bias)
        self._stacks = [
            Stack(config, part, [PackedLayer(one, part, can_join=self.sizes.can_join) for one in layers], combiner)
            for part in split_directions(layers[0])
        ]
        self._workspaces = WorkspacePool(self.device, len(self._stacks))
        self._graphs: Optional[LaneGraphs] = None
        if uses_graphs(self.device) and len(self._stacks) == 1 and not self._has_packing:
            self._graphs = LaneGraphs(self._stacks[0], self.device)
        self._unpacked: Optional[Stack] = None
        if self.device.type == "cpu" and self.precision == "float32":
            packed: Any = zip(*(stack.layers for stack in self._stacks))  # by layer
            unpacked = [UnpackedLayer(layer, parts) for layer, parts in zip(layers, packed)]
            self._unpacked = Stack(config, slice(0, config.n_directions), unpacked, combiner)

    @torch.no_grad()
    def run(
        self,
        vectors: Tensor,
        words: Tuple[Ids, ...],
        plan: LanePlan,
        start: State,
        *,
        slots: Optional[Tuple[Ids, ...]] = None,
        with_end: bool = False,
        workspace: Optional[Workspace] = None,
    ) -> Tuple[Tensor, Optional[State]]:
        """See `Runner.run`."""
        slots = (plan.slots(), plan.slots(backward=True)) if slots is None else slots
        path = choose_path(plan, self.device, self.precision, self.sizes, has_packing=self._has_packing)
        shape = (self.config.n_layers + 1, len(words[0]), self.config.output_width)
        layers = vectors.new_empty(shape) if workspace is None else workspace.take("layers", *shape)
        if self._unpacked is not None and path in (Path.SINGLE_TOGETHER, Path.SINGLE_IN_TURN):
            is_together = path is Path.SINGLE_TOGETHER
            stack = self._unpacked
            end = run_single_sequence(
                stack, vectors, words, plan, start, slots, layers, is_together=is_together, with_end=with_end
            )
            return layers, end
        if path is Path.BATCHED and self._graphs is not None and not with_end:
            with self._workspaces.borrow() as own:
                if self._graphs.run(plan, vectors, words, slots, list(start.layers), layers, own):
                    return layers, None
        ends = self._run_lanes(path, Schedule(plan, self.device, with_end), vectors, words, slots, start, layers)
        return layers, _join_directions(ends) if with_end else None

    def _run_lanes(
        self,
        path: Path,
        schedule: Schedule,
        vectors: Tensor,
        words: Tuple[Ids, ...],
        slots: Tuple[Ids, ...],
        start: State,
        layers: Tensor,
    ) -> List[Pairs]:
        """layers (Tensor): Output, shape (L+1, N, D).
        RETURNS (List[Pairs]): For each stack the states after each sequence.
        """

        def run_stack(stack: Stack) -> Pairs:
            part = stack.directions
            stack_start = [(h[part], c[part]) for h, c in start.layers]
            with self._workspaces.borrow() as own:
                run = LaneRun(stack, schedule, vectors, words[part], slots[part], stack_start, own)
                run.run()
                run.write(layers)
                return run.ends

        if path is Path.FEW_LANES and self._unpacked is not None:
            return [run_stack(self._unpacked)]
        if path is Path.PARALLEL:
            return run_parallel(run_stack, self._stacks)
        return [run_stack(stack) for stack in self._stacks]

    def prepare(self) -> None:
        """See `Runner.prepare`."""
        for stack in [*self._stacks, *([] if self._unpacked is None else [self._unpacked])]:
            stack.combiner.prepare()
            for layer in stack.layers:
                layer.prepare()


def _join_directions(parts: List[Pairs]) -> State:
    layers = (map(torch.cat, zip(*pairs)) for pairs in zip(*parts))  # for each layer h and c of all directions
    return State(tuple(LSTMState(*layer) for layer in layers))


# By the value of `BiLMConfig.encoder`, as in `bilm.encoder.ENCODERS`.
RUNNERS: Dict[str, Callable[[BiLMNetwork], Runner]] = {
    "lstm": LSTMRunner,
    "bilstm": WholeSequenceRunner,
    "transformer": TransformerRunner,
}


def make_runner(network: BiLMNetwork) -> Runner:
    """network (BiLMNetwork): Its weights must not change afterwards.
    RETURNS (Runner): Runner of its encoder.
    """
    return RUNNERS[network.config.encoder](network)
