"""What the networks share: new parameters, linear maps, PyTorch's LSTM, layer norms, highways, checks for hooks, TF32,
CUDA graphs.

Parameters are float32 whatever the default of torch is. Tensors on the meta device are not initialized, since they are
replaced when weights are read. `torch.nn.init` also works on the meta device, but then imports torch._dynamo, which
takes longer than reading a model.

LSTMs of cuDNN are computed in float32. By default torch lets cuDNN round their inputs to TF32, which has 10 bits of
mantissa.
"""

import logging
import os
import threading
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

import torch
from torch import Tensor, nn

logger = logging.getLogger("spacy_elmo")

# Added to the variance. AllenNLP adds 1e-13 to the standard deviation, which is equal within float32 rounding.
NORM_EPS = 1e-12
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")  # of torch
GATE_BIAS = -2.0  # initial value, with which a highway mostly carries its input (bilm-tf)


def new_parameter(*shape: int) -> nn.Parameter:
    """A new, uninitialized parameter."""
    return nn.Parameter(torch.empty(*shape, dtype=torch.float32))


def uniform_(tensor: Tensor, low: float, high: float) -> None:
    """Fill a tensor from U(low, high), in place."""
    if not tensor.is_meta:
        nn.init.uniform_(tensor, low, high)


def normal_(tensor: Tensor, std: float) -> None:
    """Fill a tensor from N(0, std), in place."""
    if not tensor.is_meta:
        nn.init.normal_(tensor, std=std)


@torch.no_grad()
def constant_(tensor: Tensor, value: float) -> None:
    """Fill a tensor with one value, in place."""
    tensor.fill_(value)


class Linear(nn.Linear):
    """A linear layer that is not initialized on the meta device."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__(n_in, n_out, dtype=torch.float32)

    def reset_parameters(self) -> None:
        if not self.weight.is_meta:
            super().reset_parameters()


class LSTM(nn.LSTM):
    """PyTorch's LSTM, not initialized on the meta device, and without TF32 on a GPU."""

    def __init__(self, *sizes: int, **settings: Any) -> None:
        super().__init__(*sizes, dtype=torch.float32, **settings)

    def reset_parameters(self) -> None:
        if not self.weight_ih_l0.is_meta:
            super().reset_parameters()

    def forward(self, *inputs: Any) -> Any:
        """See `torch.nn.LSTM`; the first input may be a packed sequence."""
        device: Any = self.weight_ih_l0.device
        with no_tf32(device):
            outputs, state = super().forward(*inputs)
        no_tf32_in_backward(outputs.data if isinstance(outputs, nn.utils.rnn.PackedSequence) else outputs)
        return outputs, state


class LayerNorm(nn.Module):
    """Normalize each row to mean 0 and variance 1, then scale and shift it (Ba et al. 2016).

    shape (int): Width of a row, after the directions where each has its own scale: d, P.
    """

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.weight = new_parameter(*shape)
        self.bias = new_parameter(*shape)
        constant_(self.weight, 1.0)
        constant_(self.bias, 0.0)

    def forward(self, rows: Tensor) -> Tensor:
        return normalize(rows, self.weight, self.bias)


