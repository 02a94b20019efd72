"""Compare settings of pretraining: held-out perplexity after equal CPU time, with equal seeds.

python benchmarks/pretraining_settings.py --minutes 4 --json out.json
"""

import json
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import torch
import typer
from corpus import default_shared
from thinc.api import Config

from spacy_elmo.cli._runs import make_run
from spacy_elmo.cli.pretrain import _keep_large_blocks as keep_large_blocks
from spacy_elmo.pretraining.distributed import Ranks

CONFIG = Path(__file__).parents[1] / "configs" / "pretrain_en_elmo_sm.cfg"
TEXT = Path("data") / "lm-english"
N_WARM_UP = 5  # updates
WARM_UP = {"schedule.warmup_steps": 50}  # that of the config is for a run fifty times as long
N_TIMED = 30  # updates to estimate how many fit into the time
ADAGRAD = {"optimizer.name": "adagrad", "optimizer.learn_rate": 0.2, "optimizer.grad_clip": 10.0}
CONSTANT = {"schedule.name": "constant", "schedule.warmup_steps": 0}
DEEP = {"bilm.n_layers": 4, "bilm.cell_width": 320}

# Settings of each case that differ from the config; names without "bilm." belong to [pretraining].
CASES: Dict[str, Dict[str, Any]] = {
    "the config": {},
    "highway between layers": {"bilm.highway_between": True, "bilm.has_skip": False},
    "neither skip nor highway": {"bilm.has_skip": False},
    "4 x 320, skip": DEEP,
    "4 x 320, highway": {**DEEP, "bilm.highway_between": True, "bilm.has_skip": False},
    "4 x 320, neither": {**DEEP, "bilm.has_skip": False},
    "cell 320": {"bilm.cell_width": 320},
    "cell 1280": {"bilm.cell_width": 1280},
    "dropout 0.1": {"dropout": 0.1},
    "Adagrad of bilm-tf": {**ADAGRAD, **CONSTANT, "scale_loss": True},
    "learn rate 0.001": {"optimizer.learn_rate": 0.001},
    "learn rate 0.004": {"optimizer.learn_rate": 0.004},
    "8,192 negatives": {"softmax.n_negatives": 8192},
    "adaptive softmax": {"softmax.kind": "adaptive"},
    "full softmax": {"softmax.kind": "full"},
    "32 lanes": {"batch_size": 32},
    "128 lanes": {"batch_size": 128},
    "layout of bilm-tf": {"block_sentences": 1, "reset_blocks": False},
    "float32": {"precision": "float32"},
}


def main(
    # fmt: off
    case: List[str] = typer.Option(list(CASES), "--case", "-c", help="Names of cases."),
    minutes: float = typer.Option(4.0, "--minutes", "-m", help="CPU time of each training."),
    seed: List[int] = typer.Option([0], "--seed", "-s", help="Seeds; one training each."),
    threads: int = typer.Option(1, "--threads", "-t", help="Threads of torch; CPU time is that of all threads."),
    eval_sentences: int = typer.Option(2000, "--eval-sentences", "-e", help="Held-out sentences."),
    shared: Path = typer.Option(default_shared(), "--shared", "-S", help="Folder with `data`.", exists=True),
    json_path: Optional[Path] = typer.Option(None, "--json", "-j", help="File for the raw numbers."),
    # fmt: on
) -> None:
    """Print a row for each case and seed: tokens seen, CPU time, both perplexities."""
    torch.set_num_threads(threads)
    keep_large_blocks()
    rows: List[Dict[str, Any]] = []
    columns = f"{'tokens':>11} {'CPU s':>6} {'forward':>8} {'backward':>9} {'mean':>8}"
    print(f"{'setting':28} {'seed':>4} {columns}", flush=True)
    for name in case:
        for number in seed:
            row = measure(CASES[name], number, 60 * minutes, eval_sentences, shared / TEXT)
            rows.append({"case": name, "seed": number, **row})
            print(
                f"{name:28} {number:4} {row['n_tokens']:11,} {row['cpu_s']:6.0f} {row['forward']:8.1f} "
                f"{row['backward']:9.1f} {row['mean']:8.1f}",
                flush=True,
            )
            if json_path is not None:
                json_path.write_text(json.dumps(rows, indent=1), encoding="utf8")


def measure(changes: Dict[str, Any], seed: int, seconds: float, eval_sentences: int, text: Path) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): The results of one training."""
    with tempfile.TemporaryDirectory() as folder:
        given = {**WARM_UP, **changes, "seed": seed, "eval_sentences": eval_sentences, "eval_every": 10**9}
        update_s, n_tokens = time_updates(make_config(given, text), Path(folder) / "timed")
        budget = {**given, "max_tokens": int(seconds / update_s) * n_tokens}
        run = make_run(make_config(budget, text), Path(folder) / "run", Ranks())
        run.begin()
        began = time.process_time()
        found = [report.validation for report in run.reports() if report.validation is not None][-1]
        cpu_s = time.process_time() - began
    scores = {"forward": found.forward, "backward": found.backward, "mean": found.mean}
    return {"n_tokens": run.trainer.n_tokens, "cpu_s": cpu_s, "update_s": update_s, **scores}


def time_updates(config: Config, output: Path) -> Tuple[float, int]:
    """RETURNS (Tuple[float, int]): CPU seconds and tokens of an update."""
    trainer = make_run(config, output, Ranks()).trainer
    for _ in range(N_WARM_UP):
        trainer.update()
    began, n_before = time.process_time(), trainer.n_tokens
    for _ in range(N_TIMED):
        trainer.update()
    return (time.process_time() - began) / N_TIMED, (trainer.n_tokens - n_before) // N_TIMED


def make_config(changes: Dict[str, Any], text: Path) -> Config:
    """RETURNS (Config): The packaged config with changes, and the paths of the text."""
    vocabulary = Path(__file__).parents[1] / "spacy_elmo" / "models" / "en_elmo_sm" / "vocab.txt"
    overrides: Dict[str, Any] = {
        "paths.train": [str(path) for path in sorted(text.glob("train-*.txt.gz"))],
        "paths.valid": str(text / "valid.txt.gz"),
        "paths.vocab": str(vocabulary),
    }
    for name, value in changes.items():
        overrides[name if name.startswith("bilm.") else f"pretraining.{name}"] = value
    return Config().from_disk(CONFIG, overrides=overrides)


if __name__ == "__main__":
    typer.run(main)
