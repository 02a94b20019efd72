"""What each road to speed gives: the biLM as it is, against itself with one thing taken away or changed.

python benchmarks/roads.py en_elmo_sm --threads 2
python benchmarks/roads.py en_elmo_sm --threads 2 --batch-tokens 100   # a few sentences at a time
python benchmarks/roads.py WEIGHTS --threads 2 --batch-tokens 1 --road "a sentence alone"   # each by itself
"""

import math
import statistics
import time
from contextlib import ExitStack, contextmanager
from typing import Any, Dict, Iterator, List, Optional, Tuple
from unittest.mock import patch

import torch
import typer
from corpus import Sentence, default_shared, flatten, read_documents
from torch import Tensor

from spacy_elmo import BiLM, load_bilm
from spacy_elmo.bilm import lone, products, stepper
from spacy_elmo.encoding import encoder, runner, workspace

Change = Tuple[Any, str, Any]  # whose name becomes what
MB = 2**20


def main(
    # fmt: off
    bilm_path: str = typer.Argument(..., help="Weights in any known format."),
    n_sentences: Optional[int] = typer.Option(None, "--sentences", "-n", help="Sentences of UD EWT dev, or all."),
    batch_tokens: int = typer.Option(16384, "--batch-tokens", "-b", help="Tokens computed at once."),
    repeats: int = typer.Option(5, "--repeats", "-r", help="Rounds, in turn; medians are printed."),
    threads: int = typer.Option(2, "--threads", "-t", help="Threads of torch."),
    road: str = typer.Option("", "--road", "-o", help="Only roads with this in their names, and the biLM as it is."),
    # fmt: on
) -> None:
    """Print tokens per second of batches for each variant, and its ratio to the biLM as it is."""
    torch.set_num_threads(threads)
    sentences = flatten(read_documents(default_shared(), n_sentences))
    n_tokens = sum(map(len, sentences))
    chosen = {name: changes for name, changes in VARIANTS.items() if road in name or name == AS_IT_IS}
    if len(chosen) == 1 and road != AS_IT_IS:
        raise typer.BadParameter(f"no road has {road!r} in its name, but there are: {'; '.join(VARIANTS)}")
    rates: Dict[str, List[float]] = {name: [] for name in chosen}
    for _ in range(repeats):
        for name, changes in chosen.items():
            with ExitStack() as stack:
                for where, attribute, value in changes:
                    stack.enter_context(patch.object(where, attribute, value))
                bilm = load_bilm(bilm_path)
                _embed(bilm, sentences[:64], batch_tokens)  # packs the weights
                started = time.perf_counter()
                _embed(bilm, sentences, batch_tokens)
                rates[name].append(n_tokens / (time.perf_counter() - started))
    print(f"{n_tokens} tokens, cold word cache, {threads} thread(s), medians of {repeats}: {bilm_path}")
    for name, found in rates.items():
        rate = statistics.median(found)
        print(f"{name:52} {rate:9.0f} {rate / statistics.median(rates[AS_IT_IS]):6.2f}")


def _embed(bilm: BiLM, sentences: List[Sentence], batch_tokens: int) -> None:
    for _ in bilm.iter_encode(sentences, batch_tokens=batch_tokens, reuse_memory=True):
        pass


def _full_lanes(n_active: Any, n_lanes: int) -> List[int]:
    return [n_lanes] * len(n_active)


@contextmanager
def _new_workspace(self: workspace.WorkspacePool) -> Iterator[workspace.Workspace]:
    yield workspace.Workspace(self._device)


def _finish_by_gates(self: stepper.PackedLayer, acts: Tensor, c2: Tensor) -> Tensor:
    """Four activations in place of one sigmoid over all gates."""
    i, j, f, o = acts.chunk(4, dim=2)  # 4 x (d, b, H)
    c = torch.sigmoid(f) * (0.5 * c2) + torch.sigmoid(i) * torch.tanh(0.5 * j)
    if self.cell_clip is not None:
        c = c.clamp(-0.5 * self.cell_clip, 0.5 * self.cell_clip)
    c2.copy_(2.0 * c)
    squashed = 0.5 * torch.sigmoid(o) * torch.tanh(c)
    if self._project is None:
        return 2.0 * squashed
    out = self._project(squashed)
    return out if self.projection_clip is None else out.clamp_(-self.projection_clip, self.projection_clip)


AS_IT_IS = "as it is"
NO_PACKING = [(module, "has_packing", lambda weight: False) for module in (products, stepper)]
VARIANTS: Dict[str, List[Change]] = {
    AS_IT_IS: [],
    "as it is, again: noise": [],
    "one direction after the other": [(runner, "AT_ONCE", math.inf), (runner, "FEW", 0)],
    "weights not packed, all in blocks, one bmm": NO_PACKING,
    "an activation for each gate": [(stepper.PackedLayer, "_finish", _finish_by_gates)],
    "layer 1: input product for the words of a block": [(runner, "WORD_GATE_BYTES", 0)],
    "layers above: input product in blocks of steps": [(stepper, "JOINT_WEIGHTS", 0)],
    "lanes that do not shrink at the tail": [(runner, "_round_up", _full_lanes)],
    **{f"{n} lanes": [(encoder, "MAX_LANES", n)] for n in (32, 64, 128)},
    **{f"{n} MB of gates a block": [(runner, "GATE_BYTES", n * MB)] for n in (2, 32)},
    "arrays not kept from batch to batch": [(workspace.WorkspacePool, "borrow", _new_workspace)],
    "directions in one operation": [(runner, name, math.inf) for name in ("AT_ONCE", "FEW")],
    "directions at once": [(runner, "AT_ONCE", 0)],
    "a sentence alone, both directions in one operation": [(lone, "TOGETHER_WEIGHTS", math.inf)],
    "a sentence alone, one direction after the other": [(lone, "TOGETHER_WEIGHTS", 0)],
}


if __name__ == "__main__":
    typer.run(main)
