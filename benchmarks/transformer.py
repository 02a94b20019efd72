"""The transformer beside the LSTM, with equally many parameters in the encoder: embedding speed, and perplexity after
equal time of training.

python benchmarks/transformer.py
python benchmarks/transformer.py --train-s 600 --size small

Rounds of both take turns, and so do their updates. Times are those of the process on the CPU, in one thread, so that
other programs on the machine change them little.
"""

import statistics
import time
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List

import torch
import typer
from corpus import default_shared, flatten, read_documents

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.lm_head import SoftmaxHead
from spacy_elmo.bilm.model import BiLMNetwork
from spacy_elmo.corpora.counting import count_vocabulary
from spacy_elmo.corpora.find import find_shards
from spacy_elmo.corpora.shards import BlockStream, Counts, read_shards
from spacy_elmo.encoding.facade import BiLM
from spacy_elmo.pretraining.config import PretrainConfig
from spacy_elmo.pretraining.distributed import Ranks
from spacy_elmo.pretraining.trainer import Trainer

NAMES = ("lstm", "transformer")
N_TEST = 600  # sentences
N_EVALUATIONS = 3
# Per size: characters, LSTM, transformer of as many parameters.
SIZES: Dict[str, Dict[str, Any]] = {
    "small": {
        "char_cnn": {"filters": [[1, 16], [2, 32], [3, 64], [4, 96], [5, 96]], "n_highway": 1},
        "projection_width": 64,
        "lstm": {"n_layers": 2, "cell_width": 256},
        "transformer": {"n_layers": 6, "transformer": {"feedforward_width": 256, "n_heads": 4}},
    },
    "en_elmo_sm": {
        "char_cnn": {"filters": [[1, 32], [2, 64], [3, 160], [4, 256], [5, 256], [6, 256]], "n_highway": 1},
        "projection_width": 128,
        "lstm": {"n_layers": 2, "cell_width": 640},
        "transformer": {"n_layers": 6, "transformer": {"feedforward_width": 704, "n_heads": 4}},
    },
}
TRAINING = {
    "max_tokens": 10**9,
    "max_sentence_tokens": 127,
    "softmax": {"kind": "sampled", "n_negatives": 1024},
    "schedule": {"name": "constant", "warmup_steps": 50},
}
LAYOUTS: Dict[str, Dict[str, Any]] = {
    "lstm": {"batch_size": 64, "unroll_steps": 32},
    "transformer": {"batch_size": 16, "unroll_steps": 128},
}


@dataclass
class Runner:
    """A training and its time.

    trainer (Trainer): What is trained.
    seconds (float): Time on the CPU.
    """

    trainer: Trainer
    seconds: float = 0.0


def main(
    # fmt: off
    size: str = typer.Option("small", "--size", "-s", help="Sizes: small or en_elmo_sm."),
    n_sentences: int = typer.Option(1000, "--sentences", "-n", help="Sentences of UD EWT dev to embed."),
    repeats: int = typer.Option(5, "--repeats", "-r", help="Rounds; medians are printed."),
    train_s: float = typer.Option(0.0, "--train-s", help="Seconds of training of each, on the CPU; 0 for none."),
    precision: str = typer.Option("float32", "--precision", "-p", help="Precision of training."),
    lstm_rate: float = typer.Option(0.004, "--lstm-rate", help="Learning rate of the LSTM."),
    transformer_rate: float = typer.Option(0.002, "--transformer-rate", help="Learning rate of the transformer."),
    # fmt: on
) -> None:
    """Compare the two encoders."""
    torch.set_num_threads(1)
    networks = {name: make_network(size, name) for name in NAMES}
    for name, network in networks.items():
        counts = [sum(weight.numel() for weight in part.parameters()) for part in (network.encoder, network)]
        print(f"{name}: {counts[0]:,} parameters in the encoder, {counts[1]:,} in all")
    compare_embedding({name: BiLM(network) for name, network in networks.items()}, n_sentences, repeats)
    if train_s:
        compare_training(networks, train_s, precision, {"lstm": lstm_rate, "transformer": transformer_rate})


