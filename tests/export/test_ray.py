"""`elmo embed --engine ray`: the parts of the local engine, whatever is lost on the way."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import numpy as np
import pytest
from export.running import TEXTS, check_rows, embed_texts, make_bilm

from spacy_elmo import save_bilm
from spacy_elmo.export import Embedder, embed_corpus

ray = pytest.importorskip("ray", reason="needs ray")
pytest.importorskip("ray.data", reason="needs ray[data]")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # warnings of ray
N_FILES, N_LINES = 12, 400


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a biLM, texts, and their vectors by the local engine."""
    save_bilm(make_bilm(), tmp_path / "bilm")
    (tmp_path / "in").mkdir()
    for i in range(N_FILES):
        lines = [f"word{i} {k} the cat sat on {' '.join(['the mat'] * (k % 5))} ." for k in range(N_LINES)]
        (tmp_path / "in" / f"{i:02}.txt").write_text("\n".join(lines) + "\n", encoding="utf8")
    run(tmp_path, "local", engine="local")
    return tmp_path


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Ray on one node with one CPU; further nodes can be added."""
    from ray.cluster_utils import Cluster

    ray.shutdown()
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    ray.init(address=found.address, log_to_driver=False)
    yield found
    ray.shutdown()
    found.shutdown()


def run(place: Path, name: str, **settings: Any) -> Any:
    return embed_corpus(place / "bilm", place / "in", place / name, docs_per_file=100, **{"engine": "ray", **settings})


def read(folder: Path) -> Dict[str, Any]:
    tables = [pq.read_table(path) for path in sorted(folder.glob("part-*.parquet"))]
    ids = [name for table in tables for name in table.column("id").to_pylist()]
    assert len(set(ids)) == len(ids) == N_FILES * N_LINES
    rows = [np.array(row.as_py(), dtype="float32") for table in tables for row in table.column("elmo")]
    return dict(zip(ids, rows))


def check(place: Path, name: str) -> None:
    """Every id once, none missing, vectors of the local engine."""
    found, wanted = read(place / name), read(place / "local")
    assert set(found) == set(wanted)
    assert max(float(np.abs(found[key] - wanted[key]).max()) for key in wanted) <= 1e-5


def after_parts(folder: Path, n: int, act: Callable[[], None]) -> threading.Thread:
    """Do something when there are n parts, which takes less than five minutes."""

    def wait() -> None:
        end_s = time.monotonic() + 300
        while len(list(folder.glob("part-*.parquet"))) < n and time.monotonic() < end_s:
            time.sleep(0.005)
        act()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def test_parts_are_those_of_the_local_engine(place: Path, cluster: Any) -> None:
    cluster.add_node(num_cpus=1)
    total = run(place, "out", workers=2)
    assert (total.n_texts, total.n_parts) == (N_FILES * N_LINES, N_FILES * 4)
    check(place, "out")
    assert run(place, "out").n_existing == N_FILES * 4


def test_a_lost_worker_is_replaced(place: Path, cluster: Any) -> None:
    killed: List[int] = []

    def kill() -> None:
        command = ["pgrep", "-f", "ray::MapWorker|ray::_MapWorker"]
        found = subprocess.run(command, capture_output=True, text=True).stdout.split()
        killed.extend(map(int, found[:1]))
        for process in killed:
            os.kill(process, signal.SIGKILL)

    thread = after_parts(place / "out", 3, kill)
    run(place, "out", workers=1)
    thread.join()
    assert killed
    check(place, "out")


def test_a_lost_node_is_replaced(place: Path, cluster: Any) -> None:
    node = cluster.add_node(num_cpus=1)
    thread = after_parts(place / "out", 3, lambda: cluster.remove_node(node, allow_graceful=False))
    run(place, "out", workers=2)
    thread.join()
    check(place, "out")


def test_a_driver_that_is_killed_continues(place: Path, cluster: Any) -> None:
    paths = [str(place / name) for name in ("bilm", "in", "out")]
    options = ["--docs-per-file", "100", "--engine", "ray", "--workers", "1", "--address", cluster.address]
    command = [sys.executable, "-m", "spacy_elmo", "embed", *paths, *options]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    after_parts(place / "out", 5, process.kill).join()
    process.wait()
    assert len(list((place / "out").glob("part-*.parquet"))) < N_FILES * 4
    again = subprocess.run(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert again.returncode == 0 and "existed already" in " ".join(again.stderr.split()), again.stderr
    check(place, "out")


def test_the_callable_maps_batches(tmp_path: Path, cluster: Any) -> None:
    save_bilm(make_bilm(), tmp_path / "bilm")
    rows = ray.data.from_items([{"text": text} for text in TEXTS])
    wanted = embed_texts(str(tmp_path / "bilm"))
    for batch_format in ("pyarrow", "default", "pandas"):
        found = rows.map_batches(Embedder(str(tmp_path / "bilm")), batch_format=batch_format).take_all()
        by_text = {row["text"]: row["elmo"] for row in found}
        check_rows([by_text[text] for text in TEXTS], wanted)


@pytest.mark.issue(48)
def test_a_text_that_cannot_be_read_is_an_error_without_a_traceback(place: Path, cluster: Any) -> None:
    (place / "in" / "00.txt").write_bytes(b"caf\xe9\n")
    with pytest.raises(ValueError, match="00.txt:1 is not valid UTF-8") as caught:
        run(place, "ray")
    assert type(caught.value) is ValueError and "Traceback" not in str(caught.value)
