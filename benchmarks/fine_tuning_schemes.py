"""Fine-tuning with a task: score, time and memory of each scheme, next to a frozen biLM and to no ELMo.

Scores are those after the last update, on the development and the test part. Choose a scheme by its development score:
the best of many test scores is too high.

Every run is a process of its own; a run that is in the JSON lines file already is not repeated.

python benchmarks/fine_tuning_schemes.py runs.jsonl --dataset wnut17 --dataset wikigold --seed 0 --seed 1
"""

import json
import multiprocessing
import random
import statistics
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import torch
import typer
from corpus import default_shared
from frozen_training import make_examples
from measure import peak_memory_mb
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training.batchers import minibatch_by_words
from spacy.training.initialize import init_nlp
from spacy.util import registry
from thinc.api import Config, fix_random_seed

from spacy_elmo.ml.elmo_model import MODEL_NAME
from spacy_elmo.pipeline import elmo as _elmo  # noqa: F401  registers the factory where nothing is installed

CONFIGS = Path(__file__).parents[1] / "configs"
TUNING = "components.elmo.model.fine_tuning"
RATES = {f"{TUNING}.top_rate": 0.385, f"{TUNING}.layer_decay": 0.385}
GRADUAL = {f"{TUNING}.unfreeze_every": 0.25}  # times the updates
LEARN_RATE = "training.optimizer.learn_rate"
SLANTED = {LEARN_RATE: {"@schedules": "spacy-elmo.slanted_triangular.v1", "max_rate": 0.001}}
# What differs from training the whole biLM at the rate of the task network; None is a frozen biLM, or none at all.
SCHEMES: Dict[str, Any] = {
    "no ELMo": None,
    "frozen": None,
    "whole biLM": {},
    "whole, rate / 10": {f"{TUNING}.top_rate": 0.1},
    "discriminative rates": RATES,
    "gradual unfreezing": GRADUAL,
    "slanted triangular": SLANTED,
    "L2 to pretrained": {f"{TUNING}.l2_to_pretrained": 10.0},
    "rates, gradual, slanted": {**RATES, **GRADUAL, **SLANTED},
}
Result = Dict[str, Any]


def main(
    # fmt: off
    path: Path = typer.Argument(..., help="JSON lines file that results are appended to."),
    dataset: List[str] = typer.Option(["wnut17", "wikigold"], "--dataset", "-d", help="Folders of data/ner."),
    scheme: List[str] = typer.Option(list(SCHEMES), "--scheme", "-s", help="Schemes to run."),
    seed: List[int] = typer.Option([0], "--seed", "-e", help="Seeds of weights, data order and dropout."),
    n_docs: int = typer.Option(600, "--docs", "-n", help="Sentences to train on, the first ones."),
    n_updates: int = typer.Option(300, "--updates", "-u", help="Updates of a run."),
    batch_words: int = typer.Option(150, "--batch-words", "-b", help="Tokens per update, at most."),
    threads: int = typer.Option(1, "--threads", "-t", help="Threads of torch."),
    shared: Path = typer.Option(default_shared(), "--shared", "-S", help="Folder with `data`.", exists=True),
    # fmt: on
) -> None:
    """Train on each data set with each scheme and seed in turn, and print a table per data set."""
    sizes = {"n_docs": n_docs, "n_updates": n_updates, "batch_words": batch_words}
    for wanted in ((name, kind, number) for number in seed for name in dataset for kind in scheme):
        run = dict(zip(("dataset", "scheme", "seed"), wanted), **sizes)
        if any(run.items() <= found.items() for found in read_results(path)):
            continue
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            result = pool.apply(measure, (run, str(shared), threads))
        with path.open("a", encoding="utf8") as file:
            file.write(json.dumps(result) + "\n")
        print(json.dumps(result), flush=True)
    results = [found for found in read_results(path) if sizes.items() <= found.items()]
    for name in dataset:
        print_table(name, [found for found in results if found["dataset"] == name], sizes)


def read_results(path: Path) -> List[Result]:
    """RETURNS (List[Result]): What the file holds."""
    return [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()] if path.exists() else []


def measure(run: Result, shared: str, threads: int) -> Result:
    """RETURNS (Result): Scores after the last update on the development and test part, "dev_f" and "f" (0 to 100),
    seconds, and the peak memory of training.
    """
    torch.set_num_threads(threads)
    folder = Path(shared) / "data" / "ner" / run["dataset"]
    config = make_config(run["scheme"], run["n_updates"], run["seed"], folder / "train.spacy", run["n_docs"])
    nlp = init_nlp(config)
    optimizer = registry.resolve({"optimizer": nlp.config["training"]["optimizer"]})["optimizer"]
    docs = read_docs(nlp, folder / "train.spacy")[: run["n_docs"]]
    fix_random_seed(run["seed"])
    n_words, started, wall = 0, time.process_time(), time.perf_counter()
    for batch in make_batches(docs, run["n_updates"], run["batch_words"], run["seed"]):
        nlp.update(make_examples(batch), drop=0.1, sgd=False)
        for _, component in nlp.pipeline:
            component.finish_update(optimizer)
        optimizer.step_schedules()
        n_words += sum(map(len, batch))
    elapsed = {"cpu_s": time.process_time() - started, "wall_s": time.perf_counter() - wall}
    peak = peak_memory_mb()
    dev, test = (nlp.evaluate(make_examples(read_docs(nlp, folder / f"{name}.spacy"))) for name in ("dev", "test"))
    scores = {"dev_f": 100 * dev["ents_f"], "f": 100 * test["ents_f"]}
    return {**run, **scores, "n_words": n_words, **elapsed, "peak_mb": peak, "kept_mb": kept_mb(nlp)}


