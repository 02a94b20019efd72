"""Recurrent state as a value. It is passed and returned, and no module stores it."""

from dataclasses import dataclass
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .config import BiLMConfig


class LSTMState(NamedTuple):
    """The state of one LSTM layer.

    h (Tensor): Shape (d, rows, P), outputs before the skip connection.
    c (Tensor): Shape (d, rows, H), memory cells.
    """

    h: Tensor
    c: Tensor


@dataclass(frozen=True)
class State:
    """The state of some sequences, in the form of an encoder: tensors of each layer, whose second dimension is the row.

    An encoder without recurrent state has no layers here. Code outside an encoder uses only these methods.

    layers (Tuple[Any, ...]): A named tuple per layer, from the lowest up: `LSTMState`, or another for another encoder.
    """

    layers: Tuple[Any, ...]

    @classmethod
    def cat(cls, states: Sequence["State"]) -> "State":
        """The concatenated rows of all states."""
        by_layer = zip(*(state.layers for state in states))
        return cls(tuple(layers[0]._make(torch.cat(tensors, dim=1) for tensors in zip(*layers)) for layers in by_layer))

    def rows(self, start: int, stop: Optional[int]) -> "State":
        """The rows from `start` to before `stop`, or to the end, a view."""
        return State(tuple(layer._make(tensor[:, start:stop] for tensor in layer) for layer in self.layers))

    def expand(self, n_rows: int) -> "State":
        """One row repeated, a view."""
        return State(tuple(layer._make(tensor.expand(-1, n_rows, -1) for tensor in layer) for layer in self.layers))

    def distance(self, other: "State") -> float:
        """The largest absolute difference, 0 for states without tensors."""
        pairs = [pair for layers in zip(self.layers, other.layers) for pair in zip(*layers)]
        return max((float((a - b).abs().max()) for a, b in pairs), default=0.0)

    def named_tensors(self) -> Dict[str, Tensor]:
        """By number of the layer and name, for example "0.h"; not copied."""
        return {
            f"{i}.{name}": tensor for i, layer in enumerate(self.layers) for name, tensor in layer._asdict().items()
        }

    def replace_tensors(self, tensors: Mapping[str, Tensor]) -> "State":
        """The same layers with these tensors, by the names of `named_tensors`."""
        layers = enumerate(self.layers)
        return State(tuple(layer._make(tensors[f"{i}.{name}"] for name in layer._fields) for i, layer in layers))


@dataclass(frozen=True)
class BiLMState:
    """The state of the LSTMs for some sequences, in the layout of bilm-tf and AllenNLP: directions concatenated.

    h (Tensor): Shape (L, rows, 2P), outputs before the skip connection, forward half first.
    c (Tensor): Shape (L, rows, 2H), memory cells.
    """

    h: Tensor
    c: Tensor

    @classmethod
    def from_state(cls, state: State) -> "BiLMState":
        """state (State): State of an LSTM.
        RETURNS (BiLMState): A converted copy.
        """
        # From (d, rows, width) of each layer to (L, rows, d * width).
        return cls(*(torch.stack([x.transpose(0, 1).flatten(1) for x in layers]) for layers in zip(*state.layers)))

    def to_state(self, config: BiLMConfig) -> State:
        """config (BiLMConfig): Config of the biLM.
        RETURNS (State): A converted copy.
        """
        h, c = (x.unflatten(2, (config.n_directions, -1)).transpose(1, 2).contiguous() for x in (self.h, self.c))
        return State(tuple(map(LSTMState, h, c)))  # (d, rows, width) of each layer

    def check(self, config: BiLMConfig) -> None:
        """RAISES (ValueError): If the state does not consist of tensors, or its sizes do not match the config."""
        if not (isinstance(self.h, Tensor) and isinstance(self.c, Tensor)):
            kinds = f"{type(self.h).__name__} and {type(self.c).__name__}"
            raise ValueError(
                f"The state has h and c of type {kinds}, but should have tensors. Convert arrays by `torch.from_numpy`."
            )
        d, n_layers = config.n_directions, config.n_layers
        for name, tensor, width in (("h", self.h, d * config.projection_width), ("c", self.c, d * config.cell_width)):
            expected = (n_layers, self.h.shape[1] if self.h.dim() == 3 else "rows", width)
            if tuple(tensor.shape) != expected:
                raise ValueError(
                    f"The tensor {name} of the state has shape {tuple(tensor.shape)}, but should have {expected} "
                    "(layers, rows, width). Pass a state returned by `embed(..., return_state=True)` of the same biLM."
                )

    @property
    def n_rows(self) -> int:
        """RETURNS (int): Number of sequences."""
        return self.h.shape[1]

    def pad(self, n_rows: int) -> "BiLMState":
        """RETURNS (BiLMState): The state padded with zeros to at least `n_rows` rows."""
        n_missing = n_rows - self.n_rows
        if n_missing <= 0:
            return self
        return BiLMState(*(torch.nn.functional.pad(tensor, (0, 0, 0, n_missing)) for tensor in (self.h, self.c)))

    def row(self, i: int) -> "BiLMState":
        """RETURNS (BiLMState): A copy of one row, which does not keep the other rows in memory."""
        return BiLMState(self.h[:, [i]], self.c[:, [i]])

    def to(self, device: torch.device) -> "BiLMState":
        """RETURNS (BiLMState): The state on a device, in float32."""
        return BiLMState(self.h.to(device, torch.float32), self.c.to(device, torch.float32))
