"""Docs of which some tokens have a label: what probes and sense vectors are trained and scored on.

From annotated Docs or sentences with word senses, or from files: DocBin, CoNLL-U, JSON lines with senses.
"""

import os
from dataclasses import dataclass
from itertools import accumulate, groupby
from pathlib import Path
from typing import Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import numpy as np
import spacy
from numpy.typing import NDArray
from spacy.tokens import Doc, Token
from spacy.vocab import Vocab

from ..corpora.labelled import SenseSentence, read_conllu, read_senses
from ..corpora.records import read_docbin
from ..corpora.sources import COMPRESSION_SUFFIXES, make_source, split_suffix
from ..files import AnyPath

Indices = NDArray[np.int64]
# Labels that annotated Docs have, by name.
ATTRIBUTES: Dict[str, Callable[[Token], str]] = {
    "pos": lambda token: token.pos_,
    "tag": lambda token: token.tag_,
    "morph": lambda token: str(token.morph),
    "dep": lambda token: token.dep_,
    "ent_type": lambda token: token.ent_type_,
}
SENSE = "sense"
ATTRS = (*ATTRIBUTES, SENSE)
TAG_SUFFIXES, SENSE_SUFFIXES = (".spacy", ".conllu"), (".jsonl", ".ndjson", ".json")
TEST_SHARE = 0.2  # of the documents, if there are no training data
Annotation = Tuple[int, str, str]  # place in the Doc, key, label


@dataclass(frozen=True)
class LabelledDocs:
    """Docs, and N labelled tokens of them in text order. White space is never labelled: the biLM does not read it.

    docs (List[Doc]): Their sentence boundaries are what the biLM may read as sequences.
    rows (Indices): Shape (N,), the labelled tokens, counted through all Docs.
    labels (List[str]): Label of each.
    keys (List[str]): Labels compete within a key only: senses within their lemma. Empty where all labels compete.
    sentences (Indices): Shape (N,), the sentence of each, counted through all Docs.
    """

    docs: List[Doc]
    rows: Indices
    labels: List[str]
    keys: List[str]
    sentences: Indices

    def words(self) -> List[str]:
        """RETURNS (List[str]): The text of each labelled token."""
        rows = iter(self.rows.tolist())
        row, words, first = next(rows, -1), [], 0
        for doc in self.docs:
            while first <= row < first + len(doc):
                words.append(doc[row - first].text)
                row = next(rows, -1)
            first += len(doc)
        return words

    def select(self, doc_indices: Sequence[int], limit: Optional[int] = None) -> "LabelledDocs":
        """Take some Docs. Sentences keep their numbers.

        doc_indices (Sequence[int]): Indices of the Docs to keep, in ascending order.
        limit (Optional[int]): Keep the first labels only; None for all. Docs are kept whole, as context.
        RETURNS (LabelledDocs): Possibly without labels.
        """
        lengths = np.asarray([len(doc) for doc in self.docs], dtype="int64")
        chosen, owners = np.asarray(doc_indices, dtype="int64"), self.find_docs()
        old_firsts = lengths.cumsum() - lengths  # the first row of each Doc
        new_firsts = np.zeros_like(old_firsts)
        new_firsts[chosen] = lengths[chosen].cumsum() - lengths[chosen]
        indices = np.flatnonzero(np.isin(owners, chosen))[:limit]
        rows = self.rows - old_firsts[owners] + new_firsts[owners]
        labels, keys = [self.labels[i] for i in indices.tolist()], [self.keys[i] for i in indices.tolist()]
        return LabelledDocs([self.docs[i] for i in doc_indices], rows[indices], labels, keys, self.sentences[indices])

    def find_docs(self) -> Indices:
        """RETURNS (Indices): Shape (N,), the number of the Doc of each labelled token."""
        ends = np.cumsum([len(doc) for doc in self.docs])
        return np.asarray(ends.searchsorted(self.rows, side="right"), dtype="int64")


def label_tokens(docs: Iterable[Doc], attr: str, source: str = "The text") -> LabelledDocs:
    """Take an attribute of spaCy as label, of the tokens that have it.

    docs (Iterable[Doc]): Annotated Docs.
    attr (str): "pos", "tag", "morph", "dep" or "ent_type".
    source (str): Name of the text in errors.
    RETURNS (LabelledDocs): All in one key.
    RAISES (ValueError): For another attribute, or if no token has it.
    """
    _check_attribute(attr, tuple(ATTRIBUTES))
    read, docs = ATTRIBUTES[attr], list(docs)
    return _collect_labelled(docs, ([(token.i, "", read(token)) for token in doc] for doc in docs), attr, source)


