"""Answers of pipelines on annotated Docs: entities and tags, counted as spaCy's scorers do; where two pipelines differ.

A place is a maximal group of overlapping answers: right answers, and those of both pipelines. A pipeline is right at a
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
    answers: List[DocAnswers] = []
    for batch in minibatch(_read_examples(nlp, path), BATCH_SIZE):
        examples = list(batch)
        for example, doc in zip(examples, nlp.pipe([example.predicted for example in examples])):
            example.predicted = doc
            answers += [_answers_of(example)] if len(example.reference) else []
    if not answers:
        raise _no_docs(path, "there is no Doc with tokens")
    return answers


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
    names = [name for name, question in QUESTIONS.items() if gold.has_annotation(question.annotation)]
    predicted_names = [name for name in names if doc.has_annotation(QUESTIONS[name].annotation)]
    starts = [sent.start for sent in gold.sents] if gold.has_annotation("SENT_START") else [0]
    return DocAnswers(
        words=tuple(token.text for token in gold),
        starts=tuple(starts),
        gold={name: _gold_of(gold, name) for name in names},
        predicted={name: set(_predicted_of(example, name)) for name in predicted_names},
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
class Outcome:
    """How well a pipeline answers a question, beside its baseline if there is one.

    name (str): Of the question, a key of `QUESTIONS`.
    ours (float), theirs (Optional[float]): F1, from 0 to 1; for tags with one answer per token this is the accuracy.
        None without a baseline.
    score (Score): F1, or the difference of ours and theirs, with its interval; n is the number of sentences.
    places (Dict[Tuple[bool, bool], List[Place]]): By whether the pipeline is right, and whether its baseline is, which
        without one is the pipeline itself.
    """

    name: str
    ours: float
    theirs: Optional[float]
    score: Score
    places: Dict[Tuple[bool, bool], List[Place]]

    @property
    def listed(self) -> Tuple[List[Place], List[Place]]:
        """RETURNS (Tuple[List[Place], List[Place]]): Errors fixed and made, or (no baseline) right and wrong."""
        keys = ((True, True), (False, False)) if self.theirs is None else ((True, False), (False, True))
        return self.places[keys[0]], self.places[keys[1]]

    def by_label(self) -> List[Tuple[str, int, int]]:
        """RETURNS (List[Tuple[str, int, int]]): Right label, and its numbers of `listed`; those with most changes, or
        without a baseline most errors, first.
        """
        first, second = (Counter(place.label for place in places) for places in self.listed)
        n_errors = second if self.theirs is None else first + second
        labels = sorted({*first, *second}, key=lambda label: (-n_errors[label], label))
        return [(label, first[label], second[label]) for label in labels]


def score_answers(
    ours: Sequence[DocAnswers], theirs: Optional[Sequence[DocAnswers]] = None, *, seed: int = 0
) -> List[Outcome]:
    """ours (Sequence[DocAnswers]): Of the pipeline.
    theirs (Optional[Sequence[DocAnswers]]): Of the baseline, on the same Docs.
    RETURNS (List[Outcome]): One per question that the Docs and all pipelines answer.
    """
    rows = []
    others = ours if theirs is None else theirs
    predicted_names = set.intersection(*({name for doc in docs for name in doc.predicted} for docs in (ours, others)))
    for name in QUESTIONS:
        if name in predicted_names:
            sums, places = _find_all(name, ours, others)
            score = bootstrap(
                sums,
                lambda total: _f1_of(total)[0] if theirs is None else np.subtract(*_f1_of(total)),
                n=len(sums),
                seed=seed,
            )
            f_ours, f_theirs = (float(value[0]) for value in _f1_of(sums.sum(axis=0, keepdims=True)))
            rows.append(Outcome(name, f_ours, None if theirs is None else f_theirs, score, places))
    return rows


def _find_all(
    name: str, ours: Sequence[DocAnswers], theirs: Sequence[DocAnswers]
) -> Tuple[Floats, Dict[Tuple[bool, bool], List[Place]]]:
    """Per sentence our hits and answers, their hits and answers, right answers; places by who is right there."""
    counts: List[Floats] = []
    places: Dict[Tuple[bool, bool], List[Place]] = {(a, b): [] for a in (False, True) for b in (False, True)}
    for example, (our_doc, their_doc) in enumerate(zip(ours, theirs)):
        rows = np.zeros((len(our_doc.starts), 5))
        for place in _find_places(example, our_doc.gold.get(name, set()), _of(our_doc, name), _of(their_doc, name)):
            gold, our, their = set(place.gold), set(place.ours), set(place.theirs)
            sentence = np.searchsorted(our_doc.starts, place.start, side="right") - 1
            rows[sentence] += [len(our & gold), len(our), len(their & gold), len(their), len(gold)]
            places[our == gold, their == gold].append(place)
        counts.append(rows)
    return np.concatenate(counts), places  # (sentences, 5)


def _of(doc: DocAnswers, name: str) -> Set[Answer]:
    """Answers on an annotated Doc; a Doc without annotation is left out, as by the scorers."""
    return doc.predicted.get(name, set()) if name in doc.gold else set()


def _find_places(example: int, gold: Set[Answer], ours: Set[Answer], theirs: Set[Answer]) -> Iterator[Place]:
    groups: List[List[Answer]] = []
    end = -1
    for answer in sorted(gold | ours | theirs):
        if not groups or answer[0] >= end:
            groups.append([])
        groups[-1].append(answer)
        end = max(end, answer[1])
    for group in groups:
        right, our, their = (
            tuple(answer for answer in group if answer in answers_of) for answers_of in (gold, ours, theirs)
        )
        yield Place(example, group[0][0], max(stop for _, stop, _ in group), right, our, their)


def _f1_of(sums: Floats) -> Tuple[Floats, Floats]:
    """F1 of both; 0 where there is nothing to find and nothing was found, as in spaCy."""
    our_hits, our_answers, their_hits, their_answers, gold = sums.T
    ours, theirs = np.maximum(our_answers + gold, 1), np.maximum(their_answers + gold, 1)
    return 2 * our_hits / ours, 2 * their_hits / theirs
