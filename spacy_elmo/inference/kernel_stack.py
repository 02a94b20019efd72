"""Run LSTM layers over lanes on a CPU, by the native kernel (`_kernel.h`), with weights in float32, bfloat16 or int8.

One call computes many steps of a layer for some lanes. Directions and lanes are divided among threads; they share
read-only data. The input side of layer 1 depends only on the word: it is computed once per distinct word.
"""

import math
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from ..bilm.config import BiLMConfig
from ..bilm.lstm import full_bias
from ..bilm.state import LSTMState, State
from .kernel import native, order_gates, pack_panels, pad_columns, pad_width
from .kernel_records import WEIGHT_TYPES, KernelLayer, KernelTask, pack_record
from .limits import CALL_MULTIPLICATIONS, FEW_LANES, GATE_BYTES, MIN_THREAD_LANES
from .runtime import WorkspacePool, run_parallel
from .torch_lanes import LaneBatch


class LaneRange(NamedTuple):
    """What a thread computes: some lanes of a direction."""

    direction: int
    first_lane: int
    n_lanes: int


PackedLayer = List[Optional[Tensor]]  # one direction of a layer: the first fields of `KernelLayer`


class StackConstants(NamedTuple):
    """Fields of `KernelTask` that all layers and both directions share."""

    width: int
    cell_width: int
    has_skip: bool
    type: int
    cell_clip: float
    projection_clip: float


