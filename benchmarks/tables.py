"""Tables of `inference.py`: medians over rounds, each system at its best batch size."""

import statistics
from typing import Any, Dict, List, Sequence

from pipe_split import BILM, MAKING

OURS = ("BiLM.embed", "nlp.pipe")
WINDOWS = "nlp(doc), windows"
Result = Dict[str, Any]


def print_rates(title: str, results: List[Result], flops: float, *, is_one_doc: bool) -> None:
    """Print tokens/s with a cold and a warm word cache, and the share of the matrix-product peak.

    title (str): Description of the text.
    results (List[Result]): Measurements of several rounds.
    flops (float): Minimum number of operations per token.
    is_one_doc (bool): Whether the component was called on one Doc.
    """
    gflops = _median(_of(results, "machine"), "gflops")
    print(f"\n{title}; matrix-product peak {gflops:.0f} GFLOP/s")
    print(f"{flops / 1e6:.1f} MFLOP per token after word sharing: at most {gflops * 1e9 / flops:.0f} tokens/s")
    ours, peers = _systems(results)
    names = _names(ours, is_one_doc)
    print(f"{'system':17} {'batch':>6} {'tokens/s':>9} {'cold':>8} {'peak MB':>8} {'of peak':>8}{_ratio_heads(names)}")
    for system in (*ours, *peers):
        found = _of(results, system)
        rate = _median(found, "tokens_per_s")
        cold = f"{_median(found, 'cold_tokens_per_s'):8.0f}" if "cold_tokens_per_s" in found[0] else " " * 8
        share = f"{rate * flops / gflops / 1e9:8.0%}" if system in ours else " " * 8
        ratios = "" if system in ours else _ratios(results, ours, rate)
        line = f"{names.get(system, system):17} {found[0]['batch_size']:6} {rate:9.0f} {cold}"
        print(f"{line} {_median(found, 'peak_mb'):8.0f} {share}{ratios}")


def print_latencies(title: str, results: List[Result], step_bytes: int, input_bytes: int) -> None:
    """Print median latencies of single sentences, and the share of the bandwidth of memory and cache.

    title (str): Description of the text.
    results (List[Result]): Measurements of several rounds.
    step_bytes (int): Bytes of weights read per step.
    input_bytes (int): Bytes of weights read once per sentence.
    """
    machine = _of(results, "machine")
    memory, cache = _median(machine, "memory_gb_per_s"), _median(machine, "weights_gb_per_s")
    cache_mb = machine[0]["last_cache_bytes"] / 2**20
    fits = "more than" if step_bytes > machine[0]["last_cache_bytes"] else "they fit into"
    print(f"\n{title}")
    print(
        f"weights of a step: {step_bytes / 2**20:.1f} MB, {fits} the last cache ({cache_mb:.0f} MB); read at most"
        f" {memory:.1f} GB/s from memory, {cache:.1f} GB/s from a buffer of their size"
    )
    ours, peers = _systems(results)
    names = _names(ours, True)
    shares = f"{'GB/s':>7} {'of memory':>10} {'of buffer':>10}"
    print(f"{'system':17} {'tokens/s':>9} {'p50 ms':>8} {'p99 ms':>8} {'peak MB':>8} {shares}{_ratio_heads(names)}")
    for system in (*ours, *peers):
        found = _of(results, system)
        rate, *others = (_median(found, key) for key in ("tokens_per_s", "p50_ms", "p99_ms", "peak_mb"))
        line = f"{names.get(system, system):17} {rate:9.0f} {others[0]:8.2f} {others[1]:8.2f} {others[2]:8.0f}"
        if system in ours:
            n_bytes = found[0]["n_tokens"] * step_bytes + found[0]["n_texts"] * input_bytes
            speed = n_bytes / _median(found, "elapsed_s") / 1e9
            print(f"{line} {speed:7.1f} {speed / memory:10.0%} {speed / cache:10.0%}")
        else:
            print(f"{line} {'':29}{_ratios(results, ours, rate)}")


def print_split(title: str, results: List[Result]) -> None:
    """Print the time of each part of `nlp.pipe`.

    title (str): Description of the text.
    results (List[Result]): Measurements of several rounds.
    """
    print(f"\n{title}")
    ranked = sorted(results, key=lambda result: float(result["whole_s"]))
    middle = ranked[(len(ranked) - 1) // 2]  # of one round, so that the parts add up
    parts: Dict[str, float] = middle["seconds"]
    inside = sum(parts.values()) - parts[MAKING]
    for part, seconds in parts.items():
        share = "by the caller" if part == MAKING else f"{seconds / inside:.1%}"
        print(f"{part:20} {1000 * seconds:8.0f} ms {share:>14}")
    print(f"{'sum':20} {1000 * sum(parts.values()):8.0f} ms, of {1000 * middle['whole_s']:.0f} ms", end="")
    print(f"; without timers {1000 * _median(results, 'plain_s'):.0f} ms")
    around = 1.0 - sum(parts[part] for part in BILM) / inside
    print(f"everything around the biLM: {around:.1%} of nlp.pipe, making the Docs not counted")


def print_one(result: Result, size: str, text: str) -> None:
    """Print a measurement."""
    keys = ("tokens_per_s", "p50_ms", "whole_s", "gflops", "memory_gb_per_s", "weights_gb_per_s")
    shown = "  ".join(f"{key} {result[key]:.1f}" for key in keys if key in result)
    print(f"  {text:11} {size:10} {result['system']:17} {result.get('batch_size', 0):6}  {shown}", flush=True)


def _of(results: Sequence[Result], system: str) -> List[Result]:
    return [result for result in results if result["system"] == system]


def _systems(results: Sequence[Result]) -> Any:
    """RETURNS (Tuple[List[str], List[str]]): Our systems and the peers, in the order measured."""
    names = list(dict.fromkeys(result["system"] for result in results if result["system"] != "machine"))
    ours = [name for name in names if name in (*OURS, WINDOWS)]
    return ours, [name for name in names if name not in ours]


def _names(ours: Sequence[str], is_one_doc: bool) -> Dict[str, str]:
    """RETURNS (Dict[str, str]): Titles of the systems."""
    return {name: name.replace("nlp.pipe", "nlp(doc)") if is_one_doc else name for name in ours}


def _ratio_heads(names: Dict[str, str]) -> str:
    return "".join(f"{name:>19}" for name in names.values())


def _ratios(results: Sequence[Result], ours: Sequence[str], rate: float) -> str:
    """RETURNS (str): Ratio of our speed to that of the peers."""
    rates = (_median(_of(results, system), "tokens_per_s") for system in ours)
    return "".join(f"{f'{our_rate / rate:.2f} x':>19}" for our_rate in rates)


def _median(results: Sequence[Result], key: str) -> float:
    return statistics.median(float(result[key]) for result in results)
