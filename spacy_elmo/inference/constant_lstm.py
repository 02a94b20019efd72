"""LSTM layers for inference by torch's products, without gradients (Sak et al. 2014, without peepholes): on GPUs, and
where the native kernel was not compiled. Here d is the number of directions.

tanh(x) = 2 sigmoid(2x) - 1, so one sigmoid over all gates is enough if the pre-activations of the candidate and the
memory cell are doubled. The factor is folded into the weights of the products; factors that are powers of two are
exact.
"""

from typing import Any, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ..bilm.config import BiLMConfig
from ..bilm.lstm import full_bias
from .kernel import Product
from .products import PROJECTION_SCALE, gate_scale, make_product

Pairs = List[Tuple[Tensor, Tensor]]  # h (d, rows, P) and 2c, or c, (d, rows, H) of each layer

ALL = slice(None)  # directions


def update_cell(acts: Tensor, c2: Tensor, clip2: Optional[float]) -> Tensor:
    """One step: c = clip(i j + f c), and half of o tanh(c).

    acts (Tensor): Shape (d, b, 4H), pre-activations of i, j (candidate), f, o; overwritten.
    c2 (Tensor): Shape (d, b, H), twice the memory cell; updated in place.
    clip2 (Optional[float]): Bound of `c2`, None for no clip.
    RETURNS (Tensor): Shape (d, b, H), half of o * tanh(c).
    """
    i, j, f, o = acts.chunk(4, dim=2)
    acts.sigmoid_()
    c2.mul_(f).addcmul_(i, j.sub_(0.5), value=4.0)
    if clip2 is not None:
        c2.clamp_(-clip2, clip2)
    return torch.sigmoid(c2).sub_(0.5).mul_(o)


class ConstantLayer:
    """A layer, whose parameters may be quantized."""

    @torch.no_grad()
    def __init__(self, layer: Any) -> None:
        scale = gate_scale(layer.bias)
        self._from_input = make_product(layer.input_weight, ALL, scale)
        self._from_output = make_product(layer.recurrent_weight, ALL, scale)
        self._project: Optional[Product] = None  # from half of the cell's output to the outputs
        if layer.projection_weight is not None:
            self._project = make_product(layer.projection_weight, ALL, PROJECTION_SCALE)
        self._bias = (full_bias(layer.bias) * scale).unsqueeze(1)  # (d, 1, 4H)
        self._clip2 = None if layer.cell_clip is None else 2.0 * layer.cell_clip
        self._projection_clip = layer.projection_clip

    def input_gates(self, inputs: Tensor) -> Tensor:
        """From inputs (d, N, P), or (1, N, P) for all directions, to (d, N, 4H)."""
        return self._from_input(inputs.expand(len(self._bias), -1, -1), self._bias)

    def step(self, gates: Tensor, h: Tensor, c2: Tensor) -> Tensor:
        """Compute one step of b lanes.

        gates (Tensor): Shape (d, b, 4H), input side of the gates.
        h (Tensor): Shape (d, b, P), outputs of the previous step.
        c2 (Tensor): Shape (d, b, H), twice the memory cell; updated in place.
        RETURNS (Tensor): Shape (d, b, P), the outputs, new.
        """
        half = update_cell(self._from_output(h, gates), c2, self._clip2)
        if self._project is None:
            return half.mul_(2.0)
        outputs, clip = self._project(half), self._projection_clip
        return outputs if clip is None else outputs.clamp_(-clip, clip)


class ConstantStack:
    """The layers, lowest first; they may be quantized."""

    @torch.no_grad()
    def __init__(self, config: BiLMConfig, layers: Sequence[Any], highways: Sequence[Any]) -> None:
        self.config = config
        self.layers = [ConstantLayer(layer) for layer in layers]
        self._highways = [
            (make_product(highway.weight, ALL), highway.bias.detach().unsqueeze(1))  # bias (d, 1, P)
            for highway in highways
        ]

    def combine_(self, i: int, inputs: Tensor, outputs: Tensor) -> None:
        """Apply the skip connection or the highway of a layer above the first to outputs (d, K, b, P), in place."""
        if self.config.has_skip:
            outputs += inputs
        elif self._highways:
            product, bias = self._highways[i - 1]
            gate = product(inputs.flatten(1, 2), bias).sigmoid_()  # (d, K * b, P)
            outputs.sub_(inputs).mul_(gate.view(inputs.shape)).add_(inputs)
