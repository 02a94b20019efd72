"""Training through the biLM (`frozen = false`): time and memory of a step, compared with plain autograd.

python benchmarks/fine_tuning.py en_elmo_sm --threads 2
"""

import multiprocessing
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, List, Tuple

import torch
import typer
from corpus import Sentence, default_shared, flatten, read_documents
from measure import peak_memory_mb
from plain_loop import PlainBiLM
from torch import Tensor

from spacy_elmo import load_bilm, save_bilm

WARM_UP = 1


def main(
    # fmt: off
    bilm_path: str = typer.Argument(..., help="Weights in any known format, with character input and a projection."),
    batch_size: int = typer.Option(32, "--batch-size", "-b", help="Sentences of UD EWT dev per step."),
    n_steps: int = typer.Option(6, "--steps", "-s", help="Steps per round."),
    repeats: int = typer.Option(5, "--repeats", "-r", help="Interleaved rounds; medians are printed."),
    threads: int = typer.Option(2, "--threads", "-t", help="Threads of torch."),
    # fmt: on
) -> None:
    """Print tokens per second of a forward and backward pass, and the peak memory."""
    sentences = flatten(read_documents(default_shared(), batch_size * (n_steps + WARM_UP)))
    batches = [sentences[i : i + batch_size] for i in range(0, len(sentences), batch_size)]
    with tempfile.TemporaryDirectory() as folder:
        bilm = load_bilm(bilm_path)
        bilm.head = bilm.vocabulary = None
        save_bilm(bilm, Path(folder) / "bilm", format="bilm-tf")
        found: Any = {"ours": [], "plain autograd": []}
        for _ in range(repeats):
            for name, results in found.items():
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    results.append(pool.apply(_measure, (name, str(Path(folder) / "bilm"), batches, threads)))
    print(f"{n_steps} steps of {batch_size} sentences, {threads} thread(s), medians of {repeats}: {bilm_path}")
    print(f"{'system':16} {'tokens/s':>9} {'peak MB':>8}  {'loss':>10}")
    for name, results in found.items():
        rate, peak, loss = (statistics.median(result[k] for result in results) for k in range(3))
        print(f"{name:16} {rate:9.0f} {peak:8.0f}  {loss:10.6f}")
    first, second = ([statistics.median(result[k] for result in found[name]) for k in (0, 1)] for name in found)
    print(f"ours: {first[0] / second[0]:.2f} times as fast, {first[1] / second[1]:.2f} of the memory")


def _measure(name: str, folder: str, batches: List[List[Sentence]], threads: int) -> Tuple[float, float, float]:
    """RETURNS (Tuple[float, float, float]): Tokens per second, peak memory in MB, the loss of the last step."""
    torch.set_num_threads(threads)
    step, parameters = _ours(folder) if name == "ours" else _plain(folder)
    started, loss = 0.0, 0.0
    for i, batch in enumerate(batches):
        if i == WARM_UP:
            started = time.perf_counter()
        found = step(batch)
        found.backward()
        loss = float(found.detach())
        for parameter in parameters:
            parameter.grad = None
    seconds = time.perf_counter() - started
    n_tokens = sum(len(sentence) for batch in batches[WARM_UP:] for sentence in batch)
    return n_tokens / seconds, peak_memory_mb(), loss


def _ours(folder: str) -> Tuple[Callable[[List[Sentence]], Tensor], List[Tensor]]:
    bilm = load_bilm(folder)
    return (lambda batch: bilm.encode_with_grad(batch).square().mean()), list(bilm.network.parameters())


def _plain(folder: str) -> Tuple[Callable[[List[Sentence]], Tensor], List[Tensor]]:
    plain = PlainBiLM(Path(folder))
    parameters = [array.requires_grad_() for array in plain.arrays.values()]

    def loss(batch: List[Sentence]) -> Tensor:
        layers = plain(batch)  # (L+1, B, S, D)
        rows = [layers[:, i, 1 : len(sentence) + 1] for i, sentence in enumerate(batch)]
        return torch.cat(rows, dim=1).square().mean()

    return loss, parameters


if __name__ == "__main__":
    typer.run(main)
