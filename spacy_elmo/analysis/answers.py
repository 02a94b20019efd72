"""Answers of pipelines on annotated Docs, counted as spaCy's scorers count them; where two pipelines differ.

A place is a maximal group of overlapping answers: right ones, and answers of both pipelines. A pipeline is right at a
place if its answers there are exactly the right ones. The interval of a difference is a percentile bootstrap over
sentences, for text categories over Docs (Efron and Tibshirani 1993): each sample draws the same for both pipelines.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

import numpy as np
from spacy.language import Language
from spacy.pipeline import EntityLinker, SpanFinder, TextCategorizer
from spacy.pipeline.textcat_multilabel import MultiLabel_TextCategorizer
from spacy.tokens import Doc, Token
from spacy.training import Corpus, Example
from spacy.util import minibatch

from .category_scores import CategoryTable, Metric, label_f, macro_auc, macro_f, score_categories
from .intervals import Floats, Score, bootstrap

SCORING_BATCH_SIZE = 64  # Docs
# One answer: first token, token after the last one, label. Positions are in the annotated Doc.
Answer = Tuple[int, int, str]
NOTHING = "(none)"  # the label of a place where there is no right answer
HEAD = " \u2190 "  # between the label of a dependency and its head
OTHER_TOKENS = "a token that the data divide otherwise"
NOT_SCORED = ("p", "punct")  # dependencies that spaCy's scorer leaves out
SENTENCE, SPAN = "sentence", "span"  # labels of answers without a label


@dataclass(frozen=True)
class Question:
    """A kind of answers.

    title (str): For people.
    score_name (str): Name of its score in the table that `spacy evaluate` prints.
    score (str): Name of its score in the file that `spacy evaluate` writes.
    has_list (bool): Whether its errors are listed; False if another question's errors include them.
    is_of_docs (bool): Whether it has one answer for a whole Doc.
    """

    title: str
    score_name: str
    score: str
    has_list: bool = True
    is_of_docs: bool = False


SPANS, POSITIVE = "spans_", "cats_f_"  # before the key of spans, before the positive category of two
CATEGORIES = "Text categories"
# Those with a key or a category in their names are created by `get_question`.
QUESTIONS: Dict[str, Question] = {
    "ents": Question("Entities", "NER F", "ents_f"),
    "tag": Question("Tags", "TAG", "tag_acc"),
    "pos": Question("Parts of speech", "POS", "pos_acc"),
    "morph": Question("Morphological features", "MORPH", "morph_acc"),
    "lemma": Question("Lemmas", "LEMMA", "lemma_acc"),
    "uas": Question("Heads", "UAS", "dep_uas", has_list=False),
    "las": Question("Dependencies", "LAS", "dep_las"),
    "sents": Question("Sentences", "SENT F", "sents_f"),
    "spans_sc": Question("Spans", "SPAN F", "spans_sc_f"),
    "cats_macro_f": Question(CATEGORIES, "TEXTCAT (macro F)", "cats_score", is_of_docs=True),
    "cats_macro_auc": Question(CATEGORIES, "TEXTCAT (macro AUC)", "cats_score", is_of_docs=True),
    "cats_micro_f": Question(CATEGORIES, "TEXTCAT (micro F)", "cats_micro_f", has_list=False, is_of_docs=True),
    "nel": Question("Links of entities", "NEL (micro F)", "nel_micro_f"),
}
ANSWER_KINDS = list(dict.fromkeys(name.partition("_")[0] for name in QUESTIONS))
# What `Doc.has_annotation` calls the annotation of a question.
ANNOTATIONS = {"ents": "ENT_IOB", "tag": "TAG", "pos": "POS", "morph": "MORPH", "lemma": "LEMMA"}
ANNOTATIONS |= {"uas": "DEP", "las": "DEP", "sents": "SENT_START"}
# Kinds of answers by what a factory declares that its component sets.
ASSIGNED = {"doc.ents": "ents", "token.tag": "tag", "token.pos": "pos", "token.morph": "morph", "token.lemma": "lemma"}
ASSIGNED |= {"token.head": "uas", "token.dep": "las", "token.is_sent_start": "sents", "doc.spans": "spans"}
ASSIGNED |= {"doc.cats": "cats", "token.ent_kb_id": "nel"}
LABELS: Dict[str, Callable[[Token], str]] = {
    "tag": lambda token: token.tag_,
    "pos": lambda token: token.pos_,
    "morph": lambda token: str(token.morph) or "_" if token.has_morph() else "",
    "lemma": lambda token: token.lemma_,
}


def get_question(name: str) -> Question:
    """name (str): A key of `QUESTIONS`, "spans_" with the key of spans, or "cats_f_" with a category."""
    if name in QUESTIONS:
        return QUESTIONS[name]
    if name.startswith(SPANS):
        key = name.removeprefix(SPANS)
        return Question(f"Spans '{key}'", f"SPAN F ({key})", f"{name}_f")
    label = name.removeprefix(POSITIVE)
    return Question(CATEGORIES, f"TEXTCAT (F ({label}))", "cats_score", is_of_docs=True)


def answer_kind(name: str) -> str:
    """RETURNS (str): The kind of answers of a question: "cats" for all questions on text categories."""
    return name.partition("_")[0]


def find_kinds(nlp: Language) -> Dict[str, Set[str]]:
    """RETURNS (Dict[str, Set[str]]): By component, the kinds of answers that it gives."""
    assigned = {name: nlp.get_pipe_meta(name).assigns for name in nlp.component_names}
    return {name: {kind for attr, kind in ASSIGNED.items() if attr in attrs} for name, attrs in assigned.items()}


def find_category_question(nlp: Language) -> Optional[str]:
    """RETURNS (Optional[str]): The question whose score is the pipeline's score of text categories."""
    categorizer = _find_last(nlp, TextCategorizer)
    return None if categorizer is None else _ask_categories(categorizer)


