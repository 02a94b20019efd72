"""Time from the shell to the first vector: seconds of each step in a new process, and its peak memory.

python benchmarks/startup.py
"""

import os
import statistics
import subprocess
import sys
import time
from typing import Dict, List

import typer
from corpus import REPEATS, ROOT

STEPS = (
    "import spacy",
    "import spacy_elmo",
    "nlp = spacy.blank('en')",
    "nlp.add_pipe('elmo')",
    "nlp('She sat on the bank of the river.')[4]._.elmo",
)
WHOLE, MEMORY = "shell to first vector", "peak memory, MB"
CODE = """
import resource, time
for step in {steps}:
    started = time.perf_counter()
    exec(step)
    print(time.perf_counter() - started)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def main(
    repeats: int = REPEATS,
    most_ms: float = typer.Option(150.0, "--most", "-m", help="Maximum time of `import spacy_elmo` in milliseconds."),
) -> None:
    """Print medians. Exits with 1 if `import spacy_elmo` takes longer than --most."""
    found: Dict[str, List[float]] = {name: [] for name in (*STEPS, WHOLE, MEMORY)}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    for _ in range(repeats + 1):
        command = [sys.executable, "-W", "ignore", "-c", CODE.format(steps=STEPS)]
        started = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        whole = time.perf_counter() - started
        *seconds, memory = map(float, done.stdout.split())
        for name, value in zip(found, [*seconds, whole, memory]):
            found[name].append(value)
    medians = {name: statistics.median(values[1:]) for name, values in found.items()}  # the first reads from the disk
    for name, median in medians.items():
        print(f"{name:52s} {median:8.0f}" if name == MEMORY else f"{name:52s} {median:8.3f} s")
    raise typer.Exit(int(1000 * medians[STEPS[1]] > most_ms))


if __name__ == "__main__":
    typer.run(main)
