"""Speed of pretraining compared with plain autograd and a loop over time, on the same text, weights and threads.

python benchmarks/pretraining.py --threads 2 --json out.json
"""

import gzip
import json
import statistics
import sys
import time
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
import typer
from corpus import JSON, SEED, SHARED, THREADS
from machine import count_training_flops, matrix_peak
from operations import Counter
from plain_training import PlainLanguageModel, PlainSampler

from spacy_elmo import BiLMConfig
from spacy_elmo.bilm.network import BiLMNetwork, SoftmaxHead
from spacy_elmo.cli.pretrain import _keep_large_blocks as keep_large_blocks
from spacy_elmo.corpora.shards import find_shards
from spacy_elmo.pretraining.data import LaneReader
from spacy_elmo.pretraining.distributed import Ranks
from spacy_elmo.pretraining.objective import make_objective
from spacy_elmo.pretraining.run_config import OptimizerConfig, PretrainConfig, ScheduleConfig, SoftmaxConfig
from spacy_elmo.pretraining.stored_text import StoredText, store_text
from spacy_elmo.pretraining.trainer import Trainer
from spacy_elmo.pretraining.vocabulary import count_vocabulary
from spacy_elmo.text.words import Vocabulary

TEXT = Path("data") / "lm-english" / "train-00.txt.gz"
BASELINE = "plain autograd"
TOLERANCE = 1e-3
N_CHECKED = 3  # updates to compare
N_COUNTED = 20  # chunks whose distinct words are counted
ADAGRAD = OptimizerConfig(name="adagrad", learn_rate=0.2, grad_clip=10.0, sparse=True)  # bilm-tf's
OPTIMIZERS = {"adagrad": ADAGRAD, "adam": OptimizerConfig(name="adam", learn_rate=0.002, grad_clip=10.0)}
Result = Dict[str, Any]


@dataclass(frozen=True)
class Shape:
    """Sizes of a biLM and of its batches.

    cell_width (int), projection_width (int): H and P, for two layers in both directions.
    filters (Sequence[Sequence[int]]): Pairs of width and number.
    n_highway (int): Highway layers over the filters.
    n_lanes (int), n_steps (int): B and S of an update.
    n_words (int), n_negatives (int): Sizes of the sampled softmax.
    """

    cell_width: int
    projection_width: int
    filters: Sequence[Sequence[int]]
    n_highway: int
    n_lanes: int
    n_steps: int
    n_words: int
    n_negatives: int

    def __str__(self) -> str:
        return (
            f"cell {self.cell_width}, projection {self.projection_width}, {sum(n for _, n in self.filters)} filters, "
            f"{self.n_lanes} x {self.n_steps} tokens, {self.n_words:,} words, {self.n_negatives:,} negatives"
        )


FILTERS = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 128], [6, 128]]
PACKAGED = [[1, 32], [2, 64], [3, 160], [4, 256], [5, 256], [6, 256]]
ORIGINAL = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
SMALL = [[1, 16], [2, 32], [3, 64], [4, 96], [5, 96]]
SHAPES = {
    "small_text": Shape(256, 64, SMALL, 1, 16, 32, 10_000, 1024),
    "10k": Shape(512, 128, FILTERS, 1, 32, 20, 10_000, 1024),
    "30k": Shape(512, 128, FILTERS, 1, 32, 20, 30_000, 8192),
    "en_elmo_sm": Shape(640, 128, PACKAGED, 1, 64, 32, 30_000, 2048),
    "original": Shape(4096, 512, ORIGINAL, 2, 128, 20, 30_000, 8192),
}


class Ours:
    """`Trainer.update`, as `elmo pretrain` calls it."""

    def __init__(self, shape: Shape, text: StoredText, vocabulary: Vocabulary, config: PretrainConfig) -> None:
        network, head = make_bilm(shape)
        self.name = f"spacy_elmo {config.precision}"
        self.trainer = Trainer(network, head, vocabulary, text, config, Ranks())

    def update(self) -> Tuple[float, float, float]:
        """RETURNS (Tuple[float, float, float]): Loss in nats, norm of the gradient, seconds of data preparation."""
        update = self.trainer.update()
        return float(update.loss), update.grad_norm, update.data_s


