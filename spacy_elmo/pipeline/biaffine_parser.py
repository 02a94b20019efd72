"""The component `biaffine_parser`: dependencies and sentences by deep biaffine attention over any tok2vec, as in Dozat
and Manning (2017).
"""

from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Tuple

import numpy
from spacy.attrs import DEP, HEAD, IS_SPACE, SENT_START
from spacy.language import Language
from spacy.pipeline.dep_parser import parser_score
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model

from .biaffine import (
    KNOWN_INSIDE,
    KNOWN_START,
    ROOT_LABEL,
    UNKNOWN_START,
    BiaffineInputs,
    ParseAnnotation,
    compute_parse_loss,
    predict_parses,
)
from .crf import MISSING, Integers, Mask, find_words
from .labelled_pipe import DEFAULT_TOK2VEC, LabelledPipe

# Labels of white space, as spaCy's parser has them: a root where a sentence has nothing else.
SPACE_LABEL, SPACE_ROOT_LABEL = "dep", "ROOT"


@Language.factory(
    "biaffine_parser",
    assigns=["token.dep", "token.head", "token.is_sent_start", "doc.sents"],
    default_config={
        "scorer": {"@scorers": "spacy.parser_scorer.v1"},
        "model": {"@architectures": "spacy-elmo.BiaffineParser.v1", "tok2vec": DEFAULT_TOK2VEC},
    },
    default_score_weights={
        **{"dep_uas": 0.5, "dep_las": 0.5, "dep_las_per_type": None},
        **{"sents_p": None, "sents_r": None, "sents_f": 0.0},
    },
)
def make_biaffine_parser(
    nlp: Language, name: str, model: Model[List[Doc], BiaffineInputs], scorer: Optional[Callable[..., Any]]
) -> "BiaffineDependencyParser":
    """Dependencies and sentences by deep biaffine attention, as in Dozat and Manning (2017); used as spaCy's `parser`.

    nlp (Language): The pipeline.
    name (str): The component's name in it.
    model (Model[List[Doc], BiaffineInputs]): See `spacy-elmo.BiaffineParser.v1`.
    scorer (Optional[Callable]): Scores Docs; null for none.
    RETURNS (BiaffineDependencyParser): The component.
    """
    return BiaffineDependencyParser(nlp.vocab, model, name, scorer=scorer)


