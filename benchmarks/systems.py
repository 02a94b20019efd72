"""This package, a plain loop and spaCy's own `tok2vec`, each measured in a separate process by `inference.py`."""

from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence

import measure
import spacy
import torch
from corpus import make_doc, make_pipeline
from measure import Documents
from plain_loop import PlainBiLM

from spacy_elmo import load_bilm


class Facade(measure.System):
    """`BiLM.embed`, all layers; `batch_size` counts tokens."""

    has_cache = True

    def __init__(self, weights: str) -> None:
        self.bilm = load_bilm(weights)

    def mean_of_layers(self, sentence: List[str]) -> Sequence[float]:
        return self.bilm.embed([sentence])[0].mean(axis=0)[0, :8].tolist()

    def embed(self, documents: Documents, batch_size: int) -> None:
        self.bilm.embed(measure.flatten(documents), batch_tokens=batch_size)


class Pipe(measure.System):
    """The component `elmo` through `nlp.pipe`, or `nlp(doc)` for one Doc; mixed vectors stored, making Docs included.

    contexts (str): "sentences", or "doc" for Docs without sentence boundaries, split into windows.
    """

    has_cache = True

    def __init__(self, weights: str, batch_tokens: int, contexts: str = "sentences") -> None:
        self.has_sentences = contexts == "sentences"
        settings = {"batch_tokens": batch_tokens, "contexts": contexts}
        self.nlp = make_pipeline(weights, model=settings, store="mixed")

    def mean_of_layers(self, sentence: List[str]) -> Sequence[float]:
        return self.nlp(self.doc([sentence]))._.elmo[0, :8].tolist()

    def embed(self, documents: Documents, batch_size: int) -> None:
        if len(documents) == 1:
            self.nlp(self.doc(documents[0]))
            return
        for _ in self.nlp.pipe(self.doc(document) for document in documents):
            pass

    def doc(self, document: List[List[str]]) -> Any:
        """RETURNS (Doc): A Doc to read."""
        return make_doc(self.nlp.vocab, document, has_sentences=self.has_sentences)


class Plain(measure.System):
    """The loop of `plain_loop.py`."""

    def __init__(self, weights: str) -> None:
        self.bilm = PlainBiLM(Path(weights))

    @torch.no_grad()
    def mean_of_layers(self, sentence: List[str]) -> Sequence[float]:
        return self.bilm([sentence]).mean(dim=0)[0, 1, :8].tolist()

    @torch.no_grad()
    def embed(self, documents: Documents, batch_size: int) -> None:
        for batch in measure.batches(measure.flatten(documents), batch_size):
            self.bilm(batch)


class Tok2Vec(measure.System):
    """spaCy's default `tok2vec` (`HashEmbedCNN`, width 96, depth 4) with random weights; without ELMo."""

    def __init__(self) -> None:
        self.nlp = spacy.blank("en")
        self.nlp.add_pipe("tok2vec")
        self.nlp.initialize()

    def embed(self, documents: Documents, batch_size: int) -> None:
        if len(documents) == 1:
            self.nlp(make_doc(self.nlp.vocab, documents[0]))
            return
        for _ in self.nlp.pipe((make_doc(self.nlp.vocab, some) for some in documents), batch_size=batch_size):
            pass


def main() -> None:
    """Measure the system of the arguments."""
    arguments = measure.read_arguments()
    torch.set_num_threads(arguments.threads)
    makers: Dict[str, Callable[[], measure.System]] = {
        "BiLM.embed": lambda: Facade(arguments.weights),
        "nlp.pipe": lambda: Pipe(arguments.weights, arguments.batch_size),
        "nlp(doc), windows": lambda: Pipe(arguments.weights, arguments.batch_size, contexts="doc"),
        "plain loop": lambda: Plain(arguments.weights),
        "tok2vec": Tok2Vec,
    }
    system = makers[arguments.system]()
    measure.report(system, arguments, torch=torch.__version__, threads=torch.get_num_threads())


if __name__ == "__main__":
    main()