def normalize(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Normalize rows (N, P), or (d, N, P) with a scale for each direction: weight and bias are (P,) or (d, P)."""
    width = rows.shape[-1:]
    if weight.dim() == 1:
        return nn.functional.layer_norm(rows, width, weight, bias, NORM_EPS)
    if len(weight) == 1:
        return nn.functional.layer_norm(rows, width, weight[0], bias[0], NORM_EPS)
    return nn.functional.layer_norm(rows, width, eps=NORM_EPS) * weight.unsqueeze(1) + bias.unsqueeze(1)


class Highway(nn.Module):
    """Highway layer (Srivastava et al. 2015): y = g * relu(W x + b) + (1 - g) * x.

    The gate g transforms and 1 - g carries, as in the paper and in bilm-tf (whose file calls g "carry").
    Both maps are one product: rows 0..F of `weight` are the transform, rows F..2F the gate.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = new_parameter(2 * width, width)
        self.bias = new_parameter(2 * width)
        normal_(self.weight, width**-0.5)
        constant_(self.bias[:width], 0.0)
        constant_(self.bias[width:], GATE_BIAS)

    def forward(self, features: Tensor) -> Tensor:
        """From (U, F) to (U, F)."""
        return apply_highway(features, nn.functional.linear(features, self.weight, self.bias))


def apply_highway(features: Tensor, scores: Tensor) -> Tensor:
    """From features (U, F) and scores (U, 2F), their product with the weights, plus bias, to (U, F)."""
    transform, gate = scores.chunk(2, dim=1)  # 2 x (U, F)
    return features + torch.sigmoid(gate) * (torch.relu(transform) - features)


class LayerHighway(nn.Module):
    """Mix the output of an LSTM layer with its input: y = g * LSTM(x) + (1 - g) * x, g = sigmoid(W x + b).

    The learned form of a skip connection; each direction has its own gate.
    """

    def __init__(self, n_directions: int, width: int) -> None:
        super().__init__()
        self.weight = new_parameter(n_directions, width, width)
        self.bias = new_parameter(n_directions, width)
        normal_(self.weight, width**-0.5)
        constant_(self.bias, GATE_BIAS)

    def forward(self, inputs: Tensor, outputs: Tensor) -> Tensor:
        """From inputs and outputs (d, S, B, P) of the layer to (d, S, B, P)."""
        gate = torch.baddbmm(self.bias.unsqueeze(1), inputs.flatten(1, 2), self.weight).sigmoid()  # (d, S * B, P)
        return inputs + gate.view(inputs.shape) * (outputs - inputs)


def find_hooked(modules: Iterable[nn.Module]) -> List[nn.Module]:
    """The modules that PyTorch does not call plainly: hooked ones, or all if there are hooks for all modules."""
    if any(getattr(nn.modules.module, f"_global{kind}") for kind in HOOKS):
        return list(modules)
    return list(filter(is_hooked, modules))


def is_hooked(module: nn.Module) -> bool:
    """Whether a module has hooks, parametrizations (weight norm, pruning and the like) or a replaced `forward`."""
    values = vars(module)
    return "forward" in values or "parametrizations" in module._modules or any(values[kind] for kind in HOOKS)


@contextmanager
def no_tf32(device: torch.device) -> Iterator[None]:
    """Forbid TF32 in LSTMs on a GPU for a while; then the flag has the value that it had."""
    if device.type != "cuda":
        yield
        return
    _forbid_tf32()
    try:
        yield
    finally:
        _restore_tf32()


def no_tf32_in_backward(outputs: Tensor) -> Tensor:
    """Keep TF32 out of the backward pass, too, of outputs of cuDNN's LSTM; other outputs do not change."""
    node: Any = outputs.grad_fn if outputs.device.type == "cuda" else None
    while node is not None and "CudnnRnn" not in node.name():
        node = node.next_functions[0][0] if node.next_functions else None
    if node is not None:
        node.register_prehook(lambda gradients: _forbid_tf32())
        node.register_hook(lambda inputs, gradients: _restore_tf32())
    return outputs


# Values of the flag before each call that forbids TF32 at present; the first is the value of the caller.
_flags_before: List[Tuple[Any, str, Any]] = []
_flags_lock = threading.Lock()  # all threads share the flag


def _forbid_tf32() -> None:
    rnn: Any = getattr(torch.backends.cudnn, "rnn", None)  # torch 2.9 has a flag for each operation
    flags, name, value = (torch.backends.cudnn, "allow_tf32", False) if rnn is None else (rnn, "fp32_precision", "ieee")
    with _flags_lock:
        _flags_before.append((flags, name, getattr(flags, name)))
        setattr(flags, name, value)


def _restore_tf32() -> None:
    with _flags_lock:
        setattr(*_flags_before.pop())


# CUDA graphs: the kernels of a computation, captured once and launched in one call
#
# A step of an LSTM has about ten small kernels, and launching them one by one takes longer than computing them. A graph
# reads and writes tensors of fixed addresses, so inputs are copied into them. On a CPU a graph calls its function.

CUDA_GRAPHS = "SPACY_ELMO_CUDA_GRAPHS"  # 0 launches kernels one by one; 1 uses graphs on CPUs, too, which tests need
ON, OFF = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
MAX_GRAPHS = 16  # of a cache
N_WARM_UPS = 2  # calls before a capture, in which libraries allocate their memory


def uses_graphs(device: torch.device) -> bool:
    """Whether the environment variable switches graphs on; by default they are on for a GPU."""
    value = os.environ.get(CUDA_GRAPHS, "").strip().lower()
    return value in ON if value in (*ON, *OFF) else device.type == "cuda"


class CudaGraph:
    """A function of tensors with fixed addresses. It must not synchronize with the device, and needs no gradients.

    function (Callable[[], Any]): Called for the capture; on a CPU in every `replay`.
    device (torch.device): The device of all its tensors.
    pool (Any): Memory that graphs share; only one of them may be replayed at a time.
    """

    def __init__(self, function: Callable[[], Any], device: torch.device, pool: Any = None) -> None:
        self._function: Optional[Callable[[], Any]] = None  # not kept after a capture: it may refer to this object
        if device.type == "cuda":
            with torch.cuda.device(device), torch.no_grad(), torch.autocast("cuda", enabled=False):
                self._graph, self._result = _capture(function, pool)
        else:
            self._function = function

    def replay(self) -> Any:
        """What the function returns; its tensors are valid until the next call."""
        if self._function is not None:
            with torch.no_grad(), torch.autocast("cpu", enabled=False):
                return self._function()
        self._graph.replay()
        return self._result


class GraphCache:
    """Graphs that share memory, by a key such as their shape. A key is captured the second time it occurs. If a graph
    does not fit in memory, all are discarded. A copy is empty.

    device (torch.device): The device of all graphs.
    name (str): Name of the computation, for the warning.
    """

    def __init__(self, device: torch.device, name: str) -> None:
        self.graphs: Dict[Any, Any] = {}  # None for a key that occurred once
        self._device, self._name, self._is_off = device, name, False
        self._pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None

    def __reduce__(self) -> Any:
        return GraphCache, (self._device, self._name)

    def find(self, key: Any, capture: Callable[[Any], Any]) -> Any:
        """What `capture(pool)` returned for this key; None for a new key, or without memory for it."""
        if self._is_off:
            return None
        if key not in self.graphs:
            uncaptured = [known for known, graph in self.graphs.items() if graph is None]
            if len(self.graphs) == MAX_GRAPHS and uncaptured:
                del self.graphs[uncaptured[0]]
            if len(self.graphs) < MAX_GRAPHS:
                self.graphs[key] = None
        elif self.graphs[key] is None:
            try:
                with torch.inference_mode(False), torch.no_grad():
                    self.graphs[key] = capture(self._pool)
            except RuntimeError as error:  # mostly too little memory
                logger.warning("%s computed without CUDA graphs: %s", self._name, error)
                self._is_off = True
                self.graphs.clear()
        return self.graphs.get(key)


def _capture(function: Callable[[], Any], pool: Any) -> Tuple[Any, Any]:
    """The graph, and what the function returned while it was captured."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(N_WARM_UPS):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # Other threads may use the device meanwhile.
    with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        result = function()
    return graph, result
