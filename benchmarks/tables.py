"""Tables of what `inference.py` measured: medians over repeats, each system at its best batch size."""

import statistics
from typing import Any, Dict, List, Sequence

OURS = ("spacy_elmo", "nlp.pipe")
Result = Dict[str, Any]


def best_batch(results: Sequence[Result], system: str) -> int:
    """RETURNS (int): The batch size with most tokens per second."""
    found = [result for result in results if result["system"] == system]
    return int(max(found, key=lambda result: float(result["tokens_per_s"]))["batch_size"])


def print_rates(size: str, results: List[Result], peers: List[str], flops: float, threads: int) -> None:
    """Print medians at the best batch size of each system."""
    gflops = statistics.median(result["gflops"] for result in results if result["system"] == "peak")
    rows = {system: _at_best(results, system) for system in (*OURS, *peers)}
    n_tokens = rows["spacy_elmo"][0]["n_tokens"]
    print(f"\n{size}: {n_tokens} tokens of UD EWT dev, {threads} thread(s), matrix-product peak {gflops:.0f} GFLOP/s")
    print(f"{flops / 1e6:.1f} MFLOP per token after word sharing: at most {gflops * 1e9 / flops:.0f} tokens/s")
    ratios = "".join(f"{'x ' + peer:>18}" for peer in peers)
    print(f"{'system':16} {'batch':>6} {'tokens/s':>9} {'cold':>8} {'peak MB':>8} {'of peak':>8}{ratios}")
    for system, found in rows.items():
        rate = _median(found, "tokens_per_s")
        cold = f"{_median(found, 'cold_tokens_per_s'):8.0f}" if "cold_tokens_per_s" in found[0] else " " * 8
        share = f"{rate * flops / gflops / 1e9:8.0%}" if system in OURS else " " * 8
        against = "".join(f"{rate / _median(rows[peer], 'tokens_per_s'):18.2f}" for peer in peers)
        memory = _median(found, "peak_mb")
        print(f"{system:16} {found[0]['batch_size']:6} {rate:9.0f} {cold} {memory:8.0f} {share}{against}")


def print_latencies(size: str, results: List[Result], peers: List[str]) -> None:
    """Print medians of one sentence at a time."""
    print(f"\n{size}, one sentence at a time")
    print(f"{'system':16} {'tokens/s':>9} {'p50 ms':>8} {'p99 ms':>8} {'peak MB':>8}")
    for system in (*OURS, *peers):
        found = [result for result in results if result["system"] == system]
        values = [_median(found, key) for key in ("tokens_per_s", "p50_ms", "p99_ms", "peak_mb")]
        print(f"{system:16} {values[0]:9.0f} {values[1]:8.2f} {values[2]:8.2f} {values[3]:8.0f}")


def _at_best(results: List[Result], system: str) -> List[Result]:
    batch_size = best_batch(results, system)
    return [result for result in results if result["system"] == system and result["batch_size"] == batch_size]


def _median(results: Sequence[Result], key: str) -> float:
    return statistics.median(float(result[key]) for result in results)
