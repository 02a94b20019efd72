"""One bidirectional LSTM layer of a task, with weights in the layout of torch, by the native kernel, without gradients.

Results are bit-identical in every batch, and differ from those of torch by rounding.
"""

import math
from typing import List, Optional, Sequence, Tuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..bilm.state import LSTMState, State
from ..text.lanes import plan_lanes
from .dispatch import MAX_LANES, TASK_GATE_BYTES
from .kernel import has_kernel, order_gates, pack_panels
from .kernel_records import WEIGHT_TYPES
from .kernel_stack import KernelStack, PackedLayer, StackConstants
from .runtime import isolated
from .torch_lanes import LaneBatch

KERNEL_GATES = [0, 2, 1, 3]  # of i, j, f, o among those of torch: i, f, j, o


def takes_kernel(rows: Tensor, weights: Sequence[Tensor]) -> bool:
    """RETURNS (bool): Whether the kernel computes these rows with these weights: float32 on a CPU, without gradients or
    autocast. A trace needs the operations of torch: it would take results of the kernel for constants.
    """
    tensors = [rows, *weights]
    needs_gradients = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    is_traced = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]  # torch does not export it
    needs_torch = needs_gradients or is_traced or torch.is_autocast_enabled("cpu")
    return not needs_torch and all(has_kernel(tensor) for tensor in tensors)


class PackedLSTM:
    """Holds the weights of a layer, packed for the kernel: at their first use, and again after each change. Copies and
    pickles of a model have none.

    Changes are found by a comparison of all bits with a copy, since Thinc's optimizers write into NumPy arrays, which
    have no version counter. 395,000 weights take 0.04 ms.
    """

    def __init__(self) -> None:
        self._packed: Optional[Tuple[List[NDArray[np.int32]], KernelStack]] = None  # replaced at once: threads share it

    def __reduce__(self) -> Tuple[type, Tuple[()]]:
        return PackedLSTM, ()

    @isolated
    @torch.no_grad()
    def run(self, rows: Tensor, lengths: Sequence[int], weights: Sequence[Tensor]) -> Tensor:
        """See `lstm_sequences.run_lstm`."""
        stack = self._pack(weights)
        plan, tokens, width = plan_lanes(lengths, MAX_LANES), np.arange(len(rows)), weights[1].shape[1]
        zeros = torch.zeros(2, 1, width, dtype=torch.float32)
        start = State((LSTMState(h=zeros, c=zeros),))
        outputs = torch.empty(1, len(rows), 2 * width, dtype=torch.float32)
        stack.run(LaneBatch(rows, (tokens, tokens), plan, start, (plan.slots(), plan.slots(backward=True))), outputs)
        return outputs[0]

    def _pack(self, weights: Sequence[Tensor]) -> KernelStack:
        bits = [weight.detach().numpy().view(np.int32) for weight in weights]
        packed = self._packed
        if packed is None or not all(map(np.array_equal, packed[0], bits)):
            copies = [array.copy() for array in bits]
            self._packed = packed = copies, pack_lstm([torch.from_numpy(array.view(np.float32)) for array in copies])
        return packed[1]


def pack_lstm(weights: Sequence[Tensor]) -> KernelStack:
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


def _pack_direction(weights: Sequence[Tensor]) -> PackedLayer:
    from_input, from_state, input_bias, state_bias = (
        weight.unflatten(0, (4, -1))[KERNEL_GATES].flatten(0, 1) for weight in weights
    )
    bias = order_gates(input_bias + state_bias)
    return [pack_panels(order_gates(from_input.t())), pack_panels(order_gates(from_state.t())), bias, None, None, None]
