"""Answers of pipelines on annotated Docs: entities and tags, counted as spaCy's scorers do; where two pipelines differ.

A place is a maximal group of overlapping answers: right ones, and those of both pipelines. A pipeline is right at a
place if its answers there are exactly the right ones. The interval of a difference is a percentile bootstrap over
sentences (Efron and Tibshirani 1993): each sample draws the same sentences for both pipelines.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc, Token
from spacy.training import Corpus, Example
from spacy.util import minibatch

from .intervals import Floats, Score, bootstrap

BATCH_SIZE = 64  # Docs
# One answer: first token, token after the last one, label. Positions are those of the annotated Doc.
Answer = Tuple[int, int, str]
NOTHING = "(none)"  # the label of a place where there is no right answer


@dataclass(frozen=True)
class Question:
    """A kind of answers.

    title (str): For people.
    score (str): Name of its F1 in the output of `spacy evaluate`.
    annotation (str): What `Doc.has_annotation` calls it.
    """

    title: str
    score: str
    annotation: str


QUESTIONS: Dict[str, Question] = {
    "ents": Question("Entities", "ents_f", "ENT_IOB"),
    "tag": Question("Tags", "tag_acc", "TAG"),
    "pos": Question("Parts of speech (UPOS)", "pos_acc", "POS"),
    "morph": Question("Morphological features", "morph_acc", "MORPH"),
}
LABELS: Dict[str, Callable[[Token], str]] = {
    "tag": lambda token: token.tag_,
    "pos": lambda token: token.pos_,
    "morph": lambda token: str(token.morph) or "_" if token.has_morph() else "",
}


@dataclass(frozen=True)
class DocAnswers:
    """The answers on one Doc.

    words (Tuple[str, ...]): Its tokens.
    starts (Tuple[int, ...]): The first token of each sentence; only 0 without sentence boundaries.
    gold (Dict[str, Set[Answer]]): Right answers by name of the question, only for what the Doc is annotated with.
    predicted (Dict[str, Set[Answer]]): Answers of the pipeline, only for what it predicts.
    """

    words: Tuple[str, ...]
    starts: Tuple[int, ...]
    gold: Dict[str, Set[Answer]]
    predicted: Dict[str, Set[Answer]]


def read_answers(nlp: Language, path: Path) -> List[DocAnswers]:
    """Run a pipeline on annotated Docs. They are read as `spacy evaluate` reads them; layers are not kept.

    nlp (Language): The pipeline.
    path (Path): A .spacy file, or a folder of them.
    RETURNS (List[DocAnswers]): One per Doc that has tokens.
    RAISES (ValueError): If there are no such Docs, or a file is damaged.
    """
    found: List[DocAnswers] = []
    for batch in minibatch(_read_examples(nlp, path), BATCH_SIZE):
        examples = list(batch)
        for example, doc in zip(examples, nlp.pipe([example.predicted for example in examples])):
            example.predicted = doc
            found += [_answers_of(example)] if len(example.reference) else []
    if not found:
        raise _no_docs(path, "there is no Doc with tokens")
    return found


def _read_examples(nlp: Language, path: Path) -> Iterator[Example]:
    examples = iter(Corpus(path)(nlp))
    while True:
        try:
            example: Optional[Example] = next(examples, None)
        except Exception as error:  # zlib, msgpack and spaCy each have their own for a damaged file
            raise _no_docs(path, error) from error
        if example is None:
            return
        yield example


def _no_docs(path: Path, problem: object) -> ValueError:
    return ValueError(
        f"'{path}' cannot be read as annotated Docs: {problem}. Give a .spacy file (a DocBin), or a folder of them, "
        "such as the test data of `python -m spacy evaluate`."
    )


def _answers_of(example: Example) -> DocAnswers:
    gold, doc = example.reference, example.predicted
    asked = [name for name, question in QUESTIONS.items() if gold.has_annotation(question.annotation)]
    answered = [name for name in asked if doc.has_annotation(QUESTIONS[name].annotation)]
    starts = [sent.start for sent in gold.sents] if gold.has_annotation("SENT_START") else [0]
    return DocAnswers(
        words=tuple(token.text for token in gold),
        starts=tuple(starts),
        gold={name: _gold_of(gold, name) for name in asked},
        predicted={name: set(_predicted_of(example, name)) for name in answered},
    )


def _gold_of(doc: Doc, name: str) -> Set[Answer]:
    if name == "ents":
        return {(ent.start, ent.end, ent.label_) for ent in doc.ents}
    labels = ((token.i, LABELS[name](token)) for token in doc)
    return {(i, i + 1, label) for i, label in labels if label}


def _predicted_of(example: Example, name: str) -> Iterable[Answer]:
    """Answers at positions of the annotated Doc. Where it has no annotation, an answer is neither right nor wrong."""
    align: Any = example.alignment.x2y
    if name == "ents":
        for ent in example.predicted.ents:
            places = align[ent.start : ent.end]
            if len(places) and all(token.ent_iob != 0 for token in example.reference[places[0] : places[-1] + 1]):
                yield int(places[0]), int(places[-1]) + 1, ent.label_
        return
    for token in example.predicted:
        if not token.is_space and align.lengths[token.i] == 1:
            place = int(align[token.i][0])
            if LABELS[name](example.reference[place]):
                yield place, place + 1, LABELS[name](token)


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


@dataclass(frozen=True)
class Scored:
    """How well one pipeline answers.

    name (str): Of the question, a key of `QUESTIONS`.
    score (Score): F1, see `Changes`, with its interval; n is the number of sentences.
    right (Tuple[Place, ...]), wrong (Tuple[Place, ...]): Places by whether the pipeline is right there.
    """

    name: str
    score: Score
    right: Tuple[Place, ...]
    wrong: Tuple[Place, ...]

    def by_label(self) -> List[Tuple[str, int, int]]:
        """RETURNS (List[Tuple[str, int, int]]): Right label, places right, places wrong; most errors first."""
        right, wrong = (Counter(place.label for place in places) for places in (self.right, self.wrong))
        return [(label, right[label], wrong[label]) for label in sorted({*right, *wrong}, key=lambda x: (-wrong[x], x))]


def score_answers(docs: Sequence[DocAnswers], *, seed: int = 0) -> List[Scored]:
    """docs (Sequence[DocAnswers]): Of a pipeline.
    seed (int): Of the bootstrap.
    RETURNS (List[Scored]): One per question that the Docs and the pipeline answer.
    """
    found, answered = [], {name for doc in docs for name in doc.predicted}
    for name in QUESTIONS:
        if name in answered:
            sums, places = _find_all(name, docs, docs)
            score = bootstrap(sums, lambda total: _f1_of(total)[0], n=len(sums), seed=seed)
            found.append(Scored(name, score, tuple(places[True, True]), tuple(places[False, False])))
    return found


def compare_answers(ours: Sequence[DocAnswers], theirs: Sequence[DocAnswers], *, seed: int = 0) -> List[Changes]:
    """ours (Sequence[DocAnswers]): Of the pipeline.
    theirs (Sequence[DocAnswers]): Of the baseline, on the same Docs.
    seed (int): Of the bootstrap.
    RETURNS (List[Changes]): One per question that the Docs and both pipelines answer.
    """
    both = set.intersection(*({name for doc in docs for name in doc.predicted} for docs in (ours, theirs)))
    return [_compare(name, ours, theirs, seed) for name in QUESTIONS if name in both]


def _compare(name: str, ours: Sequence[DocAnswers], theirs: Sequence[DocAnswers], seed: int) -> Changes:
    sums, places = _find_all(name, ours, theirs)
    difference = bootstrap(sums, lambda total: np.subtract(*_f1_of(total)), n=len(sums), seed=seed)
    f_ours, f_theirs = (float(value[0]) for value in _f1_of(sums.sum(axis=0, keepdims=True)))
    fixed, made = tuple(places[True, False]), tuple(places[False, True])
    both_right, both_wrong = (len(places[is_right, is_right]) for is_right in (True, False))
    return Changes(name, f_ours, f_theirs, difference, both_right, both_wrong, fixed, made)


def _find_all(
    name: str, ours: Sequence[DocAnswers], theirs: Sequence[DocAnswers]
) -> Tuple[Floats, Dict[Tuple[bool, bool], List[Place]]]:
    """Per sentence our hits and answers, their hits and answers, right answers; places by who is right there."""
    counts: List[Floats] = []
    places: Dict[Tuple[bool, bool], List[Place]] = {(a, b): [] for a in (False, True) for b in (False, True)}
    for number, (one, other) in enumerate(zip(ours, theirs)):
        rows = np.zeros((len(one.starts), 5))
        for place in _find_places(number, one.gold.get(name, set()), _of(one, name), _of(other, name)):
            gold, our, their = set(place.gold), set(place.ours), set(place.theirs)
            sentence = np.searchsorted(one.starts, place.start, side="right") - 1
            rows[sentence] += [len(our & gold), len(our), len(their & gold), len(their), len(gold)]
            places[our == gold, their == gold].append(place)
        counts.append(rows)
    return np.concatenate(counts), places  # (sentences, 5)


def _of(doc: DocAnswers, name: str) -> Set[Answer]:
    """Answers on an annotated Doc; a Doc without annotation is left out, as by the scorers."""
    return doc.predicted.get(name, set()) if name in doc.gold else set()


def _find_places(number: int, gold: Set[Answer], ours: Set[Answer], theirs: Set[Answer]) -> Iterator[Place]:
    groups: List[List[Answer]] = []
    end = -1
    for answer in sorted(gold | ours | theirs):
        if not groups or answer[0] >= end:
            groups.append([])
        groups[-1].append(answer)
        end = max(end, answer[1])
    for group in groups:
        right, our, their = (tuple(answer for answer in group if answer in found) for found in (gold, ours, theirs))
        yield Place(number, group[0][0], max(stop for _, stop, _ in group), right, our, their)


def _f1_of(sums: Floats) -> Tuple[Floats, Floats]:
    """F1 of both; 0 where there is nothing to find and nothing was found, as in spaCy."""
    our_hits, our_answers, their_hits, their_answers, gold = sums.T
    ours, theirs = np.maximum(our_answers + gold, 1), np.maximum(their_answers + gold, 1)
    return 2 * our_hits / ours, 2 * their_hits / theirs
