"""The recurrence of training as CUDA graphs: the loop over time of `recurrence.py` in one launch."""

import logging
from typing import Any, Dict, Optional, Tuple

import torch
from torch import Tensor

from .cuda_graphs import VARIABLE, Graph, make_pool
from .recurrence import HALF, Keeps, _allocate, _gradients, _Layer, _run_forward, run_recurrence

MAX_GRAPHS = 16  # layers times shapes

logger = logging.getLogger("spacy_elmo")


class RecurrenceGraphs:
    """CUDA graphs of the recurrence of the layers that are trained: two for each layer, shape and dtype. A shape is
    captured when it comes again. What is captured keeps its memory: the values of all steps, the gates, and copies of
    the weights. A shape that does not fit in memory is computed by the loop.

    device (torch.device): Device of the layers.
    """

    def __init__(self, device: torch.device) -> None:
        self._device, self._pool = device, make_pool(device)
        self._is_off = False
        self._found: Dict[Any, Optional[_RecurrenceGraph]] = {}

    def __reduce__(self) -> Any:
        return RecurrenceGraphs, (self._device,)  # a copy captures again

    def run(
        self,
        gates: Tensor,
        recurrent_weight: Tensor,
        projection_weight: Optional[Tensor],
        h: Tensor,
        c: Tensor,
        *,
        resets: Optional[Tensor] = None,
        mask: Optional[Tensor] = None,
        cell_clip: Optional[float] = None,
        projection_clip: Optional[float] = None,
    ) -> Tuple[Tensor, Tensor, Tensor]:
        """The same as `run_recurrence`. It has one backward pass at a time: that of the last call for a shape."""
        weights, clips = (recurrent_weight, projection_weight), (cell_clip, projection_clip)
        graph = self._find(gates, weights, resets, mask, clips)
        if graph is None:
            return run_recurrence(
                *(gates, *weights, h, c),
                resets=resets,
                mask=mask,
                cell_clip=cell_clip,
                projection_clip=projection_clip,
            )
        outputs, last_c = _Replayed.apply(gates, *weights, h, c, resets, mask, graph)  # type: ignore[no-untyped-call]  # torch gives apply no types
        return outputs, outputs[:, -1].detach(), last_c

    def _find(
        self,
        gates: Tensor,
        weights: Tuple[Tensor, Optional[Tensor]],
        resets: Optional[Tensor],
        mask: Optional[Tensor],
        clips: Tuple[Optional[float], Optional[float]],
    ) -> Optional["_RecurrenceGraph"]:
        """RETURNS (Optional[_RecurrenceGraph]): None if there are no gradients, or for a new or an unusual shape."""
        is_wanted = torch.is_grad_enabled() and (gates.requires_grad or weights[0].requires_grad) and not self._is_off
        if not is_wanted or (gates.is_leaf and gates.requires_grad):  # a leaf would keep our memory as its gradient
            return None
        key = (weights[0].data_ptr(), gates.shape, gates.dtype, resets is None, mask is None)
        if self._found.get(key) is None:
            if key not in self._found and len(self._found) < MAX_GRAPHS:
                self._found[key] = None  # captured if it comes again
            elif key in self._found:
                self._found[key] = self._capture(gates, weights, resets, mask, clips)
        return self._found.get(key)

    def _capture(
        self,
        gates: Tensor,
        weights: Tuple[Tensor, Optional[Tensor]],
        resets: Optional[Tensor],
        mask: Optional[Tensor],
        clips: Tuple[Optional[float], Optional[float]],
    ) -> Optional["_RecurrenceGraph"]:
        try:
            with torch.inference_mode(False), torch.no_grad():
                return _RecurrenceGraph(gates, weights, resets, mask, clips, self._pool)
        except RuntimeError as error:  # mostly too little memory
            logger.warning("The recurrence is computed without CUDA graphs: %s", error)
            self._is_off = True
            return None


