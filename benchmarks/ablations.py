"""Ablations of the engine: relative speed without one optimization, or with another path or limit.

python benchmarks/ablations.py en_elmo_sm --threads 2
python benchmarks/ablations.py en_elmo_sm --threads 2 --batch-tokens 100   # a few sentences at a time
python benchmarks/ablations.py WEIGHTS --threads 2 --batch-tokens 1   # single sequences, with other variants
"""

import math
import statistics
import time
from contextlib import ExitStack, contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple
from unittest.mock import patch

import torch
import typer
from corpus import Sentence, default_shared, flatten, read_documents
from torch import Tensor

from spacy_elmo import BiLM, load_bilm
from spacy_elmo.inference import dispatch, encoder, lanes, lstm, memory, products, runner
from spacy_elmo.inference.dispatch import Path

Change = Tuple[Any, str, Any]  # object, name of its attribute, new value
MB = 2**20
AS_IT_IS = "as it is"


def main(
    # fmt: off
    bilm_path: str = typer.Argument(..., help="Weights in any known format."),
    n_sentences: Optional[int] = typer.Option(None, "--sentences", "-n", help="Sentences of UD EWT dev, or all."),
    batch_tokens: int = typer.Option(8192, "--batch-tokens", "-b", help="Tokens per batch."),
    repeats: int = typer.Option(5, "--repeats", "-r", help="Interleaved rounds; medians are printed."),
    threads: int = typer.Option(2, "--threads", "-t", help="Threads of torch."),
    is_cold: bool = typer.Option(False, "--cold", "-c", help="Start with an empty word cache."),
    only: str = typer.Option("", "--only", "-o", help="Only variants whose names contain this, and the default."),
    # fmt: on
) -> None:
    """Print tokens/s of each variant, and the median and range of its ratio to the default."""
    torch.set_num_threads(threads)
    sentences = flatten(read_documents(default_shared(), n_sentences))
    n_tokens = sum(map(len, sentences))
    variants = {AS_IT_IS: [], "as it is, again: noise": [], **(SINGLE if batch_tokens == 1 else BATCHES)}
    chosen = {name: changes for name, changes in variants.items() if only in name or name == AS_IT_IS}
    if len(chosen) == 1 and only != AS_IT_IS:
        raise typer.BadParameter(f"no variant has {only!r} in its name, but there are: {'; '.join(variants)}")
    rates: Dict[str, List[float]] = {name: [] for name in chosen}
    for _ in range(repeats):
        for name, changes in chosen.items():
            with ExitStack() as stack:
                for where, attribute, value in changes:
                    stack.enter_context(patch.object(where, attribute, value))
                bilm = load_bilm(bilm_path)
                embed(bilm, sentences[:64] if is_cold else sentences, batch_tokens)  # packs the weights
                started = time.perf_counter()
                embed(bilm, sentences, batch_tokens)
                rates[name].append(n_tokens / (time.perf_counter() - started))
    print(f"{n_tokens} tokens, batches of {batch_tokens}, {threads} thread(s), medians of {repeats}: {bilm_path}")
    for name, found in rates.items():
        ratios = [rate / whole for rate, whole in zip(found, rates[AS_IT_IS])]
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
        print(f"{name:52} {statistics.median(found):9.0f} {statistics.median(ratios):6.2f}  {spread}")


def embed(bilm: BiLM, sentences: List[Sentence], batch_tokens: int) -> None:
    """Compute all layers and discard them."""
    for _ in bilm.iter_encode(sentences, batch_tokens=batch_tokens, reuse_memory=True):
        pass


def take(path: Path) -> Change:
    """RETURNS (Change): Take this path for every plan."""
    return (runner, "choose_path", lambda *args, **kwargs: path)


def set_block(n_bytes: int) -> Change:
    """RETURNS (Change): Use blocks of steps whose gates have this size in bytes."""

    def block_steps(*sizes: int) -> int:
        return dispatch.block_steps(*sizes[:3], n_bytes=n_bytes)

    return (lanes, "block_steps", block_steps)


def full_lanes(n_active: Any, n_lanes: int) -> List[int]:
    """RETURNS (List[int]): All lanes at each step."""
    return [n_lanes] * len(n_active)


@contextmanager
def new_workspace(self: memory.WorkspacePool) -> Iterator[memory.Workspace]:
    """YIELDS (Workspace): A workspace that is not reused."""
    yield memory.Workspace(self._device)


def update_by_gates(
    acts: Tensor,
    c2: Tensor,
    clip2: Optional[float],
    *,
    candidate_scale: float = 1.0,
    added: Optional[lstm.GateRows] = None,
    out: Optional[Tensor] = None,
) -> Tensor:
    """Four activations of torch in place of one sigmoid over all gates."""
    if added is not None:
        acts += added.gather()
    i, j, f, o = acts.chunk(4, dim=2)
    c = torch.sigmoid(f) * (0.5 * c2) + torch.sigmoid(i) * torch.tanh((0.5 * candidate_scale) * j)
    if clip2 is not None:
        c = c.clamp(-0.5 * clip2, 0.5 * clip2)
    c2.copy_(2.0 * c)
    half = 0.5 * torch.sigmoid(o) * torch.tanh(c)
    return half if out is None else out.copy_(half)


def without_packing() -> List[Change]:
    """RETURNS (List[Change]): Use the matrix products of PyTorch."""
    never: Callable[[Any], bool] = lambda weight: False  # noqa: E731
    return [(module, "has_packing", never) for module in (products, lstm, runner)]


BATCHES: Dict[str, List[Change]] = {
    "directions in turn": [take(Path.IN_TURN)],
    "directions in parallel": [take(Path.PARALLEL)],
    "directions together, unpacked weights": [take(Path.FEW_LANES)],
    "weights not prepacked, directions together": without_packing(),
    "cells in operations of torch": [(lstm, "update_in_one_pass", None)],
    "cells in operations of torch, one for each gate": [(lstm, "update_cell", update_by_gates)],
    "rows of word gates copied before they are added": [(lstm, "is_one_pass", lambda *args: False)],
    "layer 1: input product for the words of a block": [(lanes, "WORD_GATE_BYTES", 0)],
    "upper layers: input product in blocks of steps": [(dispatch, "JOINT_WEIGHTS", 0)],
    "upper layers: input product in each step": [(dispatch, "JOINT_WEIGHTS", math.inf)],
    "lanes that do not shrink at the end": [(lanes, "round_up", full_lanes)],
    **{f"{n} lanes": [(encoder, "MAX_LANES", n)] for n in (32, 64, 128, 512)},
    **{f"{n} MB of gates a block": [set_block(n * MB)] for n in (2, 32)},
    "working memory allocated for each batch": [(memory.WorkspacePool, "borrow", new_workspace)],
}
SINGLE: Dict[str, List[Change]] = {
    "directions together": [take(Path.SINGLE_TOGETHER)],
    "directions in turn": [take(Path.SINGLE_IN_TURN)],
    "as few lanes": [take(Path.FEW_LANES)],
    "as many lanes": [take(Path.IN_TURN)],
    "cells in operations of torch": [(lstm, "update_in_one_pass", None)],
}


if __name__ == "__main__":
    typer.run(main)
