"""The LSTM of a task by the native kernel and by torch, in turns in one process: the encoder by itself, and taggers.

python benchmarks/task_lstm.py

The text is UD EWT dev, one Doc for each of its documents. Taggers have random weights, and the words are in the caches.
On one thread CPU time counts, on several ones the time that passes.
"""

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Callable, ContextManager, Dict, List, Optional
from unittest.mock import patch

import numpy
import spacy
import torch
import typer
from corpus import PACKAGED, SENTENCES, SHARED, flatten, make_doc, read_documents
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import fix_random_seed

from spacy_elmo.inference import lstm_sequences
from spacy_elmo.inference.installation import describe_kernel
from spacy_elmo.pipeline.task_layers import BiLSTMEncoder

EMBED = {
    "@architectures": "spacy.MultiHashEmbed.v2",
    "width": 96,
    "attrs": ["NORM", "PREFIX", "SUFFIX", "SHAPE"],
    "rows": [5000, 1000, 2500, 2500],
    "include_static_vectors": False,
}
TAGS = ("ADJ", "NOUN", "VERB")


def main(
    width: int = typer.Option(256, "--width", "-w", help="Width of the encoder, both directions together."),
    depth: int = typer.Option(2, "--depth", "-d", help="Layers of the encoder."),
    input_width: int = typer.Option(256, "--input-width", "-i", help="Width of the input of the encoder by itself."),
    threads: List[int] = typer.Option([1, 2], "--threads", "-t", help="Threads of torch."),
    repeats: int = typer.Option(10, "--repeats", "-r", help="Interleaved rounds; the fastest ones are printed."),
    sentences: Optional[int] = SENTENCES,
    shared: Path = SHARED,
) -> None:
    """Print words per second of both engines, and the speed of the kernel relative to torch."""
    fix_random_seed(0)
    documents = read_documents(shared, sentences)
    lengths = [sum(map(len, document)) for document in documents], [len(sentence) for sentence in flatten(documents)]
    n_words = sum(lengths[0])
    encode = {"@architectures": "spacy-elmo.BiLSTMEncoder.v1", "width": width, "depth": depth}
    encoder = BiLSTMEncoder(width, depth)
    rows = numpy.random.default_rng(0).normal(size=(n_words, input_width)).astype("float32")
    by_document, by_sentence = (numpy.split(rows, numpy.cumsum(sizes)[:-1]) for sizes in lengths)
    encoder.initialize(X=by_document)
    taggers = {name: make_tagger(name, encode) for name in ("tagger", "elmo, tagger")}
    jobs: Dict[str, Callable[[], Any]] = {
        "encoder, documents": lambda: encoder.predict(by_document),
        "encoder, sentences": lambda: encoder.predict(by_sentence),
    }
    for name, nlp in taggers.items():
        jobs[name] = lambda nlp=nlp: list(nlp.pipe(make_docs(nlp, documents)))  # type: ignore[misc]
    print(f"{n_words:,} words, {describe_kernel()}")
    print(f"{'words/s':22s} {'threads':>7s} {'torch':>9s} {'kernel':>9s} {'ratio':>6s}")
    for n_threads in threads:
        torch.set_num_threads(n_threads)
        for name, job in jobs.items():
            rates = {engine: n_words / seconds for engine, seconds in measure(job, repeats).items()}
            ratio = rates["kernel"] / rates["torch"]
            print(f"{name:22s} {n_threads:7d} {rates['torch']:9,.0f} {rates['kernel']:9,.0f} {ratio:6.2f}")


def make_tagger(name: str, encode: Dict[str, Any]) -> Language:
    """RETURNS (Language): A tagger on this encoder over word features, and with "elmo" over those of a biLM as well."""
    nlp = spacy.blank("en")
    tok2vec: Dict[str, Any] = {"@architectures": "spacy.Tok2Vec.v2", "embed": EMBED, "encode": encode}
    if name.startswith("elmo"):
        nlp.add_pipe("elmo")
        loader = {"@misc": "spacy-elmo.BiLMLoader.v1", "path": PACKAGED}
        nlp.config["initialize"]["components"]["elmo"] = {"loader": loader}
        listener = {"@architectures": "spacy-elmo.ElmoListener.v1"}
        tok2vec = {**tok2vec, "@architectures": "spacy-elmo.ElmoTaskEncoder.v1", "elmo_input": listener}
    nlp.add_pipe("tagger", config={"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}})
    nlp.initialize(lambda: [Example(nlp.make_doc("a b c"), Doc(nlp.vocab, words=["a", "b", "c"], tags=list(TAGS)))])
    return nlp


def make_docs(nlp: Language, documents: List[Any]) -> List[Doc]:
    """RETURNS (List[Doc]): Docs with sentence boundaries."""
    return [make_doc(nlp.vocab, document) for document in documents]


def measure(job: Callable[[], Any], repeats: int) -> Dict[str, float]:
    """RETURNS (Dict[str, float]): The fewest seconds of each engine, in turns; the first round is not counted. The biLM
    has its kernel in both.
    """
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    engines: Dict[str, ContextManager[Any]] = {
        "torch": patch.object(lstm_sequences, "takes_kernel", return_value=False),
        "kernel": nullcontext(),
    }
    seconds: Dict[str, List[float]] = {engine: [] for engine in engines}
    for _ in range(repeats + 1):
        for engine, context in engines.items():
            with context:
                started = clock()
                job()
                seconds[engine].append(clock() - started)
    return {engine: min(times[1:]) for engine, times in seconds.items()}


if __name__ == "__main__":
    typer.run(main)
