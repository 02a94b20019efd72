"""Run an LSTM stack over a lane plan by CUDA graphs: one launch for a block of steps of all layers.

All lanes are computed at all steps of a block, so that plans of similar size share a graph; what idle lanes and steps
give is not used. States and outputs lie in memory of fixed addresses.
"""

import logging
import threading
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from ..bilm.graphs import Graph, make_pool
from ..text.lanes import Ids, LanePlan
from .dispatch import GRAPH_GATE_BYTES, GRAPH_MIN_LANES, GRAPH_STEPS
from .memory import to_device
from .packed import Pairs, Stack
from .workspace import Workspace

logger = logging.getLogger("spacy_elmo")


class LaneGraphs:
    """The graphs of a stack, one for each power of two of lanes. A number of lanes is captured when it comes again.

    stack (Stack): The layers of all directions.
    device (torch.device): Their device.
    """

    def __init__(self, stack: Stack, device: torch.device) -> None:
        self._stack, self._device = stack, device
        self._pool = make_pool(device)
        self._blocks: Dict[Any, Optional[_Block]] = {}
        self._lock = threading.Lock()  # graphs have their own memory: one plan at a time
        self._is_off = False

    def run(
        self,
        plan: LanePlan,
        vectors: Tensor,
        words: Sequence[Ids],
        slots: Sequence[Ids],
        start: Pairs,
        layers: Tensor,
        workspace: Workspace,
    ) -> bool:
        """Compute a plan. See `LaneRun`.

        start (Pairs): Initial states, one row for all sequences.
        layers (Tensor): Output, shape (L+1, N, D).
        RETURNS (bool): False if it is not computed: a new number of lanes, several initial states, or another thread
            that uses the graphs.
        """
        if self._is_off or start[0][0].shape[1] != 1 or not self._lock.acquire(blocking=False):
            return False
        try:
            block = self._find(plan.n_lanes)
            if block is None:
                return False
            self._run(block, plan, vectors, words, slots, start, layers, workspace)
            return True
        finally:
            self._lock.release()

    def _find(self, n_lanes: int) -> Optional["_Block"]:
        size = max(GRAPH_MIN_LANES, 1 << (n_lanes - 1).bit_length())
        stream = torch.cuda.current_stream(self._device).cuda_stream if self._device.type == "cuda" else 0
        key = size, stream
        if key not in self._blocks:
            self._blocks[key] = None
        elif self._blocks[key] is None:
            try:
                with torch.inference_mode(False), torch.no_grad():
                    self._blocks[key] = _Block(self._stack, size, self._device, self._pool)
            except RuntimeError as error:  # mostly too little memory
                logger.warning("Vectors are computed without CUDA graphs: %s", error)
                self._is_off = True
        return self._blocks[key]

    def _run(
        self,
        block: "_Block",
        plan: LanePlan,
        vectors: Tensor,
        words: Sequence[Ids],
        slots: Sequence[Ids],
        start: Pairs,
        layers: Tensor,
        workspace: Workspace,
    ) -> None:
        d, n_lanes, n_steps = len(words), block.n_lanes, block.n_steps
        n_blocks = -(-plan.n_steps // n_steps)
        index = np.zeros((d, n_blocks * n_steps, n_lanes), dtype="int64")
        places = [slot // plan.n_lanes * n_lanes + slot % plan.n_lanes for slot in slots]
        for own, place, word in zip(index, places, words):
            own.reshape(-1)[place] = word
        begins = np.zeros((n_blocks * n_steps, n_lanes, 1), dtype=bool)
        begins[plan.offsets[plan.lengths > 0], plan.lanes[plan.lengths > 0]] = True
        rows = self._send(index.reshape(d, n_blocks, n_steps * n_lanes))
        resets = self._send(begins.reshape(n_blocks, n_steps, n_lanes, 1))
        outputs = workspace.take("outputs", len(block.outputs), d, n_blocks * n_steps, n_lanes, vectors.shape[1])
        block.begin(start)
        for number in range(n_blocks):
            steps = slice(number * n_steps, (number + 1) * n_steps)
            outputs[:, :, steps] = block.replay(vectors, rows[:, number], resets[number])
        for k in range(d):
            columns = slice(k * vectors.shape[1], (k + 1) * vectors.shape[1])
            torch.index_select(vectors, 0, self._send(words[k]), out=layers[0, :, columns])
            place_of = self._send(places[k])
            for number, part in enumerate(outputs, start=1):
                torch.index_select(part[k].flatten(0, 1), 0, place_of, out=layers[number, :, columns])

    def _send(self, array: Any) -> Tensor:
        return to_device(array, self._device)


class _Block:
    """A graph of some steps of all layers."""

    def __init__(self, stack: Stack, n_lanes: int, device: torch.device, pool: Any) -> None:
        config = stack.config
        d, width, cell_width = config.n_directions, config.projection_width, config.cell_width
        step_bytes = 4 * d * n_lanes * 4 * cell_width
        self.n_lanes, self.n_steps = n_lanes, max(1, min(GRAPH_STEPS, GRAPH_GATE_BYTES // step_bytes))
        self._stack = stack

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(*shape, dtype=torch.float32, device=device)

        self._inputs = zeros(d, self.n_steps, n_lanes, width)
        self._resets = torch.zeros(self.n_steps, n_lanes, 1, dtype=torch.bool, device=device)
        self._start = [(zeros(d, 1, width), zeros(d, 1, cell_width)) for _ in stack.layers]
        self._states = [(zeros(d, n_lanes, width), zeros(d, n_lanes, cell_width)) for _ in stack.layers]
        self.outputs = zeros(len(stack.layers), d, self.n_steps, n_lanes, width)
        self._graph = Graph(self._compute, device, pool)

    def begin(self, start: Pairs) -> None:
        """start (Pairs): Initial states h and c, one row each."""
        for (h, c2), (given_h, given_c) in zip(self._start, start):
            h.copy_(given_h)
            torch.mul(given_c, 2.0, out=c2)

    def replay(self, vectors: Tensor, words: Tensor, resets: Tensor) -> Tensor:
        """vectors (Tensor): Shape (U, P).
        words (Tensor): Shape (d, K * B), the word of each slot.
        resets (Tensor): Shape (K, B, 1), where sequences begin.
        RETURNS (Tensor): Shape (L, d, K, B, P), outputs of all layers, valid until the next call.
        """
        for rows, inputs in zip(words, self._inputs):
            torch.index_select(vectors, 0, rows, out=inputs.view(-1, inputs.shape[-1]))
        self._resets.copy_(resets)
        self._graph.replay()
        return self.outputs

    def _compute(self) -> None:
        inputs = self._inputs  # (d, K, B, P)
        resets: List[Tensor] = list(self._resets.unbind(0))
        for number, (layer, (h, c2), (start_h, start_c2)) in enumerate(
            zip(self._stack.layers, self._states, self._start)
        ):
            gates = layer.input_gates(inputs.flatten(1, 2)).view(*inputs.shape[:3], -1)
            outputs = self.outputs[number]
            now: Tuple[Tensor, Tensor] = (h, c2)
            for s, is_begin in enumerate(resets):
                own_c2 = torch.where(is_begin, start_c2, now[1])
                out = layer.step(gates[:, s], torch.where(is_begin, start_h, now[0]), own_c2)
                outputs[:, s] = out
                now = (out, own_c2)
            h.copy_(now[0])
            c2.copy_(now[1])
            self._stack.combiner.combine_(number, inputs, outputs, self._stack.directions)
            inputs = outputs
