"""Vector stores next to each other: time to build, size on disk, recall@10 against exact search, time of a query.

The vectors are those of the top layer of en_elmo_sm for the first tokens of `lm-english`, scaled to unit length. Every
store keeps the vectors and the sentences; Faiss and usearch keep the sentences, and the vectors for the exact cosine of
what they find, in SQLite. A store that is not installed is left out.
"""

import argparse
import gzip
import json
import sqlite3
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np
from corpus import default_shared

K = 10
N_PROBED = 32  # cells of an inverted file that are searched
N_CANDIDATES = 100  # whose exact cosine is computed
BLOCK = 10_000
Found = List[int]
Search = Callable[[Any], Found]
Build = Callable[[Any, Path], Tuple[Search, Callable[[Any], None]]]


def read_sentences(path: Path, n_tokens: int) -> Iterator[List[str]]:
    """YIELDS (List[str]): The first sentences of a file, `n_tokens` or a few more in all."""
    with gzip.open(path, "rt", encoding="utf8") as file:
        for words in map(str.split, file):
            yield words
            n_tokens -= len(words)
            if n_tokens <= 0:
                return


def make_vectors(path: Path, n_tokens: int) -> Any:
    """RETURNS (NDArray[np.float32]): Shape (n_tokens, D), unit vectors."""
    from spacy_elmo import load_bilm

    bilm = load_bilm("en_elmo_sm")
    slices = bilm.iter_encode(list(read_sentences(path, n_tokens)), reuse_memory=True)
    vectors = np.concatenate([layers[-1].numpy().copy() for _, _, layers in slices])[:n_tokens]
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def build_faiss(kind: str) -> Build:
    """kind (str): What follows the inverted file in Faiss's factory, for instance "SQ8" or "PQ64"; or "HNSW32_SQ8"."""

    def build(vectors: Any, folder: Path) -> Tuple[Search, Callable[[Any], None]]:
        import faiss

        faiss.omp_set_num_threads(1)
        n_cells = int(4 * len(vectors) ** 0.5)
        name = kind if kind.startswith("HNSW") else f"IVF{n_cells},{kind}"
        index = faiss.index_factory(vectors.shape[1], name, faiss.METRIC_INNER_PRODUCT)
        index.train(vectors[np.random.default_rng(0).choice(len(vectors), min(len(vectors), 40 * n_cells), False)])
        for start in range(0, len(vectors), BLOCK):
            index.add(vectors[start : start + BLOCK])
        if kind.startswith("HNSW"):
            index.hnsw.efSearch = N_CANDIDATES
        else:
            index.nprobe = N_PROBED
        faiss.write_index(index, str(folder / "vectors.faiss"))
        rows = store_rows(vectors, folder)
        search = lambda one: rerank(rows, one, index.search(one[None], N_CANDIDATES)[1][0])  # noqa: E731
        return search, lambda ids: index.remove_ids(ids)

    return build


def build_usearch(kind: str) -> Build:
    """kind (str): Number type of the stored vectors."""

    def build(vectors: Any, folder: Path) -> Tuple[Search, Callable[[Any], None]]:
        from usearch.index import Index

        index = Index(ndim=vectors.shape[1], metric="ip", dtype=kind, expansion_search=N_CANDIDATES)
        for start in range(0, len(vectors), BLOCK):
            block = vectors[start : start + BLOCK]
            index.add(np.arange(start, start + len(block)), block, threads=1)
        index.save(str(folder / "vectors.usearch"))
        rows = store_rows(vectors, folder)
        search = lambda one: rerank(rows, one, index.search(one, N_CANDIDATES).keys)  # noqa: E731
        return search, lambda ids: index.remove(ids)

    return build


