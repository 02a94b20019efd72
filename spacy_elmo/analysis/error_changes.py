"""Errors that one pipeline makes and another does not, and the difference of their scores with its interval.

A place is a maximal group of overlapping answers: right ones, and those of both pipelines. A pipeline is right at a
place if its answers there are exactly the right ones. The interval is a percentile bootstrap over sentences (Efron and
Tibshirani 1993): each sample draws the same sentences for both pipelines.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Dict, Iterator, List, Sequence, Set, Tuple

import numpy as np

from .answers import QUESTIONS, Answer, DocAnswers
from .intervals import Floats, Score

N_SAMPLES = 1000
CONFIDENCE = 0.95
# Per sentence.
COUNTS = ("our hits", "our answers", "their hits", "their answers", "right answers")
NOTHING = "(none)"  # where there is no right answer


@dataclass(frozen=True)
class Place:
    """Where pipelines differ.

    doc (int): Number of the Doc.
    start (int), end (int): Its tokens.
    gold (Tuple[Answer, ...]): Right answers, sorted.
    ours (Tuple[Answer, ...]), theirs (Tuple[Answer, ...]): Answers of the pipeline and of the baseline, sorted.
    """

    doc: int
    start: int
    end: int
    gold: Tuple[Answer, ...]
    ours: Tuple[Answer, ...]
    theirs: Tuple[Answer, ...]

    @property
    def label(self) -> str:
        """RETURNS (str): The label of the first right answer."""
        return self.gold[0][2] if self.gold else NOTHING


@dataclass(frozen=True)
class Changes:
    """How a pipeline differs from its baseline.

    name (str): Of the question, a key of `QUESTIONS`.
    ours (float), theirs (float): F1 of both, from 0 to 1; for tags with one answer per token this is the accuracy.
    difference (Score): Ours less theirs, with its interval; n is the number of sentences.
    n_both_right (int), n_both_wrong (int): Places where both are right, and where both are wrong.
    fixed (Tuple[Place, ...]), made (Tuple[Place, ...]): Where only the pipeline is right, and only the baseline.
    """

    name: str
    ours: float
    theirs: float
    difference: Score
    n_both_right: int
    n_both_wrong: int
    fixed: Tuple[Place, ...]
    made: Tuple[Place, ...]

    def by_label(self) -> List[Tuple[str, int, int]]:
        """RETURNS (List[Tuple[str, int, int]]): Right label, errors fixed, errors made; the largest changes first."""
        fixed, made = (Counter(place.label for place in places) for places in (self.fixed, self.made))
        labels = sorted({*fixed, *made}, key=lambda label: (-fixed[label] - made[label], label))
        return [(label, fixed[label], made[label]) for label in labels]


def compare_answers(ours: Sequence[DocAnswers], theirs: Sequence[DocAnswers], *, seed: int = 0) -> List[Changes]:
    """ours (Sequence[DocAnswers]): Of the pipeline.
    theirs (Sequence[DocAnswers]): Of the baseline, on the same Docs.
    seed (int): Of the bootstrap.
    RETURNS (List[Changes]): One per question that the Docs and both pipelines answer.
    """
    both = set.intersection(*({name for doc in docs for name in doc.predicted} for docs in (ours, theirs)))
    return [_compare(name, ours, theirs, seed) for name in QUESTIONS if name in both]


def _compare(name: str, ours: Sequence[DocAnswers], theirs: Sequence[DocAnswers], seed: int) -> Changes:
    counts: List[Floats] = []
    places: Dict[Tuple[bool, bool], List[Place]] = {(False, True): [], (True, False): []}
    n_same = Counter[bool]()
    for number, (one, other) in enumerate(zip(ours, theirs)):
        rows = np.zeros((len(one.starts), len(COUNTS)))  # (sentences, 5)
        for place in _find_places(number, one.gold.get(name, set()), _of(one, name), _of(other, name)):
            rows[np.searchsorted(one.starts, place.start, side="right") - 1] += _count(place)
            is_right = (place.ours == place.gold, place.theirs == place.gold)
            if is_right in places:
                places[is_right].append(place)
            else:
                n_same[is_right[0]] += 1
        counts.append(rows)
    difference, f_ours, f_theirs = _bootstrap(np.concatenate(counts), seed)
    fixed, made = tuple(places[True, False]), tuple(places[False, True])
    return Changes(name, f_ours, f_theirs, difference, n_same[True], n_same[False], fixed, made)


def _of(doc: DocAnswers, name: str) -> Set[Answer]:
    """Answers on an annotated Doc; a Doc without annotation is left out, as by the scorers."""
    return doc.predicted.get(name, set()) if name in doc.gold else set()


def _find_places(number: int, gold: Set[Answer], ours: Set[Answer], theirs: Set[Answer]) -> Iterator[Place]:
    start = end = -1
    group: Set[Answer] = set()
    for answer in sorted(gold | ours | theirs):
        if group and answer[0] >= end:
            yield _make_place(number, start, end, group, (gold, ours, theirs))
            group = set()
        start, end = (answer[0], answer[1]) if not group else (start, max(end, answer[1]))
        group.add(answer)
    if group:
        yield _make_place(number, start, end, group, (gold, ours, theirs))


def _make_place(number: int, start: int, end: int, group: Set[Answer], answers: Tuple[Set[Answer], ...]) -> Place:
    gold, ours, theirs = (tuple(sorted(group & found)) for found in answers)
    return Place(number, start, end, gold, ours, theirs)


def _count(place: Place) -> List[int]:
    gold, ours, theirs = set(place.gold), set(place.ours), set(place.theirs)
    return [len(ours & gold), len(ours), len(theirs & gold), len(theirs), len(gold)]


def _bootstrap(counts: Floats, seed: int) -> Tuple[Score, float, float]:
    """counts (Floats): Shape (sentences, 5), see `COUNTS`.
    RETURNS (Tuple[Score, float, float]): The difference of F1, and both F1.
    """
    rng, n = np.random.default_rng(seed), len(counts)
    sums = np.stack([counts[rng.integers(0, n, n)].sum(axis=0) for _ in range(N_SAMPLES)])  # (samples, 5)
    differences = np.subtract(*_f1_of(sums))
    low, high = np.quantile(differences, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    ours, theirs = (float(value[0]) for value in _f1_of(counts.sum(axis=0, keepdims=True)))
    return Score(ours - theirs, float(low), float(high), n), ours, theirs


def _f1_of(sums: Floats) -> Tuple[Floats, Floats]:
    """F1 of both; 0 where there is nothing to find and nothing was found, as in spaCy."""
    our_hits, our_answers, their_hits, their_answers, gold = sums.T
    ours, theirs = np.maximum(our_answers + gold, 1), np.maximum(their_answers + gold, 1)
    return 2 * our_hits / ours, 2 * their_hits / theirs
