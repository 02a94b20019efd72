"""AllenNLP 2.10.1, plain or with every word of the data in its vocabulary cache. Runs under Python 3.8.

Started by `inference.py` with the interpreter that the user names. AllenNLP carries the state from batch to batch,
which changes its numbers (not those of the first batch, which are compared) but hardly its time.
"""

import os
import time
from typing import List, Optional, Sequence

import measure
import torch
from allennlp import __version__
from allennlp.modules.elmo import Elmo, batch_to_ids


class AllenNLP(measure.System):
    """One mixed representation, without layer norm or dropout."""

    def __init__(self, weights: str, words: Optional[List[str]]) -> None:
        files = [os.path.join(weights, name) for name in ("options.json", "weights.hdf5")]
        self.numbers = None if words is None else {word: i for i, word in enumerate(words, start=1)}
        cached = None if words is None else ["@@PADDING@@"] + words  # number 0 is the padding
        started = time.perf_counter()
        self.elmo = Elmo(files[0], files[1], 1, do_layer_norm=False, dropout=0.0, vocab_to_cache=cached)
        self.elmo.eval()
        self.load_s = time.perf_counter() - started

    def mean_of_layers(self, sentence: List[str]) -> Sequence[float]:
        with torch.no_grad():
            return self._run([sentence])[0, 0, :8].tolist()

    def embed(self, documents: List[List[List[str]]], batch_size: int) -> None:
        sentences = [sentence for document in documents for sentence in document]
        with torch.no_grad():
            for batch in measure.batches(sentences, batch_size):
                self._run(batch)

    def _run(self, batch: List[List[str]]) -> torch.Tensor:
        if self.numbers is None:
            return self.elmo(batch_to_ids(batch))["elmo_representations"][0]
        n_steps = max(len(sentence) for sentence in batch)
        words = torch.zeros(len(batch), n_steps, dtype=torch.long)
        for row, sentence in zip(words, batch):
            row[: len(sentence)] = torch.tensor([self.numbers[word] for word in sentence])
        unused = torch.zeros(len(batch), n_steps, 50, dtype=torch.long)  # only read if a word were missing
        return self.elmo(unused, words)["elmo_representations"][0]


def main() -> None:
    """Measure the system of the arguments."""
    arguments = measure.read_arguments()
    torch.set_num_threads(arguments.threads)
    words: Optional[List[str]] = None
    if arguments.system == "allennlp-cached":
        documents = measure.read_texts(arguments.documents)
        words = sorted({word for document in documents for sentence in document for word in sentence})
    system = AllenNLP(arguments.weights, words)
    versions = {"torch": torch.__version__, "allennlp": __version__}
    measure.report(system, arguments, threads=torch.get_num_threads(), load_s=system.load_s, **versions)


if __name__ == "__main__":
    main()
