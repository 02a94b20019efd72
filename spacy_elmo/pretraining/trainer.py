"""The training loop of a biLM, one update at a time, and the state that checkpoints store.

Truncated backpropagation through time with carried state (Peters et al. 2018, sec. 3.1): lanes of text are read in
chunks, each chunk gives one gradient, and the recurrent state is carried to the next chunk.
"""

import math
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any, Callable, ContextManager, Dict, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from ..bilm.layers import GraphCache, uses_graphs
from ..bilm.lstm import LSTMStack
from ..bilm.network import BiLMNetwork, LMHead
from ..bilm.state import State
from ..inference.products import has_bfloat16_units
from ..inference.runtime import to_device
from ..text.words import Vocabulary
from ..weights.formats.native import current_name, stored_name
from .data import LaneReader, PreparedChunk, TrainingBatch
from .distributed import Ranks
from .objective import make_objective
from .optimizer import FIRST_LOSS_SCALE, LossScale, PretrainOptimizer
from .run_config import PretrainConfig
from .run_folder import Snapshot
from .stored_text import StoredText

AUTOCAST = {"bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Update:
    """Statistics of one update.

    loss (Tensor): Mean over its tokens and both directions on this rank, in nats; shape ().
    learn_rate (float): Learning rate of the top layer.
    grad_norm (float): Global gradient norm before clipping.
    is_finite (bool): False if the loss or its gradient was not finite; no weight was changed then.
    is_skipped (bool): Whether float16 gradients overflowed, which is normal if rare; no weight was changed then.
    data_s (float): Seconds spent on reading and preparing the text.
    """

    loss: Tensor
    learn_rate: float
    grad_norm: float
    is_finite: bool
    is_skipped: bool
    data_s: float


class LossModule(nn.Module):
    """Maps a chunk of lanes to its mean loss; the module that `DistributedDataParallel` wraps.

    n_ranks (int): Ranks whose losses are averaged.
    """

    def __init__(self, network: BiLMNetwork, objective: nn.Module, config: PretrainConfig, n_ranks: int = 1) -> None:
        super().__init__()
        self.network, self.objective, self.config, self.n_ranks = network, objective, config, n_ranks

    def forward(self, chunk: PreparedChunk, state: State, generator: torch.Generator) -> Any:
        """RETURNS (Tuple[Tensor, State]): The loss, shape (), and the state after the chunk."""
        config, d, device = self.config, self.network.config.n_directions, self.network.device
        dropouts = {"input_dropout": config.dropout, "recurrent_dropout": config.recurrent_dropout}
        layers, state = encode_chunk(self.network, chunk, state, has_resets=config.reset_blocks, **dropouts)
        last_dropout = config.dropout if config.output_dropout is None else config.output_dropout
        outputs = nn.functional.dropout(layers[-1], last_dropout).flatten(1, 2)  # (d, S * B, P)
        if chunk.counted is not None:
            outputs = outputs[:, to_device(chunk.counted.reshape(-1), device)]
        outputs = outputs.flatten(0, 1)  # (d * predictions, P)
        losses = self.objective(outputs, to_device(chunk.targets, device), generator)
        if chunk.counted is None:
            return losses.mean(), state
        # Ranks have different numbers of predictions; the average of their losses is the mean over all predictions.
        return losses.sum() * (self.n_ranks / (d * chunk.n_predictions)), state


class Trainer:
    """Trains a biLM and its head, with the words of the vocabulary, in place. Its config has the
    precision of the products: the processors of all ranks decide what "auto" is.

    batch (TrainingBatch): The text of the last update.
    """

    def __init__(
        self,
        network: BiLMNetwork,
        head: LMHead,
        vocabulary: Vocabulary,
        text: StoredText,
        config: PretrainConfig,
        ranks: Ranks,
    ) -> None:
        if config.precision == "auto":
            config = replace(config, precision="float32" if is_emulated("bfloat16", ranks) else "bfloat16")
        self.network, self.head, self.config, self.ranks = network, head, config, ranks
        self.own_lanes = ranks.lanes(config.batch_size)
        self.reader = LaneReader(text, vocabulary, network.config, config, self.own_lanes)
        self.batch = self.reader.seek(0)
        self._next: Optional[TrainingBatch] = None
        schedule = replace(config.schedule, warmup_steps=config.warmup_updates)
        self.optimizer = PretrainOptimizer(network, head, config.optimizer, schedule, max_tokens=config.max_tokens)
        objective = make_objective(head, config.softmax, sparse=config.optimizer.sparse).to(ranks.device)
        self.module = LossModule(network, objective, config, ranks.world_size)
        self.sparse = list(head.parameters()) if config.optimizer.sparse else []
        if config.optimizer.sparse and network.word_embedding is not None:
            self.sparse.append(network.word_embedding)
        self._wrapped: Optional[nn.Module] = None
        self._wrapped_for: List[bool] = []
        self.state = network.zero_state(self.own_lanes.stop - self.own_lanes.start)
        self.generator = torch.Generator().manual_seed(config.seed)
        is_scaled = config.precision == "float16"
        self.loss_scale = LossScale(is_scaled, FIRST_LOSS_SCALE if is_scaled else 1.0)
        self.step = self.n_tokens = 0

    def update(self) -> Update:
        """Do one update."""
        started = time.perf_counter()
        self.batch = self._next or self.reader.read()
        data_s = time.perf_counter() - started
        chunks = self.batch.chunks
        self.network.train()
        self.optimizer.zero_grad()
        loss = self._backward(chunks)
        started = time.perf_counter()
        self._next = self.reader.read()  # while a GPU computes the gradients
        data_s += time.perf_counter() - started
        self.ranks.average_gradients(self.sparse)
        is_overflow = self.loss_scale.unscale(self.optimizer.parameters)
        info = self.optimizer.step(step=self.step, n_tokens=self.n_tokens)
        is_finite = math.isfinite(info.grad_norm)
        if is_overflow:  # a smaller factor may help, if the loss is finite on all ranks
            is_finite = math.isfinite(float(self.ranks.average(loss))) and not self.loss_scale.has_persistent_overflow
        if is_finite:
            self.step += 1
            self.n_tokens += sum(chunk.n_predictions for chunk in chunks)
        return Update(loss, info.learn_rate, info.grad_norm, is_finite, is_overflow, data_s)

    def snapshot(self) -> Snapshot:
        """The complete state for `restore`, the same on all ranks. A collective operation: all ranks call it."""
        moments, optimizer = self.optimizer.state_dict()
        tensors = {f"network.{stored_name(name)}": tensor for name, tensor in self.network.state_dict().items()}
        tensors.update({f"head.{name}": tensor for name, tensor in self.head.state_dict().items()})
        tensors.update({f"optimizer.{_renamed(name, stored_name)}": tensor for name, tensor in moments.items()})
        for name, lanes in self.state.named_tensors().items():
            tensors[f"state.{name}"] = self.ranks.gather(lanes, 1)
        for rank, states in enumerate(self.ranks.gather_objects(_random_states(self.ranks.device))):
            tensors.update({f"random.{rank}.{name}": state for name, state in states.items()})
        tensors["random.sampler"] = self.generator.get_state()
        record = {
            "step": self.step,
            "n_tokens": self.n_tokens,
            "optimizer": optimizer,
            "loss_scale": asdict(self.loss_scale),
            "n_ranks": self.ranks.world_size,
        }
        return Snapshot({name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}, record)

    def restore(self, snapshot: Snapshot) -> None:
        """Resume from a snapshot. With another number of ranks, only dropout differs from the original run."""
        tensors, record, device = snapshot.tensors, snapshot.record, self.ranks.device
        weights = _under("network.", tensors)
        self.network.load_state_dict({current_name(name): tensor for name, tensor in weights.items()})
        self.head.load_state_dict(_under("head.", tensors))
        moments = _under("optimizer.", tensors)
        moments = {_renamed(name, current_name): tensor for name, tensor in moments.items()}
        self.optimizer.load_state_dict((moments, record["optimizer"]))
        self.step, self.n_tokens = record["step"], record["n_tokens"]
        self.batch, self._next = self.reader.seek(self.step), None
        # Copies, since PyTorch aligns its memory, and products may differ in the last bit for another alignment.
        states = _under("state.", tensors)
        stored = {
            name: torch.empty_like(lanes).copy_(states[name][:, self.own_lanes])
            for name, lanes in self.state.named_tensors().items()
        }
        self.state = self.state.replace_tensors(stored)
        self.generator.set_state(tensors["random.sampler"])
        self.loss_scale = replace(self.loss_scale, **record["loss_scale"])
        if record["n_ranks"] == self.ranks.world_size:
            random_states = _under(f"random.{self.ranks.rank}.", tensors)
            torch.set_rng_state(random_states["cpu"])
            if device.type == "cuda" and "cuda" in random_states:
                torch.cuda.set_rng_state(random_states["cuda"], device)

    def has_finite_weights(self) -> bool:
        """RETURNS (bool): Whether all weights are finite numbers, the same on all ranks."""
        return all(bool(torch.isfinite(parameter).all()) for parameter in self.optimizer.parameters)

    def _backward(self, chunks: Sequence[PreparedChunk]) -> Tensor:
        """Accumulate the gradients of all chunks, and return their mean loss, shape ()."""
        module, config = self._wrap(), self.config
        factor = self.loss_scale.factor * (config.unroll_steps if config.scale_loss else 1.0) / len(chunks)
        total = torch.zeros((), device=self.ranks.device)
        for i, chunk in enumerate(chunks):
            is_last = i == len(chunks) - 1
            with nullcontext() if is_last or module is self.module else module.no_sync():  # type: ignore[operator]  # a DistributedDataParallel
                with _autocast(config, self.ranks.device):
                    loss, self.state = module(chunk, self.state, self.generator)
                (loss * factor).backward()
            total += loss.detach() / len(chunks)
        return total

    def _wrap(self) -> nn.Module:
        """The wrapped module; it is wrapped again when the set of trained parameters changes."""
        trained = [parameter.requires_grad for parameter in self.module.parameters()]
        if self._wrapped is None or trained != self._wrapped_for:
            self._wrapped, self._wrapped_for = self.ranks.wrap(self.module, self.sparse), trained
            self._use_graphs(uses_graphs(self.ranks.device))
        return self._wrapped

    def _use_graphs(self, is_on: bool) -> None:
        if isinstance(self.network.encoder, LSTMStack):
            graphs = GraphCache(self.ranks.device, "The recurrence is") if is_on else None
            for layer in self.network.encoder.layers:
                layer.graphs = graphs  # type: ignore[assignment]  # ModuleList knows Modules

    def release(self) -> None:
        """Release the wrapped module, which keeps the connection to the other ranks open."""
        self._wrapped = None
        self._use_graphs(False)


def encode_chunk(
    network: BiLMNetwork, chunk: PreparedChunk, state: State, *, has_resets: bool, **dropouts: float
) -> Tuple[List[Tensor], State]:
    """Compute the layers of a chunk: encode each distinct word once, then run the encoder. Gradients are recorded if
    they are enabled.

    has_resets (bool): Start each block of sentences from a zero state.
    dropouts (float): `input_dropout` and `recurrent_dropout`, see `BiLMNetwork.forward`.
    RETURNS (Tuple[List[Tensor], State]): Layers (d, S, B, P) and the new state.
    """
    device = network.device
    vectors = network.word_vectors(to_device(chunk.words, device).long(), chunk.lengths)
    places = to_device(chunk.places, device)
    resets = to_device(chunk.begins, device) if has_resets else None
    positions = None if chunk.positions is None else to_device(chunk.positions, device)
    return network(vectors, places, state, resets=resets, positions=positions, **dropouts)  # type: ignore[no-any-return]  # torch gives calls of modules no types


def is_emulated(precision: str, ranks: Ranks) -> bool:
    """Whether the processor or GPU of some rank has no instructions for a precision. A collective operation."""
    is_cpu, has_bfloat16 = ranks.device.type == "cpu", has_bfloat16_units(ranks.device)
    return ranks.any({"bfloat16": not has_bfloat16, "float16": is_cpu}.get(precision, False))


def _autocast(config: PretrainConfig, device: torch.device) -> ContextManager[None]:
    if config.precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, AUTOCAST[config.precision])


def _renamed(name: str, rename: Callable[[str], str]) -> str:
    """Rename a parameter of the network; names of the softmax do not change."""
    return f"network.{rename(name.removeprefix('network.'))}" if name.startswith("network.") else name


def _random_states(device: torch.device) -> Dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> Dict[str, Tensor]:
    return {name[len(prefix) :]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}
