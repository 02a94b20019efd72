"""Intervals cover what they should, and come from sentences, not tokens."""

import numpy as np
import pytest

from spacy_elmo.analysis.intervals import bootstrap_accuracy, bootstrap_f1, compare_means, student_quantile


def test_interval_has_the_width_of_a_binomial():
    rng = np.random.default_rng(0)
    correct = rng.random(2000) < 0.8
    score = bootstrap_accuracy(correct, np.arange(2000))
    assert score.value == correct.mean() and score.n == 2000
    assert score.low < score.value < score.high
    assert score.high - score.low == pytest.approx(2 * 1.96 * (0.8 * 0.2 / 2000) ** 0.5, rel=0.1)


def test_tokens_of_a_sentence_count_as_one():
    correct = np.repeat(np.arange(40) % 2, 50)
    by_sentence = bootstrap_accuracy(correct, np.repeat(np.arange(40), 50))
    by_token = bootstrap_accuracy(correct, np.arange(2000))
    assert by_sentence.value == by_token.value == 0.5
    assert by_sentence.high - by_sentence.low > 4 * (by_token.high - by_token.low)


def test_f1_counts_missing_answers_for_recall_only():
    correct, answered = [1, 1, 0, 0], [1, 1, 1, 0]
    precision, recall = 2 / 3, 2 / 4
    score = bootstrap_f1(correct, answered, [0, 0, 1, 1])
    assert score.value == pytest.approx(2 * precision * recall / (precision + recall))


@pytest.mark.parametrize(
    "n, options, problem",
    [
        (0, {}, "no tokens"),
        (1, {"n_samples": 0}, "n_samples is 0"),
        (1, {"confidence": 1.0}, "confidence is 1.0"),
    ],
)
def test_nothing_to_score_is_an_error(n, options, problem):
    with pytest.raises(ValueError, match=problem):
        bootstrap_accuracy(np.ones(n), np.zeros(n), **options)


@pytest.mark.parametrize("n_degrees, bound", [(1, 12.706), (2, 4.303), (4, 2.776), (10, 2.228), (30, 2.042)])
def test_quantiles_are_those_of_the_table_of_student(n_degrees, bound):
    assert student_quantile(n_degrees) == pytest.approx(bound, abs=5e-4)


@pytest.mark.issue(62)
@pytest.mark.parametrize("n_seeds", [2, 3, 5])
def test_means_over_few_seeds_differ_by_chance_in_one_of_twenty_cases(n_seeds):
    """Two standard errors say so in 18 % of the cases with two seeds each, and in 12 % with three."""
    rng = np.random.default_rng(0)
    scores = [compare_means(*rng.normal(0.8, 0.01, (2, n_seeds)).tolist()) for _ in range(1000)]
    assert sum(score.low > 0 or score.high < 0 for score in scores) / 1000 == pytest.approx(0.05, abs=0.02)
