"""The best dependency tree against enumeration of all trees."""

from itertools import product
from typing import List

import numpy
import pytest

from spacy_elmo.pipeline.spanning_tree import are_trees, find_best_tree


def _is_tree(heads: List[int]) -> bool:
    """Walk from each word to the root."""
    for word in range(1, len(heads) + 1):
        node, n_steps = word, 0
        while node and n_steps <= len(heads):
            node, n_steps = heads[node - 1], n_steps + 1
        if node:
            return False
    return heads.count(0) == 1


def _enumerate(n_words: int) -> numpy.ndarray:
    """RETURNS (numpy.ndarray): Shape (trees, n_words), the heads of all trees."""
    every = product(range(n_words + 1), repeat=n_words)
    return numpy.array([heads for heads in every if _is_tree(list(heads))])


def _sum(scores: numpy.ndarray, heads: numpy.ndarray) -> numpy.ndarray:
    return scores[numpy.arange(len(scores)), heads].sum(axis=-1)


@pytest.mark.parametrize("n_words, n_matrices", [(1, 10), (2, 300), (3, 700), (4, 700), (5, 500), (6, 100)])
def test_tree_has_the_highest_score_of_all_trees(n_words: int, n_matrices: int) -> None:
    trees, rng = _enumerate(n_words), numpy.random.default_rng(n_words)
    assert len(trees) == n_words ** (n_words - 1), "Cayley's formula"
    for i in range(n_matrices):
        scores = rng.normal(scale=10.0 ** rng.integers(-2, 4), size=(n_words, n_words + 1)).astype("float32")
        if i % 3 == 0:  # equal scores, and a root that attracts all words or none
            scores = scores.round()
            scores[:, 0] += rng.integers(-1, 2) * 1000
        itself = numpy.arange(n_words)
        without = scores.copy()
        without[itself, itself + 1] = rng.choice([-numpy.inf, 1e6])
        heads = find_best_tree(without)
        assert _is_tree(heads.tolist())
        assert _sum(scores.astype("float64"), heads) == pytest.approx(_sum(scores.astype("float64"), trees).max())


def test_cycles_and_several_roots_are_noticed() -> None:
    sentences = [list(heads) for n in (1, 2, 3, 4) for heads in product(range(n + 1), repeat=n)]
    lengths = numpy.array([len(heads) for heads in sentences])
    padded = numpy.array([heads + [0] * (4 - len(heads)) for heads in sentences])
    assert are_trees(padded, lengths).tolist() == [_is_tree(heads) for heads in sentences]


@pytest.mark.parametrize("value", [0.0, numpy.nan, numpy.inf, -numpy.inf])
def test_scores_that_are_equal_or_not_finite_give_a_tree(value: float) -> None:
    assert _is_tree(find_best_tree(numpy.full((40, 41), value)).tolist())


def test_a_chain_of_cycles_is_resolved() -> None:
    """Words attract each other in pairs, pairs of pairs and so on: each contraction gives the next cycle."""
    n_words = 256
    index = numpy.arange(n_words)
    scores = -(index[:, None] ^ index[None]).astype("float64")
    heads = find_best_tree(numpy.concatenate([numpy.full((n_words, 1), -1e4), scores], axis=1))
    assert _is_tree(heads.tolist())
    # One arc of weight 2^k joins two blocks of that size.
    joined = sum(2**k * (n_words >> (k + 1)) for k in range(8))
    assert scores[index[heads > 0], heads[heads > 0] - 1].sum() == -joined
