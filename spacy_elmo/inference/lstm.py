"""LSTM layers for inference with constant weights, without gradients (Sak et al. 2014, without peepholes).

tanh(x) = 2 sigmoid(2x) - 1, so one sigmoid over all gates is enough if the pre-activations of the candidate and the
memory cell are doubled. The factor is folded into the weights of the products; factors that are powers of two are
exact. If a C compiler was found at installation, `_cell.c` does the same in one pass over the gates.

Many lanes use prepacked weights. A single sequence or a few lanes, whose speed is limited by memory bandwidth, use the
weights of the model as they are: a step of one row reads every recurrent weight once.
"""

import math
from functools import cached_property, partial
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ..bilm.config import BiLMConfig
from ..bilm.lstm import LSTMLayer, full_bias
from .dispatch import ONE_PASS_NUMBERS, ONE_PASS_THREADS, SINGLE_ROW_STEP
from .products import PROJECTION_SCALE, BatchedProduct, PackedProduct, Product, gate_scale, has_packing, make_product

try:
    from ._cell import update as update_in_one_pass
except ImportError:  # installed without a compiler
    update_in_one_pass = None  # type: ignore[assignment]  # a function or None

Step = Callable[[Any, Tensor, Tensor], Tensor]  # (gates or inputs, h, 2c) to outputs
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


def is_one_pass(gates: Tensor, n_rows: int) -> bool:
    """Whether `update_cell` computes a step of `n_rows` rows, those of all directions, in one pass; `added` is then
    added without a copy. Of gates (..., 4H) device and dtype matter.
    """
    if update_in_one_pass is None or gates.dtype not in CELL_DTYPES or gates.device.type != "cpu":
        return False
    return n_rows * gates.shape[-1] <= ONE_PASS_NUMBERS or torch.get_num_threads() <= ONE_PASS_THREADS


def update_cell(
    acts: Tensor,
    c2: Tensor,
    clip2: Optional[float],
    *,
    candidate_scale: float = 1.0,
    added: Optional[GateRows] = None,
    out: Optional[Tensor] = None,
) -> Tensor:
    """One step: c = clip(i j + f c), and half of o tanh(c).

    acts (Tensor): Shape (d, b, 4H), pre-activations of i, j (candidate), f, o; contiguous, overwritten. float32, or
        bfloat16 as `added` then is; `c2` is float32.
    c2 (Tensor): Shape (d, b, H), twice the memory cell; updated in place.
    clip2 (Optional[float]): Bound of `c2`, None for no clip.
    candidate_scale (float): 2 if the candidate's pre-activations are not doubled, else 1.
    added (Optional[GateRows]): Added to `acts`.
    out (Optional[Tensor]): Shape (d, b, H), output buffer; contiguous.
    RETURNS (Tensor): Shape (d, b, H), half of o * tanh(c), in float32 or the dtype of `acts`.
    """
    if is_one_pass(acts, c2.shape[0] * c2.shape[1]):
        half = torch.empty(c2.shape, dtype=acts.dtype) if out is None else out
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
                candidate_scale,
                NO_CLIP if clip2 is None else clip2,
                acts.dtype is torch.bfloat16,
            )
        return half
    acts = acts.float()
    if added is not None:
        acts += added.gather()
    i, j, f, o = acts.chunk(4, dim=2)
    if candidate_scale != 1.0:
        j.mul_(candidate_scale)
    acts.sigmoid_()
    c2.mul_(f).addcmul_(i, j.sub_(0.5), value=4.0)
    if clip2 is not None:
        c2.clamp_(-clip2, clip2)
    return torch.sigmoid(c2, out=out).sub_(0.5).mul_(o)


class ConstantLayer:
    """What a layer computes at each step, from the input side of its gates; subclasses have the products. The
    parameters, of an `LSTMLayer`, may be quantized. `from_output` maps the previous outputs to the gates.
    """

    candidate_scale = 1.0
    gates_dtype = torch.float32
    joint_step: Optional[Step] = None
    project: Optional[Product]  # from half of the cell's output to the outputs

    def __init__(self, layer: Any, from_output: Product) -> None:
        self._from_output = from_output
        self._clip2 = None if layer.cell_clip is None else 2.0 * layer.cell_clip
        self._projection_clip = layer.projection_clip

    def input_gates(self, inputs: Tensor) -> Tensor:
        """From inputs (d, N, P), or (1, N, P) for all directions, to (d, N, 4H)."""
        raise NotImplementedError

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
        if self.gates_dtype is torch.bfloat16 or is_one_pass(gates.table, h.shape[0] * h.shape[1]):
            return self._finish(self._from_output.gates(h), c2, gates)
        return self.step(gates.gather(), h, c2)

    def _finish(self, acts: Tensor, c2: Tensor, added: Optional[GateRows] = None) -> Tensor:
        """Outputs (d, b, P) of pre-activations (d, b, 4H), to which `added` is added; they are overwritten."""
        half = update_cell(acts, c2, self._clip2, candidate_scale=self.candidate_scale, added=added)  # (d, b, H)
        project = self.project
        return half.float().mul_(2.0) if project is None else self._clip(project(half))

    def _clip(self, outputs: Tensor) -> Tensor:
        """In place."""
        clip = self._projection_clip
        return outputs if clip is None else outputs.clamp_(-clip, clip)


