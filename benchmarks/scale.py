"""`elmo embed` of a corpus into Parquet: this process, jobs side by side, and Ray with one and two workers.

python benchmarks/scale.py --sentences 12000

Each run is a command of its own, one thread per worker, starting and loading included. `rate` is without the start:
sentences per second between the first and the last part. Memory is the largest resident size of the command, and of
the largest worker of Ray.
"""

import gzip
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import cycle
from pathlib import Path
from typing import Any, Dict, List, Optional

import typer
from corpus import SHARED

TEXTS_PER_FILE = 1000


def main(
    # fmt: off
    weights: str = typer.Option("en_elmo_sm", "--weights", "-w", help="A packaged biLM or a path."),
    n_sentences: int = typer.Option(12_000, "--sentences", "-n", help="Sentences, of language model texts, repeated."),
    n_files: int = typer.Option(12, "--files", "-f", help="Input files."),
    engines: str = typer.Option("local,jobs,ray1,ray2", "--engines", "-e", help="Of local, jobs, ray1, ray2."),
    rounds: int = typer.Option(3, "--rounds", "-r", help="Interleaved rounds; medians count."),
    dtype: str = typer.Option("float16", "--dtype", "-d", help="Of the vectors."),
    shared: Path = SHARED,
    # fmt: on
) -> None:
    """Print a table of the engines; the ratio is to the local engine."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        n_tokens = write_texts(folder / "in", shared, n_sentences, n_files)
        found: Dict[str, List[Dict[str, float]]] = {engine: [] for engine in engines.split(",")}
        for _ in range(rounds):
            for engine, results in found.items():
                results.append(run(engine, folder, weights, dtype))
        size = sum(path.stat().st_size for path in (folder / "out").glob("*.parquet"))
        print(
            f"{n_sentences:,} sentences, {n_tokens:,} tokens, {dtype}: {size / n_tokens:,.0f} bytes per token on disk\n"
        )
        print("| engine | seconds | tokens/s | without the start | ratio | MB | MB, worker |")
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
        base: Optional[float] = None
        for engine, results in found.items():
            seconds, steady, peak, worker = (
                statistics.median(r[key] for r in results) for key in ("s", "steady", "mb", "worker")
            )
            rate = n_tokens * (1 - TEXTS_PER_FILE / n_sentences) / steady
            base = base or rate
            print(
                f"| {engine} | {seconds:.1f} | {n_tokens / seconds:,.0f} | {rate:,.0f} | {rate / base:.2f} "
                f"| {peak:,.0f} | {worker:,.0f} |"
            )


def write_texts(folder: Path, shared: Path, n_sentences: int, n_files: int) -> int:
    """RETURNS (int): Tokens of the files."""
    found: List[str] = []
    for path in cycle(sorted((shared / "data" / "lm-english").glob("train-*.txt.gz"))):
        found += [line for line in gzip.decompress(path.read_bytes()).decode("utf8").splitlines() if line.strip()]
        if len(found) >= n_sentences:
            break
    lines = found[:n_sentences]
    folder.mkdir()
    for i in range(n_files):
        (folder / f"{i:03}.txt").write_text("\n".join(lines[i::n_files]) + "\n", "utf8")
    return sum(len(line.split()) for line in lines)


def run(engine: str, folder: Path, weights: str, dtype: str) -> Dict[str, float]:
    """RETURNS (Dict[str, float]): Seconds in all and from the first to the last part, MB of the command and worker."""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-m", "spacy_elmo", "embed", weights, str(folder / "in"), str(out)]
    command += ["--docs-per-file", str(TEXTS_PER_FILE), "--dtype", dtype]
    if engine.startswith("ray"):
        commands = [[*command, "--engine", "ray", "--workers", engine[3:]]]
    else:
        n_jobs = 2 if engine == "jobs" else 1
        commands = [[*command, "--shard", f"{i + 1}/{n_jobs}"] for i in range(n_jobs)]
    start = time.monotonic()
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    processes = [subprocess.Popen(one, env=environment, **quiet) for one in commands]
    peaks = {"mb": 0.0, "worker": 0.0}
    while any(process.poll() is None for process in processes):
        time.sleep(0.1)
        peaks["mb"] = max([peaks["mb"], *(resident_mb(process.pid) for process in processes)])
        peaks["worker"] = max([peaks["worker"], *map(resident_mb, ray_workers())]) if engine.startswith("ray") else 0.0
    if any(process.returncode for process in processes):
        raise SystemExit(f"{engine} failed: {' '.join(commands[0])}")
    end = max(path.stat().st_mtime for path in out.glob("part-*.parquet"))
    begin = min(path.stat().st_mtime for path in out.glob("part-*.parquet"))
    return {"s": time.monotonic() - start, "steady": end - begin, **peaks}


def ray_workers() -> List[int]:
    """RETURNS (List[int]): Processes of the actors of Ray Data."""
    found = subprocess.run(["pgrep", "-f", "^ray::.*MapWorker"], capture_output=True, text=True).stdout
    return list(map(int, found.split()))


def resident_mb(process: int) -> float:
    """RETURNS (float): Resident size of a process, 0 if it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS")), 0.0)


if __name__ == "__main__":
    typer.run(main)
