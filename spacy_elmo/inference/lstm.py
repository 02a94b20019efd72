"""LSTM layers for inference by torch's products, without gradients (Sak et al. 2014, without peepholes): on GPUs, in
reduced precision, and where the native kernel was not compiled.

tanh(x) = 2 sigmoid(2x) - 1, so one sigmoid over all gates is enough if the pre-activations of the candidate and the
memory cell are doubled. The factor is folded into the weights of the products; factors that are powers of two are
exact. If a C compiler was found at installation, `_cell.c` does the same in one pass over the gates.
"""

from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ..bilm.config import BiLMConfig
from ..bilm.lstm import full_bias
from .products import PROJECTION_SCALE, Product, gate_scale, make_product, split_directions

try:
    from ._cell import update as update_in_one_pass
except ImportError:  # installed without a compiler
    update_in_one_pass = None  # type: ignore[assignment]  # a function or None

Step = Callable[[Any, Tensor, Tensor], Tensor]  # (gates, h, 2c) to outputs
Pairs = List[Tuple[Tensor, Tensor]]  # h (d, rows, P) and c (d, rows, H) of each layer

CELL_DTYPES = (torch.float32, torch.bfloat16)  # of pre-activations and outputs in `_cell.c`
NO_CLIP = torch.finfo(torch.float32).max


class GateRows(NamedTuple):
    """Rows of a table of gate pre-activations, to be added to other pre-activations.

    table (Tensor): Shape (d, R, 4H).
    indices (Optional[Tensor]): Shape (d, b), int64, the selected rows; None for all b rows.
    buffer (Optional[Tensor]): Shape (d, b, 4H), output of `gather`.
    """

    table: Tensor
    indices: Optional[Tensor] = None
    buffer: Optional[Tensor] = None

    def gather(self) -> Tensor:
        """The selected rows, shape (d, b, 4H), valid until the next call."""
        if self.indices is None or self.buffer is None:
            return self.table
        for own, indices, out in zip(self.table, self.indices, self.buffer):
            torch.index_select(own, 0, indices, out=out)
        return self.buffer


def is_one_pass(gates: Tensor) -> bool:
    """Whether `update_cell` computes these gates in one pass; `added` is then added without a copy."""
    return update_in_one_pass is not None and gates.dtype in CELL_DTYPES and gates.device.type == "cpu"


def update_cell(
    acts: Tensor,
    c2: Tensor,
    clip2: Optional[float],
    *,
    added: Optional[GateRows] = None,
) -> Tensor:
    """One step: c = clip(i j + f c), and half of o tanh(c).

    acts (Tensor): Shape (d, b, 4H), pre-activations of i, j (candidate), f, o; contiguous, overwritten. float32, or
        bfloat16 as `added` then is; `c2` is float32.
    c2 (Tensor): Shape (d, b, H), twice the memory cell; updated in place.
    clip2 (Optional[float]): Bound of `c2`, None for no clip.
    added (Optional[GateRows]): Added to `acts`.
    RETURNS (Tensor): Shape (d, b, H), half of o * tanh(c), in float32 or the dtype of `acts`.
    """
    if is_one_pass(acts):
        half = torch.empty(c2.shape, dtype=acts.dtype)
        d, n_rows, width = c2.shape
        table, places = (None, None) if added is None else (added.table, added.indices)
        size = acts.element_size()  # addresses in bytes: 4 of a float32, 8 of an index
        for k in range(d):
            update_in_one_pass(
                acts.data_ptr() + 4 * size * k * n_rows * width,
                0 if table is None else table.data_ptr() + size * k * table.stride(0),
                0 if places is None else places.data_ptr() + 8 * k * places.stride(0),
                c2.data_ptr() + 4 * k * c2.stride(0),
                half.data_ptr() + size * k * n_rows * width,
                n_rows,
                width,
                NO_CLIP if clip2 is None else clip2,
                acts.dtype is torch.bfloat16,
            )
        return half
    acts = acts.float()
    if added is not None:
        acts += added.gather()
    i, j, f, o = acts.chunk(4, dim=2)
    acts.sigmoid_()
    c2.mul_(f).addcmul_(i, j.sub_(0.5), value=4.0)
    if clip2 is not None:
        c2.clamp_(-clip2, clip2)
    return torch.sigmoid(c2).sub_(0.5).mul_(o)