class PackedLayer(ConstantLayer):
    """Prepacked products of some directions of a layer, whose parameters may be quantized.

    can_join (bool): Whether to provide `joint_step`: like `step`, with inputs of shape (d, b, P) instead of gates. One
        product over concatenated inputs is faster than two, since no sums are stored in between.
    """

    project: Optional[Product] = None

    @torch.no_grad()
    def __init__(self, layer: Any, directions: slice, *, can_join: bool = False) -> None:
        scale = gate_scale(layer.bias)
        super().__init__(layer, make_product(layer.recurrent_weight, directions, scale))
        self.bias = (full_bias(layer.bias)[directions] * scale).unsqueeze(1)  # (d, 1, 4H)
        self._from_input = make_product(layer.input_weight, directions, scale)
        self.gates_dtype = self._from_input.gates_dtype
        self._products = [self._from_input, self._from_output]
        if layer.projection_weight is not None:
            self.project = make_product(layer.projection_weight, directions, PROJECTION_SCALE)
            self._products.append(self.project)
        if can_join and isinstance(self._from_output, PackedProduct):
            sides = [weight.detach()[directions] for weight in (layer.input_weight, layer.recurrent_weight)]
            from_both = PackedProduct(*sides, scale=scale)
            self._products.append(from_both)
            self.joint_step = partial(self._join, from_both)

    def prepare(self) -> None:
        """Pack the weights now instead of at the first product."""
        for product in self._products:
            product.prepare()

    def input_gates(self, inputs: Tensor) -> Tensor:
        return self._from_input.gates(inputs.expand(len(self.bias), -1, -1), self.bias)

    def _join(self, from_both: Product, inputs: Tensor, h: Tensor, c2: Tensor) -> Tensor:
        return self._finish(from_both(torch.cat([inputs, h], dim=2), self.bias), c2)


