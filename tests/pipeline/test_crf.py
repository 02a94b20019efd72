"""The CRF against enumeration of all tag sequences, its gradient against finite differences."""

from itertools import product
from typing import Dict, Iterable, Sequence, Tuple

import numpy
import pytest
import torch
from torch import Tensor

from spacy_elmo.pipeline.crf import (
    FORBIDDEN,
    allowed_transitions,
    find_best_tags,
    log_partition,
    negative_log_likelihood,
)

N_TAGS = 5  # one label in BILUO
LENGTHS = [3, 1, 4, 3, 2]
ATOL = 1e-10


def _make(lengths: Sequence[int], seed: int = 0, scale: float = 2.0) -> Tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    emissions = scale * torch.randn(sum(lengths), N_TAGS, generator=generator, dtype=torch.float64)
    transitions = scale * torch.randn(N_TAGS + 1, N_TAGS + 1, generator=generator, dtype=torch.float64)
    return emissions, transitions


def _constrained(transitions: Tensor) -> Tensor:
    return transitions.masked_fill(~torch.from_numpy(allowed_transitions(N_TAGS)), FORBIDDEN)


def _enumerate(emissions: Tensor, transitions: Tensor) -> Dict[Tuple[int, ...], float]:
    """The score of every tag sequence of one chain, by the formula."""
    scores = {}
    for tags in product(range(N_TAGS), repeat=len(emissions)):
        path = [N_TAGS, *tags, N_TAGS]
        score = sum(float(transitions[a, b]) for a, b in zip(path, path[1:]))
        scores[tags] = score + sum(float(emissions[t, tag]) for t, tag in enumerate(tags))
    return scores


def _log_sum(scores: Iterable[float]) -> float:
    return float(numpy.logaddexp.reduce(list(scores)))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("is_constrained", [False, True])
def test_partition_function_and_best_tags_are_those_of_all_sequences(is_constrained: bool, seed: int) -> None:
    emissions, transitions = _make(LENGTHS, seed)
    transitions = _constrained(transitions) if is_constrained else transitions
    scores = [_enumerate(part, transitions) for part in emissions.split(LENGTHS)]
    found = log_partition(emissions, LENGTHS, transitions).tolist()
    numpy.testing.assert_allclose(found, [_log_sum(part.values()) for part in scores], atol=ATOL)
    best = [tuple(part.tolist()) for part in find_best_tags(emissions, LENGTHS, transitions).split(LENGTHS)]
    assert best == [max(part, key=part.__getitem__) for part in scores]


def test_loss_of_full_annotation_is_the_negative_log_probability() -> None:
    emissions, transitions = _make(LENGTHS)
    tags = torch.tensor([1, 2, 3, 4, 0, 1, 3, 0, 4, 4, 4, 0, 0])
    admissible = torch.nn.functional.one_hot(tags, N_TAGS).bool()
    losses = negative_log_likelihood(emissions, LENGTHS, _constrained(transitions), admissible)
    for loss, part, path in zip(losses.tolist(), emissions.split(LENGTHS), tags.split(LENGTHS)):
        scores = _enumerate(part, _constrained(transitions))
        assert loss == pytest.approx(_log_sum(scores.values()) - scores[tuple(path.tolist())], abs=1e-9)


def test_loss_of_partial_annotation_sums_over_what_it_admits() -> None:
    emissions, transitions = _make([4])
    admissible = torch.ones(4, N_TAGS, dtype=torch.bool)
    admissible[1] = torch.tensor([False, True, False, False, True])  # begins an entity, of one word or more
    (loss,) = negative_log_likelihood(emissions, [4], _constrained(transitions), admissible).tolist()
    scores = _enumerate(emissions, _constrained(transitions))
    admitted = [score for tags, score in scores.items() if tags[1] in (1, 4)]
    assert loss == pytest.approx(_log_sum(scores.values()) - _log_sum(admitted), abs=1e-9)
    nothing = negative_log_likelihood(emissions, [4], transitions, torch.ones_like(admissible))
    numpy.testing.assert_allclose(nothing.tolist(), [0.0], atol=ATOL)


def test_gradient_agrees_with_finite_differences() -> None:
    lengths = [1, 3]
    emissions, transitions = _make(lengths)
    admissible = torch.ones(sum(lengths), N_TAGS, dtype=torch.bool)
    admissible[1:3] = torch.eye(N_TAGS, dtype=torch.bool)[1:3]

    def compute(emissions: Tensor, transitions: Tensor) -> Tensor:
        return negative_log_likelihood(emissions, lengths, _constrained(transitions), admissible)

    assert torch.autograd.gradcheck(compute, (emissions.requires_grad_(), transitions.requires_grad_()))


@pytest.mark.parametrize("scale", [0.0, 100.0])
def test_scores_of_any_size_stay_finite(scale: float) -> None:
    lengths = [300, 2]
    emissions, transitions = _make(lengths, scale=scale)
    emissions.requires_grad_()
    admissible = torch.zeros(302, N_TAGS, dtype=torch.bool)
    admissible[:, 0] = True
    losses = negative_log_likelihood(emissions, lengths, _constrained(transitions), admissible)
    (d_emissions,) = torch.autograd.grad(losses.sum(), emissions)
    assert (losses >= 0).all() and torch.isfinite(losses).all() and torch.isfinite(d_emissions).all()
    probabilities = d_emissions + admissible  # the gradient is what the model expects minus what is annotated
    numpy.testing.assert_allclose(probabilities.sum(dim=1), 1.0, atol=1e-9)
