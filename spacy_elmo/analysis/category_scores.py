"""Scores of text categories with intervals, as spaCy's `Scorer.score_cats` computes them; each Doc is drawn as a whole.

A macro score is a mean over the categories of the component. Those that no Doc has, or that have no Doc without them,
count 0, as in spaCy; one that is missing only in a sample of the bootstrap is left out of the mean of that sample.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Callable, Literal, Optional, Tuple

import numpy as np
from numpy.typing import NDArray

from .intervals import Floats, Score, bootstrap_weights

# From a table and how often each Doc counts, shape (N,), to a score.
Metric = Callable[["CategoryTable", Floats], float]
Flags = NDArray[np.bool_]
SIDES: Tuple[Literal["left"], Literal["right"]] = ("left", "right")


@dataclass(frozen=True)
class CategoryTable:
    """What a text categorizer answers on N Docs, with C categories.

    labels (Tuple[str, ...]): The categories.
    is_gold (Floats), is_answer (Floats): Shape (N, C), 1 where the Doc has the category, or is given it, else 0.
    gold (Floats): Shape (N, C), the annotated values; NaN where there is none.
    scores (Floats): Shape (N, C), the scores of the component.
    """

    labels: Tuple[str, ...]
    is_gold: Floats
    is_answer: Floats
    gold: Floats
    scores: Floats

    @cached_property
    def counts(self) -> Floats:
        """RETURNS (Floats): Hits, answers and right answers of each Doc and category, shape (N, 3 * C)."""
        return np.concatenate([self.is_gold * self.is_answer, self.is_answer, self.is_gold], axis=1)

    @cached_property
    def is_binary(self) -> Flags:
        """RETURNS (Flags): Shape (C,), whether a category has two annotated values, so that there is an AUC."""
        return np.array([len(np.unique(column[~np.isnan(column)])) == 2 for column in self.gold.T], dtype=bool)

    @cached_property
    def ranking(self) -> "Ranking":
        """RETURNS (Ranking): The Docs in the order of their scores, for the categories in `is_binary`, at least one."""
        gold, scores = self.gold[:, self.is_binary], self.scores[:, self.is_binary]
        order = np.argsort(scores, axis=0, kind="stable")
        gold, scores = np.take_along_axis(gold, order, axis=0), np.take_along_axis(scores, order, axis=0)
        is_positive = gold == np.nanmax(gold, axis=0)
        ranks = [[np.searchsorted(column, column, side) for column in scores.T] for side in SIDES]
        first, end = (np.stack(columns, axis=1) for columns in ranks)
        return Ranking(order, is_positive, ~np.isnan(gold) & ~is_positive, first, end)


@dataclass(frozen=True)
class Ranking:
    """Docs by their score in each category, the lowest first; all of shape (N, C).

    order (NDArray): The number of the Doc.
    is_positive (Flags), is_negative (Flags): Whether it has the category, or is annotated not to have it.
    first (NDArray), end (NDArray): The Docs with the same score: rank of the first one, and of the one after the last.
    """

    order: NDArray[Any]
    is_positive: Flags
    is_negative: Flags
    first: NDArray[Any]
    end: NDArray[Any]


def macro_f(table: CategoryTable, weights: Floats) -> float:
    """RETURNS (float): Mean F1 of the categories."""
    values, is_counted = _f_by_label(table, weights)
    has_any: Flags = np.asarray(table.counts.reshape(-1, 3, len(table.labels)).any(axis=(0, 1)))
    return _mean_counted(values, is_counted, has_any)


def label_f(label: str) -> Metric:
    """RETURNS (Metric): F1 of one category."""

    def score(table: CategoryTable, weights: Floats) -> float:
        values, _ = _f_by_label(table, weights)
        return float(values[table.labels.index(label)])

    return score


def macro_auc(table: CategoryTable, weights: Floats) -> float:
    """RETURNS (float): Mean area under the ROC curve of the categories: the share of pairs of a Doc with the category
    and one without in which the first has the higher score; ties count half.
    """
    if not table.is_binary.any():
        return 0.0
    ranking = table.ranking
    ranked = weights[ranking.order]
    positives, negatives = ranked * ranking.is_positive, ranked * ranking.is_negative
    below = np.concatenate([np.zeros((1, negatives.shape[1])), negatives.cumsum(axis=0)])  # (N + 1, C)
    lower = (np.take_along_axis(below, ranking.first, axis=0) + np.take_along_axis(below, ranking.end, axis=0)) / 2
    n_pairs = positives.sum(axis=0) * negatives.sum(axis=0)
    values = np.zeros(len(table.labels))
    values[table.is_binary] = (positives * lower).sum(axis=0) / np.maximum(n_pairs, 1)
    is_counted = table.is_binary.copy()
    is_counted[table.is_binary] = n_pairs > 0
    return _mean_counted(values, is_counted, table.is_binary)


def score_categories(
    metric: Metric, ours: CategoryTable, theirs: Optional[CategoryTable], *, seed: int
) -> Tuple[float, Optional[float], Score]:
    """RETURNS (Tuple[float, Optional[float], Score]): Scores of a pipeline and of its baseline, and the score, or with
    a baseline the difference, with its interval; n is the number of Docs.
    """
    n_docs = len(ours.gold)
    everything = np.ones(n_docs)
    score = bootstrap_weights(
        lambda weights: metric(ours, weights) - (0.0 if theirs is None else metric(theirs, weights)), n_docs, seed=seed
    )
    return metric(ours, everything), None if theirs is None else metric(theirs, everything), score


def _f_by_label(table: CategoryTable, weights: Floats) -> Tuple[Floats, Flags]:
    """RETURNS (Tuple[Floats, Flags]): F1 of each category, and whether any Doc has it or is given it."""
    hits, answers, gold = (weights @ table.counts).reshape(3, -1)
    return 2 * hits / np.maximum(answers + gold, 1), answers + gold > 0


def _mean_counted(values: Floats, is_counted: Flags, is_counted_in_all: Flags) -> float:
    """RETURNS (float): The mean of the values that count, times the share of categories that count in all Docs."""
    n_counted = int(is_counted.sum())
    if not n_counted:
        return 0.0
    return float(values[is_counted].sum() / n_counted * is_counted_in_all.sum() / len(values))
