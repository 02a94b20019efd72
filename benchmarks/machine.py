"""Hardware limits: peak of matrix products and read bandwidth, measured in a separate process between rounds."""

import argparse
import json
import sys
import time
from typing import Any, Callable, Dict

import torch

PEAK_SIZES = (1024, 2048)
GPU_PEAK_SIZES = (4096, 8192)
SECONDS = 1.0  # per operation
MEMORY_BYTES = 512 * 2**20  # much larger than any cache
CACHE_FILE = "/sys/devices/system/cpu/cpu0/cache/index{}/size"


def matrix_peak(dtype: torch.dtype = torch.float32, device: str = "cpu") -> float:
    """RETURNS (float): GFLOP/s of the fastest product: of PyTorch, or with a packed weight."""
    from spacy_elmo.engine.products import PackedProduct, has_packing

    best = float("inf")  # seconds for an operation
    for size in PEAK_SIZES if device == "cpu" else GPU_PEAK_SIZES:
        left, right, out = (torch.randn(size, size, device=device).to(dtype) for _ in range(3))
        n_operations = 2.0 * size**3
        best = min(best, _fastest(lambda a=left, b=right, c=out: torch.mm(a, b, out=c)) / n_operations)
        if has_packing(right):
            packed, rows = PackedProduct(right.unsqueeze(0)), left.unsqueeze(0)
            best = min(best, _fastest(lambda p=packed, r=rows: p(r)) / n_operations)
    return 1e-9 / best


def read_bandwidth(n_bytes: int) -> float:
    """n_bytes (int): Size of a buffer that is read repeatedly.
    RETURNS (float): GB/s of the fastest operation: sum, maximum, or dot product.
    """
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
        "memory_gb_per_s": read_bandwidth(MEMORY_BYTES),
        "weights_gb_per_s": read_bandwidth(arguments.bytes),
        "last_cache_bytes": last_cache_bytes(),
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
