"""One LSTM layer prepared for inference: few operations a step, nothing recorded.

tanh(x) = 2 sigmoid(2x) - 1, so that one sigmoid over all gates is enough; the factors 2 are folded into the weights
and into the memory cell, which is kept doubled. Powers of two change no digit.
"""

from functools import partial
from typing import Callable, List, Optional

import torch
from torch import Tensor

from .highway import LayerHighway
from .lstm import PROJECTION_SCALE, LSTMLayer
from .products import PackedProduct, Product, has_packing, make_product

Step = Callable[[Tensor, Tensor, Tensor], Tensor]
JOINT_WEIGHTS = 2**20  # of a side; more of them leave the caches, and are better read once in several steps


def split_directions(layer: LSTMLayer) -> List[slice]:
    """RETURNS (List[slice]): Directions to compute together: all, or each by itself where weights can be packed."""
    d = len(layer.bias)
    return [slice(k, k + 1) for k in range(d)] if has_packing(layer.bias) else [slice(0, d)]


def _can_join(layer: LSTMLayer) -> bool:
    return not layer.low and has_packing(layer.bias) and layer.input_weight[0].numel() <= JOINT_WEIGHTS


class PackedLayer:
    """Weights of d directions of a layer in the form that `step` wants; made anew when the layer changes.

    layer (LSTMLayer): The parameters.
    directions (slice): Which of them.
    """

    @torch.no_grad()
    def __init__(self, layer: LSTMLayer, directions: slice) -> None:
        scale = layer.gate_scale()
        self.bias = (layer.full_bias()[directions] * scale).unsqueeze(1)  # (d, 1, 4H)
        self._from_input = make_product(layer, "input_weight", directions, scale)
        self._from_output = make_product(layer, "recurrent_weight", directions, scale)
        self._from_both: Optional[Product] = None
        if _can_join(layer):  # directions are one by one then, see `split_directions`
            sides = [layer.input_weight.detach()[directions], layer.recurrent_weight.detach()[directions]]
            self._from_both = PackedProduct(*sides, scale=scale)
        self._project: Optional[Product] = None
        if layer.projection_weight is not None:
            self._project = make_product(layer, "projection_weight", directions, PROJECTION_SCALE)
        self.cell_clip = None if layer.cell_clip is None else 2.0 * layer.cell_clip
        self.projection_clip = layer.projection_clip

    def input_gates(self, inputs: Tensor) -> Tensor:
        """inputs (Tensor): Shape (d, N, P), or (1, N, P) for all directions.
        RETURNS (Tensor): Shape (d, N, 4H).
        """
        return self._from_input(inputs.expand(len(self.bias), -1, -1), self.bias)

    @property
    def joint_step(self) -> Optional[Step]:
        """RETURNS (Optional[Step]): As `step`, but it wants what the layer reads, shape (d, b, P), in place of gates;
        None where that is not faster.
        """
        return None if self._from_both is None else partial(self._join, self._from_both)

    def step(self, gates: Tensor, h: Tensor, c2: Tensor) -> Tensor:
        """One step of some lanes.

        gates (Tensor): Shape (d, b, 4H), their input side.
        h (Tensor): Shape (d, b, P), outputs of the step before.
        c2 (Tensor): Shape (d, b, H), twice the memory cell; updated in place.
        RETURNS (Tensor): Shape (d, b, P), the outputs.
        """
        return self._finish(self._from_output.plus(h, gates), c2)

    def _join(self, product: Product, inputs: Tensor, h: Tensor, c2: Tensor) -> Tensor:
        """One long row is faster than two short ones: their sums are not written down in between, and read again."""
        return self._finish(product(torch.cat([inputs, h], dim=2), self.bias), c2)

    def _finish(self, acts: Tensor, c2: Tensor) -> Tensor:
        """acts (Tensor): Shape (d, b, 4H), what goes into the gates; changed in place.
        RETURNS (Tensor): Shape (d, b, P), the outputs.
        """
        i, j, f, o = acts.sigmoid_().chunk(4, dim=2)  # 4 x (d, b, H)
        c2.mul_(f).addcmul_(i, j.sub_(0.5), value=4.0)
        if self.cell_clip is not None:
            c2.clamp_(-self.cell_clip, self.cell_clip)
        squashed = torch.sigmoid(c2).sub_(0.5).mul_(o)  # half of o * tanh(c)
        if self._project is None:
            return squashed.mul_(2.0)
        out = self._project(squashed)
        return out if self.projection_clip is None else out.clamp_(-self.projection_clip, self.projection_clip)


class PackedHighway:
    """The same for the highway past a layer.

    highway (LayerHighway): The parameters.
    directions (slice): Which of them.
    """

    @torch.no_grad()
    def __init__(self, highway: LayerHighway, directions: slice) -> None:
        self.bias = highway.bias.detach()[directions].unsqueeze(1)  # (d, 1, P)
        self._from_input = make_product(highway, "weight", directions)

    def mix(self, inputs: Tensor, outputs: Tensor) -> None:
        """inputs (Tensor): Shape (d, K, b, P), what the layer read in K steps of b lanes.
        outputs (Tensor): Shape (d, K, b, P), what it gave; changed in place.
        """
        gate = self._from_input(inputs.flatten(1, 2), self.bias).sigmoid_()  # (d, K * b, P)
        outputs.sub_(inputs).mul_(gate.view(inputs.shape)).add_(inputs)