class _RecurrenceGraph:
    """The graphs of one layer and shape, forward and backward. `turn` counts the forward passes, of which the last one
    has a backward pass.
    """

    def __init__(
        self,
        gates: Tensor,
        weights: Tuple[Tensor, Optional[Tensor]],
        resets: Optional[Tensor],
        mask: Optional[Tensor],
        clips: Tuple[Optional[float], Optional[float]],
        pool: Any,
    ) -> None:
        recurrent_weight, projection_weight = weights
        clips = (clips[0], None if projection_weight is None else clips[1])
        (d, n_steps, n_lanes, width), device = gates.shape, gates.device
        exact = torch.float32 if gates.dtype in HALF else gates.dtype
        output_width = recurrent_weight.shape[1]
        self.turn = 0
        self._gates = torch.zeros(
            gates.shape, dtype=gates.dtype, device=device
        )  # after the backward pass their gradient
        self._kept = _allocate(gates, output_width, exact, clips[0] is not None, clips[1] is not None)
        for tensor in self._kept:
            tensor.zero_()
        self._d_outputs = torch.zeros_like(self._kept.outputs)
        self._h = self._kept.outputs.new_zeros(d, n_lanes, output_width)
        self._c = self._kept.cells.new_zeros(d, n_lanes, width // 4)
        self._keep = None if resets is None else self._c.new_ones(n_steps, n_lanes, 1)
        self._mask = None if mask is None else torch.ones_like(self._h)
        keeps: Keeps = [None] * n_steps if self._keep is None else list(self._keep.unbind(0))
        projection = None if projection_weight is None else projection_weight.to(gates.dtype, copy=True)
        recurrent = recurrent_weight.to(gates.dtype, copy=True)
        self._layer = layer = _Layer(recurrent, projection, keeps, self._mask, *clips)

        def forward() -> None:
            _run_forward(layer, self._kept, self._gates, self._h, self._c)

        def backward() -> Tuple[Tensor, Tensor, Optional[Tensor]]:
            return _gradients(layer, self._kept, self._d_outputs, self._h, self._c, self._gates)

        self._forward, self._backward = Graph(forward, device, pool), Graph(backward, device, pool)

    def forward(
        self,
        gates: Tensor,
        recurrent_weight: Tensor,
        projection_weight: Optional[Tensor],
        h: Tensor,
        c: Tensor,
        resets: Optional[Tensor],
        mask: Optional[Tensor],
    ) -> Tuple[Tensor, Tensor]:
        """RETURNS (Tuple[Tensor, Tensor]): Outputs and last c, both new."""
        self._layer.recurrent.copy_(recurrent_weight)
        if self._layer.projection is not None and projection_weight is not None:
            self._layer.projection.copy_(projection_weight)
        if self._keep is not None and resets is not None:
            self._keep.copy_((~resets).unsqueeze(2))
        if self._mask is not None and mask is not None:
            self._mask.copy_(mask)
        self._h.copy_(h)
        self._c.copy_(c)
        self._gates.copy_(gates)
        self.turn += 1
        self._forward.replay()
        return self._kept.outputs.clone(), self._kept.cells[-1].clone()

    def backward(self, d_outputs: Tensor, turn: int) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
        """RETURNS (Tuple[Tensor, Tensor, Optional[Tensor]]): Gradients of the gates, valid until the next call of
        `forward`, and of both weights.
        RAISES (RuntimeError): If `forward` was called again since `turn`, which has overwritten its values.
        """
        if turn != self.turn:
            raise RuntimeError(
                "The backward pass of a recurrence that was computed by a CUDA graph comes after the next forward "
                f"pass. Set the environment variable {VARIABLE} to 0 to compute several passes before their gradients"
            )
        self._d_outputs.copy_(d_outputs)
        d_gates, d_recurrent, d_projection = self._backward.replay()
        return d_gates.detach(), d_recurrent.clone(), None if d_projection is None else d_projection.clone()


class _Replayed(torch.autograd.Function):
    """The same as `_Recurrence`, by a graph."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tuple[Tensor, Tensor]:
        *tensors, graph = arguments
        outputs, last_c = graph.forward(*tensors)
        ctx.graph, ctx.turn = graph, graph.turn
        ctx.mark_non_differentiable(last_c)
        ctx.set_materialize_grads(False)
        return outputs, last_c

    @staticmethod
    def backward(ctx: Any, d_outputs: Optional[Tensor], _: Any) -> Tuple[Optional[Tensor], ...]:
        gradients = (None,) * 3 if d_outputs is None else ctx.graph.backward(d_outputs, ctx.turn)
        return (*gradients, None, None, None, None, None)