def build_lancedb(kind: str) -> Build:
    """kind (str): Index of LanceDB: "IVF_PQ" or "IVF_HNSW_SQ"."""

    def build(vectors: Any, folder: Path) -> Tuple[Search, Callable[[Any], None]]:
        import lancedb
        import pyarrow

        def block(start: int) -> Any:
            part = vectors[start : start + BLOCK].astype("float16")
            listed = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(part.reshape(-1)), vectors.shape[1])
            return pyarrow.table({"id": np.arange(start, start + len(part)), "vector": listed})

        table = lancedb.connect(folder).create_table("tokens", block(0))
        for start in range(BLOCK, len(vectors), BLOCK):
            table.add(block(start))
        table.create_index(metric="dot", vector_column_name="vector", index_type=kind)

        def search(one: Any) -> Found:
            query = table.search(one).distance_type("dot").nprobes(N_PROBED).refine_factor(N_CANDIDATES // K)
            return query.limit(K).select(["id"]).to_arrow()["id"].to_pylist()

        return search, lambda ids: table.delete(f"id < {len(ids)}")

    return build


def store_rows(vectors: Any, folder: Path) -> sqlite3.Connection:
    """Store the vectors as float16, by number."""
    rows = sqlite3.connect(folder / "rows.sqlite")
    rows.execute("CREATE TABLE token (id INTEGER PRIMARY KEY, vector BLOB)")
    rows.executemany("INSERT INTO token VALUES (?, ?)", enumerate(map(bytes, vectors.astype("float16"))))
    rows.commit()
    return rows


def rerank(rows: sqlite3.Connection, one: Any, ids: Any) -> Found:
    """RETURNS (Found): The K ids with the highest exact cosine."""
    numbers = [int(number) for number in ids if number >= 0]
    marks = ",".join("?" * len(numbers))
    found = rows.execute(f"SELECT id, vector FROM token WHERE id IN ({marks})", numbers).fetchall()
    vectors = np.frombuffer(b"".join(vector for _, vector in found), dtype="float16").reshape(len(found), -1)
    order = np.argsort(-(vectors.astype("float32") @ one), kind="stable")[:K]
    return [found[place][0] for place in order]


STORES: Dict[str, Tuple[str, Build]] = {
    "Faiss IVF, SQ8": ("faiss", build_faiss("SQ8")),
    "Faiss IVF, PQ64": ("faiss", build_faiss("PQ64")),
    "Faiss IVF, PQ32": ("faiss", build_faiss("PQ32")),
    "Faiss HNSW, SQ8": ("faiss", build_faiss("HNSW32_SQ8")),
    "usearch HNSW, f16": ("usearch", build_usearch("f16")),
    "usearch HNSW, i8": ("usearch", build_usearch("i8")),
    "LanceDB IVF_PQ": ("lancedb", build_lancedb("IVF_PQ")),
    "LanceDB IVF_HNSW_SQ": ("lancedb", build_lancedb("IVF_HNSW_SQ")),
}


def measure(build: Build, vectors: Any, n_queries: int) -> Dict[str, Any]:
    """RETURNS (Dict[str, float]): The figures of one store."""
    places = np.random.default_rng(1).choice(len(vectors), n_queries, replace=False)
    exact = [set(np.argpartition(-(vectors @ vectors[place]), K)[:K].tolist()) for place in places]
    with tempfile.TemporaryDirectory() as name:
        start = time.perf_counter()
        search, delete = build(vectors, Path(name))
        built = time.perf_counter()
        size = sum(file.stat().st_size for file in Path(name).rglob("*") if file.is_file())
        times, hits = [], 0
        for place, wanted in zip(places, exact):
            begin = time.perf_counter()
            hits += len(wanted & set(search(vectors[place])))
            times.append(time.perf_counter() - begin)
        begin, can_delete = time.perf_counter(), True
        try:
            delete(np.arange(len(vectors) // 100))
        except RuntimeError:  # not implemented for graphs of Faiss
            can_delete = False
        delete_ms = round(1000 * (time.perf_counter() - begin), 1)
        return {
            "build_s": round(built - start, 1),
            "mb": round(size / 1e6, 1),
            "recall": round(hits / (K * n_queries), 3),
            "query_ms": round(1000 * float(np.median(times)), 2),
            "delete_ms": delete_ms if can_delete else None,
        }


def main() -> None:
    """Print a line of JSON per store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-vectors", type=int, default=100_000)
    parser.add_argument("--n-queries", type=int, default=300)
    parser.add_argument("--store", choices=STORES, action="append", help="only these")
    parser.add_argument("--shared", type=Path, default=default_shared())
    arguments = parser.parse_args()
    vectors = make_vectors(arguments.shared / "data/lm-english/train-00.txt.gz", arguments.n_vectors)
    for store in arguments.store or STORES:
        library, build = STORES[store]
        if find_spec(library) is None:
            print(f"{store}: {library} is not installed")
            continue
        print(json.dumps({"store": store, **measure(build, vectors, arguments.n_queries)}), flush=True)


if __name__ == "__main__":
    main()
