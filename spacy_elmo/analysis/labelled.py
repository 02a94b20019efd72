"""Docs of which some tokens have a label: what probes and sense vectors are trained and scored on."""

from dataclasses import dataclass
from itertools import groupby
from typing import Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc, Token
from spacy.vocab import Vocab

from ..corpora.labelled import SenseSentence
from ..errors import Errors

Rows = NDArray[np.int64]
# Labels that annotated Docs have, by name.
ATTRIBUTES: Dict[str, Callable[[Token], str]] = {
    "pos": lambda token: token.pos_,
    "tag": lambda token: token.tag_,
    "morph": lambda token: str(token.morph),
    "dep": lambda token: token.dep_,
    "ent_type": lambda token: token.ent_type_,
}


@dataclass(frozen=True)
class LabelledDocs:
    """Docs, and N labelled tokens of them in text order. White space is never labelled: the biLM does not read it.

    docs (List[Doc]): Their sentence boundaries are what the biLM may read as sequences.
    rows (Rows): Shape (N,), the labelled tokens, counted through all Docs.
    labels (List[str]): Label of each.
    keys (List[str]): Labels compete within a key only: senses within their lemma. Empty where all labels compete.
    sentences (Rows): Shape (N,), the sentence of each, counted through all Docs.
    """

    docs: List[Doc]
    rows: Rows
    labels: List[str]
    keys: List[str]
    sentences: Rows

    def words(self) -> List[str]:
        """RETURNS (List[str]): The text of each labelled token."""
        wanted = iter(self.rows.tolist())
        row, words, first = next(wanted, -1), [], 0
        for doc in self.docs:
            while first <= row < first + len(doc):
                words.append(doc[row - first].text)
                row = next(wanted, -1)
            first += len(doc)
        return words

    def select(self, numbers: Sequence[int], limit: Optional[int] = None) -> "LabelledDocs":
        """Take some Docs. Sentences keep their numbers.

        numbers (Sequence[int]): Of the Docs, ascending.
        limit (Optional[int]): Keep the first labels only; None for all. Docs are kept whole, as context.
        RETURNS (LabelledDocs): Possibly without labels.
        """
        lengths = np.asarray([len(doc) for doc in self.docs], dtype="int64")
        chosen = np.asarray(numbers, dtype="int64")
        owners = self.find_docs()
        firsts = np.zeros(len(lengths), dtype="int64")
        firsts[chosen] = lengths[chosen].cumsum() - lengths[chosen]
        kept = np.flatnonzero(np.isin(owners, chosen))[:limit]
        rows = self.rows - (lengths.cumsum() - lengths)[owners] + firsts[owners]
        labels, keys = [self.labels[i] for i in kept.tolist()], [self.keys[i] for i in kept.tolist()]
        return LabelledDocs([self.docs[i] for i in numbers], rows[kept], labels, keys, self.sentences[kept])

    def find_docs(self) -> Rows:
        """RETURNS (Rows): Shape (N,), the number of the Doc of each labelled token."""
        ends = np.cumsum([len(doc) for doc in self.docs])
        return np.asarray(ends.searchsorted(self.rows, side="right"), dtype="int64")


def label_tokens(docs: Iterable[Doc], attr: str) -> LabelledDocs:
    """Take an attribute of spaCy as label, of the tokens that have it.

    docs (Iterable[Doc]): Annotated Docs.
    attr (str): "pos", "tag", "morph", "dep" or "ent_type".
    RETURNS (LabelledDocs): All in one key.
    RAISES (ValueError): EL241 for another attribute, EL242 if no token has it.
    """
    if attr not in ATTRIBUTES:
        raise ValueError(Errors.EL241.format(attr=attr, known=", ".join(ATTRIBUTES)))
    read, docs = ATTRIBUTES[attr], list(docs)
    found = _build(docs, ([(token.i, "", read(token)) for token in doc] for doc in docs))
    if not found.labels:
        raise ValueError(Errors.EL242.format(attr=attr, n_docs=len(docs)))
    return found


def label_senses(sentences: Iterable[SenseSentence], vocab: Vocab) -> LabelledDocs:
    """Make a Doc of each document, with its senses as labels and lemma and part of speech as key.

    sentences (Iterable[SenseSentence]): Those of a document follow each other.
    vocab (Vocab): Of the Docs.
    RETURNS (LabelledDocs): With sentence boundaries.
    RAISES (ValueError): EL242 if no token has a sense.
    """
    docs, annotations = [], []
    for _, group in groupby(sentences, key=lambda sentence: sentence.document):
        doc, found = _join(list(group), vocab)
        docs.append(doc)
        annotations.append(found)
    labelled = _build(docs, annotations)
    if not labelled.labels:
        raise ValueError(Errors.EL242.format(attr="sense", n_docs=len(docs)))
    return labelled


Annotation = Tuple[int, str, str]  # place in the Doc, key, label


def _join(sentences: Sequence[SenseSentence], vocab: Vocab) -> Tuple[Doc, List[Annotation]]:
    words: List[str] = []
    starts: List[Union[bool, int, None]] = []
    found: List[Annotation] = []
    for sentence in sentences:
        found += [(len(words) + use.position, f"{use.lemma} {use.pos}", use.sense) for use in sentence.uses]
        words += sentence.tokens
        starts += [i == 0 for i in range(len(sentence.tokens))]
    return Doc(vocab, words=words, sent_starts=starts), found


def _build(docs: List[Doc], annotations: Iterable[List[Annotation]]) -> LabelledDocs:
    rows, labels, keys, sentences = [], [], [], []
    first_row = first_sentence = 0
    for doc, found in zip(docs, annotations):
        numbers = _number_sentences(doc)
        for place, key, label in found:
            if label and not doc[place].is_space:
                rows.append(first_row + place)
                labels.append(label)
                keys.append(key)
                sentences.append(first_sentence + numbers[place])
        first_row += len(doc)
        first_sentence += numbers[-1] + 1 if numbers else 0
    return LabelledDocs(docs, np.asarray(rows, dtype="int64"), labels, keys, np.asarray(sentences, dtype="int64"))


def _number_sentences(doc: Doc) -> List[int]:
    """RETURNS (List[int]): The sentence of each token; without boundaries a Doc is one."""
    return list(_count_starts(doc)) if doc.has_annotation("SENT_START") else [0] * len(doc)


def _count_starts(doc: Doc) -> Iterator[int]:
    number = -1
    for token in doc:
        number += token.i == 0 or token.is_sent_start is True
        yield number
