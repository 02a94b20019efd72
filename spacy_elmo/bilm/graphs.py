"""CUDA graphs: the kernels of a computation, captured once and launched in one call.

A step of an LSTM has about ten small kernels, and launching them one by one takes longer than computing them. A graph
reads and writes tensors of fixed addresses, so inputs are copied into them. On a CPU a graph calls its function.
"""

from typing import Any, Callable, Optional, Tuple

import torch

from ..util import is_on

VARIABLE = "SPACY_ELMO_CUDA_GRAPHS"  # 0 launches kernels one by one; 1 uses graphs on CPUs, too, which tests need
N_WARM_UPS = 2  # calls before a capture, in which libraries allocate their memory


def uses_graphs(device: torch.device) -> bool:
    return is_on(VARIABLE, default=device.type == "cuda")


class Graph:
    """A function of tensors with fixed addresses. It must not wait for the device, and needs no gradients.

    function (Callable[[], Any]): Called for the capture; on a CPU in every `replay`.
    device (torch.device): Of all its tensors.
    pool (Any): Memory that graphs share, from `make_pool`; none of them may be replayed while another one is.
    """

    def __init__(self, function: Callable[[], Any], device: torch.device, pool: Any = None) -> None:
        self._function: Optional[Callable[[], Any]] = None  # a captured one is not kept: it may refer to this object
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


def make_pool(device: torch.device) -> Any:
    """Memory for several graphs; None on a CPU."""
    return torch.cuda.graph_pool_handle() if device.type == "cuda" else None


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
