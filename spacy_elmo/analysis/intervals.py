"""Scores with confidence intervals: percentile bootstrap over sentences (Efron and Tibshirani 1993).

Tokens of a sentence are not independent, so that sentences are drawn, not tokens.
"""

from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import Errors

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Score:
    """A score, between 0 and 1 (a difference: between -1 and 1), and its interval.

    value (float): Measured.
    low (float), high (float): Bounds of the interval.
    n (int): Number of tokens.
    """

    value: float
    low: float
    high: float
    n: int


def bootstrap_accuracy(correct: ArrayLike, groups: ArrayLike, **options: Any) -> Score:
    """Share of correct answers.

    correct (ArrayLike): Shape (N,), whether each answer is correct; for a difference of two systems: 1, 0 or -1.
    groups (ArrayLike): Shape (N,), the sentence of each.
    options (Any): See `bootstrap_ratio`.
    RETURNS (Score): With its interval.
    """
    is_correct = np.asarray(correct, dtype="float64")
    return bootstrap_ratio(is_correct, np.ones_like(is_correct), groups, **options)


def bootstrap_f1(correct: ArrayLike, answered: ArrayLike, groups: ArrayLike, **options: Any) -> Score:
    """F1 of precision correct / answered and recall correct / all, for systems that may give no answer.

    correct (ArrayLike), answered (ArrayLike): Shape (N,), whether each is correct, and whether there is an answer.
    groups (ArrayLike): Shape (N,), the sentence of each.
    options (Any): See `bootstrap_ratio`.
    RETURNS (Score): With its interval.
    """
    is_answered = np.asarray(answered, dtype="float64")
    return bootstrap_ratio(2 * np.asarray(correct, dtype="float64"), is_answered + 1, groups, **options)


def bootstrap_ratio(
    numerators: ArrayLike,
    denominators: ArrayLike,
    groups: ArrayLike,
    *,
    n_samples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Score:
    """A ratio of two sums over tokens, with an interval from drawing sentences with replacement.

    numerators (ArrayLike), denominators (ArrayLike): Shape (N,), at least one token.
    groups (ArrayLike): Shape (N,), the sentence of each.
    n_samples (int): Samples drawn.
    confidence (float): Of the interval.
    seed (int): Of the samples.
    RETURNS (Score): With its interval.
    RAISES (ValueError): EL243 for no tokens or settings out of range.
    """
    upper, lower = np.asarray(numerators, dtype="float64"), np.asarray(denominators, dtype="float64")
    problem = _find_problem(upper, n_samples, confidence)
    if problem:
        raise ValueError(Errors.EL243.format(problem=problem))
    _, index = np.unique(np.asarray(groups), return_inverse=True)
    upper_sums, lower_sums = np.bincount(index, weights=upper), np.bincount(index, weights=lower)  # (G,)
    rng, n_groups = np.random.default_rng(seed), len(upper_sums)
    ratios: Floats = np.empty(n_samples)
    for i in range(n_samples):
        drawn = rng.integers(0, n_groups, n_groups)
        ratios[i] = upper_sums[drawn].sum() / lower_sums[drawn].sum()
    low, high = np.quantile(ratios, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Score(float(upper.sum() / lower.sum()), float(low), float(high), len(upper))


def _find_problem(values: Floats, n_samples: int, confidence: float) -> Optional[str]:
    if not len(values):
        return "there are no tokens to score"
    if n_samples < 1:
        return f"n_samples is {n_samples}, should be 1 or more"
    if not 0 < confidence < 1:
        return f"confidence is {confidence}, should be between 0 and 1"
    return None
