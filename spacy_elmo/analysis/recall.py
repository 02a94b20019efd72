"""How good the approximate search of an index is: recall@k against exact search, and the time of a query."""

import time
from dataclasses import dataclass

import numpy as np

from ..encoding.checks import check_positive
from .neighbors import NeighborIndex, find_exactly


@dataclass(frozen=True)
class Recall:
    """What a check found.

    recall (float): Share of the k true neighbours that the search finds.
    k (int): Neighbours of a query.
    n_queries (int): Tokens of the index whose neighbours were searched.
    query_ms (float): Median time of a query, with its sentences.
    """

    recall: float
    k: int
    n_queries: int
    query_ms: float


def check_recall(index: NeighborIndex, *, k: int = 10, n_queries: int = 100, seed: int = 0) -> Recall:
    """Compare the search with exact search, for tokens of the index. A neighbour counts as found if its cosine is at
    least that of the k-th true neighbour, since equal sentences have equal vectors.

    index (NeighborIndex): With at least one token.
    k (int): Neighbours of a query.
    n_queries (int): Number of queries.
    seed (int): Of the choice of tokens.
    RETURNS (Recall): Its result.
    RAISES (ValueError): EL004 for numbers below 1.
    """
    check_positive("k", k)
    check_positive("n_queries", n_queries)
    units = draw_vectors(index, n_queries, seed)
    hits, wanted, times = 0, 0, []
    for unit in units:
        _, cosines = find_exactly(index.store, unit, k)
        begin = time.perf_counter()
        found = index.query(unit, k)
        times.append(time.perf_counter() - begin)
        hits += sum(neighbor.cosine >= cosines[-1] - 1e-6 for neighbor in found)
        wanted += len(cosines)
    return Recall(float(hits) / max(1, wanted), k, len(units), 1000 * float(np.median(times or [0.0])))


def draw_vectors(index: NeighborIndex, n: int, seed: int = 0) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
    """RETURNS (Vectors): Shape (up to n, D), unit vectors of tokens of the index."""
    last = index.store.read_meta()["next_id"]
    numbers = np.random.default_rng(seed).permutation(np.arange(1, last))
    ids, vectors = index.store.read_vectors(numbers[: 4 * n].tolist(), index.width)
    return vectors[np.random.default_rng(seed).permutation(len(ids))[:n]]
