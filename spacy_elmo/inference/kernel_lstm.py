"""One bidirectional LSTM layer of a task, with weights in the layout of torch, by the native kernel, without gradients.

Results are bit-identical in every batch, and differ from torch's by rounding.
"""

import math
from typing import Sequence

import numpy as np
import torch
from torch import Tensor

from ..bilm.state import LSTMState, State
from ..text.lanes import plan_lanes
from .kernel import order_gates, pack_panels
from .kernel_records import WEIGHT_TYPES
from .kernel_stack import KernelStack, PackedLayer, StackConstants
from .limits import MAX_LANES, TASK_GATE_BYTES
from .packed_weights import PackedWeights
from .runtime import isolated
from .torch_lanes import LaneBatch

KERNEL_GATES = [0, 2, 1, 3]  # the places of i, j, f, o in torch's order i, f, j, o


class PackedLSTM(PackedWeights[KernelStack]):
    """Holds the weights of a layer, and computes it."""

    def pack(self, weights: Sequence[Tensor]) -> KernelStack:
        """weights (Sequence[Tensor]): See `lstm_sequences.run_lstm`."""
        n_matrices, width = len(weights) // 2, weights[1].shape[1]
        constants = StackConstants(
            width=width,
            cell_width=width,
            has_skip=False,
            type=WEIGHT_TYPES.index("float32"),
            cell_clip=math.inf,
            projection_clip=math.inf,
        )
        directions = [[_pack_direction(weights[:n_matrices])], [_pack_direction(weights[n_matrices:])]]
        return KernelStack(directions, constants, TASK_GATE_BYTES)

    @isolated
    @torch.no_grad()
    def run(self, rows: Tensor, lengths: Sequence[int], weights: Sequence[Tensor]) -> Tensor:
        """See `lstm_sequences.run_lstm`."""
        stack = self.get(weights)
        plan, tokens, width = plan_lanes(lengths, MAX_LANES), np.arange(len(rows)), weights[1].shape[1]
        zeros = torch.zeros(2, 1, width, dtype=torch.float32)
        start = State((LSTMState(h=zeros, c=zeros),))
        outputs = torch.empty(1, len(rows), 2 * width, dtype=torch.float32)
        stack.run(LaneBatch(rows, (tokens, tokens), plan, start, (plan.slots(), plan.slots(backward=True))), outputs)
        return outputs[0]


def _pack_direction(weights: Sequence[Tensor]) -> PackedLayer:
    from_input, from_state, input_bias, state_bias = (
        weight.unflatten(0, (4, -1))[KERNEL_GATES].flatten(0, 1) for weight in weights
    )
    bias = order_gates(input_bias + state_bias)
    return [pack_panels(order_gates(from_input.t())), pack_panels(order_gates(from_state.t())), bias, None, None, None]
