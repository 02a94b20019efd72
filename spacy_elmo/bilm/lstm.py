"""LSTM layers with projection, for both directions (Sak et al. 2014; Peters et al. 2018, sec. 3.4).

The recurrent part has a hand-written backward pass. Autograd through a loop over time would record about twenty
operations per step and compute the weight gradients step by step. Here the forward pass stores the gates, and the
backward pass computes the weight gradients in two large products after its loop.

tanh(x) is computed as 2 sigmoid(2x) - 1, which is several times faster in torch on CPUs and exact to 1e-7. If a C
compiler was found at installation, `_recurrence.c` computes the elements of a step in one pass.

In a training loop on a GPU the loop over time is launched at once, as a CUDA graph.
"""

from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from .config import BiLMConfig
from .layers import CUDA_GRAPHS, CudaGraph, GraphCache, LayerHighway, constant_, new_parameter, uniform_
from .state import LSTMState, State

try:
    from . import _recurrence as one_pass
except ImportError:  # installed without a compiler
    one_pass = None  # type: ignore[assignment]  # a module or None

FORGET_BIAS = 1.0  # added at run time and not part of the stored bias, as in the files of bilm-tf


class LSTMLayer(nn.Module):
    """The weights of one layer. The first dimension is the direction; columns are in the order i, j (candidate), f, o.
    The attribute `graphs` has CUDA graphs of a training loop: two for each layer, shape and dtype. They keep the values
    of all steps, the gates, and copies of the weights in memory.
    """

    graphs: Optional[GraphCache] = None

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
        for k, (layer, (h, c)) in enumerate(zip(self.layers, state.layers)):
            if k == 0:
                gates = self._first_gates(vectors, index, input_dropout)
            else:
                dropped = nn.functional.dropout(layers[-1], input_dropout, self.training)
                gates = layer.input_gates(dropped.flatten(1, 2)).view(d, n_steps, n_lanes, -1)  # type: ignore[operator]  # an LSTMLayer
            outputs, h, c = layer(gates, h, c, resets, recurrent_dropout)  # (d, S, B, P)
            states.append(LSTMState(h, c))
            layers.append(self._combine(k, layers[-1], outputs) if k else outputs)
        return layers, State(tuple(states))

    def _combine(self, k: int, inputs: Tensor, outputs: Tensor) -> Tensor:
        """Apply the skip connection or the highway of a layer."""
        if self.config.highway_between:
            return self.highways[k - 1](inputs, outputs)  # type: ignore[no-any-return]  # a LayerHighway's
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


HALF_PRECISION = (torch.bfloat16, torch.float16)
NO_CLIP = torch.finfo(torch.float32).max
ONE_PASS_THREADS = 4  # more threads of torch are faster than one pass in one thread
ResetMasks = List[Optional[Tensor]]


def run_recurrence(
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
    graphs: Optional[GraphCache] = None,
) -> Tuple[Tensor, Tensor, Tensor]:
    """Run over time: i, j, f, o = gates + h W; c = clip(i j + f c); h = clip(W_P (o tanh(c))).

    The gradient of a clip is zero beyond the bound and one exactly at the bound, as in TensorFlow (`tf.clip_by_value`),
    with which the original models were trained, and whatever `torch.clamp` does: zero at the bound from torch 2.14 on.

    gates (Tensor): Shape (d, S, B, 4H), input side and bias of the gates, order i, j, f, o. Products have its dtype,
        states and sums are float32 or float64.
    recurrent_weight (Tensor): Shape (d, R, 4H).
    projection_weight (Optional[Tensor]): Shape (d, H, R), or None if R == H.
    h (Tensor): Shape (d, B, R). It gets no gradient: backpropagation is truncated here.
    c (Tensor): Shape (d, B, H). It gets no gradient either.
    resets (Optional[Tensor]): Shape (S, B) bool, true where the state is set to zero before the step.
    mask (Optional[Tensor]): Shape (d, B, R), factor of h as input of the gates, the same at all steps: variational
        dropout (Gal & Ghahramani 2016). Outputs and states are not masked.
    cell_clip (Optional[float]): Bound of c.
    projection_clip (Optional[float]): Bound of h.
    graphs (Optional[GraphCache]): CUDA graphs of a training loop.
    RETURNS (Tuple[Tensor, Tensor, Tensor]): Outputs (d, S, B, R) float32, last h, last c (both detached).
    """
    constants = _Constants(h, c, resets, mask, cell_clip, None if projection_weight is None else projection_clip)
    weights = recurrent_weight, projection_weight
    graph = None if graphs is None else _find_graph(graphs, gates, weights, constants)
    outputs, last_c = _Recurrence.apply(gates, *weights, constants, graph)  # type: ignore[no-untyped-call]  # torch gives apply no types
    return outputs, outputs[:, -1].detach(), last_c