@dataclass(frozen=True)
class DocAnswers:
    """The answers on one Doc.

    words (Tuple[str, ...]): Its tokens.
    starts (Tuple[int, ...]): The first token of each sentence; only 0 without sentence boundaries.
    gold (Dict[str, Set[Answer]]): Right answers by name of the question, only for what the Doc is annotated with.
    predicted (Dict[str, Set[Answer]]): Answers of the pipeline, only for what it predicts.
    gold_cats (Dict[str, float]): The annotated values of text categories.
    cat_scores (Dict[str, float]): The scores of all categories of the component.
    """

    words: Tuple[str, ...]
    starts: Tuple[int, ...]
    gold: Dict[str, Set[Answer]]
    predicted: Dict[str, Set[Answer]]
    gold_cats: Dict[str, float] = field(default_factory=dict)
    cat_scores: Dict[str, float] = field(default_factory=dict)


def read_answers(nlp: Language, path: Path) -> List[DocAnswers]:
    """Run a pipeline on annotated Docs. They are read as `spacy evaluate` reads them; layers are not kept.

    nlp (Language): The pipeline. Of several text categorizers or entity linkers the last one is scored.
    path (Path): A .spacy file, or a folder of them.
    RETURNS (List[DocAnswers]): One per Doc that has tokens, or text categories.
    RAISES (ValueError): If there are no such Docs, or a file is damaged.
    """
    answers: List[DocAnswers] = []
    categorizer, linker = _find_last(nlp, TextCategorizer), _find_last(nlp, EntityLinker)
    unlabelled = _find_unlabelled(nlp)
    has_cats = has_links = False
    given: Set[str] = set()  # what the pipeline predicts for some Doc
    for batch in minibatch(_read_examples(nlp, path), SCORING_BATCH_SIZE):
        examples = [example for example in batch if len(example.reference) or example.reference.cats]
        for example, doc in zip(examples, nlp.pipe([example.predicted for example in examples])):
            example.predicted = doc
            given |= {name for name, annotation in ANNOTATIONS.items() if _is_given(doc, annotation)}
        linked = examples if linker is None else _link(linker, examples)
        for example, linked_example in zip(examples, linked):
            row = _answers_of(example, unlabelled)
            if categorizer is not None:
                has_cats |= bool(example.reference.cats)
                row = _add_categories(row, example, categorizer)
            if linker is not None:
                has_links |= any(ent.kb_id for ent in example.reference.ents)
                _add_links(row, linked_example)
            answers.append(row)
    if not answers:
        raise _no_docs(path, "there is no Doc with tokens")
    missing = {kind for kind, is_annotated in (("cats", has_cats), ("nel", has_links)) if not is_annotated}
    missing |= ANNOTATIONS.keys() - given
    for row in answers:
        for annotated in (row.gold, row.predicted):
            for name in [name for name in annotated if answer_kind(name) in missing]:
                del annotated[name]
    return answers


def _is_given(doc: Doc, annotation: str) -> bool:
    """RETURNS (bool): Whether a component has annotated the Doc. To spaCy a Doc without tokens has all annotations, and
    a Doc of one token has sentence boundaries.
    """
    return len(doc) > (annotation == "SENT_START") and doc.has_annotation(annotation)


