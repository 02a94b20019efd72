"""Rounding errors: vectors of random Unicode texts in float32, as single sequences and in batches, against float64.

python benchmarks/exactness.py en_elmo_sm
python benchmarks/exactness.py ../shared/data/elmo-groundtruth/tiny-odd-4layer
python benchmarks/exactness.py ../shared/data/elmo-groundtruth/tiny-odd-4layer --carry
python benchmarks/exactness.py --random-models 24        # one to four layers, the sentences of elmo-groundtruth

The last column is the amplification: the change of float64 vectors if each weight is changed by half a unit in the last
place of float32. No order of sums can make float32 more exact than that.
"""

import copy
import json
import random
import tempfile
from pathlib import Path
from typing import List

import numpy as np
import torch
import typer
from corpus import default_shared, make_weights
from numpy.typing import NDArray

from spacy_elmo import BiLM, load_bilm
from spacy_elmo.inference.encoder import NumberedSequences, number_words

RANGES = ((0x20, 0x7F), (0xA0, 0x530), (0x590, 0xE00), (0x3040, 0x30FF), (0x4E00, 0x9FFF), (0x1F300, 0x1F700))
HALF_UNIT = 2.0**-24
SEQUENCE_WORDS = 3
Text = List[str]
Layers = NDArray[np.float64]


def main(
    # fmt: off
    bilm_path: str = typer.Argument("en_elmo_sm", help="Weights in any known format."),
    n_texts: int = typer.Option(200, "--texts", "-n", help="Random texts of 1 to 30 words."),
    batch_tokens: int = typer.Option(64, "--batch-tokens", "-b", help="Tokens of the smaller one of two batches."),
    carry: bool = typer.Option(False, "--carry", "-c", help="Cut texts after every third word, and carry the state."),
    threads: int = typer.Option(1, "--threads", "-t", help="Threads of torch."),
    n_models: int = typer.Option(0, "--random-models", "-r", help="Random models of each depth, instead of weights."),
    # fmt: on
) -> None:
    """Print the largest absolute differences for each layer, or for each number of layers."""
    torch.set_num_threads(threads)
    if n_models:
        print_depths(n_models)
        return
    bilm = load_bilm(bilm_path)
    texts = make_texts(n_texts)
    reference, compute = (carried_in_float64, embed_carried) if carry else (in_float64, embed)
    exact, moved = reference(bilm, texts), reference(perturb(bilm), texts)
    small, large = (compute(bilm, texts, batch_tokens) for batch_tokens in (batch_tokens, 2**20))
    single = np.concatenate([compute(bilm, [text]) for text in texts], axis=1)
    print(f"{bilm_path}: {n_texts} texts, {exact.shape[1]} words, {threads} thread(s)")
    pairs = ["single to float64", "batch to float64", "batch to single", "batch to batch", "amplified"]
    print(f"| layer | largest value | {' | '.join(pairs)} |")
    print("| ---: " * 7 + "|")
    for layer, own in enumerate(exact):
        sides = ((single, exact), (large, exact), (large, single), (large, small), (moved, exact))
        found = " | ".join(f"{np.abs(one[layer] - other[layer]).max():.1e}" for one, other in sides)
        print(f"| {layer} | {np.abs(own).max():.1f} | {found} |")


