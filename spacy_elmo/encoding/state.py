"""Recurrent state as a value: an argument and a result, never hidden in a module."""

from dataclasses import dataclass
from typing import List, Sequence, Tuple

import torch
from torch import Tensor

from ..bilm.config import BiLMConfig
from ..errors import Errors

LayerStates = List[Tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class BiLMState:
    """Where the LSTMs of some sequences stand.

    h (Tensor): Shape (L, rows, 2P), outputs before the skip connection, forward half first.
    c (Tensor): Shape (L, rows, 2H), memory cells.
    """

    h: Tensor
    c: Tensor

    @classmethod
    def zeros(cls, config: BiLMConfig, n_rows: int, device: torch.device) -> "BiLMState":
        """RETURNS (BiLMState): All zero."""
        d, n_layers = config.n_directions, config.n_layers
        return cls(
            torch.zeros(n_layers, n_rows, d * config.projection_width, device=device),
            torch.zeros(n_layers, n_rows, d * config.cell_width, device=device),
        )

    @classmethod
    def from_layers(cls, layers: Sequence[Tuple[Tensor, Tensor]]) -> "BiLMState":
        """layers (Sequence[Tuple[Tensor, Tensor]]): For each layer h (d, rows, P) and c (d, rows, H).
        RETURNS (BiLMState): The same, directions side by side.
        """
        return cls(*(torch.stack([_beside(state[k]) for state in layers]) for k in (0, 1)))

    def to_layers(self, config: BiLMConfig) -> LayerStates:
        """RETURNS (LayerStates): For each layer h (d, rows, P) and c (d, rows, H)."""
        d = config.n_directions
        return [(_apart(h, d), _apart(c, d)) for h, c in zip(self.h, self.c)]

    def check(self, config: BiLMConfig) -> None:
        """RAISES (ValueError): EL006 if the state is not one of this config."""
        d, n_layers = config.n_directions, config.n_layers
        for name, found, width in (("h", self.h, d * config.projection_width), ("c", self.c, d * config.cell_width)):
            wanted = (n_layers, self.h.shape[1] if self.h.dim() == 3 else "rows", width)
            if tuple(found.shape) != wanted:
                raise ValueError(Errors.EL006.format(name=name, shape=tuple(found.shape), wanted=wanted))

    @property
    def n_rows(self) -> int:
        """RETURNS (int): Sequences whose state this is."""
        return self.h.shape[1]

    def pad(self, n_rows: int) -> "BiLMState":
        """RETURNS (BiLMState): With zero rows added until there are `n_rows`."""
        missing = n_rows - self.n_rows
        if missing <= 0:
            return self
        return BiLMState(*(torch.nn.functional.pad(part, (0, 0, 0, missing)) for part in (self.h, self.c)))

    def row(self, i: int) -> "BiLMState":
        """RETURNS (BiLMState): One row alone."""
        return BiLMState(self.h[:, i : i + 1], self.c[:, i : i + 1])

    def to(self, device: torch.device) -> "BiLMState":
        """RETURNS (BiLMState): The same on a device, float32."""
        return BiLMState(self.h.to(device, torch.float32), self.c.to(device, torch.float32))


def _beside(part: Tensor) -> Tensor:
    """(d, rows, width) to (rows, d * width)."""
    return part.transpose(0, 1).flatten(1)


def _apart(part: Tensor, d: int) -> Tensor:
    """(rows, d * width) to (d, rows, width)."""
    return part.view(part.shape[0], d, -1).transpose(0, 1).contiguous()
