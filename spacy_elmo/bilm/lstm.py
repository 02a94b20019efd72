"""LSTM layers with projection, for both directions (Sak et al. 2014; Peters et al. 2018, sec. 3.4)."""

from typing import List, Optional, Tuple

import torch
from torch import Tensor, nn

from .config import BiLMConfig
from .layers import LayerHighway, constant_, new_parameter, uniform_
from .recurrence import RecurrenceGraphs, run_recurrence
from .state import LSTMState, State

FORGET_BIAS = 1.0  # added at run time and not part of the stored bias, as in the files of bilm-tf


class LSTMLayer(nn.Module):
    """The weights of one layer. The first dimension is the direction; columns are in the order i, j (candidate), f, o.
    The attribute `graphs` has CUDA graphs of a training loop whose chunks have one shape.
    """

    graphs: Optional[RecurrenceGraphs] = None

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        d, cell_width, width = config.n_directions, config.cell_width, config.projection_width
        self.cell_clip = config.cell_clip
        self.projection_clip = config.projection_clip if config.has_projection else None
        self.input_weight = new_parameter(d, width, 4 * cell_width)
        self.recurrent_weight = new_parameter(d, width, 4 * cell_width)
        self.bias = new_parameter(d, 4 * cell_width)
        self.projection_weight: Optional[nn.Parameter] = None
        if config.has_projection:
            self.projection_weight = new_parameter(d, cell_width, width)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize the weights as in Glorot & Bengio (2010), the default of TensorFlow and so of bilm-tf."""
        d, width, gates = self.input_weight.shape
        limit = (6.0 / (2 * width + gates)) ** 0.5
        uniform_(self.input_weight, -limit, limit)
        uniform_(self.recurrent_weight, -limit, limit)
        constant_(self.bias, 0.0)
        if self.projection_weight is not None:
            limit = (6.0 / (gates // 4 + width)) ** 0.5
            uniform_(self.projection_weight, -limit, limit)

    def input_gates(self, inputs: Tensor) -> Tensor:
        """Compute the input side of all gates in one large product, with biases: from (d, N, P), or (1, N, P) for all
        directions, to (d, N, 4H).
        """
        bias = full_bias(self.bias).unsqueeze(1)  # (d, 1, 4H)
        return torch.baddbmm(bias, inputs.expand(len(bias), -1, -1), self.input_weight)

    def forward(
        self,
        gates: Tensor,
        h: Tensor,
        c: Tensor,
        resets: Optional[Tensor] = None,
        recurrent_dropout: float = 0.0,
    ) -> Tuple[Tensor, Tensor, Tensor]:
        """Run over time, with gradients for everything except the initial state.

        gates (Tensor): Shape (d, S, B, 4H), from `input_gates`.
        h (Tensor): Shape (d, B, P), output before the first step.
        c (Tensor): Shape (d, B, H), memory cell before the first step.
        resets (Optional[Tensor]): Shape (S, B) bool, true where a sequence begins and the state is zero.
        recurrent_dropout (float): Dropout of h as input of the gates during training, with the same mask at all steps
            of a lane (Gal & Ghahramani 2016).
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
            graphs=self.graphs,
        )


class LSTMStack(nn.Module):
    """The LSTM layers of a biLM, in both directions."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList(LSTMLayer(config) for _ in range(config.n_layers))
        n_highways = config.n_layers - 1 if config.highway_between else 0
        self.highways = nn.ModuleList(
            LayerHighway(config.n_directions, config.projection_width) for _ in range(n_highways)
        )

    @property
    def device(self) -> torch.device:
        device: torch.device = self.layers[0].bias.device  # type: ignore[assignment]  # a Tensor's
        return device

    def zero_state(self, n_rows: int) -> State:
        """For each layer h (d, n_rows, P) and c (d, n_rows, H), all zero."""
        d, config = self.config.n_directions, self.config
        h = torch.zeros(d, n_rows, config.projection_width, dtype=torch.float32, device=self.device)
        c = torch.zeros(d, n_rows, config.cell_width, dtype=torch.float32, device=self.device)
        return State((LSTMState(h, c),) * config.n_layers)

    def forward(
        self,
        vectors: Tensor,
        index: Tensor,
        state: State,
        *,
        resets: Optional[Tensor] = None,
        positions: Optional[Tensor] = None,
        input_dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
    ) -> Tuple[List[Tensor], State]:
        """Run all layers over lanes, attached to the graph. See `BiLMNetwork.forward`; positions are not used."""
        d, n_steps, n_lanes = index.shape
        layers: List[Tensor] = []
        states: List[LSTMState] = []
        for number, (layer, (h, c)) in enumerate(zip(self.layers, state.layers)):
            if number == 0:
                gates = self._first_gates(vectors, index, input_dropout)
            else:
                dropped = nn.functional.dropout(layers[-1], input_dropout, self.training)
                gates = layer.input_gates(dropped.flatten(1, 2)).view(d, n_steps, n_lanes, -1)  # type: ignore[operator]  # an LSTMLayer
            outputs, h, c = layer(gates, h, c, resets, recurrent_dropout)  # (d, S, B, P)
            states.append(LSTMState(h, c))
            layers.append(self._combine(number, layers[-1], outputs) if number else outputs)
        return layers, State(tuple(states))

    def _combine(self, number: int, inputs: Tensor, outputs: Tensor) -> Tensor:
        """Apply the skip connection or the highway of a layer."""
        if self.config.highway_between:
            return self.highways[number - 1](inputs, outputs)  # type: ignore[no-any-return]  # a LayerHighway's
        return outputs + inputs if self.config.has_skip else outputs

    def _first_gates(self, vectors: Tensor, index: Tensor, input_dropout: float) -> Tensor:
        """Input product of the first layer, computed once per distinct word, or per token if there is dropout."""
        d, n_steps, n_lanes = index.shape
        layer: LSTMLayer = self.layers[0]  # type: ignore[assignment]  # ModuleList knows Modules
        if input_dropout and self.training:
            inputs = nn.functional.embedding(index.flatten(1), vectors)  # (d, S * B, P)
            inputs = nn.functional.dropout(inputs, input_dropout)
            return layer.input_gates(inputs).view(d, n_steps, n_lanes, -1)
        by_word = layer.input_gates(vectors.unsqueeze(0))  # (d, U, 4H)
        n_words = len(vectors)
        firsts = torch.arange(0, d * n_words, n_words, device=index.device).view(d, 1, 1)
        return nn.functional.embedding(index + firsts, by_word.flatten(0, 1))  # (d, S, B, 4H)


def full_bias(bias: Tensor) -> Tensor:
    """A stored bias (d, 4H) with the forget bias added."""
    forget = bias.new_zeros(4, bias.shape[1] // 4)
    forget[2] = FORGET_BIAS
    return bias + forget.view(-1)