class KernelStack:
    """The layers of an LSTM stack, packed for the kernel.

    directions (Sequence[Sequence[PackedLayer]]): The layers of each direction.
    constants (StackConstants): What they share.
    gate_bytes (int): Limit of a table of gates, which all layers read before the gates of further steps are computed.
    """

    def __init__(self, directions: Sequence[Sequence[PackedLayer]], constants: StackConstants, gate_bytes: int) -> None:
        self._directions, self._constants, self._gate_bytes = directions, constants, gate_bytes
        self._gates_width = 4 * pad_width(constants.cell_width)
        self._workspaces = WorkspacePool(torch.device("cpu"), len(directions))

    def run(
        self, batch: LaneBatch, outputs: Tensor, token_rows: Optional[Tensor] = None, *, with_end: bool = False
    ) -> State:
        """Compute all layers of all tokens of a plan. Rows are in the order of the text, the directions concatenated.

        outputs (Tensor): Shape (L, N, D), set to the outputs of the layers.
        token_rows (Optional[Tensor]): Shape (N, D) with the strides of a layer, set to the input vectors, where these
            are as wide as the outputs.
        RETURNS (State): The states after each sequence; empty without `with_end`.
        """
        plan, constants = batch.plan, self._constants
        vectors = batch.vectors.detach().contiguous()
        starts = [(h.contiguous(), c.contiguous()) for h, c in batch.start.layers]
        ends: List[LSTMState] = []
        if with_end:  # an empty sequence keeps its initial state
            n = len(plan.lengths)
            ends = [LSTMState(*(state.expand(-1, n, -1).clone() for state in pair)) for pair in starts]
        n_active = plan.n_active.astype("int32")
        starting, ending = np.full((2, plan.n_steps, plan.n_lanes), -1, dtype="int32")
        sequences = np.flatnonzero(plan.lengths)
        lanes, offsets = plan.lanes[sequences], plan.offsets[sequences]
        starting[offsets, lanes] = 0 if starts[0][0].shape[1] == 1 else sequences
        ending[offsets + plan.lengths[sequences] - 1, lanes] = sequences
        words = [numbers.astype("int32") for numbers in batch.words]
        tokens = np.zeros((len(words), plan.n_steps, plan.n_lanes), dtype="int32")
        for slots, numbers in zip(batch.slots, tokens):
            numbers.reshape(-1)[slots] = np.arange(len(slots))
        max_slots = CALL_MULTIPLICATIONS // (9 * len(starts) * constants.width * constants.cell_width)

        def run_lanes(lane_range: LaneRange) -> None:
            k, first_lane, n_lanes = lane_range
            columns = slice(k * constants.width, (k + 1) * constants.width)
            n_rows = max(n_lanes, min(self._gate_bytes // (4 * self._gates_width), n_lanes * plan.n_steps))
            states: Any = zip(starts, ends) if ends else ((pair, (None, None)) for pair in starts)
            stack = [
                [*layer, *(None if state is None else state[k] for pair in pairs for state in pair)]
                for layer, pairs in zip(self._directions[k], states)
            ]
            records = [KernelLayer(*(0 if x is None else x.data_ptr() for x in layer)) for layer in stack]
            layer_records = np.frombuffer(b"".join(map(pack_record, records)), dtype="uint8")
            with self._workspaces.borrow() as workspace:
                gates = workspace.take("gates", n_rows * self._gates_width)
                task = KernelTask(
                    layers=layer_records.ctypes.data,
                    vectors=vectors.data_ptr(),
                    words=words[k].ctypes.data,
                    tokens=tokens[k].ctypes.data,
                    n_active=n_active.ctypes.data,
                    starting=starting.ctypes.data,
                    ending=ending.ctypes.data if with_end else 0,
                    token_rows=0 if token_rows is None else token_rows[:, columns].data_ptr(),
                    outputs=outputs[0, :, columns].data_ptr(),
                    gates=gates.data_ptr(),
                    n_layers=len(stack),
                    input_width=vectors.shape[1],
                    n_words=len(vectors),
                    rows_stride=outputs.stride(1),
                    layer_stride=outputs.stride(0),
                    n_steps=plan.n_steps,
                    n_plan_lanes=plan.n_lanes,
                    first_lane=first_lane,
                    n_lanes=n_lanes,
                    max_gates=len(gates),
                    max_slots=min(max_slots, plan.n_steps * n_lanes),
                    few_lanes=FEW_LANES,
                    **constants._asdict(),
                )
                native.run(pack_record(task))

        edges = divide_lanes(plan.n_lanes, len(words))
        run_parallel(
            run_lanes,
            [LaneRange(k, start, stop - start) for k in range(len(words)) for start, stop in edges],
        )
        return State(tuple(ends))


@torch.no_grad()
def pack_stack(config: BiLMConfig, layers: Sequence[Any], highways: Sequence[Any]) -> KernelStack:
    """The layers of an `LSTMStack`. Weights in float32 are packed, others are packed already."""
    around = [None, *(highways or [None] * len(layers))]
    directions = [
        [_pack_layer(layer, highway, k) for layer, highway in zip(layers, around)] for k in range(config.n_directions)
    ]
    weight = layers[0].recurrent_weight
    constants = StackConstants(
        width=config.projection_width,
        cell_width=config.cell_width,
        has_skip=config.has_skip,
        type=WEIGHT_TYPES.index("float32" if isinstance(weight, Tensor) else weight.precision),
        cell_clip=math.inf if config.cell_clip is None else config.cell_clip,
        projection_clip=math.inf if config.projection_clip is None else config.projection_clip,
    )
    return KernelStack(directions, constants, GATE_BYTES)


def _pack_layer(layer: Any, highway: Any, k: int) -> PackedLayer:
    """One direction of an `LSTMLayer` and the `LayerHighway` around it: the first fields of a layer in `_kernel.h`."""
    return [
        _pack(layer.input_weight, k, are_gates=True),
        _pack(layer.recurrent_weight, k, are_gates=True),
        order_gates(full_bias(layer.bias)[k]),
        _pack(layer.projection_weight, k),
        None if highway is None else _pack(highway.weight, k),
        None if highway is None else pad_columns(highway.bias[k]).clone(),
    ]


def _pack(weight: Any, k: int, *, are_gates: bool = False) -> Optional[Tensor]:
    """Panels of one direction of a parameter, or of a matrix that has its panels."""
    if isinstance(weight, Tensor):
        return pack_panels(order_gates(weight[k]) if are_gates else weight[k])
    panels: Optional[Tensor] = None if weight is None else weight.panels[k]
    return panels


def divide_lanes(n_lanes: int, n_directions: int) -> List[Tuple[int, int]]:
    """First lane and end of each lane range of a direction; the ranges of all directions keep all threads busy."""
    n_threads = torch.get_num_threads()
    n_ranges = min(n_threads // math.gcd(n_threads, n_directions), max(1, n_lanes // MIN_THREAD_LANES))
    edges = [n_lanes * k // n_ranges for k in range(n_ranges + 1)]
    return list(zip(edges, edges[1:])) if n_lanes else []
