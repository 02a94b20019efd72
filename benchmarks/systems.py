"""This package, a plain loop, and the machine itself, each measured in a process of its own by `inference.py`."""

import json
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Sequence

import measure
import torch
from plain_loop import PlainBiLM

Documents = List[List[List[str]]]
PEAK_SIZES = (1024, 2048)
GPU_PEAK_SIZES = (4096, 8192)
PEAK_SECONDS = 1.0


class Facade(measure.System):
    """`BiLM.iter_encode`, and `BiLM.embed` for one sentence; `batch_size` counts tokens."""

    has_cache = True

    def __init__(self, weights: str) -> None:
        from spacy_elmo import load_bilm

        self.bilm = load_bilm(weights)

    def mean_of_layers(self, sentence: List[str]) -> Sequence[float]:
        return self.bilm.embed([sentence])[0].mean(axis=0)[0, :8].tolist()

    def embed(self, documents: Documents, batch_size: int) -> None:
        runs = [sentence for document in documents for sentence in document]
        if len(runs) == 1:
            self.bilm.embed(runs)
            return
        for _ in self.bilm.iter_encode(runs, batch_tokens=batch_size):
            pass


class Pipe(measure.System):
    """The component `elmo` through `nlp.pipe`, sentences as contexts, mixed vectors stored."""

    has_cache = True

    def __init__(self, weights: str, batch_tokens: int) -> None:
        import spacy

        import spacy_elmo.pipeline.elmo  # noqa: F401  registers the factory, also where nothing is installed

        self.nlp = spacy.blank("en")
        settings = {"batch_tokens": batch_tokens, "contexts": "sentences"}
        self.elmo = self.nlp.add_pipe("elmo", config={"model": settings, "store": "mixed"})
        loader = {"@misc": "spacy-elmo.BiLMLoader.v1", "path": weights}
        self.nlp.config["initialize"]["components"]["elmo"] = {"loader": loader}
        self.nlp.initialize()

    def mean_of_layers(self, sentence: List[str]) -> Sequence[float]:
        (doc,) = self._pipe([[sentence]])
        return doc._.elmo[0, :8].tolist()

    def embed(self, documents: Documents, batch_size: int) -> None:
        for _ in self._pipe(documents):
            pass

    def _pipe(self, documents: Documents) -> Any:
        return self.nlp.pipe(self._doc(document) for document in documents)

    def _doc(self, document: List[List[str]]) -> Any:
        from spacy.tokens import Doc

        starts = [number == 0 for sentence in document for number in range(len(sentence))]
        return Doc(self.nlp.vocab, words=[word for sentence in document for word in sentence], sent_starts=starts)


class Plain(measure.System):
    """The loop of `plain_loop.py`."""

    def __init__(self, weights: str) -> None:
        self.bilm = PlainBiLM(Path(weights))

    @torch.no_grad()
    def mean_of_layers(self, sentence: List[str]) -> Sequence[float]:
        return self.bilm([sentence]).mean(dim=0)[0, 1, :8].tolist()

    @torch.no_grad()
    def embed(self, documents: Documents, batch_size: int) -> None:
        sentences = [sentence for document in documents for sentence in document]
        for batch in measure.batches(sentences, batch_size):
            self.bilm(batch)


def matrix_peak(dtype: torch.dtype = torch.float32, device: str = "cpu") -> float:
    """RETURNS (float): GFLOP/s of the fastest product found: torch's own, and one with a packed weight."""
    from spacy_elmo.bilm.products import PackedProduct, has_packing

    best = 0.0
    for size in PEAK_SIZES if device == "cpu" else GPU_PEAK_SIZES:
        left, right, out = (torch.randn(size, size, device=device).to(dtype) for _ in range(3))
        best = max(best, _speed(lambda a=left, b=right, c=out: torch.mm(a, b, out=c), size))
        if has_packing(right):
            packed, rows = PackedProduct(right.unsqueeze(0)), left.unsqueeze(0)
            best = max(best, _speed(lambda p=packed, r=rows: p(r), size))
    return best


def _speed(product: Any, size: int) -> float:
    fastest, until = float("inf"), time.perf_counter() + PEAK_SECONDS
    while time.perf_counter() < until:
        started = time.perf_counter()
        if product().is_cuda:
            torch.cuda.synchronize()
        fastest = min(fastest, time.perf_counter() - started)
    return 2.0 * size**3 / fastest / 1e9


def main() -> None:
    """Measure what the arguments name."""
    arguments = measure.read_arguments()
    torch.set_num_threads(arguments.threads)
    if arguments.system == "peak":
        with torch.no_grad():
            sys.stdout.write(json.dumps({"system": "peak", "gflops": matrix_peak()}) + "\n")
        return
    if arguments.system == "nlp.pipe":
        system: measure.System = Pipe(arguments.weights, arguments.batch_size)
    else:
        system = Facade(arguments.weights) if arguments.system == "spacy_elmo" else Plain(arguments.weights)
    info: Dict[str, Any] = {"torch": torch.__version__, "threads": torch.get_num_threads()}
    measure.report(system, arguments, info)


if __name__ == "__main__":
    main()
