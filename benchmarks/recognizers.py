"""F1 and speed of trained entity recognizers that read the same layers, in interleaved rounds in one process.

A recognizer is timed by itself, its tok2vec included, on Docs that have their ELMo layers already. Rates are words per
second of CPU time, so that other programs on the machine matter less.
"""

import argparse
import statistics
import time
from pathlib import Path
from typing import Callable, Dict, List, Tuple

import spacy
import torch
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy.util import minibatch

FACTORIES = ("ner", "beam_ner", "crf_ner")
BATCH_SIZE = 256
HEAD = ("pipeline", "recognizer", "F1", "words/s, batches", "words/s, one Doc at a time")


def main() -> None:
    """Print a table: a row per pipeline."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pipelines", nargs="+", type=Path, help="Trained pipelines, each with one entity recognizer")
    parser.add_argument("--data", type=Path, required=True, help="Annotated Docs (.spacy)")
    parser.add_argument("--threads", type=int, default=1, help="Threads of torch")
    parser.add_argument("--repeats", type=int, default=5, help="Rounds, of which the median counts")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    systems = [_load(path, arguments.data) for path in arguments.pipelines]
    rates: List[List[Tuple[float, float]]] = [[] for _ in systems]
    for _ in range(arguments.repeats):
        for found, (nlp, docs, _) in zip(rates, systems):
            found.append(measure(nlp, docs))
    print(f"| {' | '.join(HEAD)} |\n| --- | --- | ---: | ---: | ---: |")
    for path, found, (nlp, _, f1) in zip(arguments.pipelines, rates, systems):
        medians = [f"{statistics.median(column):,.0f}" for column in zip(*found)]
        print(f"| {path} | {find_recognizer(nlp)} | {100 * f1:.1f} | {' | '.join(medians)} |")


def find_recognizer(nlp: Language) -> str:
    """RETURNS (str): Name of the first component that recognizes entities."""
    return next(name for name in nlp.pipe_names if nlp.get_pipe_meta(name).factory in FACTORIES)


def measure(nlp: Language, docs: List[Doc]) -> Tuple[float, float]:
    """nlp (Language): A trained pipeline.
    docs (List[Doc]): Docs that the components before the recognizer have processed.
    RETURNS (Tuple[float, float]): Words per second of CPU time, in batches and one Doc at a time.
    """
    predict: Callable[[List[Doc]], object] = nlp.get_pipe(find_recognizer(nlp)).predict  # type: ignore[attr-defined]
    n_words = sum(map(len, docs))
    rates = []
    for size in (BATCH_SIZE, 1):
        batches = list(minibatch(docs, size))
        started = time.process_time()
        for batch in batches:
            predict(batch)
        rates.append(n_words / (time.process_time() - started))
    return rates[0], rates[1]


def _load(path: Path, data: Path) -> Tuple[Language, List[Doc], float]:
    nlp = spacy.load(path)
    annotated = list(DocBin().from_disk(data).get_docs(nlp.vocab))
    scores: Dict[str, float] = nlp.evaluate([Example(_copy_words(doc), doc) for doc in annotated])
    with nlp.select_pipes(disable=find_recognizer(nlp)):
        docs = list(nlp.pipe([_copy_words(doc) for doc in annotated]))
    return nlp, docs, scores["ents_f"]


def _copy_words(doc: Doc) -> Doc:
    return Doc(doc.vocab, words=[token.text for token in doc], spaces=[bool(token.whitespace_) for token in doc])


if __name__ == "__main__":
    main()
