"""Encoders of task networks: time and memory of a training step and of prediction, interleaved.

python benchmarks/task_encoders.py --threads 1
python benchmarks/task_encoders.py --threads 1 --doc-sentences 10
"""

import multiprocessing
import platform
import statistics
import time
from typing import Any, Dict, List, Tuple

import numpy
import torch
import typer
from corpus import default_shared, flatten, read_documents
from measure import peak_memory_mb
from spacy.ml.models.tok2vec import MaxoutWindowEncoder
from thinc.api import LSTM, Adam, Linear, Model, PyTorchLSTM, chain, fix_random_seed, with_array, with_padded

from spacy_elmo.engine.lstm_sequences import run_lstm, run_packed
from spacy_elmo.ml import bilstm
from spacy_elmo.ml.bilstm import BiLSTMEncoder

REFERENCE = "BiLSTMEncoder"
PACKED = "always packed"


def main(
    # fmt: off
    input_width: int = typer.Option(352, "--input-width", "-i", help="Width of x and ELMo: 96 + 256 with en_elmo_sm."),
    width: int = typer.Option(200, "--width", "-w", help="Width of the output, both directions together."),
    depth: int = typer.Option(1, "--depth", "-d", help="Layers of the LSTMs."),
    batch_tokens: int = typer.Option(1000, "--batch-tokens", "-b", help="Tokens per batch; sentences of UD EWT dev."),
    doc_sentences: int = typer.Option(
        1, "--doc-sentences", "-s", help="Sentences per sequence; 10 in the Docs of UD EWT."
    ),  # noqa: E501
    n_batches: int = typer.Option(10, "--batches", "-n", help="Batches per round."),
    repeats: int = typer.Option(5, "--repeats", "-r", help="Interleaved rounds; medians are printed."),
    threads: int = typer.Option(1, "--threads", "-t", help="Threads of torch."),
    # fmt: on
) -> None:
    """Print milliseconds per batch of a training step and of prediction, and peak memory in MB."""
    lengths = _batch_lengths(batch_tokens, n_batches, doc_sentences)
    settings = (input_width, width, depth, lengths, threads)
    found: Dict[str, List[Tuple[float, float, float]]] = {name: [] for name in ENCODERS}
    for _ in range(repeats):
        for name, results in found.items():
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                results.append(pool.apply(_measure, (name, *settings)))
    medians = {name: [statistics.median(column) for column in zip(*results)] for name, results in found.items()}
    print(f"{_processor()}, {threads} thread(s), medians of {repeats} rounds; {input_width} to {width}, depth {depth}")
    print(f"{'encoder':22} {'train ms':>9} {'predict ms':>11} {'MB':>6}  {'to ' + REFERENCE:>24}")
    for name, (train, predict, peak) in medians.items():
        ratios = [value / base for value, base in zip((train, predict, peak), medians[REFERENCE])]
        text = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{name:22} {train:9.1f} {predict:11.1f} {peak:6.0f}  {text:>24}")


def _batch_lengths(batch_tokens: int, n_batches: int, doc_sentences: int) -> List[List[int]]:
    """RETURNS (List[List[int]]): Lengths of the sequences of each batch."""
    sentences = [len(sentence) for sentence in flatten(read_documents(default_shared(), 10_000))]
    batches: List[List[int]] = [[]]
    for start in range(0, len(sentences), doc_sentences):
        if sum(batches[-1]) >= batch_tokens:
            batches.append([])
        batches[-1].append(sum(sentences[start : start + doc_sentences]))
    return batches[:n_batches]


def _measure(
    name: str, input_width: int, width: int, depth: int, lengths: List[List[int]], threads: int
) -> Tuple[float, float, float]:
    """RETURNS (Tuple[float, float, float]): Milliseconds per training step and per prediction; peak memory in MB."""
    torch.set_num_threads(threads)
    fix_random_seed(0)
    rng = numpy.random.default_rng(0)
    batches = [[rng.normal(size=(n, input_width)).astype("float32") for n in batch] for batch in lengths]
    bilstm.run_lstm = run_packed if name == PACKED else run_lstm
    encoder, optimizer = ENCODERS[name](input_width, width, depth), Adam(0.001)
    encoder.initialize(X=batches[0])
    _train(encoder, optimizer, batches[0])
    started = time.perf_counter()
    for batch in batches:
        _train(encoder, optimizer, batch)
    trained = time.perf_counter()
    for batch in batches:
        encoder.predict(batch)
    ended = time.perf_counter()
    return 1e3 * (trained - started) / len(batches), 1e3 * (ended - trained) / len(batches), peak_memory_mb()


def _train(encoder: Model[Any, Any], optimizer: Any, batch: List[Any]) -> None:
    outputs, backprop = encoder.begin_update(batch)
    backprop(outputs)
    encoder.finish_update(optimizer)


def _ours(input_width: int, width: int, depth: int) -> Model[Any, Any]:
    return BiLSTMEncoder(width, depth=depth)


def _torch_lstm(input_width: int, width: int, depth: int) -> Model[Any, Any]:
    return PyTorchLSTM(width, input_width, bi=True, depth=depth)


def _thinc_lstm(input_width: int, width: int, depth: int) -> Model[Any, Any]:
    return with_padded(LSTM(width, bi=True, depth=depth))


def _window(input_width: int, width: int, depth: int) -> Model[Any, Any]:
    encoder = MaxoutWindowEncoder(width=width, window_size=1, maxout_pieces=3, depth=4)
    return chain(with_array(Linear(width)), encoder)


ENCODERS = {
    REFERENCE: _ours,
    PACKED: _ours,
    "Thinc PyTorchLSTM": _torch_lstm,
    "Thinc LSTM": _thinc_lstm,
    "MaxoutWindowEncoder x4": _window,
}


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


if __name__ == "__main__":
    typer.run(main)