class _Constants(NamedTuple):
    """Arguments of `run_recurrence` that get no gradient; `output_clip` is None without a projection."""

    h: Tensor
    c: Tensor
    resets: Optional[Tensor]
    mask: Optional[Tensor]
    cell_clip: Optional[float]
    output_clip: Optional[float]


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        gates: Tensor,
        recurrent_weight: Tensor,
        projection_weight: Optional[Tensor],
        constants: _Constants,
        graph: Optional["_RecurrenceGraph"],
    ) -> Tuple[Tensor, Tensor]:
        ctx.graph = graph
        if graph is not None:
            outputs, last_c = graph.forward(gates, recurrent_weight, projection_weight, constants)
            ctx.n_forwards = graph.n_forwards
        else:
            values = _allocate(gates, recurrent_weight.shape[1], constants)
            state_dtype = values.cells.dtype
            recurrent = recurrent_weight.to(gates.dtype)
            projection = None if projection_weight is None else projection_weight.to(gates.dtype)
            keeps = _keeps(constants.resets, gates.shape[1], state_dtype)
            layer = _PreparedLayer(
                recurrent, projection, keeps, constants.mask, constants.cell_clip, constants.output_clip
            )
            start_h, start_c = constants.h.to(state_dtype), constants.c.to(state_dtype)
            _run_forward(layer, values, gates, start_h, start_c)
            ctx.save_for_backward(*values, recurrent, projection, start_h, start_c, constants.mask)
            ctx.keeps, ctx.clips, ctx.gates_shape = keeps, (constants.cell_clip, constants.output_clip), gates.shape
            outputs, last_c = values.outputs, values.cells[-1].clone()
        ctx.mark_non_differentiable(last_c)
        ctx.set_materialize_grads(False)
        return outputs, last_c

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Optional[Tensor], _: Any) -> Tuple[Optional[Tensor], ...]:
        if d_outputs is None:
            return (None,) * 5
        if ctx.graph is not None:
            return (*ctx.graph.backward(d_outputs, ctx.n_forwards), None, None)
        *tensors, recurrent, projection, h, c, mask = ctx.saved_tensors
        layer = _PreparedLayer(recurrent, projection, ctx.keeps, mask, *ctx.clips)
        gradients = _gradients(layer, _StepValues(*tensors), d_outputs, h, c, recurrent.new_empty(ctx.gates_shape))
        return (*gradients, None, None)


class _StepValues(NamedTuple):
    """Values of each step that the backward pass needs.

    acts (Tensor): Shape (S, 4, d, B, H), activations of i, j (candidate), f, o.
    cells (Tensor): Shape (S, d, B, H), memory cells after the clip.
    tanhs (Tensor): Shape (S, d, B, H), tanh of the cells.
    outputs (Tensor): Shape (d, S, B, R), outputs after the clip.
    raw_cells (Tensor): Cells before the clip; the same tensor as `cells` without a clip.
    raw_outputs (Tensor): Outputs before the clip; the same tensor as `outputs` without a clip.
    """

    acts: Tensor
    cells: Tensor
    tanhs: Tensor
    outputs: Tensor
    raw_cells: Tensor
    raw_outputs: Tensor

    def by_step(self) -> List["_StepValues"]:
        """Views of each step, without the axis S."""
        columns = [tensor.unbind(0) for tensor in (self.acts, self.cells, self.tanhs)]
        columns += [self.outputs.unbind(1), self.raw_cells.unbind(0), self.raw_outputs.unbind(1)]
        return [_StepValues(*row) for row in zip(*columns)]