def label_senses(sentences: Iterable[SenseSentence], vocab: Vocab, source: str = "The text") -> LabelledDocs:
    """Make a Doc of each document, with its senses as labels and lemma and part of speech as key.

    sentences (Iterable[SenseSentence]): Those of a document follow each other.
    vocab (Vocab): Vocabulary of the Docs.
    source (str): Name of the text in errors.
    RETURNS (LabelledDocs): With sentence boundaries.
    RAISES (ValueError): If no token has a sense.
    """
    groups = groupby(sentences, key=lambda sentence: sentence.document)
    joined = [_join_sentences(list(group), vocab) for _, group in groups]
    return _collect_labelled([doc for doc, _ in joined], (annotations for _, annotations in joined), SENSE, source)


def _check_attribute(attr: str, known: Sequence[str]) -> None:
    if attr not in known:
        raise ValueError(f"Unknown attribute '{attr}' of tokens. Choose one of: {', '.join(known)}.")


def _join_sentences(sentences: Sequence[SenseSentence], vocab: Vocab) -> Tuple[Doc, List[Annotation]]:
    words: List[str] = []
    starts: List[Union[bool, int, None]] = []
    annotations: List[Annotation] = []
    for sentence in sentences:
        annotations += [(len(words) + use.position, f"{use.lemma} {use.pos}", use.sense) for use in sentence.uses]
        words += sentence.tokens
        starts += [i == 0 for i in range(len(sentence.tokens))]
    return Doc(vocab, words=words, sent_starts=starts), annotations


def _collect_labelled(docs: List[Doc], annotations: Iterable[List[Annotation]], attr: str, source: str) -> LabelledDocs:
    rows, labels, keys, sentences = [], [], [], []
    first_row = first_sentence = 0
    for doc, labels_of_doc in zip(docs, annotations):
        sentence_of_token = _number_sentences(doc)
        for place, key, label in labels_of_doc:
            if label and not doc[place].is_space:
                rows.append(first_row + place)
                labels.append(label)
                keys.append(key)
                sentences.append(first_sentence + sentence_of_token[place])
        first_row += len(doc)
        first_sentence += sentence_of_token[-1] + 1 if sentence_of_token else 0
    if not labels:
        words = [token for doc in docs for token in doc if not token.is_space]
        others = [name for name, read in ATTRIBUTES.items() if any(map(read, words))]
        raise ValueError(
            f"{source} has no token with the attribute '{attr}' ({len(docs)} documents). Its tokens have: "
            f"{', '.join(others) or 'nothing'}. Give annotated text, or another attribute."
        )
    return LabelledDocs(docs, np.asarray(rows, dtype="int64"), labels, keys, np.asarray(sentences, dtype="int64"))


def _number_sentences(doc: Doc) -> List[int]:
    """The sentence of each token; without boundaries a Doc is one."""
    if not doc.has_annotation("SENT_START"):
        return [0] * len(doc)
    return list(accumulate(int(token.is_sent_start is True and token.i > 0) for token in doc))


@dataclass(frozen=True)
class ProbeData:
    """What probes are trained and scored on.

    attr (str): The attribute, one of `ATTRS`.
    is_split (bool): Whether both are parts of one file.
    n_unseen (int): Test tokens with a label that training does not have.
    """

    attr: str
    train: LabelledDocs
    test: LabelledDocs
    is_split: bool
    n_unseen: int


