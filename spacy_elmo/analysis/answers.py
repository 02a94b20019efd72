"""What a pipeline answers on annotated Docs, beside what is right: entities and tags, counted as spaCy's scorers do."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Set, Tuple

from spacy.language import Language
from spacy.tokens import Doc, Token
from spacy.training import Corpus, Example
from spacy.util import minibatch

from ..errors import Errors

BATCH_SIZE = 64  # Docs
# One answer: first token, token after the last one, label. Positions are those of the annotated Doc.
Answer = Tuple[int, int, str]


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
    RAISES (ValueError): EL432 if there are no such Docs.
    """
    found: List[DocAnswers] = []
    for batch in minibatch(_read_examples(nlp, path), BATCH_SIZE):
        examples = list(batch)
        for example, doc in zip(examples, nlp.pipe([example.predicted for example in examples])):
            example.predicted = doc
            found += [_answers_of(example)] if len(example.reference) else []
    if not found:
        raise ValueError(Errors.EL432.format(path=path, problem="there is no Doc with tokens"))
    return found


def _read_examples(nlp: Language, path: Path) -> Iterator[Example]:
    examples = iter(Corpus(path)(nlp))
    while True:
        try:
            example: Optional[Example] = next(examples, None)
        except Exception as error:  # zlib, msgpack and spaCy each have their own for a damaged file
            raise ValueError(Errors.EL432.format(path=path, problem=error)) from error
        if example is None:
            return
        yield example


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
