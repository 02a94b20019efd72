"""A transformer of RoBERTa's size with random weights, to measure its speed alone: trained weights are not needed."""

import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, List

import spacy
import torch
import typer
from messages import Messages
from raw_text import read_sentences
from wasabi import msg

PACKAGE = "spacy-curated-transformers"
MODULES = ("spacy_curated_transformers", "tokenizers")
N_PIECES = 50265
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
FILES = {"vocab_path": "vocab.json", "merges_path": "merges.txt"}
SPANS = {"stride": 96, "window": 128, "batch_size": 384}  # wordpieces, and spans, as in spaCy's quickstart
SEED = 0


def transformer_cli(
    # fmt: off
    texts: List[str] = typer.Argument(..., help="Tokenized text for the wordpieces, one sentence per line"),
    output: Path = typer.Option(..., "--output", "-o", help="Folder for the pipeline", file_okay=False),
    share: int = typer.Option(100, "--share", "-p", min=1, max=100, help="Percentage of the sentences to read"),
    n_layers: int = typer.Option(12, "--layers", "-l", min=1, help="Layers; other sizes as in RoBERTa-base"),
    # fmt: on
) -> None:
    """Write a pipeline with nothing but the transformer, for `choice.py --speed-only NAME=FOLDER`."""
    try:
        make_transformer(texts, output, share=share, n_layers=n_layers)
    except (ValueError, OSError, ImportError) as e:
        msg.fail("Cannot make a transformer", str(e), exits=1)
    msg.good(f"{output}: {n_layers} layers with random weights")


def make_transformer(texts: List[str], output: Path, *, share: int = 100, n_layers: int = 12) -> None:
    """Train a byte-BPE vocabulary of RoBERTa's size, and save a pipeline with random weights.

    RAISES (ImportError): P043 without spacy-curated-transformers and tokenizers. RAISES (FileExistsError): P033 if the
    folder exists. RAISES (ValueError): P030 without text.
    """
    missing = [name for name in MODULES if find_spec(name) is None]
    if missing:
        raise ImportError(Messages.P043.format(missing=", ".join(missing)))
    if output.exists():
        raise FileExistsError(Messages.P033.format(path=output))
    torch.manual_seed(SEED)
    with tempfile.TemporaryDirectory() as folder:
        pieces: Any = import_module("tokenizers").ByteLevelBPETokenizer()
        lines = (" ".join(tokens) for tokens in read_sentences(texts, share))
        pieces.train_from_iterator(lines, vocab_size=N_PIECES, special_tokens=SPECIAL, show_progress=False)
        pieces.save_model(folder)
        nlp = spacy.blank("en")
        encoder = {"@architectures": f"{PACKAGE}.ByteBpeEncoder.v1"}
        spans = {"@architectures": f"{PACKAGE}.WithStridedSpans.v1", **SPANS}
        sizes = {"vocab_size": N_PIECES, "num_hidden_layers": n_layers, "piece_encoder": encoder, "with_spans": spans}
        model = {"@architectures": f"{PACKAGE}.RobertaTransformer.v1", **sizes}
        nlp.add_pipe("curated_transformer", config={"model": model, "frozen": True})
        paths = {name: str(Path(folder) / file) for name, file in FILES.items()}
        loader = {"@model_loaders": f"{PACKAGE}.ByteBpeLoader.v1", **paths}
        nlp.config["initialize"]["components"]["curated_transformer"] = {"piecer_loader": loader}
        nlp.initialize()
        nlp.config["initialize"]["components"] = {}  # the paths end with this block
        nlp.to_disk(output)


if __name__ == "__main__":
    typer.run(transformer_cli)
