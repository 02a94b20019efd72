"""spacy-curated-transformers with RoBERTa layers and random weights. Runs in its own environment.

Started by `inference.py` with the interpreter that the user names, once with `pieces TEXT FOLDER` to train a byte-BPE
vocabulary of RoBERTa's size on English text, so that words have as many wordpieces; nothing is downloaded. Vectors of
wordpieces are not pooled to tokens, which is the task of listeners.
"""

import gzip
import os
import sys
from importlib.metadata import version
from typing import Any, Dict, List

import measure
import spacy
import torch
from corpus import make_doc
from measure import Documents

PACKAGE = "spacy-curated-transformers"
N_LAYERS = {"roberta-base": 12, "roberta-6-layers": 6}
N_PIECES = 50265
PIECE_FILES = {"vocab": "json", "merges": "txt"}
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
SEED = 7
WINDOW, STRIDE = 128, 96  # wordpieces, as in spaCy's quickstart


class Curated(measure.System):
    """A pipeline with only this component, of `n_layers` and otherwise of the sizes of RoBERTa-base. `batch_size`
    counts sentences, each a Doc; windows for a long Doc.
    """

    def __init__(self, n_layers: int, pieces: str, batch_size: int) -> None:
        torch.manual_seed(SEED)
        spans = {"@architectures": f"{PACKAGE}.WithStridedSpans.v1", "stride": STRIDE, "window": WINDOW}
        model = {
            "@architectures": f"{PACKAGE}.RobertaTransformer.v1",
            "vocab_size": N_PIECES,
            "num_hidden_layers": n_layers,
            "piece_encoder": {"@architectures": f"{PACKAGE}.ByteBpeEncoder.v1"},
            "with_spans": {**spans, "batch_size": batch_size},
        }
        paths = {f"{name}_path": os.path.join(pieces, f"{name}.{end}") for name, end in PIECE_FILES.items()}
        loader = {"@model_loaders": f"{PACKAGE}.ByteBpeLoader.v1", **paths}
        self.nlp = spacy.blank("en")
        self.transformer = self.nlp.add_pipe("curated_transformer", config={"model": model, "frozen": True})
        self.nlp.config["initialize"]["components"]["curated_transformer"] = {"piecer_loader": loader}
        self.nlp.initialize()

    def embed(self, documents: Documents, batch_size: int) -> None:
        if len(documents) == 1:
            self.nlp(self._doc(documents[0]))
            return
        batches = measure.batches(measure.flatten(documents), batch_size)
        docs = (self._doc([sentence]) for batch in batches for sentence in batch)
        for _ in self.nlp.pipe(docs, batch_size=batch_size):
            pass

    def facts(self, documents: Documents) -> Dict[str, Any]:
        sentences = measure.flatten(documents)[:1000]
        encoder = self.transformer.model.get_ref("piece_encoder")
        found = encoder.predict([self._doc([sentence]) for sentence in sentences])
        n_pieces = sum(len(pieces.data) - 2 for pieces in found)  # without BOS and EOS
        return {"pieces_per_token": n_pieces / float(sum(len(sentence) for sentence in sentences))}

    def _doc(self, document: List[List[str]]) -> Any:
        return make_doc(self.nlp.vocab, document)


def train_pieces(text: str, folder: str) -> None:
    """Write `vocab.json` and `merges.txt`. text (str): Gzipped, one sentence per line, tokens separated by spaces."""
    from tokenizers import ByteLevelBPETokenizer

    tokenizer = ByteLevelBPETokenizer()
    with gzip.open(text, "rt", encoding="utf8") as lines:
        tokenizer.train_from_iterator(lines, vocab_size=N_PIECES, special_tokens=SPECIAL, show_progress=False)
    tokenizer.save_model(folder)


def main() -> None:
    """Train the vocabulary, or measure the system of the arguments."""
    if sys.argv[1] == "pieces":
        train_pieces(*sys.argv[2:])
        return
    arguments = measure.read_arguments()
    torch.set_num_threads(arguments.threads)
    system = Curated(N_LAYERS[arguments.system], arguments.weights, arguments.batch_size)
    versions = {"torch": torch.__version__, PACKAGE: version(PACKAGE)}
    measure.report(system, arguments, threads=torch.get_num_threads(), **versions)


if __name__ == "__main__":
    main()