def _find_last(nlp: Language, component: type) -> Any:
    """RETURNS (Optional[Pipe]): As in the scores of `spacy evaluate`, where a later component of a kind overwrites."""
    return next((pipe for _, pipe in reversed(nlp.pipeline) if isinstance(pipe, component)), None)


def _find_unlabelled(nlp: Language) -> Set[str]:
    """RETURNS (Set[str]): Keys of spans that have no labels, since the last component that sets them is a finder."""
    last: Dict[Any, Any] = {}
    for _, pipe in nlp.pipeline:
        last[pipe.cfg["spans_key"] if isinstance(pipe, SpanFinder) else getattr(pipe, "key", None)] = pipe
    return {key for key, pipe in last.items() if isinstance(pipe, SpanFinder)}


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


def _answers_of(example: Example, unlabelled: Set[str]) -> DocAnswers:
    """unlabelled (Set[str]): Keys of spans whose labels do not count."""
    gold, doc = example.reference, example.predicted
    names = [name for name, annotation in ANNOTATIONS.items() if gold.has_annotation(annotation)]
    predicted_names = [name for name in names if doc.has_annotation(ANNOTATIONS[name])]
    starts = [sent.start for sent in gold.sents] if gold.has_annotation("SENT_START") else [0]
    right = {name: _gold_of(gold, name) for name in names}
    predicted = {name: set(_predicted_of(example, name)) for name in predicted_names}
    for key, spans in gold.spans.items():
        label_of = (lambda span: SPAN) if key in unlabelled else (lambda span: span.label_)
        right[SPANS + key] = {(span.start, span.end, label_of(span)) for span in spans}
        if key in doc.spans:
            aligned = example.get_aligned_spans_x2y(doc.spans[key], True)
            predicted[SPANS + key] = {(span.start, span.end, label_of(span)) for span in aligned}
    return DocAnswers(tuple(token.text for token in gold), tuple(starts), right, predicted)


def _gold_of(doc: Doc, name: str) -> Set[Answer]:
    if name == "ents":
        return {(ent.start, ent.end, ent.label_) for ent in doc.ents}
    if name == "sents":
        return {(sent.start, sent.end, SENTENCE) for sent in doc.sents}
    if name in ("uas", "las"):
        labelled = ((token, token.dep_.lower()) for token in doc if token.dep_)
        return {_make_arc(name, token.i, dep, token.head) for token, dep in labelled if dep not in NOT_SCORED}
    labels = ((token.i, LABELS[name](token)) for token in doc)
    return {(i, i + 1, label) for i, label in labels if label}


def _make_arc(name: str, i: int, dep: str, head: Token) -> Answer:
    """The head of a token, a token of the annotated Doc, and with "las" its label."""
    place = f"{head.text} ({head.i + 1})" if head.i != i else "root"
    return i, i + 1, place if name == "uas" else f"{dep}{HEAD}{place}"


def _predicted_of(example: Example, name: str) -> Iterable[Answer]:
    """Answers at positions of the annotated Doc. Where it has no annotation, an answer is neither right nor wrong."""
    align: Any = example.alignment.x2y
    if name == "ents":
        for ent in example.predicted.ents:
            places = align[ent.start : ent.end]
            if len(places) and all(token.ent_iob != 0 for token in example.reference[places[0] : places[-1] + 1]):
                yield int(places[0]), int(places[-1]) + 1, ent.label_
        return
    if name == "sents":
        spans = example.get_aligned_spans_x2y(list(example.predicted.sents))
        yield from ((sent.start, sent.end, SENTENCE) for sent in spans)
        return
    if name in ("uas", "las"):
        yield from _predicted_arcs(example, name)
        return
    for token in example.predicted:
        if not token.is_space and align.lengths[token.i] == 1:
            place = int(align[token.i][0])
            if LABELS[name](example.reference[place]):
                yield place, place + 1, LABELS[name](token)


def _predicted_arcs(example: Example, name: str) -> Iterator[Answer]:
    """Dependencies of tokens that the data divide otherwise, or with such a head, are wrong, as in spaCy's scorer."""
    align, reference = example.alignment.x2y, example.reference
    for token in example.predicted:
        dep = token.dep_.lower()
        place, head_place = (int(align[i][0]) if align.lengths[i] == 1 else None for i in (token.i, token.head.i))
        is_annotated = place is None or reference[place].dep_
        if token.is_space or dep in NOT_SCORED or not is_annotated:
            continue
        if place is not None and head_place is not None:
            yield _make_arc(name, place, dep, reference[head_place])
        else:
            i = int(align[token.i][0]) if align.lengths[token.i] else min(token.i, len(reference) - 1)
            yield i, i + 1, f"{dep}{HEAD}{OTHER_TOKENS} ({token.text}, {token.i + 1})"


