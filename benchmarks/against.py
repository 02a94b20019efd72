"""Compare this checkout with another commit: equality of numbers, and relative speed of each shape.

python benchmarks/against.py 098d194                 # all numbers, all shapes of en_elmo_sm and size small
python benchmarks/against.py HEAD~3 --no-numbers --size original --shape batch --rounds 9

Each side is installed in its own folder, from a copy without ignored files, and runs in its own process; the two are
measured alternately. A ratio is the median over rounds of the rate of one side divided by that of the other. System
time is the share of CPU time that the kernel takes, mostly for new pages of memory. Processes are started several
times, since the placement of memory changes the speed of a whole process. Each process runs `against_side.py`.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import numpy as np
import typer
from against_side import NUMBERS, SHAPES
from corpus import PACKAGED, ROOT, THREADS, default_shared, export_commit
from inference import Places

SIZES = (PACKAGED, "small", "medium", "original")
LIMIT = 2e-5  # that of the parity tests
LIMITS = {"reduced precision": 0.01}  # AVX512-BF16 rounds inputs, whose last bit may change


class Side:
    """A checkout, installed in a folder, in a process that answers requests. name (str): "base" or "here"."""

    def __init__(self, name: str, checkout: Path, folder: Path, threads: int) -> None:
        self.name, self.folder, self._threads = name, folder, threads
        folder.mkdir()
        shutil.copy(checkout / "configs" / "pretrain_en_elmo_sm.cfg", folder)  # settings change
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
        command = [*pip, "--target", str(folder / "site"), str(checkout)]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        self._process: Optional[subprocess.Popen[str]] = None
        self.restart()

    def restart(self) -> None:
        """Start the process, in place of one that runs."""
        self.close()
        script = Path(__file__).with_name("against_side.py")
        command = [sys.executable, "-W", "ignore", str(script), str(self.folder), str(self._threads)]
        environ = {**os.environ, "PYTHONPATH": str(self.folder / "site"), "OMP_NUM_THREADS": str(self._threads)}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ, cwd=self.folder
        )

    def ask(self, **request: Any) -> Any:
        """RETURNS (Any): The answer, plain JSON types. RAISES (typer.Exit): If the process has exited."""
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            print(f"{self.name} failed: {request}", file=sys.stderr)
            raise typer.Exit(1)
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def main(
    # fmt: off
    base: str = typer.Argument(..., help="A commit of this repository."),
    sizes: List[str] = typer.Option(SIZES[:2], "--size", "-s", help=f"Sizes for speed, of {', '.join(SIZES)}."),
    shapes: List[str] = typer.Option(list(SHAPES), "--shape", "-p", help=f"Shapes, of {', '.join(SHAPES)}."),
    numbers: bool = typer.Option(True, "--numbers/--no-numbers", help="Compare vectors and losses."),
    rounds: int = typer.Option(5, "--rounds", "-r", help="Interleaved rounds per start; 0 skips the speed."),
    starts: int = typer.Option(3, "--starts", "-n", help="Number of times to start the processes."),
    threads: int = THREADS,
    # fmt: on
) -> None:
    """Print tables of differences and of speed ratios. Exits with 1 if numbers differ by more than their limit."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "weights").mkdir()
        places = Places(folder / "weights", default_shared())
        checkouts = {
            "base": export_commit(base, folder / "base-source"),
            "here": export_here(folder / "here-source"),
        }
        sides = []
        try:
            for side, checkout in checkouts.items():
                sides.append(Side(side, checkout, folder / side, threads))
            is_same = not numbers or compare_numbers(sides, places)
            if rounds:
                compare_speed(sides, places, sizes, shapes, rounds, starts)
        finally:
            for side in sides:
                side.close()
    raise typer.Exit(0 if is_same else 1)


