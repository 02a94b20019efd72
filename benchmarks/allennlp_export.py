"""Compare the vectors of AllenNLP with ours, for weights written by `elmo pretrain` and `elmo convert --to bilm-tf`.

python benchmarks/allennlp_export.py --allennlp-python PATH
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional

import numpy as np
import torch
import typer
from corpus import Sentence, default_shared, flatten, read_documents

from spacy_elmo import load_bilm

HERE = Path(__file__).resolve().parent
CONFIG = HERE.parent / "configs" / "pretrain_en_elmo_sm.cfg"
TRAINED = "a new biLM"
SMALL: Dict[str, Any] = {
    "bilm.cell_width": 128,
    "bilm.projection_width": 32,
    "bilm.char_cnn.filters": "[[1,16],[2,16],[3,32],[4,64]]",
    "vocabulary.n_words": 2000,
    "pretraining.batch_size": 16,
    "pretraining.unroll_steps": 20,
    "pretraining.precision": "float32",
    "pretraining.softmax.n_negatives": 256,
    "pretraining.schedule.warmup_steps": 5,
    "pretraining.eval_every": 1000,
    "pretraining.eval_sentences": 100,
}


def main(
    # fmt: off
    bilm: Optional[List[str]] = typer.Argument(None, help=f"Weights in any format; default: {TRAINED} and en_elmo_sm."),
    allennlp_python: Path = typer.Option(
        ..., "--allennlp-python", "-a", help="Python 3.8 with AllenNLP 2.10.1.", exists=True
    ),
    n_sentences: int = typer.Option(100, "--sentences", "-n", help="Sentences of UD EWT dev."),
    updates: int = typer.Option(30, "--updates", "-u", help=f"Updates to pretrain {TRAINED}."),
    shared: Path = typer.Option(default_shared(), "--shared", "-S", help="Folder with `data`.", exists=True),
    tolerance: float = typer.Option(2e-5, "--tolerance", "-T", help="Maximum difference."),
    json_path: Optional[Path] = typer.Option(None, "--json", "-j", help="File for the raw numbers."),
    # fmt: on
) -> None:
    """Print the largest absolute difference of each layer, over sentences read from a zero state."""
    torch.set_num_threads(1)
    sentences = random.Random(0).sample([s for s in flatten(read_documents(shared)) if s], n_sentences)
    everything: Dict[str, List[float]] = {}
    print(f"{n_sentences} sentences of UD EWT dev, {sum(map(len, sentences))} tokens; largest difference by layer")
    for name in bilm or [TRAINED, "en_elmo_sm"]:
        with tempfile.TemporaryDirectory() as folder:
            source = pretrain(Path(folder), shared, updates) if name == TRAINED else name
            elmo("convert", source, Path(folder) / "exported", "--to", "bilm-tf")
            theirs = read_with_allennlp(allennlp_python, Path(folder), sentences)
            everything[name] = compare(source, sentences, theirs)
        print(f"{name:24}" + "".join(f"{difference:9.1e}" for difference in everything[name]), flush=True)
    largest = max(max(differences) for differences in everything.values())
    print(f"largest difference {largest:.1e}, allowed {tolerance:.0e}")
    if json_path is not None:
        json_path.write_text(json.dumps(everything, indent=1), encoding="utf8")
    raise typer.Exit(int(largest > tolerance))


def pretrain(folder: Path, shared: Path, updates: int) -> str:
    """RETURNS (str): A small model, trained for some updates."""
    texts = shared / "data" / "lm-english"
    paths = {"paths.train": texts / "train-00.txt.gz", "paths.valid": texts / "valid.txt.gz"}
    n_tokens = updates * SMALL["pretraining.batch_size"] * SMALL["pretraining.unroll_steps"]
    settings = {**SMALL, **paths, "pretraining.max_tokens": n_tokens}
    overrides = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
    elmo("pretrain", CONFIG, folder / "run", *overrides)
    return str(folder / "run" / "model-last")


def elmo(*arguments: Any) -> None:
    """Run a command of the package as a user would."""
    command = [sys.executable, "-m", "spacy_elmo", *(str(argument) for argument in arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}", file=sys.stderr)
        raise typer.Exit(1)


def read_with_allennlp(python: Path, folder: Path, sentences: List[Sentence]) -> List[np.ndarray]:
    """RETURNS (List[np.ndarray]): Of each sentence (L+1, n, D)."""
    texts, layers = folder / "sentences.json", folder / "layers.npz"
    texts.write_text(json.dumps(sentences), encoding="utf8")
    command = [str(python), "-W", "ignore", str(HERE / "allennlp_layers.py"), str(folder / "exported")]
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # of another Python
    subprocess.run([*command, str(texts), str(layers)], check=True, env=environ, stdout=subprocess.DEVNULL)
    with np.load(layers) as found:
        return [found[f"arr_{i}"] for i in range(len(sentences))]


def compare(source: str, sentences: List[Sentence], theirs: List[np.ndarray]) -> List[float]:
    """RETURNS (List[float]): The largest difference of each layer from ours, before the export."""
    ours = load_bilm(source).embed(sentences, state="reset")
    by_sentence = [np.abs(a - b).max(axis=(1, 2)) for a, b in zip(ours, theirs)]
    return [float(difference) for difference in np.max(by_sentence, axis=0)]


if __name__ == "__main__":
    typer.run(main)
