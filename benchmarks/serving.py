"""`examples/serve.py` under load: requests per second and latencies with and without batching, and an overload.

python benchmarks/serving.py

The clients are in this process, each with a connection of its own, and send a sentence of UD EWT dev at a time. With
--soak MINUTES, eight threads share one `BiLM` and one pipeline in this process instead, and memory and differences are
printed.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Sequence, Tuple
from urllib.request import urlopen

import numpy as np
import torch
import typer
from corpus import ROOT, SHARED, THREADS, make_pipeline, read_documents
from scale import resident_mb
from spacy.tokens import Doc

PORT = 8765
MAX_DIFFERENCE = 1e-5  # of a vector in another batch
MAX_GROWTH_MB = 100  # of a process with eight threads


def main(
    # fmt: off
    weights: str = typer.Option("en_elmo_sm", "--weights", "-w", help="A packaged biLM or a path."),
    seconds: float = typer.Option(8.0, "--seconds", "-s", help="Duration of each measurement."),
    clients: str = typer.Option("1,8,64", "--clients", "-c", help="Numbers of clients."),
    soak: float = typer.Option(
        0.0, "--soak", help="Minutes of eight threads on one biLM and one pipeline, instead of a server."
    ),
    threads: int = THREADS,
    shared: Path = SHARED,
    # fmt: on
) -> None:
    """Print tables; the ratio is to the server without batching."""
    sentences = [sentence for document in read_documents(shared) for sentence in document]
    if soak:
        torch.set_num_threads(threads)
        found = run_soak(weights, sentences, soak * 60)
        print(f"\n{found['calls']:,} calls, {found['wrong']} wrong vectors, {found['growth_mb']:+.0f} MB")
        raise SystemExit(found["wrong"] > 0 or found["growth_mb"] > MAX_GROWTH_MB)
    print("| clients | computed | requests/s | p50 ms | p99 ms | ratio |\n| ---: | ---: | ---: | ---: | ---: | ---: |")
    base: Dict[int, float] = {}
    modes = {"one by one": ("--max-tokens", "0"), "together": (), "together, after 5 ms": ("--wait-ms", "5")}
    for mode, options in modes.items():
        with serve(weights, threads, *options):
            for n in map(int, clients.split(",")):
                rate, times, _ = asyncio.run(load(sentences, n, seconds))
                base.setdefault(n, rate)
                p50, p99 = np.percentile(times, [50, 99]) * 1000
                print(f"| {n} | {mode} | {rate:,.0f} | {p50:.1f} | {p99:.1f} | {rate / base[n]:.2f} |", flush=True)
    with serve(weights, threads, "--max-waiting", "16"):
        rate, _, statuses = asyncio.run(load(sentences, 256, seconds))
    counts = {status: statuses.count(status) for status in sorted(set(statuses))}
    print(f"\n256 clients, 16 may wait: {rate:,.0f} answers/s with vectors; by status: {counts}")


@contextmanager
def serve(weights: str, threads: int, *options: str) -> Iterator[None]:
    """The example in a process of its own, which answers inside and is ended after it."""
    command = [sys.executable, str(ROOT / "examples" / "serve.py"), weights, "--port", str(PORT), *options]
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
    try:
        for _ in range(600):
            try:
                urlopen(f"http://127.0.0.1:{PORT}/health").close()
                break
            except OSError:
                time.sleep(0.1)
        else:
            raise SystemExit("The server does not start.")
        yield
    finally:
        process.terminate()
        process.wait()


async def load(sentences: List[List[str]], n: int, seconds: float) -> Tuple[float, List[float], List[int]]:
    """RETURNS (Tuple[float, List[float], List[int]]): Vectors per second, seconds and status of each request."""
    bodies = [json.dumps({"sentences": [words], "pool": "mean"}).encode() for words in sentences]
    messages = [b"POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body for body in bodies]
    end, times, statuses = time.perf_counter() + seconds, [], []

    async def client(seed: int) -> None:
        chooser = random.Random(seed)
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        while time.perf_counter() < end:
            started = time.perf_counter()
            writer.write(chooser.choice(messages))
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = next(int(line.split(":")[1]) for line in head.splitlines() if line.startswith("content-length"))
            await reader.readexactly(length)
            statuses.append(int(head.split()[1]))
            times.append(time.perf_counter() - started)
        writer.close()

    started = time.perf_counter()
    await asyncio.gather(*(client(i) for i in range(n)))
    return statuses.count(200) / (time.perf_counter() - started), times, statuses


def run_soak(weights: str, sentences: List[List[str]], seconds: float) -> Dict[str, float]:
    """Eight threads share one `BiLM` and one pipeline. They embed batches of mixed lengths, and compare their vectors
    with those of one thread.

    RETURNS (Dict[str, float]): Calls, wrong vectors, the largest difference, and MB that the resident size has grown
        since a fifth of the time.
    RAISES (Exception): Of a thread.
    """
    from spacy_elmo import load_bilm, register_extensions

    register_extensions()
    bilm, nlp = load_bilm(weights), make_pipeline(weights)

    def embed(numbers: Sequence[int], *, is_piped: bool) -> List[Any]:
        chosen = [sentences[i] for i in numbers]
        if not is_piped:
            return list(bilm.embed(chosen, layers="mean"))
        return [doc._.elmo for doc in nlp.pipe([Doc(nlp.vocab, words) for words in chosen])]

    everything = range(len(sentences))
    wanted = {is_piped: embed(everything, is_piped=is_piped) for is_piped in (False, True)}
    end, results, sizes = time.monotonic() + seconds, [[0, 0, 0.0] for _ in range(8)], []

    def work(seed: int) -> None:
        chooser, result = random.Random(seed), results[seed]
        while time.monotonic() < end:
            numbers, is_piped = chooser.sample(everything, chooser.choice([1, 1, 2, 8, 32])), chooser.random() < 0.5
            for i, rows in zip(numbers, embed(numbers, is_piped=is_piped), strict=True):
                difference = float(np.abs(rows - wanted[is_piped][i]).max())
                result[1] += not difference <= MAX_DIFFERENCE
                result[2] = max(result[2], difference)
            result[0] += 1

    print("| minutes | calls | MB | wrong vectors | largest difference |\n| ---: | ---: | ---: | ---: | ---: |")
    with ThreadPoolExecutor(8) as pool:
        started = time.monotonic()
        futures = [pool.submit(work, seed) for seed in range(8)]
        while not all(future.done() for future in futures):
            time.sleep(min(60.0, seconds / 10))
            n_calls, n_wrong = (sum(result[i] for result in results) for i in (0, 1))
            worst, minutes = max(result[2] for result in results), (time.monotonic() - started) / 60
            sizes.append(resident_mb(os.getpid()))
            print(f"| {minutes:.1f} | {n_calls:,} | {sizes[-1]:,.0f} | {n_wrong} | {worst:.1e} |", flush=True)
        for future in futures:
            future.result()
    growth = sizes[-1] - max(sizes[: len(sizes) // 5 + 1])
    return {"calls": n_calls, "wrong": n_wrong, "difference": worst, "growth_mb": growth}


if __name__ == "__main__":
    typer.run(main)
