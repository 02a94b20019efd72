"""Jobs of `inference.py`, each in a separate process: search for the best batch sizes, then interleaved rounds."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from corpus import Document, first_sentences, flatten, long_document
from tables import OURS, WINDOWS, Result, print_one

HERE = Path(__file__).resolve().parent
PACKAGED = "en_elmo_sm"
SEED = 7
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
    "split": "pipe_split.py",
}
PIECES_TEXT = Path("data") / "lm-english" / "train-00.txt.gz"


class Failed(Exception):
    """A process ended with an error, or systems disagree."""


@dataclass(frozen=True)
class Places:
    """Interpreters and folders.

    folder (Path): Folder for weights, vocabularies and texts.
    shared (Path): Folder with `data` and `tools`.
    allennlp_python (Optional[Path]), curated_python (Optional[Path]): Interpreters with these peers.
    """

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
            self._make(size, path)
        return path

    def _make(self, size: str, path: Path) -> None:
        if size == PACKAGED:
            from spacy_elmo import load_bilm, save_bilm

            save_bilm(load_bilm(size), path, format="bilm-tf")
            return
        maker = [sys.executable, str(self.shared / "tools" / "make_weights.py")]
        options = ["--size", size, "--seed", str(SEED), "--out", str(path)]
        subprocess.run(maker + options, check=True, stdout=subprocess.DEVNULL)

    def pieces(self) -> Path:
        """RETURNS (Path): A folder with a byte-BPE vocabulary for transformers, learned if it is not there."""
        path = self.folder / "pieces"
        if not (path / "merges.txt").exists():
            path.mkdir(parents=True, exist_ok=True)
            command = [str(self.curated_python), str(HERE / "curated_pieces.py")]
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
    """Runs jobs.

    step_bytes (Dict[str, int]): Weights per step, see `flops.py`, for each size of biLM: of the tool
        that makes weights, or packaged.
    texts (Dict[str, List[Document]]): Texts by name, see `make_texts`.
    skipped (Sequence[str]): Systems to leave out.
    """

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

        shape (str): "batch", "short", "long" or "split".
        RETURNS (Dict[str, List[Result]]): All measurements by size; systems without a size are in each.
        RAISES (Failed): If a process ended with an error, or biLMs differ.
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
        if shape == "split":
            return [Job("split", size, self._best("nlp.pipe", size, shape), "batch")] if size else []
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
        """RETURNS (Result): The output of the process of a job.
        RAISES (Failed): If it ended with an error.
        """
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
        is_ours = job.system in (*OURS, WINDOWS, "split")
        return PACKAGED if is_ours and job.size == PACKAGED else str(self.places.weights(job.size))

    def _job_environ(self, job: Job) -> Dict[str, str]:
        threads = {name: str(self.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        return {**_environ(self.places.python(job.system) is None), **threads}


def make_texts(
    documents: List[Document], *, search_sentences: int, short_sentences: int, long_tokens: int
) -> Dict[str, List[Document]]:
    """documents (List[Document]): The text.
    search_sentences (int): Sentences for the search for batch sizes.
    short_sentences (int): Sentences to read one at a time.
    long_tokens (int): Tokens of the long Doc.
    RETURNS (Dict[str, List[Document]]): Texts by name.
    """
    some = first_sentences(documents, search_sentences)
    return {
        "search": some,
        "search-long": [flatten(some)],
        "batch": documents,
        "short": first_sentences(documents, short_sentences),
        "long": [long_document(documents, long_tokens)],
    }


def check_agreement(results: Sequence[Result]) -> None:
    """Compare the first vectors of all biLMs.

    RAISES (Failed): If they differ.
    """
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