def export_here(folder: Path) -> Path:
    """Copy what git does not ignore of this checkout: pip would install modules of an old `build` folder, too."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, encoding="utf8").stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():  # not one that is deleted, but not yet in a commit
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def compare_numbers(sides: List[Side], places: Places) -> bool:
    """RETURNS (bool): Whether both sides agree up to rounding."""
    print("| numbers | arrays | identical | largest difference | limit | in |")
    print("| --- | ---: | ---: | ---: | ---: | --- |")
    is_same = True
    for name in NUMBERS:
        found = []
        for side in sides:
            path = side.folder / f"{name}.npz"
            side.ask(task="numbers", name=name, path=str(path), weights=str(places.weights("small")))
            with np.load(path) as arrays:
                found.append(dict(arrays))
        is_same = print_difference(name, *found) and is_same
    return is_same


def print_difference(name: str, base: Dict[str, Any], here: Dict[str, Any]) -> bool:
    """RETURNS (bool): Whether no number differs by more than the limit."""
    missing = sorted(set(base) ^ set(here))
    shapes = [key for key in base if key in here and base[key].shape != here[key].shape]
    if missing or shapes:
        print(f"| {name} | {len(base)} | missing or of another shape: {', '.join([*missing, *shapes])} | | | |")
        return False
    n_equal = sum(np.array_equal(base[key], here[key]) for key in base)
    differences = {key: float(np.abs(base[key] - here[key]).max(initial=0.0)) for key in base}
    where = max(differences, key=lambda key: differences[key])
    largest, limit = differences[where], LIMITS.get(name, LIMIT)
    place = where if largest else ""
    print(f"| {name} | {len(base)} | {n_equal} | {largest:.1e} | {limit:.0e} | {place} |", flush=True)
    return largest <= limit


def compare_speed(
    sides: List[Side], places: Places, sizes: Sequence[str], shapes: Sequence[str], n_rounds: int, n_starts: int
) -> None:
    """Measure each shape of each size, and print medians."""
    print("\n| size | shape | base | here | here / base | lowest and highest start | system time, base | here |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for size in sizes:
        weights = PACKAGED if size == PACKAGED else str(places.weights(size))
        found: Dict[str, List[List[Dict[str, float]]]] = {shape: [] for shape in shapes}
        for _ in range(n_starts):
            for side in sides:
                side.restart()
            for shape in shapes:
                found[shape].append(measure(sides, shape, weights, n_rounds))
        for shape, by_start in found.items():
            print_rates(size, shape, by_start)


def measure(sides: List[Side], shape: str, weights: str, n_rounds: int) -> List[Dict[str, float]]:
    """RETURNS (List[Dict[str, float]]): For each round after a warm-up round, tokens/s of both sides by name, and the
    share of system time in CPU time.
    """
    found: List[Dict[str, float]] = []
    for number in range(n_rounds + 1):
        order = sides if number % 2 else sides[::-1]
        answers = {side.name: side.ask(task="speed", shape=shape, weights=weights) for side in order}
        shares = {f"{name} system": one["system"] for name, one in answers.items()}
        found.append({**{name: one["rate"] for name, one in answers.items()}, **shares})
    return found[1:]


def print_rates(size: str, shape: str, by_start: List[List[Dict[str, float]]]) -> None:
    """Print a row of the table."""
    rounds = [rates for start in by_start for rates in start]
    medians = [f"{statistics.median(rates[name] for rates in rounds):,.0f}" for name in ("base", "here")]
    ratios = [statistics.median(rates["here"] / rates["base"] for rates in start) for start in by_start]
    ratio = statistics.median(rates["here"] / rates["base"] for rates in rounds)
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    shares = [f"{statistics.median(rates[f'{name} system'] for rates in rounds):.1%}" for name in ("base", "here")]
    print(f"| {size} | {shape} | {' | '.join(medians)} | {ratio:.3f} | {spread} | {' | '.join(shares)} |", flush=True)


if __name__ == "__main__":
    typer.run(main)
