"""The measures of the CoNLL 2018 shared task (Zeman et al. 2018): F1 of words, sentences, tags, lemmas and heads.

Words are aligned if they have the same place in the text, whitespace not counted. All other measures count the aligned
words that are right, over all words of both sides. Features are the universal ones, relations have no subtypes.
"""

from itertools import chain
from typing import Any, Callable, Dict, List

from treebank import NONE, Sentences, Word

UNIVERSAL_FEATURES = (
    "PronType NumType Poss Reflex Foreign Abbr Gender Animacy Number Case Definite Degree VerbForm Mood Tense Aspect "
    "Voice Evident Polarity Person Polite"
).split()
COLUMNS: Dict[str, Callable[[Word], Any]] = {
    "UPOS": lambda word: word.upos,
    "XPOS": lambda word: word.xpos,
    "UFeats": lambda word: _universal(word.feats),
    "Lemmas": lambda word: word.lemma,
}


def evaluate(gold: Sentences, predicted: Sentences) -> Dict[str, float]:
    """gold (Sentences): The annotation of a text.
    predicted (Sentences): A pipeline's annotation of the same text.
    RETURNS (Dict[str, float]): F1 by measure, 0 to 1. A column that is empty in all words of `gold` has none.
    RAISES (ValueError): If the texts have different lengths.
    """
    gold_words, words = list(chain.from_iterable(gold)), list(chain.from_iterable(predicted))
    ends = [max((word.span[1] for word in side), default=0) for side in (gold_words, words)]
    if ends[0] != ends[1]:
        raise ValueError(
            f"The text of the pipeline has {ends[1]} characters, that of the treebank {ends[0]}. Process the text of "
            "the treebank, whole and unchanged."
        )
    place = {word.span: position for position, word in enumerate(words)}
    aligned = {i: place[word.span] for i, word in enumerate(gold_words) if word.is_token and word.span in place}

    def f1(n_right: int) -> float:
        return 2 * n_right / max(len(gold_words) + len(words), 1)

    def is_attached(position: int) -> bool:
        head, predicted_head = gold_words[position].head, words[aligned[position]].head
        return predicted_head == (None if head is None else aligned.get(head, -1))

    scores = {"Words": f1(len(aligned)), "Sentences": _score_sentences(gold, predicted)}
    for name, read in COLUMNS.items():
        if name == "UFeats" or any(read(word) != NONE for word in gold_words):
            scores[name] = f1(sum(_is_equal(name, gold_words[i], words[j]) for i, j in aligned.items()))
    attached = [position for position in aligned if is_attached(position)]
    scores["UAS"] = f1(len(attached))
    scores["LAS"] = f1(sum(_relation(gold_words[i]) == _relation(words[aligned[i]]) for i in attached))
    return scores


def _is_equal(name: str, gold: Word, word: Word) -> bool:
    read = COLUMNS[name]
    return bool(read(gold) == read(word)) or (name == "Lemmas" and gold.lemma == NONE)


def _universal(feats: str) -> List[str]:
    return sorted(feat for feat in feats.split("|") if feat.split("=")[0] in UNIVERSAL_FEATURES)


def _relation(word: Word) -> str:
    return word.deprel.split(":")[0]


def _score_sentences(gold: Sentences, predicted: Sentences) -> float:
    spans = [{(words[0].span[0], words[-1].span[1]) for words in side} for side in (gold, predicted)]
    return 2 * len(spans[0] & spans[1]) / max(len(gold) + len(predicted), 1)