class _PreparedLayer(NamedTuple):
    """What a loop over time reads: the weights in the dtype of the products, and the settings.

    keeps (ResetMasks): For each step a factor (B, 1) of the state, 0 where it is reset; None where nothing is.
    mask (Optional[Tensor]), cell_clip (Optional[float]), output_clip (Optional[float]): See `run_recurrence`.
    """

    recurrent: Tensor
    projection: Optional[Tensor]
    keeps: ResetMasks
    mask: Optional[Tensor]
    cell_clip: Optional[float]
    output_clip: Optional[float]


def _run_forward(layer: _PreparedLayer, values: _StepValues, gates: Tensor, h: Tensor, c: Tensor) -> None:
    """Fill `values`. gates (d, S, B, 4H), h (d, B, R), c (d, B, H)."""
    d, _, n_lanes, width = gates.shape
    pre = torch.empty(d, n_lanes, width, dtype=gates.dtype, device=gates.device)
    by_gate = pre.view(d, n_lanes, 4, -1).permute(2, 0, 1, 3)  # (4, d, B, H)
    cell_outputs = torch.empty_like(values.tanhs[0]) if _is_one_pass(values.acts) else None  # (d, B, H)
    gates = gates if cell_outputs is None else gates.contiguous()
    for step, gate, keep in zip(values.by_step(), gates.unbind(1), layer.keeps):
        if keep is not None:
            h, c = h * keep, c * keep
        read = h if layer.mask is None else h * layer.mask
        if cell_outputs is not None:
            torch.bmm(read.to(gate.dtype), layer.recurrent, out=pre)
            arrays = c.contiguous(), step.acts, step.raw_cells, step.cells, step.tanhs, cell_outputs
            _call_by_direction(one_pass.forward, (pre.to(c.dtype), gate.to(c.dtype)), arrays, layer.cell_clip)
            _project_outputs(step, cell_outputs, layer)
        else:
            torch.baddbmm(gate, read.to(gate.dtype), layer.recurrent, out=pre)
            by_gate[1].mul_(2)
            torch.sigmoid(by_gate.to(c.dtype), out=step.acts)
            _project_outputs(step, _update_cells(step, c, layer.cell_clip), layer)
        h, c = step.outputs, step.cells


def _is_one_pass(acts: Tensor) -> bool:
    """Whether one thread computes the elements of a step in one pass, by `_recurrence.c`. acts (..., H)."""
    is_possible = one_pass is not None and acts.dtype is torch.float32 and acts.device.type == "cpu"
    return is_possible and torch.get_num_threads() <= ONE_PASS_THREADS


def _call_by_direction(
    function: Callable[..., None], gates: Sequence[Tensor], arrays: Sequence[Tensor], clip: Optional[float]
) -> None:
    """Call a function of `_recurrence.c` for each direction.

    gates (Sequence[Tensor]): Shape (d, B, 4H), each direction contiguous. arrays (Sequence[Tensor]): Contiguous.
    """
    d, n_lanes, width = arrays[0].shape[-3:]
    size = n_lanes * width
    for k in range(d):
        addresses = [tensor.data_ptr() + 4 * k * tensor.stride(0) for tensor in gates]
        addresses += [array.data_ptr() + 4 * k * size for array in arrays]
        function(*addresses, d * size, n_lanes, width, NO_CLIP if clip is None else clip)


def _update_cells(step: _StepValues, c: Tensor, clip: Optional[float]) -> Tensor:
    """Set the cells, and return o * tanh(c), shape (d, B, H)."""
    i, j, f, o = step.acts.unbind(0)  # 4 x (d, B, H)
    j.mul_(2).sub_(1)
    torch.mul(f, c, out=step.raw_cells).addcmul_(i, j)
    if clip is not None:
        torch.clamp(step.raw_cells, -clip, clip, out=step.cells)
    torch.mul(step.cells, 2, out=step.tanhs).sigmoid_().mul_(2).sub_(1)
    return o * step.tanhs


def _project_outputs(step: _StepValues, cell_outputs: Tensor, layer: _PreparedLayer) -> None:
    if layer.projection is not None:
        cell_outputs = torch.bmm(cell_outputs.to(layer.projection.dtype), layer.projection)  # (d, B, R)
    step.raw_outputs.copy_(cell_outputs)
    if layer.output_clip is not None:
        torch.clamp(step.raw_outputs, -layer.output_clip, layer.output_clip, out=step.outputs)


