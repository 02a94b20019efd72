"""Growth of memory with corpus and Doc size: peaks of `nlp.pipe`, each in a separate process.

python benchmarks/memory.py

A corpus that is repeated 20 times has no new words. New words stay in spaCy's Vocab and StringStore, with or without
ELMo, as the last rows show.
"""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence

import spacy
import torch
import typer
from corpus import JSON, SHARED, THREADS, long_document, make_doc, make_pipeline, read_documents
from measure import peak_memory_mb
from spacy.language import Language
from spacy.tokens import Doc, DocBin

HERE = Path(__file__).resolve().parent
UD_TRAIN = Path("data") / "ud" / "en_ewt" / "train.spacy"
PARTS = ("stream", "doc", "words")
BATCHES = 50
MB = 2**20
Result = Dict[str, Any]


def main(
    # fmt: off
    weights: str = typer.Option("en_elmo_sm", "--weights", "-w", help="A packaged biLM or a path."),
    repeats: int = typer.Option(20, "--repeats", "-r", help="Repetitions of UD EWT train in the longer corpus."),
    n_tokens: int = typer.Option(1_000_000, "--n-tokens", "-n", help="Tokens of the long Doc."),
    batch_tokens: int = typer.Option(8192, "--batch-tokens", "-b", help="Setting of the component."),
    word_cache_mb: float = typer.Option(64.0, "--word-cache-mb", "-c", help="Setting of the component."),
    tolerance_mb: float = typer.Option(50.0, "--tolerance", "-T", help="Maximum growth with corpus or Doc, in MB."),
    threads: int = THREADS,
    shared: Path = SHARED,
    json_path: Optional[Path] = JSON,
    only: Optional[str] = typer.Option(None, "--only", help="stream, doc or words: only this part."),
    task: Optional[str] = typer.Option(None, "--task", help="Used internally: one measurement, as JSON.", hidden=True),
    # fmt: on
) -> None:
    """Print peaks and their growth."""
    if only not in (None, *PARTS):
        raise typer.BadParameter(f"--only {only}: should be one of {', '.join(PARTS)}")
    if task is not None:
        torch.set_num_threads(threads)
        print(json.dumps(measure(json.loads(task), weights, shared, batch_tokens, word_cache_mb)))
        return
    given = ["--weights", weights, "--shared", shared, "--batch-tokens", batch_tokens]
    given += ["--word-cache-mb", word_cache_mb, "--threads", threads]
    results: List[Result] = []
    is_wrong = False  # True if memory grows with the stream, or with a Doc by more than its result
    print(f"{weights}, batch_tokens {batch_tokens}, word_cache_mb {word_cache_mb:g}, {threads} thread(s)")
    for store in ("mixed", "layers") if only in (None, "stream") else ():
        found = [run({"kind": "stream", "store": store, "repeats": n}, given) for n in (1, repeats)]
        growth = found[1]["peak_mb"] - found[0]["peak_mb"]
        is_wrong = is_wrong or growth > tolerance_mb
        results += found
        print(f"UD EWT train, store {store}: {_peaks(found)} MB, {growth:+.1f} MB")
    for contexts in ("doc", "sentences") if only in (None, "doc") else ():
        for dtype in ("float32", "float16"):
            result = run({"kind": "doc", "contexts": contexts, "dtype": dtype, "n_tokens": n_tokens}, given)
            results.append(result)
            is_wrong = is_wrong or result["beyond_mb"] > result["batch_mb"] + tolerance_mb
            print(
                f"Doc of {n_tokens:,} tokens, contexts {contexts}, {dtype}: result {result['kept_mb']:.0f} MB (vectors "
                f"{result['vectors_mb']:.0f}), peak beyond it {result['beyond_mb']:.0f}; "
                f"{BATCHES} batches one after the other {result['batch_mb']:.0f}"
            )
    for has_elmo in (True, False) if only in (None, "words") else ():
        found = [run({"kind": "words", "has_elmo": has_elmo, "repeats": n}, given) for n in (1, 5)]
        results += found
        print(
            f"Other words each time, {'with' if has_elmo else 'without'} ELMo: {_peaks(found)} MB, "
            f"{found[1]['n_strings'] - found[0]['n_strings']:,} more strings, "
            f"{found[1]['peak_mb'] - found[0]['peak_mb']:+.1f} MB"
        )
    if json_path is not None:
        json_path.write_text(json.dumps(results, indent=1), encoding="utf8")
    raise typer.Exit(int(is_wrong))