class BiaffineDependencyParser(LabelledPipe):
    """Finds the head and the label of each word: the tree of the highest score for each sentence, projective or not.

    Sentence boundaries that a Doc has are kept. Where it is not known whether a word begins a sentence, that is
    predicted first; behind a blank line it does. White space is not read: it depends on the word before it, or on the
    next one.

    RAISES (ValueError): For a model of another kind.
    """

    factory, spacy_factory = "biaffine_parser", "parser"
    architecture, layer = "spacy-elmo.BiaffineParser.v1", "biaffine"
    annotation, attributes = "dependencies", "token.head, token.dep"
    unknown_effect = "learns the heads of these words, but not their labels"

    def __init__(
        self,
        vocab: Vocab,
        model: Model[List[Doc], BiaffineInputs],
        name: str = "biaffine_parser",
        *,
        scorer: Optional[Callable[..., Any]] = parser_score,
    ) -> None:
        super().__init__(vocab, model, name, scorer=scorer)

    def read_labels(self, doc: Doc) -> Iterable[str]:
        """RETURNS (Iterable[str]): The labels of the words of a Doc."""
        return {doc[i].dep_ for i in find_words(doc).tolist() if doc[i].dep}

    def set_label_count(self, n_labels: int) -> None:
        """Set the number of labels of the model."""
        self.model.get_ref(self.layer).set_dim("nO", n_labels)

    def predict(self, docs: Iterable[Doc]) -> List[ParseAnnotation]:
        """docs (Iterable[Doc]): The Docs. Sentence boundaries that they have already are kept.
        RETURNS (List[ParseAnnotation]): Sentence starts, heads and labels of the words of each Doc.
        RAISES (ValueError): EL098 if the component is not initialized.
        """
        docs = list(docs)
        words = self.find_doc_words(docs)
        if not any(map(len, words)):
            nothing = numpy.zeros(0, dtype="int64")
            return [ParseAnnotation(nothing, nothing, nothing, nothing) for _ in docs]
        starts = [_end_paragraphs(doc, doc_words) for doc, doc_words in zip(docs, words)]
        return predict_parses(self.model.predict(docs), words, starts, self._find_root_label())

    def _find_root_label(self) -> Optional[int]:
        return next((i for i, label in enumerate(self.labels) if label.lower() == ROOT_LABEL), None)

    def set_annotations(self, docs: Iterable[Doc], scores: Sequence[ParseAnnotation]) -> None:
        """Set heads, labels and sentence starts from `predict`."""
        add = self.vocab.strings.add
        labels = numpy.array([add(label) for label in self.labels], dtype="uint64")
        space_labels = numpy.array([add(SPACE_LABEL), add(SPACE_ROOT_LABEL)], dtype="uint64")
        for doc, parse in zip(docs, scores):
            if len(doc) == 0:
                continue
            is_start = _place_starts(_read_starts(doc), parse)
            heads = _attach_spaces(is_start, parse)
            tokens = numpy.arange(len(doc))
            deps = space_labels[(heads == tokens).astype("int64")]
            deps[parse.words] = labels[parse.labels]
            doc.from_array([HEAD, DEP], numpy.stack([(heads - tokens).astype("uint64"), deps], axis=1))
            if not numpy.array_equal(_read_starts(doc) == KNOWN_START, is_start):
                # spaCy finds the left edge of a tree in ten passes at most, and fewer than some trees need.
                starts = numpy.where(is_start, KNOWN_START, KNOWN_INSIDE)
                doc.from_array([SENT_START], starts.astype("uint64")[:, None])

    def compute_loss(self, examples: Sequence[Example], scores: BiaffineInputs) -> Tuple[float, BiaffineInputs]:
        """The cross entropy of the annotated heads, labels and sentence starts, summed over words.

        What is not annotated, or cannot be aligned with the tokens of the predicted Doc, has no loss.

        RETURNS (Tuple[float, BiaffineInputs]): The loss and its gradient.
        """
        places = {label: i for i, label in enumerate(self.labels)}
        return compute_parse_loss(scores, [_align_annotation(eg, places) for eg in examples])


# Gold annotation


def _align_annotation(eg: Example, places: Dict[str, int]) -> ParseAnnotation:
    """RETURNS (ParseAnnotation): That of the reference, for the words of the predicted Doc."""
    words = find_words(eg.predicted)
    if not len(words) or not len(eg.reference):
        missing = numpy.full(len(words), MISSING)
        return ParseAnnotation(words, numpy.full(len(words), UNKNOWN_START), missing, missing)
    aligned_heads, aligned_deps = eg.get_aligned_parse(projectivize=False)
    heads = numpy.array([MISSING if head is None else head for head in aligned_heads])
    labels = numpy.array([places.get(dep, MISSING) for dep in aligned_deps])
    heads[[not dep for dep in aligned_deps]] = MISSING  # a token without a label has no head either
    # From tokens to words; a head that is white space is none.
    word_indices = numpy.full(len(heads) + 1, MISSING)  # the last one stays, for `MISSING`
    word_indices[words] = numpy.arange(len(words))
    return ParseAnnotation(words, _align_starts(eg)[words], word_indices[heads[words]], labels[words])


