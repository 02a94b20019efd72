"""Train a pipeline on a data set with its config, and store the training time and the logs of the training."""

import time
from pathlib import Path
from typing import Any, Dict

import srsly
import typer
from data import DATASETS, Dataset, report_errors
from read_config import CONFIG_DIR, read_config
from spacy.cli.train import train as spacy_train
from wasabi import msg

VARIANTS = ("elmo", "baseline")
# Logs in the folder of the pipeline: scores, and shares of the biLM layers, a JSON line per evaluation.
SCORES_LOG, WEIGHTS_LOG = "scores.jsonl", "layer_weights.jsonl"
TRAINING_CONFIG = "training.cfg"


def train_cli(
    # fmt: off
    dataset: str = typer.Argument(..., help=f"Data set: {', '.join(DATASETS)}"),
    variant: str = typer.Argument(..., help=f"Network: {' or '.join(VARIANTS)}"),
    output_dir: Path = typer.Argument(..., help="Folder for the trained pipeline", file_okay=False),
    seed: int = typer.Option(0, "--seed", "-s", help="Seed of the training"),
    max_steps: int = typer.Option(0, "--max-steps", "-n", help="Training steps; 0 for the number in the config file"),
    bilm: str = typer.Option("", "--bilm", "-b", help="Name or path of the biLM; empty for the one in the config file"),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", help="GPU ID or -1 for CPU"),
    # fmt: on
) -> None:
    """Train with or without ELMo; the same as `python -m spacy train` with the printed settings, but with logs."""
    with report_errors("Cannot train"):
        name = find_config(dataset, variant)
    overrides = make_overrides(dataset, seed=seed, bilm=bilm)
    if max_steps:
        overrides.update(shorten_training(name, max_steps))
    msg.info(f"{name} with " + " ".join(f"--{name} {value}" for name, value in overrides.items()))
    logged_path = write_logged_config(name, output_dir)
    elapsed_s = train(logged_path, output_dir, overrides=overrides, gpu_id=gpu_id)
    msg.good(f"Trained in {elapsed_s:.0f} s")


def find_config(dataset_name: str, variant: str) -> str:
    """RETURNS (str): Name of the config, for `read_config`.
    RAISES (ValueError): If data set or variant are not known, or the data set has no config.
    """
    if variant not in VARIANTS:
        raise ValueError(f"There is no network '{variant}'. Known networks: {', '.join(VARIANTS)}.")
    dataset = DATASETS.get(dataset_name)
    if dataset is not None and _has_config(dataset):
        return f"{variant}_{dataset.pipeline}.cfg"
    trainable = {name: dataset for name, dataset in DATASETS.items() if _has_config(dataset)}
    is_here = {name: dataset.is_ours or dataset.is_downloaded for name, dataset in trainable.items()}
    known = ", ".join(name if is_here[name] else f"{name} (local copies only)" for name in trainable)
    if dataset is None:
        raise ValueError(
            f"There is no data set '{dataset_name}'. Known data sets: {known}. Choose one with `--vars.dataset`."
        )
    raise ValueError(
        f"There is no config 'elmo_{dataset.pipeline}.cfg' for the data set '{dataset_name}': only `python "
        f"project/scripts/paper.py` trains on it. Data sets with one: {known}."
    )


def make_overrides(dataset: str, *, seed: int = 0, bilm: str = "") -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Overrides of the config file."""
    overrides: Dict[str, Any] = {
        "paths.train": f"corpus/{dataset}/train.spacy",
        "paths.dev": f"corpus/{dataset}/dev.spacy",
        "system.seed": seed,
    }
    if bilm:
        overrides["paths.bilm"] = bilm
    return overrides


def shorten_training(config: str, max_steps: int) -> Dict[str, Any]:
    """RETURNS (Dict[str, Any]): Overrides for fewer steps. The decay of the learning rate is shortened too, and
    evaluations are at most `max_steps` apart: otherwise the best pipeline would be the untrained one of step 0.
    """
    training = read_config(config)["training"]
    eval_frequency = min(max_steps, training["eval_frequency"])
    overrides = {"training.max_steps": max_steps, "training.eval_frequency": eval_frequency}
    learn_rate = training["optimizer"]["learn_rate"]
    if isinstance(learn_rate, dict) and "total_steps" in learn_rate:
        overrides["training.optimizer.learn_rate.total_steps"] = max_steps
    return overrides


def write_logged_config(config_name: str, output_dir: Path) -> Path:
    """Add files to the logger of a config: scores, and with ELMo also layer weights. Logs of a training before go.
    RETURNS (Path): The config in the folder of the pipeline, without comments.
    """
    output_dir.mkdir(parents=True, exist_ok=True)
    for name in (SCORES_LOG, WEIGHTS_LOG):
        (output_dir / name).unlink(missing_ok=True)
    config = read_config(config_name)
    scores = {**config["training"]["logger"], "output_file": str(output_dir / SCORES_LOG)}
    weights = {"@loggers": "spacy-elmo.LayerWeightsLogger.v1", "path": str(output_dir / WEIGHTS_LOG)}
    chain = {"@loggers": "spacy.ChainLogger.v1", "logger1": scores, "logger2": weights}
    config["training"]["logger"] = chain if "elmo" in config["nlp"]["pipeline"] else scores
    config.to_disk(output_dir / TRAINING_CONFIG)
    return output_dir / TRAINING_CONFIG


def train(config_path: Path, output_dir: Path, *, overrides: Dict[str, Any], gpu_id: int = -1) -> float:
    """RETURNS (float): Seconds of a training, loading included; also written to `timing.json` beside the pipeline."""
    start_s = time.perf_counter()
    spacy_train(config_path, output_dir, use_gpu=gpu_id, overrides=overrides)
    elapsed_s = time.perf_counter() - start_s
    srsly.write_json(output_dir / "timing.json", {"elapsed_s": elapsed_s})
    return elapsed_s


def _has_config(dataset: Dataset) -> bool:
    return (CONFIG_DIR / f"elmo_{dataset.pipeline}.cfg").is_file()


if __name__ == "__main__":
    typer.run(train_cli)
