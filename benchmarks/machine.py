"""Hardware limits, peaks of multiply-adds and matrix products and read bandwidth, and the least a biLM needs of them.

Operations are those of matrix products, a multiply-add counts as two. `inference.py` starts this file between rounds.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence, Tuple

import numpy as np
import torch

from spacy_elmo import BiLMConfig
from spacy_elmo.inference.kernel import native
from spacy_elmo.text.lanes import Chunk
from spacy_elmo.text.words import SpelledWords

PEAK_SIZES = (1024, 2048)
GPU_PEAK_SIZES = (4096, 8192)
SECONDS = 1.0  # per operation
MEMORY_BYTES = 512 * 2**20  # much larger than any cache
FLOAT_BYTES = 4
AVX512_FLAGS = ["-DWIDTH=16", "-mavx512f"]
FMA_FLAGS = {
    "avx512_bf16": AVX512_FLAGS,
    "avx512": AVX512_FLAGS,
    "avx2": ["-DWIDTH=8", "-mavx2", "-mfma"],
    "generic": ["-DWIDTH=4"],
}
CACHE_FILE = "/sys/devices/system/cpu/cpu0/cache/index{}/size"


def matrix_peak(dtype: torch.dtype = torch.float32, device: str = "cpu") -> float:
    """RETURNS (float): GFLOP/s of the fastest product of PyTorch."""
    best = float("inf")  # seconds for an operation
    for size in PEAK_SIZES if device == "cpu" else GPU_PEAK_SIZES:
        left, right, out = (torch.randn(size, size, device=device).to(dtype) for _ in range(3))
        n_operations = 2.0 * size**3
        best = min(best, _fastest(lambda a=left, b=right, c=out: torch.mm(a, b, out=c)) / n_operations)
    return 1e-9 / best


def fma_peak(n_threads: int) -> float:
    """RETURNS (float): GFLOP/s of fused multiply-adds in registers (`fma_peak.cpp`), with the instructions of the
    native kernel; 0 without the kernel, or without a compiler.
    """
    flags = FMA_FLAGS.get("none" if native is None else native.INSTRUCTION_SET)
    if flags is None or shutil.which("c++") is None:
        return 0.0
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "fma_peak")
        source = str(Path(__file__).with_name("fma_peak.cpp"))
        command = ["c++", "-O3", "-std=c++17", "-pthread", "-ffp-contract=fast", *flags, source, "-o", program]
        subprocess.run(command, check=True)
        return 1e-9 * float(subprocess.check_output([program, str(n_threads)]))


def read_bandwidth(n_bytes: int) -> float:
    """RETURNS (float): GB/s of the fastest operation on a buffer: sum, maximum, or dot product."""
    buffer = torch.randn(n_bytes // 8 * 2)
    numbers = buffer.view(torch.int64)
    ways: Dict[str, Callable[[], torch.Tensor]] = {
        "sum": buffer.sum,
        "sum of integers": numbers.sum,
        "largest": buffer.amax,
        "product": lambda: torch.dot(buffer, buffer),
    }
    return 4e-9 * len(buffer) / min(_fastest(way) for way in ways.values())


def last_cache_bytes() -> int:
    """RETURNS (int): Size of the largest cache of the first core, 0 if unknown."""
    sizes = [0]
    for level in range(4):
        try:
            with open(CACHE_FILE.format(level), encoding="utf8") as file:
                sizes.append(int(file.read().strip().rstrip("K")) * 1024)
        except (OSError, ValueError):
            continue
    return max(sizes)


def count_flops(weights: Path, sentences: List[List[str]]) -> float:
    """RETURNS (float): Operations per token with a warm word cache; the input product of the first layer is computed
    once per distinct word.
    """
    n_layers, gates, projection = _layer_sizes(weights)
    n_tokens = sum(len(sentence) for sentence in sentences)
    n_distinct = len({word for sentence in sentences for word in sentence})
    in_loop = n_layers * (gates + projection)
    inputs = (n_layers - 1) * gates + gates * n_distinct / n_tokens
    return 2 * (in_loop + inputs)


def count_weight_bytes(weights: Path) -> Tuple[int, int]:
    """RETURNS (Tuple[int, int]): Bytes of float32 weights of both directions: recurrent weights and projections of all
    layers, read per step; input weights of all layers, read per sentence.
    """
    n_layers, gates, projection = _layer_sizes(weights)
    return n_layers * (gates + projection) * FLOAT_BYTES, n_layers * gates * FLOAT_BYTES


def _layer_sizes(weights: Path) -> Tuple[int, int, int]:
    """RETURNS (Tuple[int, int, int]): Number of layers; weights of both directions per layer: of the gates (input or
    recurrent side), and of the projection.
    """
    lstm = json.loads((weights / "options.json").read_text(encoding="utf8"))["lstm"]
    cell_width, width = lstm["dim"], lstm["projection_dim"]
    return lstm["n_layers"], 2 * width * 4 * cell_width, 2 * cell_width * width


def count_training_flops(config: BiLMConfig, chunks: Sequence[Chunk], spelled: SpelledWords, n_negatives: int) -> float:
    """RETURNS (float): Operations per token of an update: the forward pass, and twice that for the gradients of weights
    and inputs. Each distinct word of a chunk goes through the char-CNN and into layer 1 once. A filter computes every
    window with a character, its gradient only the window of the maximum.
    """
    cnn, d, width = config.char_cnn, config.n_directions, config.projection_width
    assert cnn is not None, "words come in as characters"
    n_tokens = sum(chunk.inputs[0].size for chunk in chunks)
    words = [np.unique(chunk.inputs[:d]) for chunk in chunks]
    words_per_token = sum(len(numbers) for numbers in words) / n_tokens
    windows_per_token = sum(int((spelled.lengths(numbers) + 1).sum()) for numbers in words) / n_tokens
    filters = sum(cnn.embedding_width * size * n for size, n in cnn.filters)
    spelling = cnn.n_highway * 2 * cnn.n_filters**2 + cnn.n_filters * width
    gates, projection = width * 4 * config.cell_width, config.cell_width * width
    by_word = spelling + d * gates
    by_token = d * (config.n_layers * (gates + projection) + (config.n_layers - 1) * gates + n_negatives * width)
    pooling = filters * (windows_per_token + 2 * words_per_token)
    return 2.0 * (pooling + 3 * (by_word * words_per_token + by_token))


def _fastest(operation: Any) -> float:
    """RETURNS (float): Seconds."""
    fastest, until = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < until:
        started = time.perf_counter()
        if operation().is_cuda:
            torch.cuda.synchronize()
        fastest = min(fastest, time.perf_counter() - started)
    return fastest


@torch.no_grad()
def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--bytes", type=int, required=True, help="Size of a second buffer, e.g. the weights of a step")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    result = {
        "system": "machine",
        "gflops": matrix_peak(),
        "fma_gflops": fma_peak(arguments.threads),
        "memory_gb_per_s": read_bandwidth(MEMORY_BYTES),
        "weights_gb_per_s": read_bandwidth(arguments.bytes),
        "last_cache_bytes": last_cache_bytes(),
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