def _gradients(
    layer: _PreparedLayer, values: _StepValues, d_outputs: Tensor, h: Tensor, c: Tensor, d_gates: Tensor
) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
    """Gradients of the gates (d, S, B, 4H), written to `d_gates`, and of both weights."""
    dtype = layer.recurrent.dtype
    d_projected = _run_backward(layer, values, d_outputs, c, d_gates)
    read = _read_outputs(values.outputs, h, layer.mask, layer.keeps).to(dtype)  # (d, S * B, R)
    d_recurrent = torch.bmm(read.transpose(1, 2), d_gates.flatten(1, 2)).to(h.dtype)
    d_projection: Optional[Tensor] = None
    if layer.projection is not None:
        cell_outputs = (values.acts[:, 3] * values.tanhs).to(dtype).transpose(0, 1)  # (d, S, B, H)
        d_projection = torch.bmm(cell_outputs.flatten(1, 2).transpose(1, 2), d_projected.flatten(1, 2)).to(h.dtype)
    return d_gates, d_recurrent, d_projection


def _run_backward(layer: _PreparedLayer, values: _StepValues, d_outputs: Tensor, c: Tensor, d_gates: Tensor) -> Tensor:
    """Set `d_gates` (d, S, B, 4H); return the gradients of the projections (d, S, B, R)."""
    recurrent = layer.recurrent.transpose(1, 2)
    d_projected = recurrent.new_empty(values.outputs.shape)
    d_act = torch.empty_like(values.acts[0])  # (4, d, B, H)
    is_one_pass = _is_one_pass(d_act)
    steps, d_steps, d_pre = values.by_step(), d_outputs.unbind(1), d_gates.unbind(1)
    d_h: Optional[Tensor] = None
    d_c: Optional[Tensor] = None
    for s in reversed(range(len(steps))):
        step, keep = steps[s], layer.keeps[s]
        d_h = d_steps[s] if d_h is None else d_h.to(d_act.dtype).add_(d_steps[s])
        before = c if s == 0 else steps[s - 1].cells
        d_cell_outputs = _unproject(step, layer, d_h, d_projected[:, s])
        before = (before if keep is None else before * keep).contiguous()
        if is_one_pass:
            d_c = torch.zeros_like(d_cell_outputs) if d_c is None else d_c
            d_step = d_pre[s] if d_pre[s].dtype == d_act.dtype else d_act.view(*d_pre[s].shape)  # (d, B, 4H)
            arrays = step.acts, step.raw_cells, step.tanhs, before, d_cell_outputs, d_c
            _call_by_direction(one_pass.backward, (d_step,), arrays, layer.cell_clip)
            if d_step is not d_pre[s]:
                d_pre[s].copy_(d_step)
        else:
            by_gate = d_pre[s].view(*d_act.shape[1:3], 4, -1).permute(2, 0, 1, 3)  # (4, d, B, H)
            d_c = _cell_backward(step, d_act, d_cell_outputs, d_c, before, layer.cell_clip)
            _gates_backward(step, d_act, d_act if by_gate.dtype != d_act.dtype else by_gate)
            if by_gate.dtype != d_act.dtype:
                by_gate.copy_(d_act)
        if s > 0:
            d_h = torch.bmm(d_pre[s], recurrent)  # (d, B, R)
            d_h = d_h if layer.mask is None else d_h * layer.mask
            if keep is not None:
                d_h, d_c = d_h * keep, d_c * keep
    return d_projected


def _unproject(step: _StepValues, layer: _PreparedLayer, d_h: Tensor, d_projected: Tensor) -> Tensor:
    """The gradient of the input of the projection, shape (d, B, H), new."""
    if layer.projection is None:
        return d_h.clone(memory_format=torch.contiguous_format)
    if layer.output_clip is not None:
        d_h = _unclip(d_h, step.raw_outputs, layer.output_clip)
    d_projected.copy_(d_h)
    return torch.bmm(d_projected, layer.projection.transpose(1, 2)).to(step.tanhs.dtype)


