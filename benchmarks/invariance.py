"""Invariance of vectors to batch, order and process: real sentences in batches, compared with single sequences.

python benchmarks/invariance.py
"""

import random
import statistics
import tempfile
from pathlib import Path
from typing import Callable, Dict, List, Optional, Sequence

import numpy as np
import torch
import typer
from corpus import SHARED, THREADS, Sentence, flatten, make_pipeline, make_weights, read_documents
from spacy.language import Language
from spacy.tokens import Doc

from spacy_elmo import BiLM, load_bilm

BATCH_SIZES = (2, 7, 32, 200)  # sentences
BATCH_TOKENS = (64, 1024, 16384)
LONG_TOKENS = 2000
TINY = Path("data") / "elmo-fixtures" / "allennlp" / "lm_weights.hdf5"
Layers = List[np.ndarray]  # per sentence (L+1, n, D)


def main(
    shared: Path = SHARED,
    n_sentences: int = typer.Option(200, "--sentences", "-n", help="Sentences of UD EWT dev"),
    threads: int = THREADS,
    tolerance: float = typer.Option(1e-5, "--tolerance", "-T", help="Maximum difference"),
    n_process: int = typer.Option(2, "--n-process", "-p", help="Processes of nlp.pipe, 1 to leave them out"),
) -> None:
    """Print median and maximum over sentences of the largest absolute difference, for each condition."""
    torch.set_num_threads(threads)
    documents = read_documents(shared)
    sentences = random.Random(0).sample([s for s in flatten(documents) if s], n_sentences)
    long_text = [word for sentence in flatten(documents) for word in sentence][:LONG_TOKENS]
    largest = 0.0
    with tempfile.TemporaryDirectory() as name:
        for weights in (make_weights(Path(name) / "small", "small", shared=shared), shared / TINY):
            for state in ("reset", "steady"):
                print(f"\n{weights.name}, state {state}, {n_sentences} sentences")
                print(f"{'condition':40} {'median':>9} {'maximum':>9}")
                conditions = {
                    **facade_conditions(state, long_text),
                    **pipe_conditions(weights, state, long_text, n_process),
                }
                largest = max(largest, compare(load_bilm(weights), state, sentences, conditions))
    print(f"\nlargest difference {largest:.1e}, allowed {tolerance:.0e}")
    raise typer.Exit(int(largest > tolerance))


Condition = Callable[[BiLM, Sequence[Sentence]], Layers]


def compare(bilm: BiLM, state: str, sentences: Sequence[Sentence], conditions: Dict[str, Condition]) -> float:
    """RETURNS (float): The largest difference of all."""
    single = [bilm.embed([sentence], state=state)[0] for sentence in sentences]
    largest = 0.0
    for name, condition in conditions.items():
        bilm.refresh()  # clears the cache, which has the word vectors of the first batch
        differences = [float(np.abs(a - b).max()) for a, b in zip(condition(bilm, sentences), single)]
        largest = max(largest, *differences)
        print(f"{name:40} {statistics.median(differences):9.1e} {max(differences):9.1e}", flush=True)
    return largest


def facade_conditions(state: str, long_text: Sentence) -> Dict[str, Condition]:
    """RETURNS (Dict[str, Condition]): Ways to compute with `BiLM.embed`."""

    def batched(size: int) -> Condition:
        return lambda bilm, some: [
            layers for i in range(0, len(some), size) for layers in bilm.embed(some[i : i + size], state=state)
        ]

    def budgeted(batch_tokens: int) -> Condition:
        return lambda bilm, some: bilm.embed(some, state=state, batch_tokens=batch_tokens)

    def shuffled(bilm: BiLM, some: Sequence[Sentence]) -> Layers:
        order = random.Random(1).sample(range(len(some)), len(some))
        found = bilm.embed([some[i] for i in order], state=state)
        return [found[order.index(i)] for i in range(len(some))]

    def with_long_text(bilm: BiLM, some: Sequence[Sentence]) -> Layers:
        found = bilm.embed([*some[:100], long_text, *some[100:]], state=state, batch_tokens=16384)
        return found[:100] + found[101:]

    conditions: Dict[str, Condition] = {f"batches of {size}": batched(size) for size in BATCH_SIZES}
    conditions.update({f"at most {n} tokens at once": budgeted(n) for n in BATCH_TOKENS})
    return {**conditions, "shuffled": shuffled, f"with a text of {len(long_text)} tokens": with_long_text}


def pipe_conditions(weights: Path, state: str, long_text: Sentence, n_process: int) -> Dict[str, Condition]:
    """RETURNS (Dict[str, Condition]): Ways to compute with `nlp.pipe`."""
    nlp: Optional[Language] = None

    def piped(processes: int) -> Condition:
        def compute(bilm: BiLM, some: Sequence[Sentence]) -> Layers:
            nonlocal nlp
            nlp = nlp or make_pipeline(str(weights), model={"state": state}, store="layers")
            words = [*some[:100], long_text, *some[100:]]
            docs = (Doc(nlp.vocab, words=one) for one in words)
            found = [doc._.elmo_layers for doc in nlp.pipe(docs, batch_size=32, n_process=processes)]
            return found[:100] + found[101:]

        return compute

    counts = (1,) if n_process == 1 else (1, n_process)
    return {f"nlp.pipe, {n} process(es), with that text": piped(n) for n in counts}


if __name__ == "__main__":
    typer.run(main)
