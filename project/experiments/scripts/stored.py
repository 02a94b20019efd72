"""Results in files: a file of JSON lines for each table, with a line for each run. Several processes can train runs and
store their results at the same time.
"""

from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List

import srsly
from shared import identify

from spacy_elmo.files import fcntl, write_text

EXPERIMENTS_DIR = Path(__file__).resolve().parents[1]
RESULTS_DIR = EXPERIMENTS_DIR / "results"
TRAINING_DIR = EXPERIMENTS_DIR / "training"
LOCKS = ".locks"  # folder in that of the results
# Files of results: the tables that the runs were first made for. Other tables have some of these runs as well.
TABLES = ("sample", "gains", "alternatives", "finetuned", "choice", "language", "mixes", "placements", "shares", "grid")
Result = Dict[str, Any]


def read_results(folder: Path) -> List[Result]:
    """RETURNS (List[Result]): All stored results. RAISES (ValueError): For a line that is not JSON."""
    results: List[Result] = []
    for path in (folder / f"{table}.jsonl" for table in TABLES):
        try:
            results += srsly.read_jsonl(path) if path.is_file() else []
        except ValueError as e:
            raise ValueError(f"'{path}' has a line that is not a result: {e}. Remove it to train again.") from e
    return results


def store_result(result: Result, path: Path) -> None:
    """Add a line; it replaces that of other weights. A killed process leaves the file as it was."""
    with lock(path.parent, path.name):
        lines = path.read_text(encoding="utf8").splitlines() if path.is_file() else []
        others = [line for line in lines if name_of(srsly.json_loads(line)) != name_of(result)]
        write_text(path, "".join(f"{line}\n" for line in [*others, srsly.json_dumps(result)]))


@contextmanager
def lock(folder: Path, name: str, *, wait: bool = True) -> Iterator[bool]:
    """Lock a name within a folder of results. The lock ends with the process, however that ends. Windows, and some
    network disks, have no such locks.

    wait (bool): Wait for another process that has the lock.
    YIELDS (bool): False if another process has it.
    """
    (folder / LOCKS).mkdir(parents=True, exist_ok=True)
    is_ours = True
    with (folder / LOCKS / name).open("a") as file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            is_ours = False
        except OSError:  # a disk without locks
            pass
        yield is_ours


def name_of(result: Result) -> str:
    """RETURNS (str): Name of a run, and of the folder of its pipeline."""
    return "{task}-{condition}-{share}pct-seed{seed}".format(**result["settings"])


def is_finished(path: Path, bilm: str) -> bool:
    """RETURNS (bool): Whether a file has the scores of these weights; those of older ones are replaced.
    RAISES (ValueError): For the scores of a biLM of another name.
    """
    identity = identify(bilm)
    record = srsly.read_json(path) if path.is_file() else {"bilm": identity["bilm"]}
    if record["bilm"] != identity["bilm"]:
        raise ValueError(
            f"'{path}' has the scores of the biLM '{record['bilm']}', not '{identity['bilm']}'. Give another "
            "folder, or remove it."
        )
    return bool(record.get("bilm_digest") == identity["bilm_digest"])