def print_depths(n_models: int) -> None:
    """Print the largest differences of random models from float64, by number of LSTM layers."""
    path = default_shared() / "data" / "elmo-groundtruth" / "sentences.json"
    texts = [item["tokens"] for item in json.loads(path.read_text(encoding="utf8"))]
    columns = ["LSTM layers", "median to float64", "largest to float64", "largest batch to single"]
    print(f"| {' | '.join(columns)} |\n{'| ---: ' * 4}|")
    for n_layers in range(1, 5):
        to_exact, to_single = [], []
        for number in range(n_models):
            with tempfile.TemporaryDirectory() as folder:
                activation = f'char_cnn.activation="{("relu", "tanh")[number % 2]}"'
                sizes = ("tiny", f"lstm.n_layers={n_layers}", activation)
                bilm = load_bilm(make_weights(Path(folder), *sizes, seed=201 + number // 2))
            exact, batch = in_float64(bilm, texts), embed(bilm, texts)
            single = np.concatenate([embed(bilm, [text]) for text in texts], axis=1)
            to_exact.append(max(np.abs(batch - exact).max(), np.abs(single - exact).max()))
            to_single.append(np.abs(batch - single).max())
        print(f"| {n_layers} | {np.median(to_exact):.1e} | {max(to_exact):.1e} | {max(to_single):.1e} |", flush=True)


def make_texts(n_texts: int) -> List[Text]:
    """RETURNS (List[Text]): Words of 1 to 12 characters, each word of one range of Unicode, seeded."""
    draw = random.Random(0)

    def word() -> str:
        first, stop = draw.choice(RANGES)
        return "".join(chr(draw.randrange(first, stop)) for _ in range(draw.randint(1, 12)))

    return [[word() for _ in range(draw.randint(1, 30))] for _ in range(n_texts)]


def embed(bilm: BiLM, texts: List[Text], batch_tokens: int = 8192) -> Layers:
    """RETURNS (Layers): Shape (L+1, words, D)."""
    return np.concatenate(bilm.embed(texts, batch_tokens=batch_tokens), axis=1)


def in_float64(bilm: BiLM, texts: List[Text]) -> Layers:
    """RETURNS (Layers): Shape (L+1, words, D), by the equations of the paper, text by text."""
    exact = BiLM(copy.deepcopy(bilm.network).double())
    with torch.no_grad():
        return np.concatenate([exact.encode([text], with_grad=True).numpy() for text in texts], axis=1)


def embed_carried(bilm: BiLM, texts: List[Text], batch_tokens: int = 8192) -> Layers:
    """RETURNS (Layers): Shape (L+1, words, D), each text in sequences of `SEQUENCE_WORDS` words that share a state."""
    sequences = [sequence for text in texts for sequence in cut(text)]
    n_sequences = [len(cut(text)) for text in texts]
    found = bilm.encode(sequences, state="carry", batch_tokens=batch_tokens, group_lengths=n_sequences)
    return found.numpy()


def carried_in_float64(bilm: BiLM, texts: List[Text]) -> Layers:
    """RETURNS (Layers): Shape (L+1, words, D): the backward direction reads each sequence from its end, too, and
    carries its state to the next sequence of the text.
    """
    network = copy.deepcopy(bilm.network).double()
    words = BiLM(network)._encoder.words
    found = []
    with torch.no_grad():
        for text in texts:
            state = network.zero_state(1)
            for sequence in cut(text):
                distinct, numbers = number_words([sequence])
                numbered = NumberedSequences(words.compute(distinct), numbers)
                tokens = torch.as_tensor(numbered.tokens(with_boundaries=True))
                index = torch.stack([tokens, tokens.flip(0)])[..., None]  # (d, S, 1)
                layers, state = network(numbered.vectors, index, state)
                own = numbered.vectors[tokens].repeat(1, 2)  # (S, D), layer 0
                above = [torch.cat([rows[0, :, 0], rows[1, :, 0].flip(0)], dim=1) for rows in layers]
                found.append(torch.stack([own, *above])[:, 1:-1].numpy())
    return np.concatenate(found, axis=1)


def cut(text: Text) -> List[Text]:
    """RETURNS (List[Text]): Sequences of at most `SEQUENCE_WORDS` words."""
    return [text[i : i + SEQUENCE_WORDS] for i in range(0, len(text), SEQUENCE_WORDS)]


def perturb(bilm: BiLM) -> BiLM:
    """RETURNS (BiLM): float64, each weight moved by at most half a unit of float32."""
    network = copy.deepcopy(bilm.network).double()
    rng = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(1.0 + HALF_UNIT * (2.0 * torch.rand(weight.shape, generator=rng, dtype=weight.dtype) - 1.0))
    return BiLM(network)


if __name__ == "__main__":
    typer.run(main)
