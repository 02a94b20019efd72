"""LSTM layers and highways with prepacked products, for inference with constant weights, without gradients."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ..bilm.config import BiLMConfig
from ..bilm.lstm import full_bias
from .cell import PROJECTION_SCALE, GateRows, clip_output, gate_scale, is_one_pass, update_cell
from .products import PackedProduct, Product, has_packing, make_product

Step = Callable[[Any, Tensor, Tensor], Tensor]  # (gates or inputs, h, 2c) to outputs
Pairs = List[Tuple[Tensor, Tensor]]  # h (d, rows, P) and c (d, rows, H) of each layer


def split_directions(layer: Any) -> List[slice]:
    """layer (LSTMLayer): May be quantized.
    RETURNS (List[slice]): Directions that share a product: all, or a single one if products are prepacked.
    """
    d = len(layer.bias)
    return [slice(k, k + 1) for k in range(d)] if has_packing(layer.bias) else [slice(0, d)]


class PackedLayer:
    """Prepacked products of d directions of a layer.

    layer (LSTMLayer): The parameters; may be quantized.
    directions (slice): The directions.
    can_join (bool): Whether to provide `joint_step`.
    """

    @torch.no_grad()
    def __init__(self, layer: Any, directions: slice, *, can_join: bool = False) -> None:
        scale = gate_scale(layer.bias)
        self.bias = (full_bias(layer.bias)[directions] * scale).unsqueeze(1)  # (d, 1, 4H)
        self._from_input = make_product(layer.input_weight, directions, scale)
        self._from_output = make_product(layer.recurrent_weight, directions, scale)
        self._from_both: Optional[Product] = None
        if can_join and isinstance(self._from_output, PackedProduct):
            sides = [weight.detach()[directions] for weight in (layer.input_weight, layer.recurrent_weight)]
            self._from_both = PackedProduct(*sides, scale=scale)
        self._project: Optional[Product] = None
        if layer.projection_weight is not None:
            self._project = make_product(layer.projection_weight, directions, PROJECTION_SCALE)
        self._clip2 = None if layer.cell_clip is None else 2.0 * layer.cell_clip
        self._projection_clip = layer.projection_clip

    def prepare(self) -> None:
        """Pack the weights now instead of at the first product."""
        for product in (self._from_input, self._from_output, self._from_both, self._project):
            if product is not None:
                product.prepare()

    def input_gates(self, inputs: Tensor) -> Tensor:
        """inputs (Tensor): Shape (d, N, P), or (1, N, P) for all directions.
        RETURNS (Tensor): Shape (d, N, 4H).
        """
        return self._from_input(inputs.expand(len(self.bias), -1, -1), self.bias)

    @property
    def joint_step(self) -> Optional[Step]:
        """RETURNS (Optional[Step]): Like `step`, with inputs of shape (d, b, P) instead of gates; None if it is not
        faster.
        """
        return None if self._from_both is None else partial(self._join, self._from_both)

    def step(self, gates: Tensor, h: Tensor, c2: Tensor) -> Tensor:
        """Compute one step of b lanes.

        gates (Tensor): Shape (d, b, 4H), input side of the gates.
        h (Tensor): Shape (d, b, P), outputs of the previous step.
        c2 (Tensor): Shape (d, b, H), twice the memory cell; updated in place.
        RETURNS (Tensor): Shape (d, b, P), the outputs.
        """
        return self._finish(self._from_output.plus(h, gates), c2)

    def step_of_words(self, gates: GateRows, h: Tensor, c2: Tensor) -> Tensor:
        """Like `step`, with rows of a table as the input side of the gates."""
        if is_one_pass(gates.table, gates.indices.numel()):
            return self._finish(self._from_output(h), c2, gates)
        return self.step(gates.gather(), h, c2)

    def _join(self, product: Product, inputs: Tensor, h: Tensor, c2: Tensor) -> Tensor:
        """One product over concatenated inputs is faster than two, since no sums are stored in between."""
        return self._finish(product(torch.cat([inputs, h], dim=2), self.bias), c2)

    def _finish(self, acts: Tensor, c2: Tensor, added: Optional[GateRows] = None) -> Tensor:
        """acts (Tensor): Shape (d, b, 4H), pre-activations of the gates; overwritten.
        added (Optional[GateRows]): Added to them.
        RETURNS (Tensor): Shape (d, b, P), the outputs.
        """
        half = update_cell(acts, c2, self._clip2, added=added)  # (d, b, H)
        if self._project is None:
            return half.mul_(2.0)
        return clip_output(self._project(half), self._projection_clip)


class LayerCombiner:
    """Skip connections or highways of the layers above the first.

    config (BiLMConfig): Selects one of them, or neither.
    highways (Sequence[LayerHighway]): Highways of the layers above the first; may be quantized.
    """

    @torch.no_grad()
    def __init__(self, config: BiLMConfig, highways: Sequence[Any]) -> None:
        self._has_skip = config.has_skip
        self._highways = [
            [_PackedGate(highway, directions) for directions in split_directions(highway)] for highway in highways
        ]

    def prepare(self) -> None:
        """Pack the weights now instead of at the first product."""
        for gates in self._highways:
            for gate in gates:
                gate.product.prepare()

    def combine_(self, number: int, inputs: Tensor, outputs: Tensor, directions: slice) -> None:
        """number (int): The layer; outputs of layer 0 do not change.
        inputs (Tensor): Shape (d, K, b, P), inputs of the layer in K steps of b lanes.
        outputs (Tensor): Shape (d, K, b, P), its outputs; changed in place.
        directions (slice): Directions of the tensors.
        """
        if number == 0:
            return
        if self._has_skip:
            outputs += inputs
        elif self._highways:
            for gate in self._highways[number - 1]:
                own = slice(gate.directions.start - directions.start, gate.directions.stop - directions.start)
                if own.start >= 0 and gate.directions.stop <= directions.stop:
                    gate.mix_(inputs[own], outputs[own])


@dataclass(frozen=True)
class Stack:
    """The layers of some directions, which are computed together.

    config (BiLMConfig): Sizes.
    directions (slice): The directions.
    layers (Sequence[Any]): From the lowest up, all `PackedLayer` or all `UnpackedLayer`.
    combiner (LayerCombiner): Skip connections or highways.
    """

    config: BiLMConfig
    directions: slice
    layers: Sequence[Any]
    combiner: LayerCombiner


class _PackedGate:
    """Gate of a highway around a layer, for some directions."""

    def __init__(self, highway: Any, directions: slice) -> None:
        self.directions = directions
        self._bias = highway.bias.detach()[directions].unsqueeze(1)  # (d, 1, P)
        self.product = make_product(highway.weight, directions)

    def mix_(self, inputs: Tensor, outputs: Tensor) -> None:
        gate = self.product(inputs.flatten(1, 2), self._bias).sigmoid_()  # (d, K * b, P)
        outputs.sub_(inputs).mul_(gate.view(inputs.shape)).add_(inputs)
