"""Word sense disambiguation by nearest neighbor (Peters et al. 2018, sec. 5.3; Melamud et al. 2016).

A sense is the mean of the vectors of its uses in annotated text, or each of these uses stands for itself. A new use
gets the sense of its lemma whose mean, or whose nearest use, has the highest cosine with it; a lemma without annotated
uses gets the first sense of a dictionary, where one is given.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Dict, List, Literal, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from ..inference.bilm import BiLM
from ..pipeline.model import ElmoSettings
from .intervals import Score, bootstrap_accuracy, bootstrap_f1
from .labelled_docs import LabelledDocs, compare_labels
from .layer_vectors import iter_layers, name_all
from .vectors import Vectors, to_units

Answers = List[Optional[str]]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class SenseScores:
    """How well one system finds senses.

    f1 (Score): Over all uses; a use without an answer is wrong for recall, and does not count for precision.
    ambiguous (Optional[Score]): Accuracy over the uses that have a choice: lemmas with several senses in training; None
        if there are none.
    gain (Score): Accuracy over all uses less the first sense's, in pairs.
    n_answered (int): Uses with an answer.
    """

    f1: Score
    ambiguous: Optional[Score]
    gain: Score
    n_answered: int


class SenseVectors:
    """The vectors that stand for each sense, on every layer and on their mean.

    bilm (BiLM): The biLM.
    reading (Optional[ElmoSettings]): How it reads Docs, see `iter_layers`.
    first_senses (Optional[Mapping[str, str]]): Sense of each key (lemma and part of speech) that training may lack, for
        instance from a dictionary.
    nearest (str): "mean" of the uses of a sense, or a single "use": each use of the training text then takes 4 (L+2) D
        bytes, 4 kB with `en_elmo_sm`.
    """

    def __init__(
        self,
        bilm: BiLM,
        *,
        reading: Optional[ElmoSettings] = None,
        first_senses: Optional[Mapping[str, str]] = None,
        nearest: Literal["mean", "use"] = "mean",
    ) -> None:
        self.bilm = bilm
        self.reading = reading
        self.first_senses = dict(first_senses or {})
        self.nearest = nearest
        self.layers: List[Union[int, str]] = name_all(bilm)
        self.labels: List[str] = []
        self.senses: Dict[str, Numbers] = {}
        self._units: Vectors = np.zeros((len(self.layers), 0, bilm.config.output_width), dtype="float32")
        self._lengths: List[NDArray[np.float32]] = []  # of the uses

    def fit(self, train: LabelledDocs) -> "SenseVectors":
        """Average the vectors of each sense, or keep the vectors of all uses, which decide how much memory is needed.

        train (LabelledDocs): Uses with senses; they replace the uses of an earlier call.
        RETURNS (SenseVectors): The same object.
        """
        pairs = list(zip(train.keys, train.labels))
        counts = Counter(pairs)
        chosen = pairs if self.nearest == "use" else list(counts)
        chosen = sorted(chosen, key=lambda pair: (pair[0], -counts[pair], pair[1]))  # the most frequent sense first
        index = find_places(pairs, chosen)
        shape = len(self.layers), len(chosen), self.bilm.config.output_width  # (L+2, senses or uses, D)
        sums = np.zeros(shape, dtype="float32" if self.nearest == "use" else "float64")
        for start, stop, layers in iter_layers(self.bilm, train, self.reading):
            for total, rows in zip(sums, layers):
                np.add.at(total, index[start:stop], rows)
        self._keep(chosen)
        if self.nearest == "use":
            self._lengths = [np.linalg.norm(rows, axis=1) for rows in sums]
            for rows in sums:
                rows[:] = to_units(rows)
            self._units = sums
        else:
            self._units = to_units(sums)  # the cosine does not need the division by the counts
        return self

    def to_means(self) -> "SenseVectors":
        """RETURNS (SenseVectors): The nearest means of the uses that were kept; the text is not read again."""
        if self.nearest == "mean":
            return self
        means = SenseVectors(self.bilm, reading=self.reading, first_senses=self.first_senses)
        pairs = [(key, self.labels[i]) for key, places in self.senses.items() for i in places]
        starts = [i for i, pair in enumerate(pairs) if i == 0 or pair != pairs[i - 1]]  # uses are sorted by sense
        means._keep([pairs[i] for i in starts])
        sums = (
            np.add.reduceat(lengths[:, None] * rows, starts, axis=0, dtype="float64")
            for lengths, rows in zip(self._lengths, self._units)
        )
        means._units = np.stack([to_units(total) for total in sums])
        return means

    def _keep(self, pairs: Sequence[Tuple[str, str]]) -> None:
        self.labels = [label for _, label in pairs]
        rows_by_sense: Dict[str, List[int]] = defaultdict(list)
        for i, (key, _) in enumerate(pairs):
            rows_by_sense[key].append(i)
        self.senses = {key: np.asarray(places, dtype="int64") for key, places in rows_by_sense.items()}

    def first_sense(self, uses: LabelledDocs) -> Answers:
        """RETURNS (Answers): The most frequent training sense of each key, or the one in `first_senses`, or None."""
        best = {**self.first_senses, **{key: self.labels[rows[0]] for key, rows in self.senses.items()}}
        return [best.get(key) for key in uses.keys]

    def predict(self, uses: LabelledDocs) -> List[Answers]:
        """RETURNS (List[Answers]): A list per layer of `layers`; None where no sense of the key is known."""
        predictions = [self.first_sense(uses) for _ in self.layers]
        for start, stop, layers in iter_layers(self.bilm, uses, self.reading):
            chosen = [i for i in range(start, stop) if uses.keys[i] in self.senses]
            if not chosen:
                continue
            senses = [self.senses[uses.keys[i]] for i in chosen]
            sizes = [len(places) for places in senses]
            owners, places = np.repeat(np.arange(len(chosen)), sizes), np.concatenate(senses)
            bounds = [0, *np.cumsum(sizes).tolist()]
            for answers, rows, units in zip(predictions, layers[:, np.asarray(chosen) - start], self._units):
                cosines = np.einsum("pd,pd->p", to_units(rows)[owners], units[places])
                for i, first, last in zip(chosen, bounds, bounds[1:]):  # of equals the more frequent sense
                    answers[i] = self.labels[int(places[first + int(cosines[first:last].argmax())])]
        return predictions


def find_places(pairs: Sequence[Tuple[str, str]], known: Sequence[Tuple[str, str]]) -> Numbers:
    """RETURNS (Numbers): The place of each pair in `known`; equal pairs take the places of that pair in turn."""
    free: Dict[Tuple[str, str], List[int]] = defaultdict(list)
    for place, pair in enumerate(known):
        free[pair].append(place)
    turns: Counter[Tuple[str, str]] = Counter()
    chosen = np.zeros(len(pairs), dtype="int64")
    for i, pair in enumerate(pairs):
        places = free[pair]
        chosen[i] = places[turns[pair] % len(places)]
        turns[pair] += 1
    return chosen


def score_senses(answers: Answers, first: Answers, uses: LabelledDocs, vectors: SenseVectors) -> SenseScores:
    """Compare answers with annotated senses.

    answers (Answers): One per use.
    first (Answers): Those of the first sense.
    uses (LabelledDocs): Uses with senses.
    vectors (SenseVectors): Which lemmas are ambiguous.
    RETURNS (SenseScores): With intervals, from drawing sentences.
    """
    correct = compare_labels(answers, uses.labels)
    answered = np.asarray([answer is not None for answer in answers])
    has_choice = np.asarray([len({vectors.labels[i] for i in vectors.senses.get(key, ())}) > 1 for key in uses.keys])
    gain = correct.astype("int64") - compare_labels(first, uses.labels)
    chosen = uses.sentences[has_choice]
    return SenseScores(
        f1=bootstrap_f1(correct, answered, uses.sentences),
        ambiguous=bootstrap_accuracy(correct[has_choice], chosen) if len(chosen) else None,
        gain=bootstrap_accuracy(gain, uses.sentences),
        n_answered=int(answered.sum()),
    )
