"""The CRF against the enumeration of all tag sequences."""

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


# Tags that are admitted in each of four places: one, those that begin an entity, all.
ANNOTATIONS = {"full": [{1}, {2}, {3}, {0}], "partial": [{*range(5)}, {1, 4}, {*range(5)}, {*range(5)}]}
ANNOTATIONS["none"] = [{*range(5)}] * 4


@pytest.mark.parametrize("admitted", ANNOTATIONS.values(), ids=ANNOTATIONS)
def test_loss_is_the_negative_log_probability_of_what_the_annotation_admits(admitted) -> None:
    emissions, transitions = _make([2, 4])
    admissible = torch.ones(6, N_TAGS, dtype=torch.bool)
    admissible[2:] = torch.tensor([[tag in tags for tag in range(N_TAGS)] for tags in admitted])
    transitions = _constrained(transitions)
    first, loss = negative_log_likelihood(emissions, [2, 4], transitions, admissible).tolist()
    scores = _enumerate(emissions[2:], transitions)
    kept = [score for path, score in scores.items() if all(tag in tags for tag, tags in zip(path, admitted))]
    assert loss == pytest.approx(_log_sum(scores.values()) - _log_sum(kept), abs=1e-9)
    assert first == pytest.approx(0.0, abs=ATOL), "nothing is annotated"


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
