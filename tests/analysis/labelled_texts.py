"""Small labelled texts, and a tiny biLM with random weights."""

from typing import Any, List, Sequence, Tuple

import numpy as np
import spacy
from nn.tiny import SIZES
from spacy.tokens import Doc

from spacy_elmo.corpora.labelled import SenseSentence, SenseUse
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.pipeline.model import make_random_bilm

VOCAB = spacy.blank("en").vocab
RIVER, MONEY, PIECE = "bank.river", "bank.money", "piece.part"
Tagged = Sequence[Tuple[str, str]]


def make_bilm(seed: int = 1) -> BiLM:
    return make_random_bilm(SIZES, seed)


def make_doc(*sentences: Tagged) -> Doc:
    """A Doc of sentences of words with coarse tags; "" for a word without a tag."""
    pairs = [pair for sentence in sentences for pair in sentence]
    starts: List[Any] = [i == 0 for sentence in sentences for i in range(len(sentence))]
    words, tags = [word for word, _ in pairs], [tag for _, tag in pairs]
    return Doc(VOCAB, words=words, pos=tags, sent_starts=starts)


def make_uses(*texts: Tuple[str, str], document: str = "a") -> List[SenseSentence]:
    """Sentences with the sense of the word `bank` or `piece` in each."""
    found = []
    for text, sense in texts:
        words, lemma = text.split(), sense.partition(".")[0]
        found.append(SenseSentence(document, words, [SenseUse(words.index(lemma), lemma, "NOUN", sense)]))
    return found


def read_all(bilm: BiLM, runs: Sequence[Sequence[str]], **options: Any) -> np.ndarray:
    """RETURNS (np.ndarray): Shape (L+2, N, D), the layers of all runs and their mean."""
    layers = bilm.encode(runs, **options).numpy()
    return np.concatenate([layers, layers.mean(axis=0, keepdims=True)])