class Plain:
    """The same update with `plain_training.py`, on the same lanes of text."""

    name = BASELINE

    def __init__(self, shape: Shape, text: StoredText, vocabulary: Vocabulary, config: PretrainConfig) -> None:
        self.config = config
        network, head = make_bilm(shape)
        self.reader = make_reader(network.config, text, vocabulary, config)
        n_tries = make_objective(head, config.softmax).n_tries  # type: ignore[attr-defined]
        self.model = PlainLanguageModel(network, head)
        self.sampler = PlainSampler(head.n_words, n_tries, config.seed)
        self.state = self.model.zero_state(config.batch_size)
        self.optimizer = _plain_optimizer(self.model.weights, config.optimizer)

    def update(self) -> Tuple[float, float, float]:
        """RETURNS (Tuple[float, float, float]): Loss in nats, norm of the gradient, seconds of data preparation."""
        started = time.perf_counter()
        chunk, words = self.reader.lanes.next_chunk(self.config.unroll_steps), self.reader.words
        assert chunk is not None, "the text is repeated"
        ids = words.characters(chunk.inputs.reshape(-1)).reshape(*chunk.inputs.shape, -1).astype("int64") - 1
        text = [torch.from_numpy(array) for array in (ids, words.targets(chunk.targets))]
        data_s = time.perf_counter() - started
        self.optimizer.zero_grad()
        loss, self.state = self.model(*text, self.state, self.sampler(), self.sampler.log_counts)
        (loss * self.config.unroll_steps if self.config.scale_loss else loss).backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.weights, self.config.optimizer.grad_clip)
        self.optimizer.step()
        return float(loss.detach()), float(norm), data_s


def main(
    # fmt: off
    shape: List[str] = typer.Option(["10k", "30k", "en_elmo_sm"], "--shape", "-s", help=f"Of {', '.join(SHAPES)}."),
    precision: List[str] = typer.Option(["float32"], "--precision", "-p", help="Precisions, one row each."),
    optimizer: str = typer.Option("adagrad", "--optimizer", "-o", help="adagrad (bilm-tf's) or adam."),
    threads: int = THREADS,
    updates: int = typer.Option(20, "--updates", "-u", help="Updates per measurement."),
    repeats: int = typer.Option(3, "--repeats", "-r", help="Interleaved measurements of each system."),
    baseline: bool = typer.Option(True, "--baseline/--no-baseline", help="Measure plain autograd, too."),
    shared: Path = SHARED,
    json_path: Optional[Path] = JSON,
    # fmt: on
) -> None:
    """Print tokens/s, ratios to plain autograd, the share of the matrix-product peak and of data preparation."""
    torch.set_num_threads(threads)
    keep_large_blocks()  # as `elmo pretrain` does; the baseline has it, too
    everything = {}
    with TemporaryDirectory() as folder:
        text = store_text(find_shards(shared / TEXT), Path(folder) / "text", max_sentence_tokens=1000)
        for name in shape:
            made = SHAPES[name]
            vocabulary = make_vocabulary(shared / TEXT, made.n_words)
            config = make_config(made, OPTIMIZERS[optimizer])
            given = (made, text, vocabulary)
            if baseline:
                check_agreement(Plain(*given, config), Ours(*given, config))
            systems = [Plain(*given, config)] if baseline else []
            systems += [Ours(*given, replace(config, precision=kind)) for kind in precision]
            results = measure(systems, updates, repeats)
            bilm = make_bilm(made)[0].config
            reader = make_reader(bilm, text, vocabulary, config)
            chunks = [chunk for _ in range(N_COUNTED) if (chunk := reader.lanes.next_chunk(config.unroll_steps))]
            flops = count_training_flops(bilm, chunks, reader.words, made.n_negatives)
            print(f"\n{name}: {made}\n{optimizer}, {threads} thread(s)")
            peaks = print_table(results, flops, made.n_lanes * made.n_steps)
            everything[name] = {"flops_per_token": flops, "peaks": peaks, "results": results}
    if json_path is not None:
        json_path.write_text(json.dumps(everything, indent=1), encoding="utf8")


def measure(systems: Sequence[Any], updates: int, repeats: int) -> List[Result]:
    """RETURNS (List[Result]): Of all systems and the peaks of the machine, measured in interleaved rounds."""
    results: List[Result] = []
    for system in systems:
        system.update()
        with Counter() as counter:
            system.update()
        results.append({"system": system.name, "operations": counter.n_operations})
    for _ in range(repeats):
        for kind in sorted({_product_kind(system.name) for system in systems}, reverse=True):
            results.append({"system": f"peak {kind}", "gflops": matrix_peak(getattr(torch, kind))})
        for system in systems:
            started, cpu, data_s = time.perf_counter(), time.process_time(), 0.0
            for _ in range(updates):
                data_s += system.update()[2]
            seconds, cpu_s = time.perf_counter() - started, time.process_time() - cpu
            result = {"system": system.name, "update_s": seconds / updates, "cpu_s": cpu_s / updates}
            results.append({**result, "data_share": data_s / seconds})
    return results


