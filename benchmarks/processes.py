"""Speed of `nlp.pipe(n_process=2)`: one process with two threads against two processes with one thread each.

python benchmarks/processes.py
"""

import json
import multiprocessing
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Union

import spacy
import srsly
import torch
import typer
from corpus import Document, default_shared, read_documents
from invariance import make_small
from spacy.language import Language
from spacy.tokens import Doc

import spacy_elmo.pipeline.elmo  # noqa: F401  registers the factory, also where nothing is installed
from spacy_elmo.pipeline.multiprocessing import load_encoders_once

N_TIMED_DOCS = 1000  # Docs whose serialization is timed
READ_EVERY = 50  # Docs between two readings of the memory of the workers
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
    json_path: Optional[Path] = typer.Option(None, "--json", "-j", help="File for the raw numbers."),
    # fmt: on
) -> None:
    """Print tokens/s, memory of the workers, and the time to send Docs between processes."""
    multiprocessing.set_start_method("fork")
    warnings.filterwarnings("ignore", "nlp.pipe starts")  # the effect of several processes is measured here
    torch.set_num_threads(threads)
    documents = repeats * read_documents(shared)
    by_sentence = [[sentence] for document in documents for sentence in document]
    results: List[Result] = []
    print(f"store mixed, {dtype}; 1 process with {threads} threads, {n_process} processes; medians of {rounds}")
    with tempfile.TemporaryDirectory() as folder:
        for weights in ("en_elmo_sm", str(make_small(shared, Path(folder)))):
            nlp = make_pipeline(weights, dtype)
            for unit, make, texts, batch_size in (
                ("sentences", make_doc, by_sentence, 256),
                ("sentences as strings", make_string, by_sentence, 256),
                ("documents", make_doc, documents, 16),
            ):
                result = compare(nlp, make, texts, batch_size, n_process, rounds)
                results.append({"weights": Path(weights).name, "unit": unit, "batch_size": batch_size, **result})
                print_result(results[-1], n_process)
    if json_path is not None:
        json_path.write_text(json.dumps(results, indent=1), encoding="utf8")


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
    memory: Result = {}
    for number in range(rounds + 1):
        for n in seconds:
            docs = make_all(nlp, make, texts)
            started = time.perf_counter()
            for i, _ in enumerate(nlp.pipe(docs, batch_size=batch_size, n_process=n)):
                if n > 1 and number == 0 and i % READ_EVERY == 0:  # only in a pass that is not timed
                    memory = {key: max(value, memory.get(key, 0.0)) for key, value in workers_memory().items()}
            if number:
                seconds[n].append(time.perf_counter() - started)
    rates = {n: n_tokens / statistics.median(found) for n, found in seconds.items()}
    serialization = serialization_seconds(nlp, make, texts, batch_size)
    cpu_s = n_process * statistics.median(seconds[n_process])
    return {
        "n_tokens": n_tokens,
        "n_docs": len(texts),
        "one_tokens_per_s": rates[1],
        "several_tokens_per_s": rates[n_process],
        "ratio": rates[n_process] / rates[1],
        "serialization_ms": {name: 1000 * value for name, value in serialization.items()},
        "serialization_share": serialization["remembered"] * len(texts) / cpu_s,
        "weights_mb": sum(p.nbytes for p in nlp.get_pipe("elmo").model.shims[0].bilm.network.parameters()) / 2**20,
        **memory,
    }


def make_all(nlp: Language, make: Maker, texts: List[Document]) -> List[Union[str, Doc]]:
    """RETURNS (List[Union[str, Doc]]): The input of `nlp.pipe`."""
    return [make(nlp, text) for text in texts]


def make_string(nlp: Language, text: Document) -> str:
    """RETURNS (str): A text that the pipeline tokenizes."""
    return " ".join(word for sentence in text for word in sentence)


def make_doc(nlp: Language, text: Document) -> Doc:
    """RETURNS (Doc): A Doc with sentence boundaries, without vectors."""
    starts = [i == 0 for sentence in text for i in range(len(sentence))]
    return Doc(nlp.vocab, words=[word for sentence in text for word in sentence], sent_starts=starts)


def workers_memory() -> Dict[str, float]:
    """RETURNS (Dict[str, float]): Memory of the largest worker in MB: resident, proportional (pages shared by k
    processes count 1/k), and private. Linux only.
    """
    found: List[Dict[str, float]] = []
    for child in multiprocessing.active_children():
        try:
            lines = Path(f"/proc/{child.pid}/smaps_rollup").read_text(encoding="utf8").splitlines()[1:]
        except OSError:  # the process has ended
            continue
        sizes = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines}
        own = sizes["Private_Clean"] + sizes["Private_Dirty"]
        found.append({"rss_mb": sizes["Rss"], "pss_mb": sizes["Pss"], "own_mb": own})
    return {key: max(one[key] for one in found) for key in (found[0] if found else ())}


def serialization_seconds(nlp: Language, make: Maker, texts: List[Document], batch_size: int) -> Dict[str, float]:
    """Time to serialize a Doc for a worker and back, measured in one process: to bytes and from bytes, twice; once if
    strings are sent to the worker.

    RETURNS (Dict[str, float]): Seconds per Doc, with plain srsly and with its cached encoders.
    """
    texts = texts[:N_TIMED_DOCS]
    docs = [text for text in make_all(nlp, make, texts) if isinstance(text, Doc)]
    done = list(nlp.pipe(make_all(nlp, make, texts), batch_size=batch_size))
    seconds = {}
    for name, change in (("plain", _forget), ("remembered", load_encoders_once)):
        change()
        found = (_time(lambda: [_travel(nlp, doc) for doc in (*docs, *done)]) for _ in range(2))
        seconds[name] = min(found) / len(texts)
    return seconds


def _travel(nlp: Language, doc: Doc) -> Doc:
    return Doc(nlp.vocab).from_bytes(doc.to_bytes())


def _forget() -> None:
    for registry in (srsly.msgpack_encoders, srsly.msgpack_decoders):
        registry.entry_points = True


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
    serialization = result["serialization_ms"]
    print(
        f"{'':10} serialization of a Doc {serialization['remembered']:.2f} ms "
        f"({serialization['plain']:.2f} with plain srsly), "
        f"{result['serialization_share']:.0%} of the processes' time",
    )
    if "pss_mb" in result:
        print(
            f"{'':10} weights {result['weights_mb']:.0f} MB; largest worker: resident {result['rss_mb']:.0f} MB, "
            f"share {result['pss_mb']:.0f}, its own {result['own_mb']:.0f}",
            flush=True,
        )


if __name__ == "__main__":
    typer.run(main)
