"""One LSTM layer with projection, both directions side by side (Sak et al. 2014; Peters et al. 2018, sec. 3.4)."""

from typing import Dict, Optional, Tuple

import torch
from torch import Tensor, nn

from .config import BiLMConfig
from .products import LowMatrix
from .recurrence import run_recurrence

PROJECTION_SCALE = 2.0  # that inference folds into the projection, as `gate_scale` into the gates
FORGET_BIAS = 1.0  # added when computing, not part of the stored bias: bilm-tf's files do the same


class LSTMLayer(nn.Module):
    """The weights of one layer, d directions stacked in front, columns in the order i, j (candidate), f, o.

    config (BiLMConfig): Sizes and clips.
    low (Dict[str, LowMatrix]): Attribute: matrices in fewer bits by the name of the parameter they replace.
    """

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.low: Dict[str, LowMatrix] = {}
        d, cell_width, width = config.n_directions, config.cell_width, config.projection_width
        self.cell_clip = config.cell_clip
        self.projection_clip = config.projection_clip if config.has_projection else None
        self.input_weight = nn.Parameter(torch.empty(d, width, 4 * cell_width))
        self.recurrent_weight = nn.Parameter(torch.empty(d, width, 4 * cell_width))
        self.bias = nn.Parameter(torch.zeros(d, 4 * cell_width))
        self.projection_weight: Optional[nn.Parameter] = None
        if config.has_projection:
            self.projection_weight = nn.Parameter(torch.empty(d, cell_width, width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights as Glorot & Bengio (2010), the default of the framework bilm-tf was written in."""
        d, width, gates = self.input_weight.shape
        limit = (6.0 / (2 * width + gates)) ** 0.5
        nn.init.uniform_(self.input_weight, -limit, limit)
        nn.init.uniform_(self.recurrent_weight, -limit, limit)
        nn.init.zeros_(self.bias)
        if self.projection_weight is not None:
            limit = (6.0 / (gates // 4 + width)) ** 0.5
            nn.init.uniform_(self.projection_weight, -limit, limit)

    def full_bias(self) -> Tensor:
        """RETURNS (Tensor): Shape (d, 4H), the stored bias with the forget bias added."""
        cell_width = self.bias.shape[1] // 4
        forget = self.bias.new_zeros(4, cell_width)
        forget[2] = FORGET_BIAS
        return self.bias + forget.view(-1)

    def gate_scale(self) -> Tensor:
        """RETURNS (Tensor): Shape (4H,), 2 for the candidate, else 1: tanh(x) = 2 sigmoid(2x) - 1."""
        cell_width = self.bias.shape[1] // 4
        scale = torch.ones(4, cell_width, device=self.bias.device)
        scale[1] = 2.0
        return scale.view(-1)

    def input_gates(self, inputs: Tensor) -> Tensor:
        """The input side of all gates as one large product.

        inputs (Tensor): Shape (d, N, P) or (1, N, P), the same for all directions.
        RETURNS (Tensor): Shape (d, N, 4H), biases included.
        """
        d = self.bias.shape[0]
        return torch.baddbmm(self.full_bias().unsqueeze(1), inputs.expand(d, -1, -1), self.input_weight)

    def forward(
        self,
        gates: Tensor,
        h: Tensor,
        c: Tensor,
        resets: Optional[Tensor] = None,
        recurrent_dropout: float = 0.0,
    ) -> Tuple[Tensor, Tensor, Tensor]:
        """Run over time, with gradients for everything but the state that comes in.

        gates (Tensor): Shape (d, S, B, 4H), from `input_gates`.
        h (Tensor): Shape (d, B, P), output before the first step.
        c (Tensor): Shape (d, B, H), memory cell before the first step.
        resets (Optional[Tensor]): Shape (S, B) bool, true where a sequence begins and the state is zero.
        recurrent_dropout (float): Share of each lane's h that the gates do not see while training, the same places at
            all steps (Gal & Ghahramani 2016).
        RETURNS (Tuple[Tensor, Tensor, Tensor]): Outputs (d, S, B, P), h and c after the last step, detached.
        """
        mask: Optional[Tensor] = None
        if recurrent_dropout and self.training:
            mask = nn.functional.dropout(torch.ones_like(h), recurrent_dropout)  # (d, B, P)
        return run_recurrence(
            gates,
            self.recurrent_weight,
            self.projection_weight,
            h,
            c,
            resets=resets,
            mask=mask,
            cell_clip=self.cell_clip,
            projection_clip=self.projection_clip,
        )