def _align_starts(eg: Example) -> Integers:
    """Whether a token begins a sentence: it does if the first token that it is aligned to is in another sentence than
    the first one of the token before. Unknown for a token without annotation.

    RETURNS (Integers): Shape (n,), for each token of the predicted Doc.
    """
    reference, alignment = eg.reference, eg.alignment.x2y
    starts = _read_starts(reference)
    is_known = starts != UNKNOWN_START
    if reference.has_annotation("DEP"):
        # spaCy sets all starts if some heads are known: the start of a tree, though a word before it may belong to it.
        is_known = reference.to_array(DEP) != 0
        is_known[1:] &= (starts[1:] != KNOWN_START) | (is_known | (reference.to_array(IS_SPACE) != 0))[:-1]
    elif not reference.has_annotation("SENT_START"):  # spaCy sets the first one nevertheless
        is_known[:] = False
    lengths = numpy.asarray(alignment.lengths)
    firsts = numpy.asarray(alignment.data)[(lengths.cumsum() - lengths)[lengths > 0]]
    is_aligned = lengths > 0
    sentences = numpy.full(len(lengths), -1)
    sentences[is_aligned] = (starts == KNOWN_START).cumsum()[firsts]
    sentences = numpy.maximum.accumulate(sentences)
    aligned = numpy.zeros(len(lengths), dtype=bool)
    aligned[is_aligned] = is_known[firsts]
    before = numpy.concatenate([[-1], sentences[:-1]])
    values = numpy.where(sentences > before, KNOWN_START, KNOWN_INSIDE)
    return numpy.where(aligned, values, UNKNOWN_START)


# White space, and sentence boundaries of tokens


def _read_starts(doc: Doc) -> Integers:
    """RETURNS (Integers): Shape (n,), `token.sent_start`: 1, -1, or 0 if unknown."""
    starts: Integers = doc.to_array(SENT_START).astype("int64")
    return starts


def _find_starts(starts: Integers, words: Integers) -> Integers:
    """RETURNS (Integers): Shape (words,). A word begins a sentence if it does, or white space before it."""
    if len(words) == len(starts):
        return starts
    n_before = numpy.concatenate([[0], (starts == KNOWN_START).cumsum()])
    after_word = numpy.concatenate([[0], words[:-1] + 1])
    has_start = n_before[words + 1] > n_before[after_word]
    return numpy.where(has_start, KNOWN_START, starts[words])


def _end_paragraphs(doc: Doc, words: Integers) -> Integers:
    """RETURNS (Integers): Shape (words,), the starts that are known, with those behind blank lines."""
    starts = _find_starts(_read_starts(doc), words)
    if len(words) < len(doc):
        spaces = numpy.setdiff1d(numpy.arange(len(doc)), words)
        breaks = [i for i in spaces.tolist() if doc[i].text.count("\n") > 1]
        behind = numpy.searchsorted(words, breaks)
        behind = behind[behind < len(words)]
        starts[behind] = numpy.where(starts[behind] == UNKNOWN_START, KNOWN_START, starts[behind])
    return starts


def _place_starts(starts: Integers, parse: ParseAnnotation) -> Mask:
    """RETURNS (Mask): Shape (n,), the tokens that begin a sentence: those that did, and words that are predicted to."""
    is_start: Mask = starts == KNOWN_START
    is_new = (parse.starts == KNOWN_START) & (_find_starts(starts, parse.words) != KNOWN_START)
    is_new[:1] = False  # the sentence of the first word begins with the Doc
    is_start[parse.words[is_new]] = True
    is_start[0] = True
    return is_start


def _attach_spaces(is_start: Mask, parse: ParseAnnotation) -> Integers:
    """RETURNS (Integers): The head of each token. White space depends on the word before it in its sentence, else on
    the next one, else on the first token of the sentence.
    """
    words = parse.words
    heads: Integers = parse.heads
    if len(words) == len(is_start):
        return heads
    sentences = numpy.cumsum(is_start)
    heads = numpy.flatnonzero(is_start)[sentences - 1]
    if len(words):
        n_before = numpy.searchsorted(words, numpy.arange(len(is_start)))
        for neighbors in (words[numpy.minimum(n_before, len(words) - 1)], words[numpy.maximum(n_before - 1, 0)]):
            heads = numpy.where(sentences[neighbors] == sentences, neighbors, heads)
        heads[words] = words[parse.heads]
    return heads
