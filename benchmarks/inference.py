"""How fast the biLM computes, next to a plain loop and AllenNLP, on the same sentences, weights and threads.

python benchmarks/inference.py --threads 2 --json out.json [--allennlp-python PATH]
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import typer
from corpus import Document, default_shared, flatten, read_documents
from flops import count_flops
from tables import OURS, Result, best_batch, print_latencies, print_rates

HERE = Path(__file__).resolve().parent
PEER_BATCHES = (32, 64, 128, 256, 512)  # sentences
OUR_BATCHES = (2048, 4096, 8192, 16384)  # tokens
DEFAULT_SENTENCES: Dict[str, Optional[int]] = {"original": 1024, "medium": 1024}
SEED = 7
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Job:
    """One process: a system at a batch size."""

    system: str
    batch_size: int
    latency: bool = False


class Bench:
    """Runs jobs of one size of biLM.

    folder (Path): For weights and texts, temporary.
    size (str): A size that the maker of weights knows.
    documents (List[Document]): The text.
    """

    def __init__(
        self,
        folder: Path,
        size: str,
        documents: List[Document],
        *,
        shared: Path,
        threads: int,
        allennlp_python: Optional[Path],
        verbose: bool,
    ) -> None:
        self.threads, self.allennlp_python, self.verbose = threads, allennlp_python, verbose
        self.weights = folder / size
        self.texts = folder / f"{size}.json"
        self.texts.write_text(json.dumps(documents), encoding="utf8")
        maker = [sys.executable, str(shared / "tools" / "make_weights.py")]
        options = ["--size", size, "--seed", str(SEED), "--out", str(self.weights)]
        subprocess.run(maker + options, check=True, stdout=subprocess.DEVNULL)

    @property
    def peers(self) -> List[str]:
        """RETURNS (List[str]): Systems to compare with."""
        return ["plain loop", *(["allennlp", "allennlp-cached"] if self.allennlp_python else [])]

    def rates(self, repeats: int) -> List[Result]:
        """All batch sizes once, then the best of each system again, the systems taking turns.

        RETURNS (List[Result]): Everything measured.
        """
        jobs = [Job(system, n) for n in PEER_BATCHES for system in self.peers]
        jobs += [Job(system, n) for n in OUR_BATCHES for system in OURS]
        results = [self.run(Job("peak", 0)), *(self.run(job) for job in jobs)]
        best = [Job(system, best_batch(results, system)) for system in (*self.peers, *OURS)]
        for _ in range(repeats - 1):
            results.append(self.run(Job("peak", 0)))
            results += [self.run(job) for job in best]
        check_agreement(results)
        return results

    def latencies(self, repeats: int) -> List[Result]:
        """RETURNS (List[Result]): One sentence at a time."""
        jobs = [Job(system, 4096 if system in OURS else 1, latency=True) for system in (*self.peers, *OURS)]
        return [self.run(job) for _ in range(repeats) for job in jobs]

    def run(self, job: Job) -> Result:
        """RETURNS (Result): What the process of a job printed."""
        is_allennlp = job.system.startswith("allennlp")
        python = str(self.allennlp_python) if is_allennlp else sys.executable
        script = HERE / ("allennlp_peer.py" if is_allennlp else "systems.py")
        command = [python, "-W", "ignore", str(script), "--system", job.system, "--weights", str(self.weights)]
        command += ["--documents", str(self.texts), "--batch-size", str(job.batch_size)]
        command += ["--threads", str(self.threads), *(["--latency"] if job.latency else [])]
        threads = {name: str(self.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        done = subprocess.run(command, env={**os.environ, **threads}, capture_output=True, text=True)
        if done.returncode:
            raise typer.Exit(_fail(f"{' '.join(command)}\n{done.stderr[-2000:]}"))
        result: Result = json.loads(done.stdout.splitlines()[-1])
        if self.verbose:
            shown = {key: result[key] for key in ("tokens_per_s", "gflops", "p50_ms") if key in result}
            print(f"  {job.system:16} {job.batch_size:6}  " + "  ".join(f"{k} {v:.1f}" for k, v in shown.items()))
        return result


def main(
    size: List[str] = typer.Option(
        ["small", "original"], "--size", "-s", help="Sizes of the biLM: small, medium, original"
    ),
    threads: int = typer.Option(2, "--threads", "-t", help="Threads of every system"),
    repeats: int = typer.Option(3, "--repeats", "-r", help="Measurements of each system at its best batch size"),
    max_sentences: Optional[int] = typer.Option(
        None, "--max-sentences", "-n", help="Sentences for all systems (default: all of UD EWT dev at small, else 1024)"
    ),
    latency_sentences: int = typer.Option(
        200, "--latency-sentences", "-l", help="Sentences to read one at a time, 0 for none"
    ),
    latency_size: List[str] = typer.Option(
        ["small"], "--latency-size", help="Sizes to read one sentence at a time with"
    ),
    allennlp_python: Optional[Path] = typer.Option(
        None, "--allennlp-python", "-a", help="Python 3.8 with AllenNLP 2.10.1", exists=True
    ),
    shared: Path = typer.Option(default_shared(), "--shared", "-S", help="Folder with `data` and `tools`", exists=True),
    json_path: Optional[Path] = typer.Option(None, "--json", "-j", help="File for the raw numbers"),
    verbose: bool = typer.Option(False, "--verbose", "-V", help="Print every measurement"),
) -> None:
    """Print tokens/s, ratios to the peers, peak memory and the share of the matrix-product peak."""
    everything: Dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        for one in size:
            documents = read_documents(shared, max_sentences or DEFAULT_SENTENCES.get(one))
            options: Dict[str, Any] = {"shared": shared, "threads": threads, "verbose": verbose}
            bench = Bench(Path(name), one, documents, allennlp_python=allennlp_python, **options)
            results = bench.rates(repeats)
            flops = count_flops(bench.weights, flatten(documents))
            print_rates(one, results, bench.peers, flops, threads)
            everything[one] = {"flops_per_token": flops, "rates": results}
            if latency_sentences and one in latency_size:
                (Path(name) / "few").mkdir(exist_ok=True)
                few = read_documents(shared, latency_sentences)
                bench = Bench(Path(name) / "few", one, few, allennlp_python=allennlp_python, **options)
                everything[one]["latencies"] = bench.latencies(repeats)
                print_latencies(one, everything[one]["latencies"], bench.peers)
    if json_path is not None:
        json_path.write_text(json.dumps(everything, indent=1), encoding="utf8")


def check_agreement(results: Sequence[Result]) -> None:
    """Systems that compute something else are not compared."""
    checked = [result for result in results if "check" in result]
    for result in checked:
        difference = max(abs(a - b) for a, b in zip(result["check"], checked[0]["check"]))
        if difference > TOLERANCE:
            raise typer.Exit(_fail(f"{result['system']} and {checked[0]['system']} differ by {difference:.2g}"))


def _fail(message: str) -> int:
    print(message, file=sys.stderr)
    return 1


if __name__ == "__main__":
    typer.run(main)