def print_table(results: Sequence[Result], flops: float, n_tokens: int) -> Dict[str, float]:
    """Print medians. flops (float): Per token. n_tokens (int): Of an update.
    RETURNS (Dict[str, float]): GFLOP/s by type of number.
    """
    names = list(dict.fromkeys(str(result["system"]) for result in results))
    peaks = {name.split()[1]: _median(results, name, "gflops") for name in names if name.startswith("peak")}
    shown = ", ".join(f"{kind} {gflops:.0f} GFLOP/s" for kind, gflops in peaks.items())
    print(f"matrix-product peak: {shown}; {flops / 1e6:.1f} MFLOP per token after word sharing")
    columns = f"{'tokens/s':>9} {'ms/update':>10} {'CPU ms':>8} {'of peak':>8} {'data':>6} {'operations':>10}"
    print(f"{'system':20} {columns} {'x ' + BASELINE:>17}")
    for name in names:
        if name.startswith("peak"):
            continue
        update_s, data_share = _median(results, name, "update_s"), _median(results, name, "data_share")
        share = n_tokens / update_s * flops / peaks[_product_kind(name)] / 1e9
        against = f"{_median(results, BASELINE, 'update_s') / update_s:17.2f}" if BASELINE in names else ""
        rates = f"{n_tokens / update_s:9.0f} {1000 * update_s:10.1f} {1000 * _median(results, name, 'cpu_s'):8.1f}"
        counted = int(_median(results, name, "operations"))
        print(f"{name:20} {rates} {share:8.0%} {data_share:6.1%} {counted:10} {against}", flush=True)
    return peaks


def check_agreement(plain: Plain, ours: Ours) -> None:
    """Compare losses and norms of the first updates; raises an error if they differ."""
    for k in range(N_CHECKED):
        (loss, norm, _), (our_loss, our_norm, _) = plain.update(), ours.update()
        difference, of_norms = abs(loss - our_loss), abs(norm / our_norm - 1.0)
        print(f"update {k + 1}: losses {loss:.6f} and {our_loss:.6f}, norms differ by {of_norms:.1e} of themselves")
        if max(difference, of_norms) > TOLERANCE:
            print(f"{plain.name} and {ours.name} differ by {difference:.2g}", file=sys.stderr)
            raise typer.Exit(1)


def make_vocabulary(text: Path, n_words: int) -> Vocabulary:
    """RETURNS (Vocabulary): The most frequent words of the first part of a text; BOS and EOS count."""
    with gzip.open(text, "rt", encoding="utf8") as lines:
        counts = count_vocabulary((line.split() for line in islice(lines, 150_000)), n_words=n_words - 3)
    return counts.vocabulary()


def make_config(shape: Shape, optimizer: OptimizerConfig) -> PretrainConfig:
    """RETURNS (PretrainConfig): The layout of bilm-tf: continuous text, carried state."""
    return PretrainConfig(
        seed=SEED,
        batch_size=shape.n_lanes,
        unroll_steps=shape.n_steps,
        block_sentences=1,
        reset_blocks=False,
        precision="float32",
        scale_loss=True,
        softmax=SoftmaxConfig(kind="sampled", n_negatives=shape.n_negatives),
        optimizer=optimizer,
        schedule=ScheduleConfig(name="constant", warmup_steps=0),
    )


def make_bilm(shape: Shape) -> Tuple[BiLMNetwork, SoftmaxHead]:
    """RETURNS (Tuple[BiLMNetwork, SoftmaxHead]): The same weights at every call."""
    torch.manual_seed(SEED)
    characters = {"filters": shape.filters, "n_highway": shape.n_highway}
    sizes = {"cell_width": shape.cell_width, "projection_width": shape.projection_width, "char_cnn": characters}
    network = BiLMNetwork(BiLMConfig.from_dict(sizes))
    return network, SoftmaxHead(shape.n_words, shape.projection_width)


def make_reader(bilm: BiLMConfig, text: StoredText, vocabulary: Vocabulary, config: PretrainConfig) -> LaneReader:
    """RETURNS (LaneReader): The same text in the same lanes as those of the trainer."""
    reader = LaneReader(text, vocabulary, bilm, config, slice(0, config.batch_size))
    reader.seek(0)
    return reader


def _plain_optimizer(weights: List[torch.Tensor], settings: OptimizerConfig) -> torch.optim.Optimizer:
    """The fused optimizer of PyTorch."""
    if settings.name == "adagrad":
        start = settings.initial_accumulator
        return torch.optim.Adagrad(weights, settings.learn_rate, initial_accumulator_value=start, eps=0.0, fused=True)
    return torch.optim.Adam(weights, settings.learn_rate, eps=settings.eps, fused=True)


def _product_kind(name: str) -> str:
    return "float32" if name == BASELINE else name.split()[1]


def _median(results: Sequence[Result], system: str, key: str) -> float:
    return statistics.median(float(result[key]) for result in results if result["system"] == system and key in result)


if __name__ == "__main__":
    typer.run(main)
