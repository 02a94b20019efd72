"""Speed of `nlp.pipe(n_process=2)`: one process with two threads against two processes with one thread each.

python benchmarks/processes.py
"""

import multiprocessing
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, List, Union

import spacy
import torch
import typer
from corpus import Document, default_shared, make_doc, read_documents
from invariance import make_small
from spacy.language import Language
from spacy.tokens import Doc

import spacy_elmo.pipeline.elmo  # noqa: F401  registers the factory, also where nothing is installed

N_TIMED_DOCS = 1000  # Docs whose serialization is timed
Result = Dict[str, Any]
Maker = Callable[[Language, Document], Union[str, Doc]]


def main(
    # fmt: off
    rounds: int = typer.Option(5, "--rounds", "-r", help="Interleaved rounds; medians are printed."),
    n_process: int = typer.Option(2, "--n-process", "-p", help="Processes."),
    threads: int = typer.Option(2, "--threads", "-t", help="Threads of torch in the single process."),
    dtype: str = typer.Option("float32", "--dtype", "-d", help="Precision of the vectors that are sent."),
    repeats: int = typer.Option(4, "--repeats", "-R", help="Repetitions of UD EWT dev per pass."),
    shared: Path = typer.Option(
        default_shared(), "--shared", "-S", help="Folder with `data` and `tools`.", exists=True
    ),
    # fmt: on
) -> None:
    """Print tokens/s, and the time to send Docs between processes."""
    multiprocessing.set_start_method("fork")
    warnings.filterwarnings("ignore", "nlp.pipe starts")  # the effect of several processes is measured here
    torch.set_num_threads(threads)
    documents = repeats * read_documents(shared)
    by_sentence = [[sentence] for document in documents for sentence in document]
    print(f"store mixed, {dtype}; 1 process with {threads} threads, {n_process} processes; medians of {rounds}")
    with tempfile.TemporaryDirectory() as folder:
        for weights in ("en_elmo_sm", str(make_small(shared, Path(folder)))):
            nlp = make_pipeline(weights, dtype)
            for unit, make, texts, batch_size in (
                ("sentences", with_sentences, by_sentence, 256),
                ("sentences as strings", make_string, by_sentence, 256),
                ("documents", with_sentences, documents, 16),
            ):
                result = compare(nlp, make, texts, batch_size, n_process, rounds)
                print_result(
                    {"weights": Path(weights).name, "unit": unit, "batch_size": batch_size, **result}, n_process
                )


def make_pipeline(weights: str, dtype: str) -> Language:
    """RETURNS (Language): A pipeline with only this component."""
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"store": "mixed", "dtype": dtype})
    loader = {"@misc": "spacy-elmo.BiLMLoader.v1", "path": weights}
    nlp.config["initialize"]["components"]["elmo"] = {"loader": loader}
    nlp.initialize()
    return nlp


def compare(nlp: Language, make: Maker, texts: List[Document], batch_size: int, n_process: int, rounds: int) -> Result:
    """RETURNS (Result): Medians, without the first pass, which fills the word cache."""
    n_tokens = sum(
        len(nlp.make_doc(text)) if isinstance(text, str) else len(text) for text in make_all(nlp, make, texts)
    )
    seconds: Dict[int, List[float]] = {1: [], n_process: []}
    for number in range(rounds + 1):
        for n in seconds:
            docs = make_all(nlp, make, texts)
            elapsed_s = _time(lambda: sum(1 for _ in nlp.pipe(docs, batch_size=batch_size, n_process=n)))  # noqa: B023
            if number:
                seconds[n].append(elapsed_s)
    rates = {n: n_tokens / statistics.median(found) for n, found in seconds.items()}
    serialization = serialization_seconds(nlp, make, texts, batch_size)
    cpu_s = n_process * statistics.median(seconds[n_process])
    return {
        "n_tokens": n_tokens,
        "n_docs": len(texts),
        "one_tokens_per_s": rates[1],
        "several_tokens_per_s": rates[n_process],
        "ratio": rates[n_process] / rates[1],
        "serialization_ms": 1000 * serialization,
        "serialization_share": serialization * len(texts) / cpu_s,
    }


def make_all(nlp: Language, make: Maker, texts: List[Document]) -> List[Union[str, Doc]]:
    """RETURNS (List[Union[str, Doc]]): The input of `nlp.pipe`."""
    return [make(nlp, text) for text in texts]


def make_string(nlp: Language, text: Document) -> str:
    """RETURNS (str): A text that the pipeline tokenizes."""
    return " ".join(word for sentence in text for word in sentence)


def with_sentences(nlp: Language, text: Document) -> Doc:
    """RETURNS (Doc): A Doc with sentence boundaries, without vectors."""
    return make_doc(nlp.vocab, text)


def serialization_seconds(nlp: Language, make: Maker, texts: List[Document], batch_size: int) -> float:
    """Time to serialize a Doc for a worker and back, measured in one process: to bytes and from bytes, twice; once if
    strings are sent to the worker. RETURNS (float): Seconds per Doc.
    """
    texts = texts[:N_TIMED_DOCS]
    docs = [text for text in make_all(nlp, make, texts) if isinstance(text, Doc)]
    docs += nlp.pipe(make_all(nlp, make, texts), batch_size=batch_size)
    found = (_time(lambda: [Doc(nlp.vocab).from_bytes(doc.to_bytes()) for doc in docs]) for _ in range(2))
    return min(found) / len(texts)


def _time(function: Callable[[], Any]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def print_result(result: Result, n_process: int) -> None:
    """Print the result of `compare`."""
    length = result["n_tokens"] / result["n_docs"]
    print(f"{result['weights']:10} {result['n_docs']:,} {result['unit']} of {length:.1f} tokens", end=", ")
    print(f"batch_size {result['batch_size']}: 1 process {result['one_tokens_per_s']:,.0f} tokens/s", end=", ")
    print(f"{n_process} processes {result['several_tokens_per_s']:,.0f}, ratio {result['ratio']:.2f}")
    print(
        f"{'':10} serialization of a Doc {result['serialization_ms']:.2f} ms, "
        f"{result['serialization_share']:.0%} of the processes' time",
        flush=True,
    )


if __name__ == "__main__":
    typer.run(main)