class ConstantLayer:
    """Some directions of a layer, whose parameters may be quantized."""

    @torch.no_grad()
    def __init__(self, layer: Any, directions: slice) -> None:
        scale = gate_scale(layer.bias)
        self._from_input = make_product(layer.input_weight, directions, scale)
        self._from_output = make_product(layer.recurrent_weight, directions, scale)
        self._project: Optional[Product] = None  # from half of the cell's output to the outputs
        if layer.projection_weight is not None:
            self._project = make_product(layer.projection_weight, directions, PROJECTION_SCALE)
        self._bias = (full_bias(layer.bias)[directions] * scale).unsqueeze(1)  # (d, 1, 4H)
        self._clip2 = None if layer.cell_clip is None else 2.0 * layer.cell_clip
        self._projection_clip = layer.projection_clip
        self.gates_dtype = self._from_input.gates_dtype

    def input_gates(self, inputs: Tensor) -> Tensor:
        """From inputs (d, N, P), or (1, N, P) for all directions, to (d, N, 4H)."""
        return self._from_input.gates(inputs.expand(len(self._bias), -1, -1), self._bias)

    def step(self, gates: Tensor, h: Tensor, c2: Tensor) -> Tensor:
        """Compute one step of b lanes.

        gates (Tensor): Shape (d, b, 4H), input side of the gates.
        h (Tensor): Shape (d, b, P), outputs of the previous step.
        c2 (Tensor): Shape (d, b, H), twice the memory cell; updated in place.
        RETURNS (Tensor): Shape (d, b, P), the outputs.
        """
        if self.gates_dtype is torch.bfloat16:
            return self.step_of_words(GateRows(gates), h, c2)
        return self._finish(self._from_output.plus(h, gates), c2)

    def step_of_words(self, gates: GateRows, h: Tensor, c2: Tensor) -> Tensor:
        """Like `step`, with rows of a table as the input side of the gates."""
        if self.gates_dtype is torch.bfloat16 or is_one_pass(gates.table):
            return self._finish(self._from_output.gates(h), c2, gates)
        return self.step(gates.gather(), h, c2)

    def _finish(self, acts: Tensor, c2: Tensor, added: Optional[GateRows] = None) -> Tensor:
        """Outputs (d, b, P) of pre-activations (d, b, 4H), to which `added` is added; they are overwritten."""
        half = update_cell(acts, c2, self._clip2, added=added)  # (d, b, H)
        if self._project is None:
            return half.float().mul_(2.0)
        outputs, clip = self._project(half), self._projection_clip
        return outputs if clip is None else outputs.clamp_(-clip, clip)


class LayerCombiner:
    """Skip connections or highways of the layers above the first, or neither; highways may be quantized."""

    @torch.no_grad()
    def __init__(self, config: BiLMConfig, highways: Sequence[Any]) -> None:
        self._has_skip = config.has_skip
        self._gates = [
            [
                (part, make_product(highway.weight, part), highway.bias.detach()[part].unsqueeze(1))  # bias (d, 1, P)
                for part in split_directions(highway.weight, highway.bias)
            ]
            for highway in highways
        ]

    def combine_(self, number: int, inputs: Tensor, outputs: Tensor, directions: slice) -> None:
        """Change outputs (d, K, b, P), K steps of b lanes, in place. Those of layer 0 do not change."""
        if number == 0:
            return
        if self._has_skip:
            outputs += inputs
        elif self._gates:
            for part, product, bias in self._gates[number - 1]:
                own = slice(part.start - directions.start, part.stop - directions.start)
                if own.start >= 0 and part.stop <= directions.stop:
                    gate = product(inputs[own].flatten(1, 2), bias).sigmoid_()  # (d, K * b, P)
                    outputs[own].sub_(inputs[own]).mul_(gate.view(inputs[own].shape)).add_(inputs[own])


class Stack(NamedTuple):
    """The layers of some directions, which are computed together, lowest first."""

    config: BiLMConfig
    directions: slice
    layers: Sequence[ConstantLayer]
    combiner: LayerCombiner
