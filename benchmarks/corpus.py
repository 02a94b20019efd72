"""Real text for the benchmarks: the development part of UD EWT, as documents of sentences."""

import os
from itertools import cycle
from pathlib import Path
from typing import Any, List, Optional

import spacy
from spacy.tokens import Doc, DocBin

Sentence = List[str]
Document = List[Sentence]
UD_DEV = Path("data") / "ud" / "en_ewt" / "dev.spacy"


def default_shared() -> Path:
    """RETURNS (Path): The folder named by SPACY_ELMO_SHARED, by default `shared` next to the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared"
    return Path(os.environ.get("SPACY_ELMO_SHARED", beside)).resolve()


def read_documents(shared: Path, max_sentences: Optional[int] = None) -> List[Document]:
    """shared (Path): The folder that holds `data/ud`.
    max_sentences (Optional[int]): Stop after this number of sentences.
    RETURNS (List[Document]): The texts, in order.
    """
    documents: List[Document] = []
    for doc in DocBin().from_disk(shared / UD_DEV).get_docs(spacy.blank("en").vocab):
        documents.append([[token.text for token in sentence] for sentence in doc.sents])
    return documents if max_sentences is None else first_sentences(documents, max_sentences)


def first_sentences(documents: List[Document], max_sentences: int) -> List[Document]:
    """RETURNS (List[Document]): Documents with this number of sentences, the last one truncated."""
    found: List[Document] = []
    for document in documents:
        found.append(document[:max_sentences])
        max_sentences -= len(found[-1])
        if not max_sentences:
            break
    return [document for document in found if document]


def long_document(documents: List[Document], n_tokens: int) -> Document:
    """RETURNS (Document): One document with this number of tokens: all sentences, repeated, the last one truncated."""
    found: Document = []
    for sentence in cycle(flatten(documents)):
        if n_tokens <= 0:
            return found
        found.append(sentence[:n_tokens])
        n_tokens -= len(sentence)
    return found


def flatten(documents: List[Document]) -> List[Sentence]:
    """RETURNS (List[Sentence]): All sentences in text order."""
    return [sentence for document in documents for sentence in document]


def make_doc(vocab: Any, document: Document, *, has_sentences: bool = True) -> Doc:
    """vocab (Vocab): Vocabulary of a pipeline.
    has_sentences (bool): Whether to set sentence boundaries.
    RETURNS (Doc): The document.
    """
    starts = [number == 0 for sentence in document for number in range(len(sentence))]
    words = [word for sentence in document for word in sentence]
    return Doc(vocab, words=words, sent_starts=starts if has_sentences else None)  # type: ignore[arg-type]
