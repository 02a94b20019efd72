"""Timing of one system in a process of its own. Python 3.8 and the standard library, so that old peers can use it.

A system is an object with the methods of `System`. What comes out is one line of JSON on standard output.
"""

import argparse
import json
import math
import resource
import sys
import time
from typing import Any, Dict, List, Sequence

Sentence = List[str]


class System:
    """What is measured.

    has_cache (bool): Whether a first pass over everything leaves a state that makes the second faster.
    """

    has_cache = False

    def mean_of_layers(self, sentence: Sentence) -> Sequence[float]:
        """sentence (Sentence): Tokens, read from a zero state.
        RETURNS (Sequence[float]): A few values of the mean of the layers at its first token, to compare systems.
        """
        raise NotImplementedError

    def embed(self, documents: List[List[Sentence]], batch_size: int) -> None:
        """Compute everything, and drop it."""
        raise NotImplementedError


def read_arguments() -> argparse.Namespace:
    """RETURNS (argparse.Namespace): What `inference.py` asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--system", required=True)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--documents", required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--latency", action="store_true")
    return parser.parse_args()


def read_texts(path: str) -> List[List[Sentence]]:
    """RETURNS (List[List[Sentence]]): Documents."""
    with open(path, encoding="utf8") as file:
        documents: List[List[Sentence]] = json.load(file)
    return documents


def report(system: System, arguments: argparse.Namespace, info: Dict[str, Any]) -> None:
    """Measure and print.

    info (Dict[str, Any]): Further facts to print.
    """
    documents = read_texts(arguments.documents)
    result: Dict[str, Any] = {"system": arguments.system, "batch_size": arguments.batch_size}
    result["check"] = [float(value) for value in system.mean_of_layers(documents[0][0])]
    measured = _latency(system, documents) if arguments.latency else _rate(system, documents, arguments.batch_size)
    result.update(measured, peak_mb=peak_memory_mb(), **info)
    sys.stdout.write(json.dumps(result) + "\n")


def peak_memory_mb() -> float:
    """RETURNS (float): Largest resident size of this process. (On Linux `ru_maxrss` begins with that of the parent.)"""
    try:
        with open("/proc/self/status", encoding="utf8") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024.0
    except OSError:
        unit = 2**20 if sys.platform == "darwin" else 2**10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / float(unit)


def batches(sentences: Sequence[Sentence], batch_size: int) -> List[List[Sentence]]:
    """Sentences of like length together, the best for systems that pad.

    RETURNS (List[List[Sentence]]): Batches of `batch_size` sentences.
    """
    ordered = sorted(sentences, key=len)
    return [ordered[i : i + batch_size] for i in range(0, len(ordered), batch_size)]


def _rate(system: System, documents: List[List[Sentence]], batch_size: int) -> Dict[str, Any]:
    n_tokens = sum(len(sentence) for document in documents for sentence in document)
    result: Dict[str, Any] = {"n_tokens": n_tokens}
    if system.has_cache:
        started = time.perf_counter()
        system.embed(documents, batch_size)
        result["cold_tokens_per_s"] = n_tokens / (time.perf_counter() - started)
    else:
        system.embed(documents[: max(1, len(documents) // 10)], batch_size)
    started, cpu = time.perf_counter(), time.process_time()
    system.embed(documents, batch_size)
    elapsed_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu
    return {**result, "elapsed_s": elapsed_s, "cpu_s": cpu_s, "tokens_per_s": n_tokens / elapsed_s}


def _latency(system: System, documents: List[List[Sentence]]) -> Dict[str, Any]:
    """One sentence at a time, each as a document of its own."""
    sentences = [[[sentence]] for document in documents for sentence in document]
    for text in sentences if system.has_cache else sentences[:10]:
        system.embed(text, 1)
    seconds = []
    for text in sentences:
        started = time.perf_counter()
        system.embed(text, 1)
        seconds.append(time.perf_counter() - started)
    n_tokens = sum(len(text[0][0]) for text in sentences)
    ranked = sorted(seconds)
    p50, p99 = (1000.0 * ranked[math.ceil(share * len(ranked)) - 1] for share in (0.5, 0.99))
    return {"n_tokens": n_tokens, "tokens_per_s": n_tokens / sum(seconds), "p50_ms": p50, "p99_ms": p99}
