"""What `import spacy_elmo` adds to `import spacy`, and what making a biLM ready to load adds to that.

python benchmarks/import_time.py
"""

import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

import typer

HERE = Path(__file__).resolve().parent
STEPS = ("import spacy", "import spacy_elmo", "from spacy_elmo import load_bilm", "import spacy_elmo.pipeline.elmo")
CODE = """
import time
for step in {steps}:
    started = time.perf_counter()
    exec(step)
    print(time.perf_counter() - started)
"""


def main(
    repeats: int = typer.Option(5, "--repeats", "-r", help="Processes; medians are printed."),
    most_ms: float = typer.Option(150.0, "--most", "-m", help="Milliseconds that `import spacy_elmo` may add."),
) -> None:
    """Print milliseconds of each import, one after the other in a process of its own."""
    seconds: Dict[str, List[float]] = {step: [] for step in STEPS}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])}
    for _ in range(repeats + 1):
        command = [sys.executable, "-W", "ignore", "-c", CODE.format(steps=STEPS)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        for step, found in zip(STEPS, done.stdout.split()):
            seconds[step].append(float(found))
    added = 0.0
    for step, found in seconds.items():
        median = 1000.0 * statistics.median(found[1:])  # the first reads files from the disk
        added = median if step == STEPS[1] else added
        print(f"{step:35s} {median:8.1f} ms")
    raise typer.Exit(int(added > most_ms))


if __name__ == "__main__":
    typer.run(main)
