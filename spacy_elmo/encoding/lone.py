"""Running the LSTM stack over one sequence, in blocks of steps."""

from typing import List, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from ..bilm.config import BiLMConfig
from ..bilm.lone import JoinedHighway, LoneLayer
from ..text.lanes import Ids, LanePlan
from .state import LayerStates

BLOCK_BYTES = 32 * 2**20  # gates of one block


class LoneRunner:
    """The stack of LSTM layers for plans of one sequence, all directions.

    config (BiLMConfig): Sizes and switches.
    layers (Sequence[LoneLayer]): From the lowest up.
    highways (Sequence[JoinedHighway]): Past the second layer and those above, if the config says so.
    """

    def __init__(self, config: BiLMConfig, layers: Sequence[LoneLayer], highways: Sequence[JoinedHighway]) -> None:
        self.config = config
        self._layers = layers
        self._highways = highways

    def run(
        self, vectors: Tensor, words: Sequence[Ids], plan: LanePlan, start: LayerStates, slots: Sequence[Ids]
    ) -> Tuple[Tensor, LayerStates]:
        """Compute all layers of all tokens; arguments as in `LaneRunner.run`, of which one sequence has tokens.

        RETURNS (Tuple[Tensor, LayerStates]): Layers (L+1, N, D), and states with one row per sequence.
        """
        config, d = self.config, self.config.n_directions
        own = int(np.flatnonzero(plan.lengths)[0])
        width, n_steps = config.projection_width, plan.n_steps
        layers = vectors.new_empty(config.n_layers + 1, n_steps, config.output_width)
        read = np.empty((d, n_steps), dtype="int64")  # the word at each step
        for k in range(d):
            read[k, slots[k]] = words[k]
            layers[0, :, k * width : (k + 1) * width] = vectors[torch.from_numpy(words[k])]
        order = torch.from_numpy(np.stack(slots[:d]))
        rows = vectors[torch.from_numpy(read)]  # (d, S, P)
        state = [(_row(h, own).clone(), 2.0 * _row(c, own)) for h, c in start]
        outputs = self._run(rows, state)
        for number, output in enumerate(outputs, start=1):
            for k in range(d):
                layers[number, :, k * width : (k + 1) * width] = output[k, order[k]]
        return layers, [
            _with_row(before, own, after, len(plan.lengths)) for before, after in zip(start, state)
        ]

    def _run(self, rows: Tensor, state: List[Tuple[Tensor, Tensor]]) -> List[Tensor]:
        """rows (Tensor): Shape (d, S, P).
        state (List[Tuple[Tensor, Tensor]]): For each layer h (d, 1, P) and twice c (d, 1, H); set to the last ones.
        RETURNS (List[Tensor]): For each layer shape (d, S, P).
        """
        outputs = [torch.empty_like(rows) for _ in self._layers]
        block = max(4, BLOCK_BYTES // (4 * len(rows) * 4 * self.config.cell_width))
        for first in range(0, rows.shape[1], block):
            inputs = rows[:, first : first + block]
            for number, layer in enumerate(self._layers):
                h, c2 = state[number]
                found = layer.run(layer.input_gates(inputs), h, c2)
                state[number] = (found[-1], c2)
                part = outputs[number][:, first : first + block]
                part.copy_(found.squeeze(2).transpose(0, 1))
                if number and self.config.has_skip:
                    part += inputs
                elif number and self.config.highway_between:
                    self._highways[number - 1].mix(inputs.unsqueeze(2), part.unsqueeze(2))
                inputs = part
        return outputs


def is_lone(plan: LanePlan, device: torch.device) -> bool:
    """RETURNS (bool): Whether `LoneRunner` is the faster one for this plan."""
    return device.type == "cpu" and np.count_nonzero(plan.lengths) == 1


def _row(state: Tensor, own: int) -> Tensor:
    """state (Tensor): Shape (d, 1 or R, ...). RETURNS (Tensor): Shape (d, 1, ...), the row of a sequence."""
    return state if state.shape[1] == 1 else state[:, own : own + 1]


def _with_row(
    before: Tuple[Tensor, Tensor], own: int, after: Tuple[Tensor, Tensor], n_rows: int
) -> Tuple[Tensor, Tensor]:
    """RETURNS (Tuple[Tensor, Tensor]): h (d, n_rows, P) and c (d, n_rows, H); other rows keep what they began with."""
    h, c = (part.expand(-1, n_rows, -1).clone() for part in before)
    h[:, own], c[:, own] = after[0][:, 0], 0.5 * after[1][:, 0]
    return h, c