def make_config(scheme: str, n_updates: int, seed: int, train: Path, n_docs: int) -> Config:
    """RETURNS (Config): configs/baseline_ner.cfg, elmo_ner.cfg, or elmo_ner_finetune.cfg with the scheme's settings."""
    paths = {"paths.train": str(train), "paths.dev": str(train), "corpora.train.limit": n_docs, "system.seed": seed}
    changes = SCHEMES[scheme]
    if changes is None:
        name = "baseline_ner.cfg" if scheme == "no ELMo" else "elmo_ner.cfg"
        return Config().from_disk(CONFIGS / name, overrides=paths)
    plain = {f"{TUNING}.{key}": value for key, value in (("top_rate", 1.0), ("layer_decay", 1.0))}
    settings = {**paths, **plain, f"{TUNING}.unfreeze_every": 0, **changes}
    settings[f"{TUNING}.unfreeze_every"] = int(settings[f"{TUNING}.unfreeze_every"] * n_updates)
    if LEARN_RATE in settings:
        settings[LEARN_RATE] = {**settings[LEARN_RATE], "num_steps": n_updates}
    return Config().from_disk(CONFIGS / "elmo_ner_finetune.cfg", overrides=settings)


def read_docs(nlp: Language, path: Path) -> List[Doc]:
    """RETURNS (List[Doc]): The annotated Docs of a file."""
    return list(DocBin().from_disk(path).get_docs(nlp.vocab))


def make_batches(docs: List[Doc], n_updates: int, batch_words: int, seed: int) -> Iterator[List[Doc]]:
    """YIELDS (List[Doc]): A batch for each update, the Docs in a new order in each epoch."""
    order = random.Random(seed)
    while True:
        docs = order.sample(docs, len(docs))
        for batch in minibatch_by_words(docs, batch_words, discard_oversize=False):
            yield list(batch)
            n_updates -= 1
            if not n_updates:
                return


def kept_mb(nlp: Language) -> float:
    """RETURNS (float): Pretrained weights kept for the L2 penalty, in MB."""
    nodes = [node for _, component in nlp.pipeline for node in component.model.walk() if node.name == MODEL_NAME]
    tuners = [shim.tuner for node in nodes for shim in node.shims if shim.tuner is not None]
    return sum(tuner.n_pretrained_bytes for tuner in tuners) / 2**20


def print_table(name: str, results: List[Result], sizes: Dict[str, int]) -> None:
    """Print means over seeds: F on the development and the test part; seconds of CPU and memory, also relative to those
    of the frozen biLM, same seed.
    """
    print(f"\n{name}: {sizes}")
    heads = f"{'s/1000 words':>12} {'ratio':>6} {'peak MB':>8} {'more MB':>8}"
    print(f"{'scheme':24} {'seeds':>5} {'dev F':>6} {'F':>6} {'sd':>5}  {heads}")
    frozen = {found["seed"]: found for found in results if found["scheme"] == "frozen"}
    for scheme in SCHEMES:
        found = [(row, frozen[row["seed"]]) for row in results if row["scheme"] == scheme and row["seed"] in frozen]
        if found:
            print(f"{scheme:24} {_describe(found)}")


def _describe(found: List[Tuple[Result, Result]]) -> str:
    scores = [row["f"] for row, _ in found]
    deviation = f"{statistics.stdev(scores):5.1f}" if len(scores) > 1 else " " * 5
    cost = statistics.mean(1000 * row["cpu_s"] / row["n_words"] for row, _ in found)
    ratio = statistics.median(row["cpu_s"] / frozen["cpu_s"] for row, frozen in found)
    peak = statistics.median(row["peak_mb"] for row, _ in found)
    more = statistics.median(row["peak_mb"] - frozen["peak_mb"] for row, frozen in found)
    dev = [row["dev_f"] for row, _ in found if "dev_f" in row]  # not in files of the first version
    told = f"{statistics.mean(dev):6.1f}" if dev else f"{'-':>6}"
    quality = f"{len(found):5} {told} {statistics.mean(scores):6.1f} {deviation}"
    return f"{quality}  {cost:12.2f} {ratio:6.2f} {peak:8.0f} {more:8.0f}"


if __name__ == "__main__":
    typer.run(main)
