"""Train a pipeline on a data set with its config, and store the training time and the logs of the training."""

import time
from pathlib import Path
from typing import Any, Dict

import srsly
import typer
from shared import read_config, report_errors
from spacy.cli.train import train as spacy_train
from wasabi import msg

# Of each data set: configs/elmo_<pipeline>.cfg.
PIPELINES = {
    "sample": "tagger_ner",
    "wnut17": "ner",
    "ud_en_ewt": "tagger_morphologizer",
    "wikigold": "ner",
    "ncbi_disease": "ner",
    "hwu64": "textcat",
}
VARIANTS = ("elmo", "baseline")
# Logs in the folder of the pipeline: scores, and shares of the biLM layers, a JSON line per evaluation.
SCORES_LOG, WEIGHTS_LOG = "scores.jsonl", "layer_weights.jsonl"
TRAINING_CONFIG = "training.cfg"


@report_errors("Cannot train")
def train_cli(
    dataset: str = typer.Argument(..., help=f"Data set: {', '.join(PIPELINES)}"),
    variant: str = typer.Argument(..., help=f"Network: {' or '.join(VARIANTS)}"),
    output_dir: Path = typer.Argument(..., help="Folder for the trained pipeline", file_okay=False),
    seed: int = typer.Option(0, "--seed", "-s", help="Seed of the training"),
    max_steps: int = typer.Option(0, "--max-steps", "-n", help="Training steps; 0 for the number in the config file"),
    bilm: str = typer.Option("", "--bilm", "-b", help="Name or path of the biLM; empty for the one in the config file"),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", help="GPU ID or -1 for CPU"),
) -> None:
    """Train with or without ELMo; the same as `python -m spacy train` with the printed settings, but with logs."""
    if dataset not in PIPELINES or variant not in VARIANTS:
        raise ValueError(
            f"There is no config for '{variant}' on '{dataset}'. Networks: {', '.join(VARIANTS)}. Data sets: "
            f"{', '.join(PIPELINES)}. Choose one with `--vars.dataset`."
        )
    name = f"{variant}_{PIPELINES[dataset]}.cfg"
    overrides: Dict[str, Any] = {
        "paths.train": f"corpus/{dataset}/train.spacy",
        "paths.dev": f"corpus/{dataset}/dev.spacy",
        "system.seed": seed,
        **({"paths.bilm": bilm} if bilm else {}),
        **(shorten_training(name, max_steps) if max_steps else {}),
    }
    msg.info(f"{name} with " + " ".join(f"--{name} {value}" for name, value in overrides.items()))
    config = write_logged_config(name, output_dir)
    start_s = time.perf_counter()
    spacy_train(config, output_dir, use_gpu=gpu_id, overrides=overrides)
    elapsed_s = time.perf_counter() - start_s  # loading included
    srsly.write_json(output_dir / "timing.json", {"elapsed_s": elapsed_s})
    msg.good(f"Trained in {elapsed_s:.0f} s")


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


if __name__ == "__main__":
    typer.run(train_cli)
