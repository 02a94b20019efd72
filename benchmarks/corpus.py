"""Real text for the benchmarks: the development part of UD EWT, as documents of sentences."""

import os
from pathlib import Path
from typing import List, Optional

import spacy
from spacy.tokens import DocBin

Sentence = List[str]
Document = List[Sentence]
UD_DEV = Path("data") / "ud" / "en_ewt" / "dev.spacy"


def default_shared() -> Path:
    """RETURNS (Path): The folder named by SPACY_ELMO_SHARED, by default `shared` beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared"
    return Path(os.environ.get("SPACY_ELMO_SHARED", beside)).resolve()


def read_documents(shared: Path, max_sentences: Optional[int] = None) -> List[Document]:
    """shared (Path): The folder that holds `data/ud`.
    max_sentences (Optional[int]): Stop after so many sentences.
    RETURNS (List[Document]): The texts in their order.
    """
    left = float("inf") if max_sentences is None else max_sentences
    documents: List[Document] = []
    for doc in DocBin().from_disk(shared / UD_DEV).get_docs(spacy.blank("en").vocab):
        sentences = [[token.text for token in sentence] for sentence in doc.sents]
        sentences = sentences[: int(min(left, len(sentences)))]
        left -= len(sentences)
        if sentences:
            documents.append(sentences)
    return documents


def flatten(documents: List[Document]) -> List[Sentence]:
    """RETURNS (List[Sentence]): All sentences in text order."""
    return [sentence for document in documents for sentence in document]