def run(task: Result, given: Sequence[Any]) -> Result:
    """RETURNS (Result): The measurement of a separate process."""
    path = os.pathsep.join([str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-W", "ignore", __file__, "--task", json.dumps(task), *map(str, given)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        raise typer.Exit(1)
    result: Result = json.loads(done.stdout.splitlines()[-1])
    return {**task, **result}


def measure(task: Result, weights: str, shared: Path, batch_tokens: int, word_cache_mb: float) -> Result:
    """RETURNS (Result): Megabytes."""
    model = {"batch_tokens": batch_tokens, "word_cache_mb": word_cache_mb, "contexts": task.get("contexts", "auto")}
    config = {"store": task.get("store", "mixed"), "dtype": task.get("dtype", "float32"), "model": model}
    nlp = make_pipeline(weights, **config) if task.get("has_elmo", True) else spacy.blank("en")
    if task["kind"] == "doc":
        return measure_doc(nlp, shared, task["n_tokens"], batch_tokens)
    docs = read_train(nlp, shared, task["repeats"], has_new_words=task["kind"] == "words")
    n_tokens = sum(len(doc) for doc in nlp.pipe(docs, batch_size=64))
    return {"n_tokens": n_tokens, "peak_mb": peak_memory_mb(), "n_strings": len(nlp.vocab.strings)}


def measure_doc(nlp: Language, shared: Path, n_tokens: int, batch_tokens: int) -> Result:
    """RETURNS (Result): Megabytes for one long Doc, without the Doc itself."""
    elmo = nlp.get_pipe("elmo")
    doc = make_doc(nlp.vocab, long_document(read_documents(shared, path=UD_TRAIN), n_tokens))
    firsts = range(0, n_tokens, batch_tokens)[:BATCHES]
    parts = [doc[first : first + batch_tokens].as_doc() for first in firsts]
    elmo(parts[0])  # allocates everything that is allocated once
    before = reset_peak()
    for part in parts:
        elmo(part)
        part.user_data.clear()
    batch_mb = peak_memory_mb() - before
    before = reset_peak()
    elmo(doc)
    peak_mb = peak_memory_mb() - before
    piece = next(value for key, value in doc.user_data.items() if key[1] == "elmo_data")
    kept_mb = sum(piece[name].nbytes for name in ("mixed", "starts", "orths")) / MB
    vectors_mb = doc._.elmo.nbytes / MB
    return {"vectors_mb": vectors_mb, "kept_mb": kept_mb, "beyond_mb": peak_mb - kept_mb, "batch_mb": batch_mb}


def reset_peak() -> float:
    """RETURNS (float): Resident MB, after free memory, which would hide growth, and the peak were reset (glibc)."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="utf8")
    return peak_memory_mb()


def read_train(nlp: Language, shared: Path, repeats: int, *, has_new_words: bool) -> Iterator[Doc]:
    """YIELDS (Doc): The training part of UD EWT, repeated."""
    docs = DocBin().from_disk(shared / UD_TRAIN)
    for number in range(repeats):
        for doc in docs.get_docs(nlp.vocab):
            if not has_new_words:
                yield doc
            else:
                starts = [token.is_sent_start for token in doc]
                yield Doc(nlp.vocab, words=[f"{token.text}{number}" for token in doc], sent_starts=starts)


def _peaks(found: Sequence[Result]) -> str:
    return " and ".join(f"{result['n_tokens']:,} tokens {result['peak_mb']:.1f}" for result in found)


if __name__ == "__main__":
    typer.run(main)
