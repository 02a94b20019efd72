"""Timing of one system in a separate process. Python 3.8 and the standard library only, for old peers.

A system is an object with the methods of `System`. The output is one line of JSON on stdout.
"""

import argparse
import json
import math
import resource
import sys
import time
from typing import Any, Dict, List, Optional, Sequence

Sentence = List[str]
Documents = List[List[Sentence]]


class System:
    """A system to measure.

    has_cache (bool): Whether a first pass over the text fills a cache for the second one.
    """

    has_cache = False

    def mean_of_layers(self, sentence: Sentence) -> Optional[Sequence[float]]:
        """sentence (Sentence): Tokens, embedded from a zero state.
        RETURNS (Optional[Sequence[float]]): A few values of the mean of the layers at its first token, to compare
            systems; None for other kinds of systems.
        """
        return None

    def embed(self, documents: Documents, batch_size: int) -> None:
        """Compute everything, and discard it."""
        raise NotImplementedError

    def facts(self, documents: Documents) -> Dict[str, Any]:
        """RETURNS (Dict[str, Any]): Further facts."""
        return {}


def read_arguments() -> argparse.Namespace:
    """RETURNS (argparse.Namespace): The request of `inference.py`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--system", required=True)
    parser.add_argument("--weights", required=True)
    parser.add_argument("--documents", required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--one-by-one", action="store_true", help="Each sentence as a document")
    return parser.parse_args()


def read_texts(path: str) -> Documents:
    """RETURNS (Documents): Documents."""
    with open(path, encoding="utf8") as file:
        documents: Documents = json.load(file)
    return documents


def report(system: System, arguments: argparse.Namespace, **info: Any) -> None:
    """Measure and print. info (Any): Further facts to print."""
    documents = read_texts(arguments.documents)
    result: Dict[str, Any] = {"system": arguments.system, "batch_size": arguments.batch_size}
    check = system.mean_of_layers(documents[0][0])
    if check is not None:
        result["check"] = [float(value) for value in check]
    timed = _latency if arguments.one_by_one else _rate
    result.update(timed(system, documents, arguments.batch_size))
    result.update(peak_mb=peak_memory_mb(), **system.facts(documents), **info)
    sys.stdout.write(json.dumps(result) + "\n")


def peak_memory_mb() -> float:
    """RETURNS (float): Largest resident size of this process. (On Linux `ru_maxrss` begins with that of the parent.)"""
    try:
        with open("/proc/self/status", encoding="utf8") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024.0
    except OSError:
        unit = 2**20 if sys.platform == "darwin" else 2**10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / float(unit)


def flatten(documents: Documents) -> List[Sentence]:
    """RETURNS (List[Sentence]): All sentences in text order."""
    return [sentence for document in documents for sentence in document]


def batches(sentences: Sequence[Sentence], batch_size: int) -> List[List[Sentence]]:
    """RETURNS (List[List[Sentence]]): Batches of sentences sorted by length, best for systems with padding."""
    ordered = sorted(sentences, key=len)
    return [ordered[i : i + batch_size] for i in range(0, len(ordered), batch_size)]


def _rate(system: System, documents: Documents, batch_size: int) -> Dict[str, Any]:
    n_tokens = sum(len(sentence) for sentence in flatten(documents))
    result: Dict[str, Any] = {"n_tokens": n_tokens}
    if system.has_cache:
        started = time.perf_counter()
        system.embed(documents, batch_size)
        result["cold_tokens_per_s"] = n_tokens / (time.perf_counter() - started)
    else:
        system.embed(_tenth(documents), batch_size)
    started, cpu = time.perf_counter(), time.process_time()
    system.embed(documents, batch_size)
    elapsed_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu
    return {**result, "elapsed_s": elapsed_s, "cpu_s": cpu_s, "tokens_per_s": n_tokens / elapsed_s}


def _tenth(documents: Documents) -> Documents:
    """RETURNS (Documents): Text for the warm-up; a part of it if there is one document."""
    if len(documents) > 1:
        return documents[: max(1, len(documents) // 10)]
    return [documents[0][: max(1, len(documents[0]) // 10)]]


def _latency(system: System, documents: Documents, batch_size: int) -> Dict[str, Any]:
    """One sentence at a time, each as a document."""
    texts = [[[sentence]] for sentence in flatten(documents)]
    if system.has_cache:
        system.embed(documents, batch_size)
    for text in texts[:10]:
        system.embed(text, batch_size)
    seconds = []
    for text in texts:
        started = time.perf_counter()
        system.embed(text, batch_size)
        seconds.append(time.perf_counter() - started)
    n_tokens = sum(len(text[0][0]) for text in texts)
    ranked = sorted(seconds)
    p50, p99 = (1000.0 * ranked[math.ceil(share * len(ranked)) - 1] for share in (0.5, 0.99))
    result = {"n_tokens": n_tokens, "n_texts": len(texts), "elapsed_s": sum(seconds)}
    return {**result, "tokens_per_s": n_tokens / sum(seconds), "p50_ms": p50, "p99_ms": p99}
