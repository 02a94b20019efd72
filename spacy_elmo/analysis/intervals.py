"""Scores with confidence intervals: percentile bootstrap over sentences (Efron and Tibshirani 1993).

Tokens of a sentence are not independent, so that sentences are drawn, not tokens. Shares of few tokens, down to none,
have the interval of Wilson (1927), with the design effect of their documents (Rao and Scott 1992). Differences of means
over seeds have the interval of Student (1908).
"""

from dataclasses import dataclass
from statistics import NormalDist, mean
from typing import Any, Callable, Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..settings import require

Floats = NDArray[np.float64]
N_SAMPLES = 1000
CONFIDENCE = 0.95


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
    options (Any): `n_samples`, `confidence` and `seed`, see `bootstrap`.
    """
    is_correct = np.asarray(correct, dtype="float64")
    return bootstrap_ratio(is_correct, np.ones_like(is_correct), groups, **options)


def bootstrap_f1(correct: ArrayLike, answered: ArrayLike, groups: ArrayLike, **options: Any) -> Score:
    """F1 of precision correct / answered and recall correct / all, for systems that may give no answer.

    correct (ArrayLike), answered (ArrayLike): Shape (N,), whether each is correct, and whether there is an answer.
    groups (ArrayLike): Shape (N,), the sentence of each.
    options (Any): See `bootstrap_accuracy`.
    """
    is_answered = np.asarray(answered, dtype="float64")
    return bootstrap_ratio(2 * np.asarray(correct, dtype="float64"), is_answered + 1, groups, **options)


def bootstrap_ratio(numerators: ArrayLike, denominators: ArrayLike, groups: ArrayLike, **options: Any) -> Score:
    """A ratio of two sums over tokens, each of shape (N,). For the other arguments see `bootstrap_accuracy`."""
    values = [np.asarray(terms, dtype="float64") for terms in (numerators, denominators)]
    _, index = np.unique(np.asarray(groups), return_inverse=True)
    sums: Floats = np.stack([np.bincount(index, weights=terms) for terms in values], axis=1)  # (G, 2)
    return bootstrap(sums, lambda total: total[:, 0] / total[:, 1], n=len(index), **options)


def bootstrap(
    sums: Floats,
    score: Callable[[Floats], Floats],
    *,
    n: int,
    n_samples: int = N_SAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Score:
    """A score of sums over sentences, with an interval from drawing sentences with replacement.

    sums (Floats): Shape (G, k), of each sentence.
    score (Callable[[Floats], Floats]): From (samples, k) to (samples,).
    n (int): See `Score`.
    RAISES (ValueError): For no sentences, or settings out of range.
    """
    samples = _draw_samples(len(sums), n_samples, confidence, seed)
    drawn = np.stack([sums[sample].sum(axis=0) for sample in samples])  # (samples, k)
    low, high = np.quantile(score(drawn), [(1 - confidence) / 2, (1 + confidence) / 2])
    return Score(float(score(sums.sum(axis=0, keepdims=True))[0]), float(low), float(high), n)


def bootstrap_weights(
    score: Callable[[Floats], float],
    n: int,
    *,
    n_samples: int = N_SAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Score:
    """A score of texts that is not a function of sums, with an interval from drawing texts with replacement.

    score (Callable[[Floats], float]): From how often each text counts, shape (n,), to the score.
    n (int): Number of texts.
    RAISES (ValueError): See `bootstrap`.
    """
    samples = _draw_samples(n, n_samples, confidence, seed)
    drawn = [score(np.bincount(sample, minlength=n).astype("float64")) for sample in samples]
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Score(score(np.ones(n)), float(low), float(high), n)


def _draw_samples(n_groups: int, n_samples: int, confidence: float, seed: int) -> Iterator[NDArray[np.int64]]:
    """RETURNS (Iterator[NDArray]): For each sample, as many numbers of groups as there are groups."""
    require(
        (bool(n_groups), "no interval can be computed: there are no tokens to score, should be one or more"),
        (n_samples >= 1, f"n_samples is {n_samples}, should be 1 or more"),
        (0 < confidence < 1, f"confidence is {confidence}, should be between 0 and 1"),
    )
    rng = np.random.default_rng(seed)
    return (rng.integers(0, n_groups, n_groups) for _ in range(n_samples))


def score_share(n_hits: float, n: int, *, effect: float = 1.0, confidence: float = CONFIDENCE) -> Score:
    """A share of tokens with the interval of Wilson (1927), which holds for small numbers and for shares of 0 and 1.

    n_hits (float), n (int): Tokens that count, of all tokens, at least one.
    effect (float): Design effect, by which n is divided for the interval, see `find_design_effect`.
    """
    share, n_effective, z = n_hits / n, n / effect, NormalDist().inv_cdf((1 + confidence) / 2)
    scale = 1 + z**2 / n_effective
    middle = (share + z**2 / (2 * n_effective)) / scale
    half = z / scale * (share * (1 - share) / n_effective + z**2 / (4 * n_effective**2)) ** 0.5
    return Score(share, max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half)), n)


def compare_means(ours: Sequence[float], theirs: Sequence[float], confidence: float = CONFIDENCE) -> Score:
    """Difference of two means of independent values with equal variance, by Student's t for two samples:
    d +- t(n + m - 2) * s * sqrt(1 / n + 1 / m), where s ** 2 is the pooled variance (Student 1908, Fisher 1925).

    ours (Sequence[float]), theirs (Sequence[float]): n and m values, each 1 or more, together 3 or more.
    RETURNS (Score): With n + m as `n`.
    """
    n_degrees = len(ours) + len(theirs) - 2
    squares = sum((value - mean(values)) ** 2 for values in (ours, theirs) for value in values)
    error = (squares / n_degrees * (1 / len(ours) + 1 / len(theirs))) ** 0.5
    value, half = mean(ours) - mean(theirs), student_quantile(n_degrees, confidence) * error
    return Score(value, value - half, value + half, n_degrees + 2)


def student_quantile(n_degrees: int, confidence: float = CONFIDENCE) -> float:
    """The bound that the absolute value of Student's t does not exceed with probability `confidence`.

    t = sqrt(n_degrees) * tan(angle), and the angle has a density in proportion to cos(angle) ** (n_degrees - 1).
    """
    angles = np.linspace(0, np.pi / 2, 10_001)
    density = np.cos(angles) ** (n_degrees - 1)
    probs = np.cumsum(density[1:] + density[:-1])  # trapezoids
    return float(n_degrees**0.5 * np.tan(np.interp(confidence * probs[-1], probs, angles[1:])))


def find_design_effect(labels: ArrayLike, documents: ArrayLike, groups: ArrayLike) -> float:
    """How many times the variance of shares is what it would be if tokens were drawn one by one, not in documents (Rao
    and Scott 1992, pooled over groups and labels).

    labels (ArrayLike), documents (ArrayLike), groups (ArrayLike): Shape (N,), one per token; shares of labels are
        compared in each group.
    RETURNS (float): 1 or more; 1 where no group has two documents.
    """
    _, label = np.unique(np.asarray(labels), return_inverse=True)
    observed = expected = 0.0
    for group in np.unique(np.asarray(groups)):
        is_in_group = np.asarray(groups) == group
        _, document = np.unique(np.asarray(documents)[is_in_group], return_inverse=True)
        m = int(document.max()) + 1
        if m < 2:
            continue
        sums = np.zeros((m, int(label.max()) + 1))
        np.add.at(sums, (document, label[is_in_group]), 1)
        shares = sums.sum(axis=0) / is_in_group.sum()
        observed += m / (m - 1) * float(((sums - shares * sums.sum(axis=1, keepdims=True)) ** 2).sum())
        expected += float((is_in_group.sum() * shares * (1 - shares)).sum())
    return max(1.0, observed / expected) if expected else 1.0
