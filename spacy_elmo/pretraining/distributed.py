"""Data-parallel training with several processes, started by `torchrun`.

Every rank assigns the text to all lanes of the global batch, and reads and computes its share of them, so that N ranks
read the same text as one process with the same global batch. `DistributedDataParallel` averages dense gradients. Sparse
gradients are averaged here: only rows in the gradient of some rank are sent.
"""

import gc
import importlib
import os
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Callable, Iterable, Iterator, List, Optional, TypeVar
from uuid import uuid4

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from ..errors import Errors

# The other ranks are idle while the first rank validates.
TIMEOUT = timedelta(hours=2)
WORKING = "working"  # the answer of a writer that is not ready
ANSWER_S = 0.05  # between two looks at who joins
# In the errors of a lost connection, which have no class of their own.
NETWORK_SIGNS = ("gloo", "nccl", "connection closed", "connection reset", "broken pipe", "timed out")
ValueT = TypeVar("ValueT")


@dataclass(frozen=True)
class Ranks:
    """This process and its communication with other processes. Rank 0 writes files."""

    rank: int = 0
    world_size: int = 1
    device: torch.device = torch.device("cpu")

    @property
    def is_writer(self) -> bool:
        """RETURNS (bool): Whether this process writes models, checkpoints and the log."""
        return self.rank == 0

    def lanes(self, batch_size: int) -> slice:
        """The lanes of this rank. ValueError if `batch_size`, the lanes of all ranks, cannot be divided evenly."""
        share, rest = divmod(batch_size, self.world_size)
        if rest or not share:
            raise ValueError(
                f"batch_size is {batch_size}, but should be a multiple of {self.world_size}, the number of processes: "
                "it counts the lanes of all processes together. Change batch_size or the number of processes."
            )
        return slice(self.rank * share, (self.rank + 1) * share)

    def average(self, value: Tensor) -> Tensor:
        """RETURNS (Tensor): The mean over all ranks, the same on each."""
        if self.world_size == 1:
            return value
        total = value.clone()
        dist.all_reduce(total)
        return total / self.world_size

    def any(self, is_set: bool) -> bool:
        """RETURNS (bool): Whether `is_set` is true on some rank, the same on each."""
        if self.world_size == 1:
            return is_set
        return bool(self.average(torch.tensor(float(is_set), device=self.device)) > 0)

    def gather(self, tensor: Tensor, dim: int) -> Tensor:
        """Concatenate the parts of all ranks, all of the same shape, along a dimension, in the order of the ranks."""
        if self.world_size == 1:
            return tensor
        gathered = [torch.empty_like(tensor) for _ in range(self.world_size)]
        dist.all_gather(gathered, tensor.contiguous())
        return torch.cat(gathered, dim=dim)

    def gather_objects(self, value: Any) -> List[Any]:
        """RETURNS (List[Any]): The values of all ranks, in order."""
        if self.world_size == 1:
            return [value]
        values: List[Any] = [None] * self.world_size
        dist.all_gather_object(values, value)
        return values

    def from_writer(self, value: Any) -> Any:
        """RETURNS (Any): The value of the writer, on every rank."""
        if self.world_size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values, src=0)
        return values[0]

    def wait_for_writer(self, work: Callable[[Callable[[], None]], object]) -> None:
        """Call a function on the writer; the other ranks block, longer than `TIMEOUT` if necessary. Its error is
        raised on all ranks.

        work (Callable[[Callable[[], None]], object]): Called with a function that it calls at least once an hour.
        RAISES (ValueError): The error of the writer.
        """
        answer: Optional[str] = WORKING
        while not self.is_writer and answer == WORKING:
            answer = self.from_writer(None)
        problem: Optional[Exception] = None
        if self.is_writer:
            try:
                work(lambda: self.from_writer(WORKING))
            except (ValueError, OSError) as error:
                problem = error
            answer = self.from_writer(None if problem is None else str(problem))
        if answer is not None:
            raise problem or ValueError(answer)

    def agree(self, attempt: Callable[[], ValueT]) -> ValueT:
        """Call a function on all ranks. An error on one rank is raised on all, so that no rank blocks.

        attempt (Callable[[], ValueT]): Must not communicate with other ranks.
        RETURNS (ValueT): Its result on this rank.
        RAISES (ValueError): The error of this rank, else of the first rank that failed.
        """
        problem: Optional[Exception] = None
        try:
            value = attempt()
        except (ValueError, OSError) as error:
            problem = error
        problems = [text for text in self.gather_objects(None if problem is None else str(problem)) if text is not None]
        if problems:
            raise problem or ValueError(problems[0])
        return value

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Average in place the gradients, sparse or dense, of parameters that `wrap` excludes."""
        if self.world_size == 1:
            return
        for parameter in dict.fromkeys(parameters):  # shared ones once
            if parameter.grad is None:
                continue
            grad = parameter.grad
            parameter.grad = self._average_rows(grad.coalesce()) if grad.is_sparse else self.average(grad)

    def wrap(self, module: nn.Module, excluded: Iterable[nn.Parameter]) -> nn.Module:
        """Average the dense gradients of a module during its backward pass.

        module (nn.Module): Its forward pass returns the loss.
        excluded (Iterable[nn.Parameter]): Parameters whose gradients may be sparse, see `average_gradients`.
        RETURNS (nn.Module): The wrapped module; the module itself if there is one rank, or nothing to average.
        """
        ignored = {id(parameter) for parameter in excluded}
        others = [parameter for parameter in module.parameters() if id(parameter) not in ignored]
        if self.world_size == 1 or not any(parameter.requires_grad for parameter in others):
            return module
        named = module.named_parameters(remove_duplicate=False)  # shared parameters under all their names
        names = [name for name, parameter in named if id(parameter) in ignored]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, names)
        return DistributedDataParallel(module, broadcast_buffers=False, gradient_as_bucket_view=True)

    def _average_rows(self, grad: Tensor) -> Tensor:
        """Concatenate the rows of all ranks; shorter gradients are padded with zeros."""
        n_rows = torch.tensor([grad._nnz()], device=grad.device)
        longest = int(self.gather(n_rows, 0).max())
        missing = longest - grad._nnz()
        indices = nn.functional.pad(grad.indices(), (0, missing))  # (1, longest), row 0 repeated
        values = torch.cat([grad.values(), grad.values().new_zeros(missing, *grad.values().shape[1:])])
        indices, values = self.gather(indices, 1), self.gather(values, 0) / self.world_size
        return torch.sparse_coo_tensor(indices, values, grad.shape, check_invariants=False).coalesce()


@contextmanager
def connect(device: str) -> Iterator[Ranks]:
    """Join the process group that `torchrun` started; without `torchrun` there is one rank.

    The group is destroyed at the end, which waits for its threads: a thread that releases its last tensor while the
    interpreter shuts down would abort the process.

    device (str): "cpu", or a GPU: each rank then uses the GPU of its local rank.
    RAISES (ValueError): If a node has fewer GPUs than processes, EL127 if the connection is lost.
    """
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    if world_size == 1:
        yield Ranks(device=torch.device(device))
        return
    rank, rank_device = int(os.environ["RANK"]), _own_device(device, int(os.environ.get("LOCAL_RANK", "0")))
    backend = "nccl" if rank_device.type == "cuda" else "gloo"
    importlib.import_module("torch.distributed.nn")  # imported later, its default arguments would keep the group alive
    try:
        with report_lost_ranks(rank), _without_torch_advice():
            store = next(iter(rendezvous("env://", rank, world_size, timeout=TIMEOUT)))[0]
            store = _agree_on_prefix(store, rank, world_size)
            dist.init_process_group(backend, store=store, rank=rank, world_size=world_size, timeout=TIMEOUT)
            yield Ranks(rank, world_size, rank_device)
            gc.collect()  # DistributedDataParallel is in a reference cycle and keeps the group alive
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _agree_on_prefix(store: Any, rank: int, world_size: int) -> Any:
    """The store under a prefix that is new and the same on all ranks. torchrun may keep its store when it restarts,
    with addresses of dead processes. Its count of restarts differs between nodes, so it cannot be the prefix.

    Rank 0 answers each request until all ranks have its answer; requests of dead processes do no harm.
    """
    own_name = uuid4().hex
    prefix = own_name
    if rank:
        store.set(f"asked_by_{rank}", own_name)
        prefix = store.get(f"answer_to_{own_name}").decode()  # waits
        store.add(f"n_answers_{prefix}", 1)
    else:
        while store.add(f"n_answers_{prefix}", 0) < world_size - 1:
            for name in (f"asked_by_{other}" for other in range(1, world_size)):
                if store.check([name]):
                    store.set(f"answer_to_{store.get(name).decode()}", prefix)
            time.sleep(ANSWER_S)
    return dist.PrefixStore(prefix, store)  # type: ignore[attr-defined]  # exported without a stub


@contextmanager
def report_lost_ranks(rank: int) -> Iterator[None]:
    """RAISES (ValueError): EL127 instead of the error of the network library, if the connection is lost."""
    try:
        yield
    except (dist.DistError, RuntimeError) as error:
        text = str(error)
        if not isinstance(error, dist.DistError) and not any(sign in text.lower() for sign in NETWORK_SIGNS):
            raise
        raise ValueError(Errors.EL127.format(rank=rank, reason=text.splitlines()[0])) from error


@contextmanager
def _without_torch_advice() -> Iterator[None]:
    """Ignore warnings of DistributedDataParallel on a renamed argument and on strides of dimensions of size one."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="`broadcast_buffers` is deprecated", category=FutureWarning)
        warnings.filterwarnings("ignore", message="Grad strides do not match bucket view strides", category=UserWarning)
        yield


def restart_count() -> Optional[int]:
    """RETURNS (Optional[int]): Number of restarts by `torchrun --max-restarts`, None without torchrun."""
    count = os.environ.get("TORCHELASTIC_RESTART_COUNT")
    return None if count is None else int(count)


def _own_device(device: str, local_rank: int) -> torch.device:
    if torch.device(device).type == "cpu":
        return torch.device("cpu")
    if local_rank >= torch.cuda.device_count():
        raise ValueError(
            f"{local_rank + 1} processes on this node need one GPU each, but it has {torch.cuda.device_count()}. "
            "Start fewer with `torchrun --nproc-per-node`."
        )
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)
