"""Growth of memory with the corpus: peaks of `elmo pretrain` and `elmo vocab` on a text, and on ten times the text.

python benchmarks/pretraining_memory.py
"""

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

import typer
from corpus import default_shared

HERE = Path(__file__).resolve().parent
CONFIG = HERE.parent / "configs" / "pretrain_en_elmo_sm.cfg"
RATIO = 10
POLL_S = 0.2
# The process reports its own peak: that seen by the parent includes the fork.
CHILD = """
import atexit, measure, runpy, sys
atexit.register(lambda: print(f"\\nPEAK_MB {measure.peak_memory_mb():.3f}"))
runpy.run_module("spacy_elmo", run_name="__main__", alter_sys=True)
"""
# Small, so that the text is read quickly. Models and checkpoints are written many times.
SMALL: Dict[str, Any] = {
    "bilm.n_layers": 1,
    "bilm.cell_width": 32,
    "bilm.projection_width": 16,
    "bilm.has_skip": "false",
    "bilm.char_cnn.filters": "[[1,8],[2,8]]",
    "bilm.char_cnn.n_highway": 0,
    "pretraining.batch_size": 64,
    "pretraining.unroll_steps": 32,
    "pretraining.precision": "float32",
    "pretraining.shuffle_blocks": 200,
    "pretraining.softmax.n_negatives": 64,
    "pretraining.eval_sentences": 50,
}
Result = Dict[str, Any]


def main(
    # fmt: off
    sentences: int = typer.Option(10_000, "--sentences", "-n", help="Sentences of the shorter text."),
    n_words: int = typer.Option(5_000, "--n-words", "-w", help="Words of the vocabulary."),
    max_entries: int = typer.Option(10_000, "--max-entries", "-m", help="Words in memory of `elmo vocab`, at most."),
    eval_every: int = typer.Option(20, "--eval-every", "-e", help="Updates between two validations and checkpoints."),
    tolerance_mb: float = typer.Option(20.0, "--tolerance", "-T", help="Maximum difference in MB."),
    threads: int = typer.Option(1, "--threads", "-t", help="Threads of torch."),
    shared: Path = typer.Option(default_shared(), "--shared", "-S", help="Folder with `data`.", exists=True),
    json_path: Optional[Path] = typer.Option(None, "--json", "-j", help="File for the raw numbers."),
    # fmt: on
) -> None:
    """Print the peaks and their differences; the text is read once."""
    results: List[Result] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        valid, vocab = folder / "valid.txt", folder / "vocab.txt"
        write_text(valid, lines_of(shared, "valid"), 500)
        for length in (1, RATIO):
            text = folder / f"train-{length}x.txt.gz"
            n_tokens = write_text(text, lines_of(shared, "train-*"), length * sentences)
            given = ["vocab", text, folder / f"vocab-{length}x.txt", "--n-words", n_words, "--max-entries", max_entries]
            counting = run(given, threads)
            if length == 1:
                (folder / "vocab-1x.txt").rename(vocab)
            settings = {"paths.train": text, "paths.valid": valid, "paths.vocab": vocab}
            settings.update({"pretraining.max_tokens": n_tokens, "pretraining.eval_every": eval_every})
            training = run(pretrain_command(folder / f"run-{length}x", settings), threads)
            for what, found in (("elmo vocab", counting), ("elmo pretrain", training)):
                results.append({"command": what, "length": length, "n_tokens": n_tokens, **found})
    print(f"corpora of {sentences:,} and {RATIO * sentences:,} sentences of lm-english, {threads} thread(s)")
    print(f"{'command':14} {'corpus':>7} {'tokens':>11} {'seconds':>8} {'peak MB':>9} {'MB at 1/10':>11} {'1/2':>9}")
    for result in results:
        rest = f"{result['seconds']:8.0f} {result['peak_mb']:9.1f} {result['early_mb']:11.1f} {result['half_mb']:9.1f}"
        print(f"{result['command']:14} {result['length']:6}x {result['n_tokens']:11,} {rest}")
    differences = [_difference(results, command) for command in ("elmo vocab", "elmo pretrain")]
    print(f"{RATIO}x needs {differences[0]:+.1f} MB to count, {differences[1]:+.1f} MB to train")
    if json_path is not None:
        json_path.write_text(json.dumps(results, indent=1), encoding="utf8")
    raise typer.Exit(int(max(differences) > tolerance_mb))


def lines_of(shared: Path, part: str) -> Iterator[str]:
    """YIELDS (str): The sentences of lm-english."""
    for path in sorted((shared / "data" / "lm-english").glob(f"{part}.txt.gz")):
        with gzip.open(path, "rt", encoding="utf8") as lines:
            yield from lines


def write_text(path: Path, lines: Iterator[str], n_lines: int) -> int:
    """RETURNS (int): Predictions per direction: tokens, EOS included."""
    n_tokens = 0
    with gzip.open(path, "wt", encoding="utf8", compresslevel=1) if path.suffix == ".gz" else path.open("w") as text:
        for line in islice(lines, n_lines):
            text.write(line)
            n_tokens += len(line.split()) + 1
    return n_tokens


def pretrain_command(output: Path, settings: Dict[str, Any]) -> List[Any]:
    """RETURNS (List[Any]): Arguments for a small biLM, `settings` by dotted name."""
    options = {**SMALL, **settings}
    return ["pretrain", CONFIG, output, *(part for name, value in options.items() for part in (f"--{name}", value))]


def run(arguments: List[Any], threads: int) -> Result:
    """Run a command of the package in a separate process.

    RETURNS (Result): Seconds, peak memory, and resident sizes during the run, which grow if there is a leak.
    """
    path = os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    environ = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    command = [sys.executable, "-c", CHILD, *(str(argument) for argument in arguments)]
    started, sizes = time.perf_counter(), []
    with tempfile.TemporaryFile("w+") as output:
        child = subprocess.Popen(command, env=environ, stdout=output, stderr=subprocess.STDOUT)
        while child.poll() is None:
            sizes.append(_resident_mb(child.pid))
            time.sleep(POLL_S)
        output.seek(0)
        told = output.read()
    if child.returncode:
        print(f"{' '.join(command)}\n{told[-2000:]}", file=sys.stderr)
        raise typer.Exit(1)
    peak = float(next(line.split()[1] for line in told.splitlines() if line.startswith("PEAK_MB")))
    early, half = sizes[len(sizes) // 10], sizes[len(sizes) // 2]
    return {"seconds": time.perf_counter() - started, "peak_mb": peak, "early_mb": early, "half_mb": half}


def _resident_mb(pid: int) -> float:
    """Zero for a process that has ended, and outside Linux."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf8")
    except OSError:
        return float("nan")
    sizes = (int(line.split()[1]) / 1024.0 for line in status.splitlines() if line.startswith("VmRSS"))
    return next(sizes, float("nan"))


def _difference(results: List[Result], command: str) -> float:
    peaks = [result["peak_mb"] for result in results if result["command"] == command]
    return float(peaks[-1] - peaks[0])


if __name__ == "__main__":
    typer.run(main)
