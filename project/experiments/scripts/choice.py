"""What to choose: score, speed, memory, time of training and size of kept pipelines, with and without ELMo."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, Dict, List

import spacy
import srsly
import torch
import typer
from wasabi import msg

sys.path.append(str(Path(__file__).parents[2] / "scripts"))  # of the example: data.py, shared.py
from datasets import prepare
from paper_experiments import CHOICE
from paper_run import load_kept
from shared import ASSETS, find_processor, report_errors
from stored import RESULTS_DIR, TRAINING_DIR
from tables import MEASURED, read_measured

PIPELINES_DIR = TRAINING_DIR / "paper"
MB = 1e6


@report_errors("Cannot measure")
def measure_cli(
    pipelines: Path = typer.Option(PIPELINES_DIR, "--pipelines", "-p", help="Folder given to `paper.py --keep`"),
    seed: int = typer.Option(0, "--seed", "-s", help="Seed of the pipelines"),
    repeats: int = typer.Option(3, "--repeats", "-r", min=1, help="Processes that load and measure a pipeline"),
    python: Path = typer.Option(sys.executable, "--python", "-P", help="Python without transformers, for the others"),
    assets_dir: str = ASSETS,
    results: Path = typer.Option(RESULTS_DIR, "--results", "-R", help=f"Folder for {MEASURED}", file_okay=False),
    force: bool = typer.Option(False, "--force", "-F", help="Measure again what is measured"),
) -> None:
    """Measure each kept pipeline of WNUT-17 in processes of its own with one thread, on the texts of the test data:
    words per second of CPU time of the whole pipeline, tokenizer included, the peak of the memory, and the size on
    disk. spaCy imports the packages of all its plugins: give --python, so that those of MiniLM count for MiniLM alone.
    """
    known = {run.name(seed): run for run in CHOICE["choice-wnut17"]}
    paths = [pipelines / name for name in known if load_kept(pipelines / name)]
    if not paths:
        raise FileNotFoundError(
            f"There is no pipeline of WNUT-17 with seed {seed} in '{pipelines}'. Train them with `paper.py "
            f"choice-wnut17 --seed {seed} --keep {pipelines}`."
        )
    rows = {row["name"]: row for row in read_measured(results)}
    processor = find_processor()
    with tempfile.TemporaryDirectory() as folder:
        prepare("wnut17", Path(folder), assets_dir)
        for path in paths:
            result: Any = load_kept(path)
            if not force and rows.get(path.name, {}).get("finished_at") == result["finished_at"]:
                msg.info(f"{path.name} is measured, skipped")
                continue
            environment = sys.executable if known[path.name].has_minilm else str(python)
            runs = [_call(environment, path, Path(folder) / "test.spacy") for _ in range(repeats)]
            speeds = [run["words_per_s"] for run in runs]
            rows[path.name] = {
                "name": path.name,
                "condition": known[path.name].condition,
                "task": known[path.name].task,
                "finished_at": result["finished_at"],
                "updates": result["last_step"],
                "words_per_s": median(speeds),
                "lowest": min(speeds),
                "highest": max(speeds),
                "memory_mb": median(run["memory_mb"] for run in runs),
                "size_mb": sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / MB,
                "processor": processor,
                "versions": {"spacy": spacy.__version__, "torch": torch.__version__},
            }
            results.mkdir(parents=True, exist_ok=True)
            srsly.write_jsonl(results / MEASURED, rows.values())
            msg.good(f"{path.name}: {median(speeds):,.0f} words/s")


def _call(python: str, path: Path, test_path: Path) -> Dict[str, float]:
    """RETURNS (Dict[str, float]): What a new process has measured. RAISES (ValueError): With the end of its errors."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    command: List[str] = [python, str(Path(__file__).with_name("speed.py")), str(path), str(test_path)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf8", env=environment)
    if done.returncode:
        raise ValueError(f"'{path}' could not be measured:\n{done.stderr[-1000:]}")
    measured: Dict[str, float] = srsly.json_loads(done.stdout.splitlines()[-1])
    return measured


if __name__ == "__main__":
    typer.run(measure_cli)
