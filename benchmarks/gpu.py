"""Speed on a GPU in each precision and with more lanes, compared with a plain loop over time in the same precision.

python benchmarks/gpu.py WEIGHTS --device cuda
"""

import statistics
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional, Tuple
from unittest.mock import patch

import torch
import typer
from corpus import Sentence, default_shared, flatten, read_documents
from flops import count_flops
from machine import matrix_peak
from measure import batches
from plain_loop import PlainBiLM

from spacy_elmo import load_bilm
from spacy_elmo.encoding import encoder

TYPES = {"float32": torch.float32, "tf32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def main(
    # fmt: off
    weights: Path = typer.Argument(..., help="A folder in the format of bilm-tf.", exists=True),
    device: str = typer.Option("cuda", "--device", "-d", help="A PyTorch device."),
    precision: List[str] = typer.Option(list(TYPES), "--precision", "-p", help=f"Of {', '.join(TYPES)}."),
    lanes: List[int] = typer.Option([128, 512, 1024], "--lanes", "-l", help="Lanes: sequences computed in parallel."),
    batch_tokens: List[int] = typer.Option([8192, 32768], "--batch-tokens", "-b", help="Tokens per batch."),
    batch_size: List[int] = typer.Option([128, 512], "--batch-size", "-B", help="Sentences per batch, plain loop."),
    n_sentences: Optional[int] = typer.Option(None, "--sentences", "-n", help="Sentences of UD EWT dev, or all."),
    repeats: int = typer.Option(5, "--repeats", "-r", help="Interleaved rounds; medians are printed."),
    # fmt: on
) -> None:
    """Print tokens/s with a warm cache, the share of the matrix-product peak, and the ratio to the plain loop."""
    if not set(precision) <= set(TYPES):
        raise typer.BadParameter(f"{', '.join(set(precision) - set(TYPES))}: should be of {', '.join(TYPES)}")
    sentences = flatten(read_documents(default_shared(), n_sentences))
    n_tokens, flops = sum(map(len, sentences)), count_flops(weights, sentences)
    systems = _make_systems(weights, device, sentences, precision, (lanes, batch_tokens), batch_size)
    rates: Dict[Tuple[str, str], List[float]] = {key: [] for key in systems}
    for number in range(repeats + 1):
        for (name, variant), read in systems.items():
            with _tf32(name.endswith("tf32")):
                seconds = _seconds(read, device)
            if number:  # the first fills the word cache
                rates[name, variant].append(n_tokens / seconds)
    best = {name: max(statistics.median(found) for (of, _), found in rates.items() if of == name) for name, _ in rates}
    print(f"{weights.name}: {n_tokens} tokens of UD EWT dev on {_describe(device)}, medians of {repeats}")
    for (name, variant), found in rates.items():
        rate = statistics.median(found)
        is_ours = name in precision and rate == best[name]
        mark = f"{rate / best[_plain(name)]:6.2f} x {_plain(name)}" if is_ours else ""
        print(f"{name:20} {variant:32} {rate:10.0f} tokens/s {mark}")
    for name in precision:
        with _tf32(name == "tf32"):
            peak = matrix_peak(TYPES[name], device)
        print(f"{name:20} peak {peak:10.0f} GFLOP/s, of which {best[name] * flops / peak * 1e-9:5.0%}")


def _make_systems(
    weights: Path,
    device: str,
    sentences: List[Sentence],
    precisions: List[str],
    sizes: Tuple[List[int], List[int]],
    batch_sizes: List[int],
) -> Dict[Tuple[str, str], Callable[[], None]]:
    """RETURNS (Dict[Tuple[str, str], Callable[[], None]]): Functions that embed all sentences, by name and variant."""
    systems: Dict[Tuple[str, str], Callable[[], None]] = {}
    for name in precisions:
        bilm = load_bilm(weights).to(device).set_precision("float32" if name == "tf32" else name)
        for n_lanes in sizes[0]:
            for n_tokens in sizes[1]:

                def read(bilm=bilm, n_lanes=n_lanes, n_tokens=n_tokens) -> None:  # type: ignore[no-untyped-def]
                    with patch.object(encoder, "MAX_LANES", n_lanes):
                        for _ in bilm.iter_encode(sentences, batch_tokens=n_tokens, reuse_memory=True):
                            pass

                systems[name, f"{n_lanes} lanes, {n_tokens} tokens"] = read
        plain = PlainBiLM(weights, device, TYPES[name])
        for size in batch_sizes:

            @torch.no_grad()
            def read_plainly(plain: PlainBiLM = plain, size: int = size) -> None:
                for batch in batches(sentences, size):
                    plain(batch)

            systems[_plain(name), f"{size} sentences"] = read_plainly
    return systems


def _plain(precision: str) -> str:
    """RETURNS (str): The name of the peer."""
    return f"plain loop, {precision}"


def _seconds(read: Callable[[], None], device: str) -> float:
    started = time.perf_counter()
    read()
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)
    return time.perf_counter() - started


@contextmanager
def _tf32(is_allowed: bool) -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = is_allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _describe(device: str) -> str:
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


if __name__ == "__main__":
    typer.run(main)