def make_network(size: str, name: str) -> BiLMNetwork:
    """RETURNS (BiLMNetwork): With random weights."""
    sizes = SIZES[size]
    torch.manual_seed(0)
    shared = {"char_cnn": sizes["char_cnn"], "projection_width": sizes["projection_width"], "encoder": name}
    return BiLMNetwork(BiLMConfig.from_dict({**shared, **sizes[name]}))


def compare_embedding(bilms: Dict[str, BiLM], n_sentences: int, repeats: int) -> None:
    """Print tokens/s with a warm word cache, and the ratio."""
    sentences = flatten(read_documents(default_shared(), None))[:n_sentences]
    long = [[word for words in sentences for word in words][start : start + 512] for start in range(0, 5120, 512)]
    for title, texts in (("sentences", sentences), ("windows of 512 tokens", long)):
        rates: Dict[str, List[float]] = {name: [] for name in bilms}
        n_tokens = sum(map(len, texts))
        for number in range(repeats + 1):
            for name, bilm in bilms.items():
                started = time.process_time()
                bilm.embed(texts)
                if number:  # the first round fills the cache
                    rates[name].append(n_tokens / (time.process_time() - started))
        medians = {name: statistics.median(found) for name, found in rates.items()}
        spread = {name: f"{min(found):,.0f} to {max(found):,.0f}" for name, found in rates.items()}
        described = ", ".join(f"{name} {medians[name]:,.0f} tokens/s ({spread[name]})" for name in bilms)
        print(f"embed, {title}: {described}; ratio {medians['transformer'] / medians['lstm']:.2f}")


def compare_training(networks: Dict[str, BiLMNetwork], train_s: float, precision: str, rates: Dict[str, float]) -> None:
    """Print tokens/s and the perplexities of the test text after equal times."""
    folder = default_shared() / "data" / "lm-english"
    shards = find_shards([folder / "train-00.txt.gz"])
    vocabulary = count_vocabulary(shards[0].read(Counts()), n_words=10_000).vocabulary()
    test = list(read_shards(find_shards([folder / "test.txt.gz"]), Counts()))[::7][:N_TEST]
    runners = {}
    for name, network in networks.items():
        optimizer = {"learn_rate": rates[name]}
        settings = {**TRAINING, **LAYOUTS[name], "precision": precision, "optimizer": optimizer}
        config = PretrainConfig.from_dict(settings)
        stream = BlockStream(shards, block_sentences=8, seed=0, max_sentence_tokens=config.max_sentence_tokens)
        torch.manual_seed(0)
        head = SoftmaxHead(len(vocabulary), network.config.projection_width)
        runners[name] = Runner(Trainer(network, head, vocabulary, stream, config, Ranks()))
    for until in evaluation_times(train_s):
        while (least := min(runners.values(), key=lambda runner: runner.seconds)).seconds < until:
            started = time.process_time()
            least.trainer.update()
            least.seconds += time.process_time() - started
        for name, runner in runners.items():
            trainer = runner.trainer
            bilm = BiLM(trainer.network, vocabulary=vocabulary, head=trainer.head)
            score = bilm.perplexity(test, state="reset")
            rate = f"{trainer.n_tokens:,} predictions per direction, {trainer.n_tokens / runner.seconds:,.0f}/s"
            forward = f"forward {score.forward:.1f} (standard error {score.forward_error:.1f})"
            backward = f"backward {score.backward:.1f} ({score.backward_error:.1f})"
            print(f"{name} after {runner.seconds:.0f} s: {rate}; perplexity {forward}, {backward}", flush=True)


def evaluation_times(train_s: float) -> Iterator[float]:
    """YIELDS (float): Times of the evaluations."""
    for k in range(1, N_EVALUATIONS + 1):
        yield train_s * k / N_EVALUATIONS


if __name__ == "__main__":
    typer.run(main)
