"""Docs with annotations for every component."""

from typing import List

from spacy.tokens import Doc, Span
from spacy.vocab import Vocab


def make_docs() -> List[Doc]:
    """Forty Docs with annotations for every component; a parser ignores labels that it sees less than 30 times."""
    vocab = Vocab()
    docs = []
    for i in range(40):
        doc = Doc(
            vocab,
            words=["Ada", "sings", "songs", ".", "Bob", "sleeps", "."],
            tags=["NNP", "VBZ", "NNS", ".", "NNP", "VBZ", "."],
            pos=["PROPN", "VERB", "NOUN", "PUNCT", "PROPN", "VERB", "PUNCT"],
            morphs=["", "", "Number=Plur", "", "", "", ""],
            lemmas=["Ada", "sing", "song", ".", "Bob", "sleep", "."],
            heads=[1, 1, 1, 1, 5, 5, 5],
            deps=["nsubj", "ROOT", "obj", "punct", "nsubj", "ROOT", "punct"],
        )
        doc.ents = [Span(doc, 0, 1, label="PERSON", kb_id="Q1"), Span(doc, 4, 5, label="PERSON", kb_id="Q2")]
        doc.spans["sc"] = [Span(doc, 0, 1, label="PERSON"), Span(doc, 1, 3, label="ACT")]
        doc.cats = {"music": float(i % 2), "sleep": float(1 - i % 2)}
        docs.append(doc)
    return docs
