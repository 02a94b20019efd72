"""Running the LSTM stack over a lane plan: no padding, input products in large blocks, a thin loop over time.

Block by block, so that the gates of a few steps only are held: first all steps of the block in layer 1, then in
layer 2, and so on. Both directions go through each operation together.
"""

from typing import List, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from ..bilm.config import BiLMConfig
from ..bilm.stepper import PackedLayer
from ..text.lanes import LanePlan
from .state import LayerStates

GATE_BYTES = 32 * 2**20  # gates held for one block
WORD_GATE_BYTES = 256 * 2**20  # gates of the first layer, held for all distinct words of a plan
Places = List[Tuple[Tensor, Tensor]]


class LaneRunner:
    """The stack of packed layers.

    config (BiLMConfig): Sizes and switches.
    layers (Sequence[PackedLayer]): From the lowest up.
    """

    def __init__(self, config: BiLMConfig, layers: Sequence[PackedLayer]) -> None:
        self.config = config
        self.layers = layers
        self.device = layers[0].bias.device

    @torch.no_grad()
    def run(
        self,
        vectors: Tensor,
        words: Tuple[np.ndarray, ...],
        plan: LanePlan,
        start: LayerStates,
        *,
        slots: Optional[Tuple[np.ndarray, ...]] = None,
        with_end: bool = False,
    ) -> Tuple[Tensor, Optional[LayerStates]]:
        """Compute all layers of all tokens of a plan.

        vectors (Tensor): Shape (U, P), the distinct words.
        words (Tuple[np.ndarray, ...]): For each direction shape (N,), the word of each token in text order.
        plan (LanePlan): Where the sequences lie.
        start (LayerStates): For each layer h (d, rows, P) and c (d, rows, H); one row for all sequences, or one each.
        slots (Optional[Tuple[np.ndarray, ...]]): For each direction shape (N,), the slot of each token; None for the
            backward direction reading each sequence from its end.
        with_end (bool): Also return the states after each sequence.
        RETURNS (Tuple[Tensor, Optional[LayerStates]]): Layers (L+1, N, D), and states with one row per sequence.
        """
        slots = slots or (plan.slots(), plan.slots(backward=True))
        run = _Run(self, vectors, words, slots, plan, start, with_end)
        for first in range(0, plan.n_steps, run.block_steps):
            run.block(first, min(first + run.block_steps, plan.n_steps))
        return run.result(), run.ends if with_end else None