class UnpackedLayer(ConstantLayer):
    """One layer, all directions, with the weights of the model itself. Input products are those of the packed layers,
    one for each direction.
    """

    candidate_scale = 2.0  # no factor is folded into the weights of the model

    @torch.no_grad()
    def __init__(self, layer: LSTMLayer, packed: Sequence[PackedLayer]) -> None:
        self._recurrent = layer.recurrent_weight.detach()  # (d, P, 4H)
        super().__init__(layer, BatchedProduct(self._recurrent))
        self._packed = packed
        self._projection = None if layer.projection_weight is None else layer.projection_weight.detach()

    @cached_property
    def _columns(self) -> Optional[Tensor]:
        """Shape (d, H, P), the doubled projection, with contiguous columns: the only copy of a weight, on first use."""
        if self._projection is None:
            return None
        return (PROJECTION_SCALE * self._projection).transpose(1, 2).contiguous().transpose(1, 2)

    @cached_property
    def project(self) -> Optional[Product]:  # type: ignore[override]  # cached
        return None if self._columns is None else BatchedProduct(self._columns)

    def prepare(self) -> None:
        """Copy the projection now instead of at the first step; `packed` is prepared separately."""
        _ = self.project

    def input_gates(self, inputs: Tensor) -> Tensor:
        n_rows = inputs.shape[1]
        padded = torch.nn.functional.pad(inputs, (0, 0, 0, -n_rows % SINGLE_ROW_STEP))  # (d, N', P)
        parts = padded.expand(len(self._recurrent), -1, -1).split([len(layer.bias) for layer in self._packed])
        gates = torch.cat([layer.input_gates(part)[:, :n_rows] for layer, part in zip(self._packed, parts)])
        gates.chunk(4, dim=2)[1].mul_(0.5)  # packed layers double those of the candidate
        return gates

    def run(self, gates: Tensor, h: Tensor, c2: Tensor, *, is_together: bool) -> Tensor:
        """Compute all steps of one sequence: from gates (d, S, 4H), the previous output (d, 1, P) and twice the memory
        cell (d, 1, H), which is updated in place, to outputs (S, d, 1, P).

        is_together (bool): Both directions in each product. Otherwise directions in turn, with a product for each gate
            and for each quarter of the outputs, so that several threads can compute them.
        """
        outputs = h.new_empty(gates.shape[1], *h.shape)
        project = self._columns
        if is_together:
            acts = gates.new_empty(len(gates), 1, gates.shape[2])  # (d, 1, 4H)
            columns = gates.unsqueeze(2).unbind(1)  # S x (d, 1, 4H)
            written = outputs.unbind()  # S x (d, 1, P)
            self._loop(columns, acts, self._recurrent, project, c2, [h, *written], written)
            return outputs
        for k in range(len(h)):
            acts = gates.new_empty(4, 1, gates.shape[2] // 4)  # (4, 1, H)
            columns = gates[k].unflatten(1, (4, 1, -1)).unbind()  # S x (4, 1, H)
            recurrent = self._recurrent[k].unflatten(1, (4, -1)).transpose(0, 1)  # (4, P, H)
            own, own_c2 = outputs[:, k], c2[k : k + 1]  # (S, 1, P), (1, 1, H)
            read = [h[k].expand(4, 1, -1), *own.unsqueeze(1).expand(-1, 4, -1, -1).unbind()]
            if project is None:
                self._loop(columns, acts, recurrent, None, own_c2, read, own.unsqueeze(1).unbind())
                continue
            n_parts = math.gcd(4, project.shape[2])
            parts = project[k].unflatten(1, (n_parts, -1)).transpose(0, 1)  # (n_parts, H, P / n_parts)
            written = own.unflatten(2, (n_parts, -1)).transpose(1, 2).unbind()  # S x (n_parts, 1, P / n_parts)
            self._loop(columns, acts, recurrent, parts, own_c2, read, written)
        return outputs

    def _loop(
        self,
        from_input: Sequence[Tensor],
        acts: Tensor,
        recurrent: Tensor,
        project: Optional[Tensor],
        c2: Tensor,
        read: Sequence[Tensor],
        written: Sequence[Tensor],
    ) -> None:
        """from_input (Sequence[Tensor]): For each step the input side of the gates, in the shape of `acts`.
        acts (Tensor): Shape (n, 1, W), buffer for the n products that compute the gates of all directions.
        recurrent (Tensor): Shape (n, P, W).
        project (Optional[Tensor]): Shape (m, H, P'), the m products that compute the outputs.
        c2 (Tensor): Shape (d, 1, H), updated in place.
        read (Sequence[Tensor]): For each step shape (n, 1, P), the output of the previous step.
        written (Sequence[Tensor]): For each step shape (m, 1, P'), its output.
        """
        half = torch.empty_like(c2)
        halves = half if project is None else half.expand(len(project), 1, -1)
        rows = acts.view(len(c2), 1, -1)  # (d, 1, 4H)
        for column, before, out in zip(from_input, read, written):
            torch.baddbmm(column, before, recurrent, out=acts)
            update_cell(rows, c2, self._clip2, candidate_scale=self.candidate_scale, out=half)
            if project is None:
                torch.mul(half, 2.0, out=out)
            else:
                self._clip(torch.bmm(halves, project, out=out))


class LayerCombiner:
    """Skip connections or highways of the layers above the first, or neither; highways may be quantized."""

    @torch.no_grad()
    def __init__(self, config: BiLMConfig, highways: Sequence[Any]) -> None:
        self._has_skip = config.has_skip
        self._gates = [
            [
                (part, make_product(highway.weight, part), highway.bias.detach()[part].unsqueeze(1))  # bias (d, 1, P)
                for part in split_directions(highway.bias)
            ]
            for highway in highways
        ]

    def prepare(self) -> None:
        for gates in self._gates:
            for _, product, _ in gates:
                product.prepare()

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
    """The layers of some directions, computed together, lowest first: all `PackedLayer` or all `UnpackedLayer`."""

    config: BiLMConfig
    directions: slice
    layers: Sequence[Any]
    combiner: LayerCombiner


def split_directions(bias: Tensor) -> List[slice]:
    """Directions that share a product: all, or a single one if products are prepacked; the bias is that of a layer."""
    d = len(bias)
    return [slice(k, k + 1) for k in range(d)] if has_packing(bias) else [slice(0, d)]
