"""Speed of the biLM compared with AllenNLP, transformers and others, on the same text and number of threads.

python benchmarks/inference.py --threads 2 --json out.json [--allennlp-python PATH] [--curated-python PATH]

Each job is a process of its own: the best batch size of each system is searched once, then all systems take turns, and
medians of the rounds are printed.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import typer
from corpus import (
    JSON,
    PACKAGED,
    SHARED,
    THREADS,
    Document,
    first_sentences,
    flatten,
    long_document,
    make_weights,
    read_documents,
)
from machine import count_flops, count_weight_bytes

from spacy_elmo import load_bilm, save_bilm

SIZES = ("small", "medium", "original", "en_elmo_sm")
SHAPES = ("batch", "short", "long")
OURS = ("BiLM.embed", "nlp.pipe")
WINDOWS = "nlp(doc), windows"
Result = Dict[str, Any]
HERE = Path(__file__).resolve().parent
TOLERANCE = 1e-3
MACHINE = "machine"
DEFAULT_TOKENS = 8192  # tokens per batch of the component; more than one short Doc
SENTENCES = (32, 64, 128, 256, 512)
TOKENS = (2048, 4096, 8192, 16384)
ALLENNLP = ("allennlp", "allennlp-cached")
CURATED = ("roberta-base", "roberta-6-layers")
# Batch sizes to try, in the units of the system: tokens, sentences or Docs; windows for transformers in a long Doc.
BATCHES: Dict[str, Sequence[int]] = {
    **dict.fromkeys((*OURS, WINDOWS), TOKENS),
    **dict.fromkeys(("plain loop", *ALLENNLP), SENTENCES),
    **dict.fromkeys(CURATED, (1, 4, 16, 64, 256)),
    "tok2vec": (8, 32, 128),
}
ENOUGH_SLOWER = 2  # consecutive sizes slower than the best one, after which the search stops
ANY_SIZE = (*CURATED, "tok2vec")  # independent of the size of the biLM, so measured once per round
SCRIPTS = {
    **dict.fromkeys(ALLENNLP, "allennlp_peer.py"),
    **dict.fromkeys(CURATED, "curated_peer.py"),
    MACHINE: "machine.py",
}
PIECES_TEXT = Path("data") / "lm-english" / "train-00.txt.gz"


class Failed(Exception):
    """A process ended with an error, or systems disagree."""


@dataclass(frozen=True)
class Places:
    """Folders for what is made and of `data` and `tools`, and the interpreters with the peers."""

    folder: Path
    shared: Path
    allennlp_python: Optional[Path] = None
    curated_python: Optional[Path] = None

    def python(self, system: str) -> Optional[Path]:
        """RETURNS (Optional[Path]): An interpreter that is not this one, for a system that needs it."""
        return self.allennlp_python if system in ALLENNLP else self.curated_python if system in CURATED else None

    def weights(self, size: str) -> Path:
        """RETURNS (Path): A folder with the weights of a size in the format of bilm-tf, made if it is not there."""
        path = self.folder / size
        if not (path / "options.json").exists():
            path.mkdir(parents=True, exist_ok=True)
            if size == PACKAGED:
                save_bilm(load_bilm(size), path, format="bilm-tf")
            else:
                make_weights(path, size, shared=self.shared)
        return path

    def pieces(self) -> Path:
        """RETURNS (Path): A folder with a byte-BPE vocabulary for transformers, learned if it is not there."""
        path = self.folder / "pieces"
        if not (path / "merges.txt").exists():
            path.mkdir(parents=True, exist_ok=True)
            command = [str(self.curated_python), str(HERE / "curated_peer.py"), "pieces"]
            subprocess.run([*command, str(self.shared / PIECES_TEXT), str(path)], check=True, env=_environ(False))
        return path


@dataclass(frozen=True)
class Job:
    """One process: a system at a batch size on a text, with a size of biLM ("" for any)."""

    system: str
    size: str
    batch_size: int
    text: str


class Bench:
    """Runs jobs. step_bytes (Dict[str, int]): Weights per step for each size of biLM, see `machine.py`."""

    def __init__(
        self,
        places: Places,
        step_bytes: Dict[str, int],
        texts: Dict[str, List[Document]],
        *,
        threads: int,
        skipped: Sequence[str],
        verbose: bool,
    ) -> None:
        self.places, self.step_bytes, self.threads, self.verbose = places, step_bytes, threads, verbose
        self.folder = places.folder / "texts"
        self.folder.mkdir(exist_ok=True)
        for name, documents in texts.items():
            (self.folder / f"{name}.json").write_text(json.dumps(documents), encoding="utf8")
        has_peer = [python is not None for python in (places.allennlp_python, places.curated_python)]
        peers = ["plain loop", *(ALLENNLP if has_peer[0] else ()), *(CURATED if has_peer[1] else ()), "tok2vec"]
        self.systems = [system for system in (*OURS, WINDOWS, *peers) if system not in skipped]
        self._found: Dict[Job, int] = {}

    def rounds(self, shape: str, repeats: int) -> Dict[str, List[Result]]:
        """Measure all systems at their best batch sizes, and the machine, in interleaved rounds over all sizes of biLM.

        RETURNS (Dict[str, List[Result]]): By size; systems without a size are in each. RAISES (Failed): See `run`.
        """
        results: Dict[str, List[Result]] = {size: [] for size in self.step_bytes}
        jobs = {size: self._jobs(size, shape) for size in results}
        shared_jobs = self._jobs("", shape)
        for _ in range(repeats):
            shared_results = [self.run(job) for job in shared_jobs]
            for size, found in results.items():
                found += [*(self.run(job) for job in jobs[size]), *shared_results]
        for found in results.values():
            check_agreement(found)
        return results

    def _jobs(self, size: str, shape: str) -> List[Job]:
        systems = [system for system in self.systems if shape == "long" or system != WINDOWS]
        jobs = [Job(MACHINE, size, 0, shape)] if size else []
        return [*jobs, *(Job(one, size, self._best(one, size, shape), shape) for one in systems if _fits(one, size))]

    def _best(self, system: str, size: str, shape: str) -> int:
        """RETURNS (int): The batch size at which a system read some of the text fastest."""
        if shape == "short":
            return DEFAULT_TOKENS if system in OURS else 1
        # systems that read sentences read a long Doc like many Docs
        text = "search-long" if shape == "long" and system in (*CURATED, WINDOWS) else "search"
        key = Job(system, size, 0, text)
        if key not in self._found:
            self._found[key] = self._search(key)
        return self._found[key]

    def _search(self, job: Job) -> int:
        best, best_rate, n_slower = 0, 0.0, 0
        for batch_size in BATCHES[job.system]:
            rate = float(self.run(replace(job, batch_size=batch_size))["tokens_per_s"])
            if rate > best_rate:
                best, best_rate, n_slower = batch_size, rate, 0
                continue
            n_slower += 1
            if n_slower == ENOUGH_SLOWER:
                break
        return best

    def run(self, job: Job) -> Result:
        """RETURNS (Result): The output of the process of a job. RAISES (Failed): If it ended with an error."""
        done = subprocess.run(self._command(job), env=self._job_environ(job), capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"{' '.join(self._command(job))}\n{done.stderr[-2000:]}")
        result: Result = json.loads(done.stdout.splitlines()[-1])
        if self.verbose:
            print_one(result, job.size or "any size", job.text)
        return result

    def _command(self, job: Job) -> List[str]:
        python = str(self.places.python(job.system) or sys.executable)
        script = str(HERE / SCRIPTS.get(job.system, "systems.py"))
        command = [python, "-W", "ignore", script, "--threads", str(self.threads)]
        if job.system == MACHINE:
            return [*command, "--bytes", str(self.step_bytes[job.size])]
        command += ["--system", job.system, "--weights", self._weights(job)]
        command += ["--documents", str(self.folder / f"{job.text}.json"), "--batch-size", str(job.batch_size)]
        return [*command, *(["--one-by-one"] if job.text == "short" else [])]

    def _weights(self, job: Job) -> str:
        if job.system in ANY_SIZE:
            return str(self.places.pieces()) if job.system in CURATED else "none"
        is_ours = job.system in (*OURS, WINDOWS)
        return PACKAGED if is_ours and job.size == PACKAGED else str(self.places.weights(job.size))

    def _job_environ(self, job: Job) -> Dict[str, str]:
        threads = {name: str(self.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        return {**_environ(self.places.python(job.system) is None), **threads}


def main(
    # fmt: off
    size: List[str] = typer.Option(list(SIZES), "--size", "-s", help=f"Sizes of the biLM: {', '.join(SIZES)}"),
    shape: List[str] = typer.Option(list(SHAPES), "--shape", "-p", help=f"Shapes of the workload: {', '.join(SHAPES)}"),
    threads: int = THREADS,
    repeats: int = typer.Option(5, "--repeats", "-r", help="Interleaved rounds over all systems"),
    max_sentences: Optional[int] = typer.Option(
        None, "--max-sentences", "-n", help="Sentences to read (default: all of UD EWT dev)"
    ),
    search_sentences: int = typer.Option(
        1024, "--search-sentences", help="Sentences for the search for the best batch size of each system"
    ),
    latency_sentences: int = typer.Option(200, "--latency-sentences", "-l", help="Sentences to read one at a time"),
    long_tokens: int = typer.Option(50_000, "--long-tokens", help="Tokens of the long Doc"),
    allennlp_python: Optional[Path] = typer.Option(
        None, "--allennlp-python", "-a", help="Python 3.8 with AllenNLP 2.10.1", exists=True
    ),
    curated_python: Optional[Path] = typer.Option(
        None, "--curated-python", "-c", help="Python with spacy-curated-transformers 0.3, tokenizers", exists=True
    ),
    skip: List[str] = typer.Option([], "--skip", help="Systems to leave out, by their names in the tables"),
    weights: Optional[Path] = typer.Option(
        None, "--weights", "-w", help="Folder to keep weights and vocabularies in (default: a temporary one)"
    ),
    shared: Path = SHARED,
    json_path: Optional[Path] = JSON,
    verbose: bool = typer.Option(False, "--verbose", "-V", help="Print every measurement"),
    # fmt: on
) -> None:
    """Print tokens/s, latencies, shares of the hardware limits, and ratios to the peers."""
    for chosen, known in ((size, SIZES), (shape, SHAPES), (skip, tuple(BATCHES))):
        if not set(chosen) <= set(known):
            raise typer.BadParameter(f"{', '.join(set(chosen) - set(known))}: should be of {', '.join(known)}")
    documents = read_documents(shared, max_sentences)
    texts = make_texts(
        documents, search_sentences=search_sentences, short_sentences=latency_sentences, long_tokens=long_tokens
    )
    everything: Dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        places = Places(weights or Path(name), shared, allennlp_python, curated_python)
        sizes = {one: count_weight_bytes(places.weights(one)) for one in size}
        step_bytes = {one: found[0] for one, found in sizes.items()}
        bench = Bench(places, step_bytes, texts, threads=threads, skipped=skip, verbose=verbose)
        everything.update({one: dict(zip(("step_bytes", "input_bytes"), found)) for one, found in sizes.items()})
        for kind in shape:
            text = flatten(texts[kind])
            try:
                results = bench.rounds(kind, repeats)
            except Failed as error:
                print(error, file=sys.stderr)
                raise typer.Exit(1) from None
            for one, found in results.items():
                flops = count_flops(places.weights(one), text)
                everything[one][kind] = {"flops_per_token": flops, "results": found}
                title = f"{one}, {_describe(kind, texts)}, {threads} thread(s), medians of {repeats}"
                if kind == "short":
                    print_latencies(title, found, *sizes[one])
                else:
                    print_rates(title, found, flops, is_one_doc=kind == "long")
            if json_path is not None:
                json_path.write_text(json.dumps(everything, indent=1), encoding="utf8")


def _describe(shape: str, texts: Dict[str, Any]) -> str:
    """RETURNS (str): A description of the text."""
    documents = texts[shape]
    n_tokens, n_sentences = sum(map(len, flatten(documents))), len(flatten(documents))
    words = {
        "batch": f"batch: {n_tokens} tokens of UD EWT dev in {len(documents)} Docs",
        "short": f"one short Doc at a time: {n_sentences} sentences of {n_tokens / n_sentences:.1f} tokens",
        "long": f"one long Doc: {n_tokens} tokens of UD EWT dev",
    }
    return words[shape]


def make_texts(
    documents: List[Document], *, search_sentences: int, short_sentences: int, long_tokens: int
) -> Dict[str, List[Document]]:
    """RETURNS (Dict[str, List[Document]]): Texts by name; the numbers are those of the options."""
    some = first_sentences(documents, search_sentences)
    return {
        "search": some,
        "search-long": [flatten(some)],
        "batch": documents,
        "short": first_sentences(documents, short_sentences),
        "long": [long_document(documents, long_tokens)],
    }


def check_agreement(results: Sequence[Result]) -> None:
    """Compare the first vectors of all biLMs. RAISES (Failed): If they differ."""
    checked = [result for result in results if "check" in result]
    for result in checked:
        difference = max(abs(a - b) for a, b in zip(result["check"], checked[0]["check"]))
        if difference > TOLERANCE:
            raise Failed(f"{result['system']} and {checked[0]['system']} differ by {difference:.2g}")


def _fits(system: str, size: str) -> bool:
    """RETURNS (bool): Whether a system is measured with this size of biLM, or with any size ("")."""
    return (system in ANY_SIZE) == (size == "")


def _environ(is_ours: bool) -> Dict[str, str]:
    """RETURNS (Dict[str, str]): The environment, without the library paths of this Python."""
    return {name: value for name, value in os.environ.items() if is_ours or name != "PYTHONPATH"}


def print_rates(title: str, results: List[Result], flops: float, *, is_one_doc: bool) -> None:
    """Print tokens/s with a cold and a warm word cache, and the share of the peak of fused multiply-adds, or of torch's
    products where that is not known; `flops` is the least number of operations per token.
    """
    product_gflops, fma_gflops = (_median(_of(results, "machine"), key) for key in ("gflops", "fma_gflops"))
    gflops = fma_gflops or product_gflops
    known = f"peak of multiply-adds {fma_gflops:.0f}, " if fma_gflops else ""
    print(f"\n{title}; {known}largest product of torch {product_gflops:.0f} GFLOP/s")
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
    """Print median latencies of single sentences, and the share of the bandwidth of memory and cache; `step_bytes` are
    weights read per step, `input_bytes` once per sentence.
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


def print_one(result: Result, size: str, text: str) -> None:
    """Print a measurement."""
    keys = ("tokens_per_s", "p50_ms", "gflops", "fma_gflops", "memory_gb_per_s", "weights_gb_per_s")
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


if __name__ == "__main__":
    typer.run(main)
