"""The dependency tree of the highest score: Chu and Liu (1965), Edmonds (1967), as Tarjan (1977) for dense graphs.

Heads of n words are numbers from 0 to n: 0 is the root, an extra node, and j is word j - 1. A tree has one word whose
head is the root.
"""

import math
from typing import List

import numpy
from numpy.typing import NDArray

Heads = NDArray[numpy.int64]
Matrix = NDArray[numpy.float64]
LIMIT = 1e9  # absolute value of a score, in place of infinity
ROOT = 0


def are_trees(heads: Heads, lengths: Heads) -> NDArray[numpy.bool_]:
    """Check that exactly one word of a sentence is attached to the root, and that there is no cycle.

    heads (Heads): Shape (B, T), 0 where a sentence is padded.
    lengths (Heads): Shape (B,), words of each sentence.
    RETURNS (NDArray[bool]): Shape (B,).
    """
    n_sentences, n_words = heads.shape
    is_word = numpy.arange(n_words) < lengths[:, None]
    n_roots = ((heads == ROOT) & is_word).sum(axis=1)
    ancestors = numpy.concatenate([numpy.zeros((n_sentences, 1), dtype="int64"), heads], axis=1)  # (B, T+1)
    for _ in range(math.ceil(math.log2(n_words + 1))):  # each step doubles the distance of the ancestor
        ancestors = numpy.take_along_axis(ancestors, ancestors, axis=1)
    is_tree: NDArray[numpy.bool_] = (n_roots == 1) & ~ancestors.any(axis=1)
    return is_tree


def find_best_tree(scores: NDArray[numpy.floating]) -> Heads:
    """Find the tree of the highest sum of scores.

    If the tree has several words below the root, the search is repeated with arcs from the root that cost more than all
    other scores together, which leaves one of them.

    scores (NDArray[float]): Shape (n, n+1), from a word (row) to its head (column). Those of a word to itself are not
        read; NaN counts as lowest.
    RETURNS (Heads): Shape (n,).
    """
    limited = numpy.nan_to_num(scores.astype("float64"), nan=-LIMIT).clip(-LIMIT, LIMIT)
    words = numpy.arange(len(scores))
    limited[words, words + 1] = limited[:, ROOT]  # as if it were not there, for the range below
    heads = _find_arborescence(limited)
    if (heads == ROOT).sum() > 1:
        limited[:, ROOT] -= 1 + len(scores) * (limited.max() - limited.min())
        heads = _find_arborescence(limited)
    return heads


def _find_arborescence(scores: Matrix) -> Heads:
    """Find the tree of the highest sum of scores, with any number of words below the root.

    Follows the best incoming arcs from word to word until the path reaches the root, and contracts each cycle on the
    way into one node. A row or column of the matrix is a node, so that contraction takes time in proportion to n, and
    the whole search n^2.
    """
    n_nodes = len(scores) + 1
    weights = numpy.full((n_nodes, n_nodes), -numpy.inf)
    weights[1:] = scores
    numpy.fill_diagonal(weights, -numpy.inf)
    # The arc between words that the weight between two nodes is of.
    dependents = numpy.repeat(numpy.arange(n_nodes)[:, None], n_nodes, axis=1)
    heads = numpy.repeat(numpy.arange(n_nodes)[None], n_nodes, axis=0)
    nodes = list(range(n_nodes))  # the node of each row: a word, or a cycle with a number from n_nodes
    parents: List[int] = [-1] * n_nodes  # the cycle that a node is contracted into
    arcs = [(ROOT, ROOT)] * n_nodes  # the best incoming arc of each node
    is_done = numpy.zeros(n_nodes, dtype=bool)
    is_done[ROOT] = True
    for first in range(1, n_nodes):
        path = [] if is_done[first] or not nodes[first] else [first]
        while path:
            row = path[-1]
            column = int(weights[row].argmax())
            arcs[nodes[row]] = (int(dependents[row, column]), int(heads[row, column]))
            if is_done[column]:
                is_done[path] = True
                break
            if column not in path:
                path.append(column)
                continue
            cycle = path[path.index(column) :]
            del path[path.index(column) + 1 :]
            _contract(cycle, weights, dependents, heads)
            for member in cycle:
                parents[nodes[member]] = len(parents)
                nodes[member] = 0  # its row is gone, except the row of the first member
            nodes[column] = len(parents)
            parents.append(-1)
            arcs.append((ROOT, ROOT))
    for cycle_node in range(len(parents) - 1, n_nodes - 1, -1):  # the arc into a cycle replaces one within
        member = arcs[cycle_node][0]
        while parents[member] != cycle_node:
            member = parents[member]
        arcs[member] = arcs[cycle_node]
    return numpy.array([head for _, head in arcs[1:n_nodes]], dtype="int64")


def _contract(cycle: List[int], weights: Matrix, dependents: Heads, heads: Heads) -> None:
    """Replace the rows and columns of a cycle by one row and column, at its first node.

    An arc into the cycle replaces the best arc of the node that it enters, and weighs less by the weight of this one.
    """
    first, others = cycle[0], cycle[1:]
    columns = numpy.arange(len(weights))
    entering = weights[cycle] - weights[cycle].max(axis=1, keepdims=True)
    best = entering.argmax(axis=0)
    rows = numpy.array(cycle)[best]
    weights[first] = entering[best, columns]
    dependents[first], heads[first] = dependents[rows, columns], heads[rows, columns]
    leaving = numpy.array(cycle)[weights[:, cycle].argmax(axis=1)]
    weights[:, first] = weights[columns, leaving]
    dependents[:, first], heads[:, first] = dependents[columns, leaving], heads[columns, leaving]
    weights[first, cycle] = -numpy.inf
    weights[others] = weights[:, others] = -numpy.inf