def _cell_backward(
    step: _StepValues,
    d_act: Tensor,
    d_cell_outputs: Tensor,
    d_c: Optional[Tensor],
    before: Tensor,
    clip: Optional[float],
) -> Tensor:
    """Set `d_act` (4, d, B, H) to the gradient of the gates; return the gradient of the previous step's cells."""
    i, j, f, o = step.acts.unbind(0)
    d_i, d_j, d_f, d_o = d_act.unbind(0)
    torch.mul(d_cell_outputs, step.tanhs, out=d_o)
    d_cell = d_cell_outputs.mul_(o)
    _tanh_backward(d_cell, step.tanhs, d_cell)
    if d_c is not None:
        d_cell.add_(d_c)
    if clip is not None:
        d_cell = _unclip(d_cell, step.raw_cells, clip)
    torch.mul(d_cell, j, out=d_i)
    torch.mul(d_cell, i, out=d_j)
    torch.mul(d_cell, before, out=d_f)
    return d_cell.mul_(f)


def _gates_backward(step: _StepValues, d_act: Tensor, d_pre: Tensor) -> None:
    """Set `d_pre` (4, d, B, H) to the gradient of the gate pre-activations."""
    _sigmoid_backward(d_act[0], step.acts[0], d_pre[0])
    _tanh_backward(d_act[1], step.acts[1], d_pre[1])
    _sigmoid_backward(d_act[2:], step.acts[2:], d_pre[2:])


