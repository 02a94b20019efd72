"""How good the approximate search of an index is: recall@k against exact search, and the time of a query."""

import time
from dataclasses import dataclass

import numpy as np

from ..inference.checks import check_positive
from .neighbors import NeighborIndex
from .token_store import Vectors

TOLERANCE = 1e-5  # of cosines, which depend on how many are computed at once


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
    lowest = _find_lowest(index, units, k)
    hits, times = 0, [0.0][len(units) :]
    for unit, cosine in zip(units, lowest):
        begin = time.perf_counter()
        found = index.query(unit, k)
        times.append(time.perf_counter() - begin)
        hits += sum(neighbor.cosine >= cosine - TOLERANCE for neighbor in found)
    wanted = max(1, len(units) * min(k, index.n_tokens))
    return Recall(hits / wanted, k, len(units), 1000 * float(np.median(times)))


def _find_lowest(index: NeighborIndex, units: Vectors, k: int) -> Vectors:
    """RETURNS (Vectors): Shape (Q,), the cosine of the k-th true neighbour of each query, all vectors compared."""
    best = np.empty((len(units), 0), dtype="float32")
    for _, vectors in index.store.iter_vectors(index.width):
        best = np.sort(np.concatenate([best, units @ vectors.T], axis=1), axis=1)[:, -k:]
    return best[:, 0] if best.shape[1] else np.empty(len(units), dtype="float32")


def draw_vectors(index: NeighborIndex, n: int, seed: int = 0) -> Vectors:
    """RETURNS (Vectors): Shape (up to n, D), unit vectors of tokens of the index."""
    last = index.store.read_meta()["next_id"]
    numbers = np.random.default_rng(seed).permutation(np.arange(1, last))
    ids, vectors = index.store.read_vectors(numbers[: 4 * n].tolist(), index.width)
    return vectors[np.random.default_rng(seed).permutation(len(ids))[:n]]
