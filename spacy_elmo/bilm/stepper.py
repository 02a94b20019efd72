"""One LSTM layer prepared for inference: few operations a step, all in place, nothing recorded.

tanh(x) = 2 sigmoid(2x) - 1, so that one sigmoid over all gates is enough; the factors 2 are folded into the weights
and into the memory cell, which is kept doubled. Powers of two change no digit.
"""

from typing import Optional

import torch
from torch import Tensor

from .lstm import LSTMLayer


class PackedLayer:
    """Weights of a layer in the form that `step` wants. Changes of the layer afterwards are not seen.

    layer (LSTMLayer): Its parameters are copied.
    """

    def __init__(self, layer: LSTMLayer) -> None:
        with torch.no_grad():
            gates = layer.bias.shape[1]
            scale = layer.bias.new_ones(4, gates // 4)
            scale[1] = 2.0  # the candidate goes through tanh
            scale = scale.view(-1)
            self.input_weight = (layer.input_weight * scale).contiguous()  # (d, P, 4H)
            self.recurrent_weight = (layer.recurrent_weight * scale).contiguous()  # (d, R, 4H)
            self.bias = (layer.full_bias() * scale).unsqueeze(1).contiguous()  # (d, 1, 4H)
            self.projection_weight: Optional[Tensor] = None
            if layer.projection_weight is not None:
                self.projection_weight = (layer.projection_weight * 2.0).contiguous()  # (d, H, R)
        self.cell_clip = None if layer.cell_clip is None else 2.0 * layer.cell_clip
        self.projection_clip = layer.projection_clip

    @property
    def cell_width(self) -> int:
        """RETURNS (int): H."""
        return self.bias.shape[2] // 4

    @property
    def output_width(self) -> int:
        """RETURNS (int): R, the width of one direction's output."""
        return self.recurrent_weight.shape[1]

    def input_gates(self, inputs: Tensor) -> Tensor:
        """inputs (Tensor): Shape (d, N, P), or (1, N, P) for all directions.
        RETURNS (Tensor): Shape (d, N, 4H).
        """
        d = self.bias.shape[0]
        return torch.baddbmm(self.bias, inputs.expand(d, -1, -1), self.input_weight)

    def step(self, acts: Tensor, h: Tensor, c2: Tensor, out: Tensor, squashed: Tensor) -> None:
        """One step of some lanes.

        acts (Tensor): Shape (d, b, 4H), the input side of the gates; overwritten.
        h (Tensor): Shape (d, b, R), outputs of the step before.
        c2 (Tensor): Shape (d, b, H), twice the memory cell; updated in place.
        out (Tensor): Shape (d, b, R), receives the outputs.
        squashed (Tensor): Shape (d, b, H), room for intermediate values.
        """
        acts.baddbmm_(h, self.recurrent_weight).sigmoid_()
        i, j, f, o = acts.chunk(4, dim=2)  # 4 x (d, b, H)
        c2.mul_(f).addcmul_(i, j.sub_(0.5), value=4.0)
        if self.cell_clip is not None:
            c2.clamp_(-self.cell_clip, self.cell_clip)
        torch.sigmoid(c2, out=squashed)
        squashed.sub_(0.5).mul_(o)
        if self.projection_weight is None:
            torch.mul(squashed, 2.0, out=out)
            return
        torch.bmm(squashed, self.projection_weight, out=out)
        if self.projection_clip is not None:
            out.clamp_(-self.projection_clip, self.projection_clip)
