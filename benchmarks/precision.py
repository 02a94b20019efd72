"""Reduced precision: speed, memory, cosine to float32 over UD EWT dev, and scores of trained pipelines.

python benchmarks/precision.py en_elmo_sm --threads 2
python benchmarks/precision.py WEIGHTS --sentences 300
python benchmarks/precision.py en_elmo_sm --pipeline training/wnut17/elmo-0/model-best --data corpus/wnut17/test.spacy
"""

import gc
import multiprocessing
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

import numpy as np
import spacy
import torch
import typer
from corpus import REPEATS, SENTENCES, THREADS, Sentence, default_shared, flatten, read_documents
from scale import resident_mb
from spacy.tokens import DocBin
from spacy.training import Example

from spacy_elmo import BiLM, load_bilm, save_bilm
from spacy_elmo.inference import products
from spacy_elmo.pipeline import component  # noqa: F401  registers the factory where the package is not installed

# on this processor
PRECISIONS = ("float32", *(name for name in ("bfloat16", "int8") if products.is_supported_on_cpu(name)))
SCORES = ("ents_f", "tag_acc", "pos_acc", "morph_acc")
N_SINGLE = 100  # sentences for single sequences
N_COPIES = 3  # copies of a model; its memory is the growth per copy
MB = 1024 * 1024


def main(
    # fmt: off
    bilm_path: str = typer.Argument(..., help="Weights in any known format."),
    n_sentences: Optional[int] = SENTENCES,
    pipelines: List[Path] = typer.Option([], "--pipeline", "-p", help="Trained pipelines with an ELMo component."),
    data: List[Path] = typer.Option([], "--data", "-d", help="A DocBin for the evaluation of each pipeline."),
    repeats: int = REPEATS,
    threads: int = THREADS,
    # fmt: on
) -> None:
    """Compare precisions."""
    torch.set_num_threads(threads)
    sentences = flatten(read_documents(default_shared(), n_sentences))
    print(f"{len(sentences)} sentences, {sum(map(len, sentences))} tokens, {threads} thread(s), {bilm_path}")
    _compare(bilm_path, sentences, repeats)
    for path, docs in zip(pipelines, data):
        _evaluate(path, docs)


def _compare(bilm_path: str, sentences: List[Sentence], repeats: int) -> None:
    bilms = {precision: load_bilm(bilm_path, precision=precision) for precision in PRECISIONS}
    single = [sentence for sentence in sentences if len(sentence) > 4][:N_SINGLE]
    exact = bilms["float32"].embed(sentences)
    cosines = {precision: _cosines(bilms[precision].embed(sentences), exact) for precision in PRECISIONS}
    rates: Dict[str, List[Any]] = {precision: [] for precision in PRECISIONS}
    for _ in range(repeats):
        for precision, bilm in bilms.items():
            rates[precision].append((_rate(bilm, [sentences]), _rate(bilm, [[sentence] for sentence in single])))
    names = f"{'tokens/s':>9} {'x':>5} {'single':>7} {'x':>5} {'MB used':>8} {'MB saved':>9}"
    print(f"{'precision':10} {names}  1st percentile of the cosine, layer by layer")
    first = [statistics.median(pair[k] for pair in rates["float32"]) for k in (0, 1)]
    for precision in PRECISIONS:
        many, one = (statistics.median(pair[k] for pair in rates[precision]) for k in (0, 1))
        used, saved = _in_fresh_process(bilm_path, precision)
        cosine = ", ".join(f"{value:.5f}" for value in np.percentile(cosines[precision], 1, axis=1))
        rows = f"{many:9.0f} {many / first[0]:5.2f} {one:7.0f} {one / first[1]:5.2f}"
        print(f"{precision:10} {rows} {used:8.0f} {saved:9.1f}  {cosine}")


def _cosines(vectors: List[Any], exact: List[Any]) -> np.ndarray:
    """RETURNS (ndarray): Shape (L+1, tokens)."""
    one, other = (np.concatenate(part, axis=1).astype("float64") for part in (vectors, exact))
    return np.asarray((one * other).sum(-1) / np.linalg.norm(one, axis=-1) / np.linalg.norm(other, axis=-1))


def _rate(bilm: BiLM, calls: List[List[Sentence]]) -> float:
    started = time.perf_counter()
    for sentences in calls:
        bilm.embed(sentences)
    return sum(len(sentence) for sentences in calls for sentence in sentences) / (time.perf_counter() - started)


def _in_fresh_process(bilm_path: str, precision: str) -> List[float]:
    """RETURNS (List[float]): Resident memory of a model in use, and its size on disk without a softmax, in MB."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure_room, (bilm_path, precision))


def _measure_room(bilm_path: str, precision: str) -> List[float]:
    copies, resident = [], []
    for _ in range(1 + N_COPIES):  # the first includes initialization of libraries, and memory that is reused
        bilm = load_bilm(bilm_path, precision=precision)
        bilm.head = None
        bilm.embed([["a", "b"], ["c"]])
        gc.collect()
        copies.append(bilm)
        resident.append(resident_mb(os.getpid()))
    used = (resident[-1] - resident[0]) / N_COPIES
    with tempfile.TemporaryDirectory() as folder:
        save_bilm(bilm, Path(folder) / "bilm", dtype="int8" if precision == "int8" else "float32")
        saved = (Path(folder) / "bilm" / "weights.safetensors").stat().st_size / MB
    return [used, saved]


def _evaluate(path: Path, docs_path: Path) -> None:
    print(f"\n{path} on {docs_path}")
    for precision in PRECISIONS:
        nlp = spacy.load(path, config={"components.elmo.model.precision": precision})
        found = nlp.evaluate(list(_examples(nlp, docs_path)))
        scores = {name: found[name] for name in SCORES if found.get(name)}
        print(f"{precision:10} " + ", ".join(f"{name} {100 * score:.2f}" for name, score in scores.items()))


def _examples(nlp: spacy.language.Language, path: Path) -> Iterator[Example]:
    for gold in DocBin().from_disk(path).get_docs(nlp.vocab):
        words, spaces = [token.text for token in gold], [bool(token.whitespace_) for token in gold]
        blank = spacy.tokens.Doc(nlp.vocab, words=words, spaces=spaces)
        if gold.has_annotation("SENT_START"):
            for token, other in zip(blank, gold):
                token.is_sent_start = other.is_sent_start
        yield Example(blank, gold)


if __name__ == "__main__":
    typer.run(main)