class _Run:
    """The working memory of one call."""

    def __init__(
        self,
        runner: LaneRunner,
        vectors: Tensor,
        words: Tuple[np.ndarray, ...],
        slots: Tuple[np.ndarray, ...],
        plan: LanePlan,
        start: LayerStates,
        with_end: bool,
    ) -> None:
        self.layers, self.config, self.plan = runner.layers, runner.config, plan
        self.vectors = vectors
        self.d = runner.config.n_directions
        self.device = runner.device
        n_lanes, n_steps, width = plan.n_lanes, plan.n_steps, runner.config.projection_width
        self.slots = [self._tensor(slots[k]) for k in range(self.d)]
        self.words = [self._tensor(words[k]) for k in range(self.d)]
        self.places = torch.zeros(self.d, n_steps * n_lanes, dtype=torch.long, device=self.device)
        for k in range(self.d):
            self.places[k, self.slots[k]] = self.words[k]
        self.n_active = plan.n_active.tolist()
        self.begin_at = self._by_step(plan.begins())
        self.end_at = self._by_step(plan.ends()) if with_end else []
        self.start = [(h, 2.0 * c) for h, c in start]
        self.ends = [
            (
                h.expand(self.d, len(plan.lengths), -1).clone(),
                c.expand(self.d, len(plan.lengths), -1).clone(),
            )
            for h, c in start
        ]
        cell_width = runner.config.cell_width
        like = vectors.new_empty
        self.h = [like(self.d, n_lanes, width) for _ in self.layers]
        self.c2 = [like(self.d, n_lanes, cell_width) for _ in self.layers]
        self.outputs = [torch.zeros(self.d, n_steps, n_lanes, width, device=self.device) for _ in self.layers]
        step_bytes = 4 * self.d * n_lanes * 4 * cell_width
        self.block_steps = max(4, GATE_BYTES // max(1, step_bytes))
        self._acts = like(self.d * n_lanes * 4 * cell_width)
        self._squashed = like(self.d * n_lanes * cell_width)
        self._out = like(self.d * n_lanes * width)
        word_bytes = 4 * self.d * len(vectors) * 4 * cell_width
        self.word_gates: Optional[Tensor] = None
        if word_bytes <= WORD_GATE_BYTES and n_steps:
            self.word_gates = self.layers[0].input_gates(vectors.unsqueeze(0))  # (d, U, 4H)

    def block(self, first: int, end: int) -> None:
        """All layers of the steps from `first` to before `end`."""
        n_lanes = self.n_active[first]
        places = self.places.view(self.d, -1, self.plan.n_lanes)[:, first:end, :n_lanes]  # (d, K, b)
        inputs: Optional[Tensor] = None
        for number, layer in enumerate(self.layers):
            gates: Optional[Tensor] = None
            if inputs is not None:
                gates = layer.input_gates(inputs.flatten(1, 2)).view(self.d, end - first, n_lanes, -1)
            elif self.word_gates is None:
                rows = self.vectors[places.flatten(1)]  # (d, K * b, P)
                gates = layer.input_gates(rows).view(self.d, end - first, n_lanes, -1)
            for s in range(first, end):
                self._step(number, layer, s, places[:, s - first], None if gates is None else gates[:, s - first])
            outputs = self.outputs[number][:, first:end, :n_lanes]  # (d, K, b, P), a view
            if inputs is not None and self.config.has_skip:
                outputs += inputs
            inputs = outputs

    def result(self) -> Tensor:
        """RETURNS (Tensor): Shape (L+1, N, D), tokens in text order."""
        n_tokens, width = len(self.slots[0]), self.config.projection_width
        layers = torch.empty(len(self.layers) + 1, n_tokens, self.d * width, device=self.device)
        for k in range(self.d):
            columns = slice(k * width, (k + 1) * width)
            layers[0, :, columns] = self.vectors[self.words[k]]
            for number, outputs in enumerate(self.outputs, start=1):
                layers[number, :, columns] = outputs[k].flatten(0, 1)[self.slots[k]]
        return layers

    def _step(self, number: int, layer: PackedLayer, s: int, places: Tensor, gates: Optional[Tensor]) -> None:
        b = self.n_active[s]
        h, c2 = self.h[number], self.c2[number]
        lanes, sequences = self.begin_at[s]
        if len(lanes):
            start_h, start_c2 = self.start[number]
            _put(h, lanes, start_h, sequences)
            _put(c2, lanes, start_c2, sequences)
        acts = self._acts[: self.d * b * 4 * layer.cell_width].view(self.d, b, -1)
        squashed = self._squashed[: self.d * b * layer.cell_width].view(self.d, b, -1)
        out = self._out[: self.d * b * layer.output_width].view(self.d, b, -1)
        if gates is not None:
            acts.copy_(gates[:, :b])
        else:
            for k in range(self.d):
                torch.index_select(self.word_gates[k], 0, places[k, :b], out=acts[k])  # type: ignore[index]
        layer.step(acts, h[:, :b], c2[:, :b], out, squashed)
        h[:, :b] = out
        self.outputs[number][:, s, :b] = out
        if self.end_at and len(self.end_at[s][0]):
            lanes, sequences = self.end_at[s]
            self.ends[number][0][:, sequences] = h[:, lanes]
            self.ends[number][1][:, sequences] = 0.5 * c2[:, lanes]

    def _by_step(self, pairs: Sequence[Tuple[np.ndarray, np.ndarray]]) -> Places:
        """Put the small index arrays of all steps on the device at once."""
        sizes = [len(lanes) for lanes, _ in pairs]
        if not sizes:
            return []
        lanes, sequences = (self._tensor(np.concatenate([pair[k] for pair in pairs])).split(sizes) for k in (0, 1))
        return list(zip(lanes, sequences))

    def _tensor(self, numbers: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(numbers)).to(self.device)


def _put(target: Tensor, lanes: Tensor, source: Tensor, sequences: Tensor) -> None:
    """Set rows of lanes to the start of their sequences; a source of one row serves all."""
    rows = source.expand(-1, len(lanes), -1) if source.shape[1] == 1 else source[:, sequences]
    target.index_copy_(1, lanes, rows)