def _link(linker: Any, examples: List[Example]) -> List[Example]:
    """RETURNS (List[Example]): The Docs with links, of the right entities if the component is set to use them."""
    if not linker.use_gold_ents:
        return examples
    linked = [example.copy() for example in examples]
    for example in linked:
        example.predicted.ents, _ = example.get_aligned_ents_and_ner()
    for example, doc in zip(linked, linker.pipe(example.predicted for example in linked)):
        example.predicted = doc
    return linked


def _add_links(answers: DocAnswers, example: Example) -> None:
    """Entities that the pipeline has not found do not count, as in spaCy's scorer."""
    gold = {(ent.start_char, ent.end_char): ent for ent in example.reference.ents}
    pairs = [(gold.get((ent.start_char, ent.end_char)), ent.kb_id_) for ent in example.predicted.ents]
    linked = [(ent.start, ent.end, ent.kb_id_, kb_id) for ent, kb_id in pairs if ent is not None]
    answers.gold["nel"] = {(start, end, right) for start, end, right, _ in linked if right != EntityLinker.NIL}
    answers.predicted["nel"] = {(start, end, kb_id) for start, end, _, kb_id in linked if kb_id != EntityLinker.NIL}


def _ask_categories(categorizer: Any) -> str:
    """RETURNS (str): The question whose score is the overall score of a text categorizer."""
    if isinstance(categorizer, MultiLabel_TextCategorizer):
        return "cats_macro_auc"
    positive = categorizer.cfg["positive_label"]
    return POSITIVE + positive if positive and len(categorizer.labels) == 2 else "cats_macro_f"


def _add_categories(answers: DocAnswers, example: Example, categorizer: Any) -> DocAnswers:
    """RETURNS (DocAnswers): Also with the categories of the Doc, of which a single-label component gives the best."""
    labels = categorizer.labels
    scores = {label: score for label, score in example.predicted.cats.items() if label in labels}
    scores |= {label: 0.0 for label in labels if label not in scores}
    gold_cats = {label: value for label, value in example.reference.cats.items() if label in labels}
    if isinstance(categorizer, MultiLabel_TextCategorizer):
        right = [label for label, value in gold_cats.items() if value > 0]
        chosen = [label for label in gold_cats if scores[label] >= categorizer.cfg["threshold"]]
    else:
        right, chosen = ([max(cats, key=cats.__getitem__)] if cats else [] for cats in (gold_cats, scores))
        gold_cats = {label: gold_cats.get(label) or 0.0 for label in labels}
    end = max(len(answers.words), 1)
    for name in (_ask_categories(categorizer), "cats_micro_f"):
        answers.gold[name] = {(0, end, label) for label in right}
        answers.predicted[name] = {(0, end, label) for label in chosen}
    return replace(answers, gold_cats=gold_cats, cat_scores=scores)


@dataclass(frozen=True)
class Disagreement:
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
        """RETURNS (str): The label of the first right answer; of a dependency without its head."""
        return self.gold[0][2].partition(HEAD)[0] if self.gold else NOTHING