def _allocate(gates: Tensor, output_width: int, constants: _Constants) -> _StepValues:
    """Allocate the tensors. Without a clip, values before and after it share one tensor."""
    d, n_steps, n_lanes, width = gates.shape
    state_dtype = torch.float32 if gates.dtype in HALF_PRECISION else gates.dtype

    def empty(*shape: int) -> Tensor:
        return torch.empty(*shape, dtype=state_dtype, device=gates.device)

    cells, outputs = empty(n_steps, d, n_lanes, width // 4), empty(d, n_steps, n_lanes, output_width)
    return _StepValues(
        acts=empty(n_steps, 4, d, n_lanes, width // 4),
        cells=cells,
        tanhs=torch.empty_like(cells),
        outputs=outputs,
        raw_cells=cells if constants.cell_clip is None else torch.empty_like(cells),
        raw_outputs=outputs if constants.output_clip is None else torch.empty_like(outputs),
    )


def _unclip(gradient: Tensor, raw: Tensor, clip: float) -> Tensor:
    """The gradient where |raw| <= clip, else zero. The operation excludes its bounds, so they are one ulp larger."""
    to_float = np.float64 if raw.dtype == torch.float64 else np.float32
    bound = float(np.nextafter(to_float(clip), to_float(np.inf)))
    unclipped: Tensor = torch.ops.aten.hardtanh_backward(gradient, raw, -bound, bound)
    return unclipped


def _sigmoid_backward(gradient: Tensor, values: Tensor, out: Tensor) -> None:
    """Multiply a gradient by y (1 - y)."""
    torch.ops.aten.sigmoid_backward.grad_input(gradient, values, grad_input=out)


def _tanh_backward(gradient: Tensor, values: Tensor, out: Tensor) -> None:
    """Multiply a gradient by 1 - y^2."""
    torch.ops.aten.tanh_backward.grad_input(gradient, values, grad_input=out)


def _keeps(resets: Optional[Tensor], n_steps: int, dtype: torch.dtype) -> ResetMasks:
    """One factor (B, 1) for each step that resets something, None for all other steps."""
    if resets is None:
        return [None] * n_steps
    is_needed = resets.any(dim=1).tolist()
    return [(~row).to(dtype).unsqueeze(1) if needed else None for row, needed in zip(resets, is_needed)]


def _read_outputs(outputs: Tensor, h: Tensor, mask: Optional[Tensor], keeps: ResetMasks) -> Tensor:
    """Input of the recurrent product at each step, shape (d, S * B, R)."""
    read = torch.cat([h.unsqueeze(1), outputs[:, :-1]], dim=1)  # (d, S, B, R)
    for s, keep in enumerate(keeps):
        if keep is not None:
            read[:, s] *= keep
    if mask is not None:
        read *= mask.unsqueeze(1)
    return read.flatten(1, 2)


def _find_graph(
    graphs: GraphCache, gates: Tensor, weights: Tuple[Tensor, Optional[Tensor]], constants: _Constants
) -> Optional["_RecurrenceGraph"]:
    """None if there are no gradients, or for a new or an unusual shape."""
    has_gradients = torch.is_grad_enabled() and (gates.requires_grad or weights[0].requires_grad)
    if not has_gradients or (gates.is_leaf and gates.requires_grad):  # a leaf would keep our memory as its gradient
        return None
    key = (weights[0].data_ptr(), gates.shape, gates.dtype, constants.resets is None, constants.mask is None)
    graph: Optional[_RecurrenceGraph] = graphs.find(key, lambda pool: _RecurrenceGraph(gates, weights, constants, pool))
    return graph


class _RecurrenceGraph:
    """The graphs of one layer and shape, forward and backward. `n_forwards` counts the forward passes: only the last
    one can have a backward pass.
    """

    def __init__(
        self, gates: Tensor, weights: Tuple[Tensor, Optional[Tensor]], constants: _Constants, pool: Any
    ) -> None:
        recurrent_weight, projection_weight = weights
        (d, n_steps, n_lanes, width), device = gates.shape, gates.device
        self.n_forwards = 0
        # After the backward pass the gradient of the gates.
        self._gates = torch.zeros(gates.shape, dtype=gates.dtype, device=device)
        self._values = _allocate(gates, recurrent_weight.shape[1], constants)
        for tensor in self._values:
            tensor.zero_()
        self._d_outputs = torch.zeros_like(self._values.outputs)
        self._h = self._values.outputs.new_zeros(d, n_lanes, recurrent_weight.shape[1])
        self._c = self._values.cells.new_zeros(d, n_lanes, width // 4)
        self._keep = None if constants.resets is None else self._c.new_ones(n_steps, n_lanes, 1)
        self._mask = None if constants.mask is None else torch.ones_like(self._h)
        keeps: ResetMasks = [None] * n_steps if self._keep is None else list(self._keep.unbind(0))
        projection = None if projection_weight is None else projection_weight.to(gates.dtype, copy=True)
        recurrent = recurrent_weight.to(gates.dtype, copy=True)
        self._layer = layer = _PreparedLayer(
            recurrent, projection, keeps, self._mask, constants.cell_clip, constants.output_clip
        )

        def forward() -> None:
            _run_forward(layer, self._values, self._gates, self._h, self._c)

        def backward() -> Tuple[Tensor, Tensor, Optional[Tensor]]:
            return _gradients(layer, self._values, self._d_outputs, self._h, self._c, self._gates)

        self._forward, self._backward = CudaGraph(forward, device, pool), CudaGraph(backward, device, pool)

    def forward(
        self, gates: Tensor, recurrent_weight: Tensor, projection_weight: Optional[Tensor], constants: _Constants
    ) -> Tuple[Tensor, Tensor]:
        """Outputs and last c, both new."""
        self._layer.recurrent.copy_(recurrent_weight)
        if self._layer.projection is not None and projection_weight is not None:
            self._layer.projection.copy_(projection_weight)
        if self._keep is not None and constants.resets is not None:
            self._keep.copy_((~constants.resets).unsqueeze(2))
        if self._mask is not None and constants.mask is not None:
            self._mask.copy_(constants.mask)
        self._h.copy_(constants.h)
        self._c.copy_(constants.c)
        self._gates.copy_(gates)
        self.n_forwards += 1
        self._forward.replay()
        return self._values.outputs.clone(), self._values.cells[-1].clone()

    def backward(self, d_outputs: Tensor, n_forwards: int) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
        """Gradients of the gates, valid until the next call of `forward`, and of both weights.

        RAISES (RuntimeError): If `forward` was called again since, which has overwritten its values.
        """
        if n_forwards != self.n_forwards:
            raise RuntimeError(
                "The backward pass of an LSTM layer comes after another forward pass, which has overwritten the values "
                "in its CUDA graph. Compute gradients after each forward pass, or set the environment variable "
                f"{CUDA_GRAPHS} to 0."
            )
        self._d_outputs.copy_(d_outputs)
        d_gates, d_recurrent, d_projection = self._backward.replay()
        return d_gates.detach(), d_recurrent.clone(), None if d_projection is None else d_projection.clone()
