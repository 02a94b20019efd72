"""Growth of memory with corpus and Doc size: peaks of `nlp.pipe`, each in a separate process.

python benchmarks/memory.py

A corpus that is repeated has no new words: those stay in spaCy's Vocab and StringStore, with or without ELMo.
"""

import ctypes
import multiprocessing
from pathlib import Path
from typing import Any, Callable, Tuple

import torch
import typer
from corpus import SHARED, THREADS, long_document, make_doc, make_pipeline, read_documents
from measure import peak_memory_mb
from spacy.tokens import DocBin

UD_TRAIN = Path("data") / "ud" / "en_ewt" / "train.spacy"
BATCHES = 50
MB = 2**20


def main(
    # fmt: off
    weights: str = typer.Option("en_elmo_sm", "--weights", "-w", help="A packaged biLM or a path."),
    repeats: int = typer.Option(20, "--repeats", "-r", help="Repetitions of UD EWT train in the longer corpus."),
    n_tokens: int = typer.Option(1_000_000, "--n-tokens", "-n", help="Tokens of the long Doc."),
    batch_tokens: int = typer.Option(8192, "--batch-tokens", "-b", help="Setting of the component."),
    tolerance_mb: float = typer.Option(50.0, "--tolerance", "-T", help="Maximum growth with corpus or Doc, in MB."),
    threads: int = THREADS,
    shared: Path = SHARED,
    # fmt: on
) -> None:
    """Print peaks and their growth. Exits with 1 if memory grows with the corpus, or with a Doc by more than its result
    and a batch.
    """
    growth = 0.0
    print(f"{weights}, batch_tokens {batch_tokens}, {threads} thread(s)")
    given = (weights, shared, threads, batch_tokens)
    for store in ("mixed", "layers"):
        (n_once, once), (n_often, often) = (run(measure_stream, *given, store, number) for number in (1, repeats))
        growth = max(growth, often - once)
        print(
            f"UD EWT train, store {store}: {n_once:,} tokens {once:.1f} MB, {n_often:,} tokens {often:.1f} MB, "
            f"{often - once:+.1f} MB",
            flush=True,
        )
    for contexts in ("doc", "sentences"):
        for dtype in ("float32", "float16"):
            kept, vectors, beyond, batch = run(measure_doc, *given, contexts, dtype, n_tokens)
            growth = max(growth, beyond - batch)
            print(
                f"Doc of {n_tokens:,} tokens, contexts {contexts}, {dtype}: result {kept:.0f} MB (vectors "
                f"{vectors:.0f}), peak beyond it {beyond:.0f}; {BATCHES} batches one after the other {batch:.0f}",
                flush=True,
            )
    raise typer.Exit(int(growth > tolerance_mb))


def run(measure: Callable[..., Any], *arguments: Any) -> Any:
    """RETURNS (Any): The result of a function, called in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, arguments)


def measure_stream(
    weights: str, shared: Path, threads: int, batch_tokens: int, store: str, repeats: int
) -> Tuple[int, float]:
    """RETURNS (Tuple[int, float]): Tokens of the training part of UD EWT, repeated, and the peak in MB."""
    torch.set_num_threads(threads)
    nlp = make_pipeline(weights, model={"batch_tokens": batch_tokens}, store=store)
    texts = DocBin().from_disk(shared / UD_TRAIN)
    docs = (doc for _ in range(repeats) for doc in texts.get_docs(nlp.vocab))
    return sum(len(doc) for doc in nlp.pipe(docs, batch_size=64)), peak_memory_mb()


def measure_doc(
    weights: str, shared: Path, threads: int, batch_tokens: int, contexts: str, dtype: str, n_tokens: int
) -> Tuple[float, float, float, float]:
    """RETURNS (Tuple[float, float, float, float]): MB for one long Doc, without the Doc itself: the result, the vectors
    in it, the peak beyond the result, and the peak for parts of one batch.
    """
    torch.set_num_threads(threads)
    nlp = make_pipeline(weights, model={"batch_tokens": batch_tokens, "contexts": contexts}, store="mixed", dtype=dtype)
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
    return kept_mb, doc._.elmo.nbytes / MB, peak_mb - kept_mb, batch_mb


def reset_peak() -> float:
    """RETURNS (float): Resident MB, after free memory, which would hide growth, and the peak were reset (glibc)."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="utf8")
    return peak_memory_mb()


if __name__ == "__main__":
    typer.run(main)