@dataclass(frozen=True)
class Outcome:
    """How well a pipeline answers a question, beside its baseline if there is one.

    name (str): Name of the question, see `get_question`.
    ours (float), theirs (Optional[float]): The score of the question, from 0 to 1: F1, which with one answer per token
        or text is the accuracy, or a mean over categories. None without a baseline.
    score (Score): The score, or the difference of ours and theirs, with its interval; n is the number of sentences, or
        of Docs.
    places (Dict[Tuple[bool, bool], List[Disagreement]]): By whether the pipeline is right, and whether its baseline is,
        which without one is the pipeline itself.
    """

    name: str
    ours: float
    theirs: Optional[float]
    score: Score
    places: Dict[Tuple[bool, bool], List[Disagreement]]

    @property
    def listed(self) -> Tuple[List[Disagreement], List[Disagreement]]:
        """RETURNS (Tuple[List[Disagreement], List[Disagreement]]): Errors fixed and made, or (no baseline) right and
        wrong.
        """
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
    """ours (Sequence[DocAnswers]): Answers of the pipeline.
    theirs (Optional[Sequence[DocAnswers]]): Answers of the baseline on the same Docs.
    RETURNS (List[Outcome]): One per question that the Docs and all pipelines answer.
    """
    rows = []
    others = ours if theirs is None else theirs
    common = set.intersection(*({name for doc in docs for name in doc.predicted} for docs in (ours, others)))
    for name in sorted(common, key=lambda name: (ANSWER_KINDS.index(answer_kind(name)), name)):
        sums, places = _count_hits(name, ours, others)
        metric = _find_metric(name)
        if metric is not None:
            their_table = None if theirs is None else _tabulate(theirs, name)
            our_value, their_value, score = score_categories(metric, _tabulate(ours, name), their_table, seed=seed)
            rows.append(Outcome(name, our_value, their_value, score, places))
            continue
        score = bootstrap(
            sums,
            lambda total: _f1_of(total)[0] if theirs is None else np.subtract(*_f1_of(total)),
            n=len(sums),
            seed=seed,
        )
        f_ours, f_theirs = (float(value[0]) for value in _f1_of(sums.sum(axis=0, keepdims=True)))
        rows.append(Outcome(name, f_ours, None if theirs is None else f_theirs, score, places))
    return rows


def _find_metric(name: str) -> Optional[Metric]:
    """RETURNS (Optional[Metric]): For scores that are not the F1 of all answers."""
    if name.startswith(POSITIVE):
        return label_f(name.removeprefix(POSITIVE))
    return {"cats_macro_f": macro_f, "cats_macro_auc": macro_auc}.get(name)


def _tabulate(docs: Sequence[DocAnswers], name: str) -> CategoryTable:
    labels = tuple(docs[0].cat_scores)
    chosen = [[{label for _, _, label in kind.get(name, ())} for kind in (doc.gold, doc.predicted)] for doc in docs]
    is_gold, is_answer = (
        np.array([[label in row[i] for label in labels] for row in chosen], dtype="float64") for i in range(2)
    )
    gold = np.array([[doc.gold_cats.get(label, np.nan) for label in labels] for doc in docs])
    return CategoryTable(labels, is_gold, is_answer, gold, np.array([list(doc.cat_scores.values()) for doc in docs]))


def _count_hits(
    name: str, ours: Sequence[DocAnswers], theirs: Sequence[DocAnswers]
) -> Tuple[Floats, Dict[Tuple[bool, bool], List[Disagreement]]]:
    """Per sentence our hits, answers and right answers, and theirs; places by who is right there.

    Right answers of an entity linker differ: they depend on the entities that a pipeline has found.
    """
    counts: List[Floats] = []
    places: Dict[Tuple[bool, bool], List[Disagreement]] = {(a, b): [] for a in (False, True) for b in (False, True)}
    is_of_docs = get_question(name).is_of_docs
    for doc_number, (our_doc, their_doc) in enumerate(zip(ours, theirs)):
        starts = (0,) if is_of_docs else our_doc.starts
        rows = np.zeros((len(starts), 6))
        our_gold, their_gold = (doc.gold.get(name, set()) for doc in (our_doc, their_doc))
        for place in _find_places(
            doc_number, our_gold | their_gold, _scored_of(our_doc, name), _scored_of(their_doc, name)
        ):
            our, their, gold = set(place.ours), set(place.theirs), set(place.gold)
            our_right, their_right = gold & our_gold, gold & their_gold
            sentence = np.searchsorted(starts, place.start, side="right") - 1
            rows[sentence] += [len(our & our_right), len(our), len(our_right)] + [
                len(their & their_right),
                len(their),
                len(their_right),
            ]
            places[our == our_right, their == their_right].append(place)
        counts.append(rows)
    return np.concatenate(counts), places  # (sentences, 6)


def _scored_of(doc: DocAnswers, name: str) -> Set[Answer]:
    """Answers on an annotated Doc; a Doc without annotation is left out, as by the scorers."""
    return doc.predicted.get(name, set()) if name in doc.gold else set()


def _find_places(doc_number: int, gold: Set[Answer], ours: Set[Answer], theirs: Set[Answer]) -> Iterator[Disagreement]:
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
        yield Disagreement(doc_number, group[0][0], max(stop for _, stop, _ in group), right, our, their)


def _f1_of(sums: Floats) -> Tuple[Floats, Floats]:
    """F1 of both; 0 where there is nothing to find and nothing was found, as in spaCy."""
    scores = [2 * hits / np.maximum(answers + gold, 1) for hits, answers, gold in (sums.T[:3], sums.T[3:])]
    return scores[0], scores[1]