def load_probe_data(
    path: AnyPath, attr: str, *, train: Optional[AnyPath] = None, limit: Optional[int] = None, seed: int = 0
) -> ProbeData:
    """Read the data of a probe; without training data, split the documents of the file.

    path (AnyPath): Test data: `.spacy` or `.conllu`, for senses `.jsonl`, each also compressed.
    attr (str): "pos", "tag", "morph", "dep", "ent_type" or "sense".
    train (Optional[AnyPath]): Training data in one of these formats.
    limit (Optional[int]): Train on this many labelled tokens at most, of documents drawn at random.
    RETURNS (ProbeData): With at least two training labels.
    RAISES (ValueError): For another attribute or suffix, an invalid line, a file that has no labels or cannot be
        split, the same file twice, and a single training label.
    """
    _check_attribute(attr, ATTRS)
    path, train = Path(os.fsdecode(path)), None if train is None else Path(os.fsdecode(train))
    if train is not None and train.resolve() == path.resolve():
        raise ValueError(
            f"Training and test data are the same file, '{path}', so that scores would mean nothing. Give "
            "another file as `train`, or leave it out: the documents are then split."
        )
    test = read_labelled(path, attr)
    training, test = split_documents(test, path, seed) if train is None else (read_labelled(train, attr), test)
    training = sample_documents(training, limit, seed)
    check_labels(training.labels)
    known_labels = set(training.labels)
    return ProbeData(attr, training, test, train is None, sum(label not in known_labels for label in test.labels))


def read_labelled(path: Path, attr: str) -> LabelledDocs:
    """RETURNS (LabelledDocs): All documents of a file, at least one label. For arguments see `load_probe_data`."""
    suffixes = SENSE_SUFFIXES if attr == SENSE else TAG_SUFFIXES
    source = make_source(path)
    is_docbin = source.format == "docbin"
    # A stream has no suffix; a DocBin is one under every name.
    if split_suffix(path)[0] not in suffixes and source.stream is None and (attr == SENSE or not is_docbin):
        known = f"{' or '.join(suffixes)}, or one of them with {', '.join(COMPRESSION_SUFFIXES)}"
        raise ValueError(
            f"'{path}' cannot be read for `attr=\"{attr}\"`: its suffix should be {known}. Give a file in that "
            "format, or another attribute."
        )
    nlp = spacy.blank("xx")
    if attr == SENSE:
        return label_senses(read_senses(source), nlp.vocab, f"'{path}'")
    docs = read_docbin(source, nlp) if is_docbin else read_conllu(source, nlp.vocab)
    return label_tokens(docs, attr, f"'{path}'")


def split_documents(labelled: LabelledDocs, path: Path, seed: int) -> Tuple[LabelledDocs, LabelledDocs]:
    """RETURNS (Tuple[LabelledDocs, LabelledDocs]): 80 % of the documents that have a label, and the other 20 %.
    RAISES (ValueError): For fewer than two documents with a label.
    """
    doc_indices = np.unique(labelled.find_docs())
    if len(doc_indices) < 2:
        raise ValueError(
            f"'{path}' cannot be split into training and test data: labels are in {len(doc_indices)} document; two are "
            "the least. Give training data as `train`, or a file with more documents."
        )
    drawn = np.random.default_rng(seed).permutation(doc_indices)
    n_test = max(1, round(TEST_SHARE * len(doc_indices)))
    test, train = np.sort(drawn[:n_test]).tolist(), np.sort(drawn[n_test:]).tolist()
    return labelled.select(train), labelled.select(test)


def sample_documents(labelled: LabelledDocs, limit: Optional[int], seed: int) -> LabelledDocs:
    """RETURNS (LabelledDocs): Documents drawn at random, in their order, until there are `limit` labels."""
    if limit is None or len(labelled.labels) <= limit:
        return labelled
    counts = np.bincount(labelled.find_docs(), minlength=len(labelled.docs))
    drawn = np.random.default_rng(seed).permutation(len(labelled.docs))
    n_docs = int(counts[drawn].cumsum().searchsorted(limit)) + 1
    return labelled.select(np.sort(drawn[:n_docs]).tolist(), limit)


def check_labels(labels: Iterable[str]) -> None:
    """RAISES (ValueError): For fewer than two different training labels."""
    names = sorted(set(labels))
    if len(names) < 2:
        raise ValueError(
            f"A probe cannot be trained on {len(names)} different labels ({', '.join(names) or 'none'}): it needs two "
            "or more. Give training data with more labels, or another attribute."
        )


def compare_labels(answers: Sequence[Optional[str]], labels: Sequence[str]) -> NDArray[np.bool_]:
    """RETURNS (NDArray[np.bool_]): Shape (N,), whether each answer is the label."""
    return np.asarray([answer == label for answer, label in zip(answers, labels, strict=True)])
