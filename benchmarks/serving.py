"""`examples/serve.py` under load: requests per second and latencies with and without batching, and an overload.

python benchmarks/serving.py

The clients are in this process, each with a connection of its own, and send a sentence of UD EWT dev at a time. With
--soak MINUTES, eight threads share one `BiLM` in this process instead, and memory and differences are printed.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Dict, List, Tuple

import numpy as np
import torch
import typer
from corpus import ROOT, SHARED, THREADS, read_documents
from measure import peak_memory_mb

PORT = 8765


def main(
    # fmt: off
    weights: str = typer.Option("en_elmo_sm", "--weights", "-w", help="A packaged biLM or a path."),
    seconds: float = typer.Option(8.0, "--seconds", "-s", help="Duration of each measurement."),
    clients: str = typer.Option("1,8,64", "--clients", "-c", help="Numbers of clients."),
    soak: float = typer.Option(0.0, "--soak", help="Minutes of eight threads on one biLM, instead of a server."),
    threads: int = THREADS,
    shared: Path = SHARED,
    # fmt: on
) -> None:
    """Print tables; the ratio is to the server without batching."""
    sentences = [sentence for document in read_documents(shared) for sentence in document]
    if soak:
        torch.set_num_threads(threads)
        run_soak(weights, sentences, soak * 60)
        return
    print("| clients | computed | requests/s | p50 ms | p99 ms | ratio |\n| ---: | ---: | ---: | ---: | ---: | ---: |")
    base: Dict[int, float] = {}
    modes = {"one by one": ("--max-tokens", "0"), "together": (), "together, after 5 ms": ("--wait-ms", "5")}
    for mode, options in modes.items():
        with_server = Server(weights, threads, *options)
        for n in map(int, clients.split(",")):
            rate, times, _ = asyncio.run(load(sentences, n, seconds))
            base.setdefault(n, rate)
            p50, p99 = np.percentile(times, [50, 99]) * 1000
            print(f"| {n} | {mode} | {rate:,.0f} | {p50:.1f} | {p99:.1f} | {rate / base[n]:.2f} |", flush=True)
        with_server.stop()
    overload = Server(weights, threads, "--max-waiting", "16")
    rate, _, statuses = asyncio.run(load(sentences, 256, seconds))
    counts = {status: statuses.count(status) for status in sorted(set(statuses))}
    print(f"\n256 clients, 16 may wait: {rate:,.0f} answers/s with vectors; by status: {counts}")
    overload.stop()


class Server:
    """The example in a process of its own."""

    def __init__(self, weights: str, threads: int, *options: str) -> None:
        command = [sys.executable, str(ROOT / "examples" / "serve.py"), weights, "--port", str(PORT)]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        self._process = subprocess.Popen([*command, *options], env=environment)
        for _ in range(600):
            try:
                asyncio.run(_ask(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"))
                return
            except OSError:
                time.sleep(0.1)
        raise SystemExit("The server does not start.")

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()


async def _ask(message: bytes) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    status = await _exchange(reader, writer, message)
    writer.close()
    return status


async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, message: bytes) -> int:
    writer.write(message)
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = next(int(line.split(":")[1]) for line in head.splitlines() if line.startswith("content-length"))
    await reader.readexactly(length)
    return int(head.split()[1])


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
            statuses.append(await _exchange(reader, writer, chooser.choice(messages)))
            times.append(time.perf_counter() - started)
        writer.close()

    started = time.perf_counter()
    await asyncio.gather(*(client(i) for i in range(n)))
    return statuses.count(200) / (time.perf_counter() - started), times, statuses


def run_soak(weights: str, sentences: List[List[str]], seconds: float) -> None:
    """Eight threads embed batches of mixed lengths, and compare each vector with that of a single call."""
    from spacy_elmo import load_bilm

    bilm = load_bilm(weights)
    wanted = bilm.embed(sentences, layers="mean")
    end, n_calls, worst, peaks = time.monotonic() + seconds, 0, 0.0, []

    def work(seed: int) -> None:
        nonlocal n_calls, worst
        chooser = random.Random(seed)
        while time.monotonic() < end:
            chosen = chooser.sample(range(len(sentences)), chooser.choice([1, 1, 2, 8, 32]))
            found = bilm.embed([sentences[i] for i in chosen], layers="mean")
            n_calls += 1
            worst = max([worst, *(float(np.abs(rows - wanted[i]).max()) for rows, i in zip(found, chosen))])

    print("| minutes | calls | MB, peak | largest difference |\n| ---: | ---: | ---: | ---: |")
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(work, seed) for seed in range(8)]
        started = time.monotonic()
        while not all(future.done() for future in futures):
            time.sleep(min(60.0, seconds / 5))
            peaks.append(peak_memory_mb())
            print(
                f"| {(time.monotonic() - started) / 60:.1f} | {n_calls:,} | {peaks[-1]:,.0f} | {worst:.1e} |",
                flush=True,
            )
        for future in futures:
            future.result()
    if worst > 1e-5:
        raise SystemExit("vectors differ")


if __name__ == "__main__":
    typer.run(main)
