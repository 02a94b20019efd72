"""Print the largest differences of the layers of each case: ours and the reference from float64, and between both.

PYTHONPATH=tests python -m parity.table         # SPACY_ELMO_SHARED names the shared directory, default ../shared
PYTHONPATH=tests python -m parity.table --fast  # without the two largest models
"""

import os
import sys
import tempfile
from pathlib import Path

from .cases import CASES, SLOW_CASES, Case

ROOT = Path(__file__).parent.parent.parent


def main() -> None:
    shared = (ROOT / os.environ.get("SPACY_ELMO_SHARED", "../shared")).resolve()
    if not (shared / "data").is_dir():
        sys.exit(f"No directory {shared / 'data'}: set SPACY_ELMO_SHARED to the directory that holds data/.")
    print("| case | LSTM layers | ours to reference | ours to float64 | reference to float64 |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name in (name for name in CASES if not ("--fast" in sys.argv[1:] and name in SLOW_CASES)):
        with tempfile.TemporaryDirectory() as work:
            case = Case(shared, name, Path(work))
            columns = zip(*(values for _, *values in case.rounding()))
            found = " | ".join(f"{max(column):.1e}" for column in columns)
            print(f"| {name} | {case.bilm.config.n_layers} | {found} |", flush=True)


if __name__ == "__main__":
    main()
