"""Print case, array and largest absolute difference for everything stored of the reference programs.

PYTHONPATH=tests python -m parity.table             # SPACY_ELMO_SHARED names the shared directory, default ../shared
PYTHONPATH=tests python -m parity.table --fast      # without the two largest models
PYTHONPATH=tests python -m parity.table --float64   # layers only: which part is the rounding of the reference
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Iterator, Tuple

from .cases import (
    CASES,
    FIXTURES,
    LIMIT,
    LM_CASES,
    SLOW_CASES,
    Case,
    fixture_differences,
    limit_of,
    lm_differences,
)
from .training import LIMIT_TRAINED, sampled_difference, training_differences

ROOT = Path(__file__).parent.parent.parent
Row = Tuple[str, str, float, float]


def rows(shared: Path, is_fast: bool) -> Iterator[Row]:
    """Case, array, largest difference, limit."""
    for name in CASES:
        if is_fast and name in SLOW_CASES:
            continue
        with tempfile.TemporaryDirectory() as work:
            case = Case(shared, name, Path(work))
            limit = limit_of(case.bilm.config.n_layers)
            yield from ((name, array, value, limit) for array, value in case.differences())
    for name in LM_CASES:
        yield from ((f"lm/{name}", array, value, LIMIT) for array, value in lm_differences(shared, name))
        trained = training_differences(shared, name)
        yield from ((f"lm/{name}", array, value, LIMIT_TRAINED) for array, value in trained)
    yield "lm/sampled_softmax.npz", "losses", sampled_difference(shared, sparse=True), LIMIT
    for name in FIXTURES:
        yield from ((f"fixtures/{name}", array, value, LIMIT) for array, value in fixture_differences(shared, name))


def print_rounding(shared: Path, is_fast: bool) -> None:
    """Print the largest differences of the layers of each case, of ours and of the reference from float64."""
    print("| case | LSTM layers | ours to reference | ours to float64 | reference to float64 |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name in (name for name in CASES if not (is_fast and name in SLOW_CASES)):
        with tempfile.TemporaryDirectory() as work:
            case = Case(shared, name, Path(work))
            columns = zip(*(values for _, *values in case.rounding()))
            found = " | ".join(f"{max(column):.1e}" for column in columns)
            print(f"| {name} | {case.bilm.config.n_layers} | {found} |", flush=True)


def main() -> int:
    """Print a Markdown table; exit code 1 if a difference is above its limit."""
    shared = (ROOT / os.environ.get("SPACY_ELMO_SHARED", "../shared")).resolve()
    if not (shared / "data").is_dir():
        print(f"No directory {shared / 'data'}: set SPACY_ELMO_SHARED to the directory that holds data/.")
        return 1
    if "--float64" in sys.argv[1:]:
        print_rounding(shared, "--fast" in sys.argv[1:])
        return 0
    print("| case | array | largest difference | limit |\n| --- | --- | --- | --- |")
    n_rows = n_above = 0
    for case, array, value, limit in rows(shared, "--fast" in sys.argv[1:]):
        print(f"| {case} | {array} | {value:.1e} | {limit:.0e} |{' **above**' if value > limit else ''}", flush=True)
        n_rows, n_above = n_rows + 1, n_above + (value > limit)
    print(f"\n{n_rows} arrays, {n_above} above their limit.")
    return int(n_above > 0)


if __name__ == "__main__":
    sys.exit(main())
