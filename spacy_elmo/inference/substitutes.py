"""Words that a biLM expects in a place of a sentence, given the words on either side of it."""

from typing import List, NamedTuple, Sequence

import torch
from torch import Tensor

from .bilm import BiLM, check_positive, check_sentences, check_state
from .perplexity import require_language_model
from .runtime import isolated


class Substitute(NamedTuple):
    """A word of the vocabulary, and how probable it is in a place.

    word (str): The word.
    probability (float): Given the words on both sides.
    forward (float): Probability given the words before the place.
    backward (float): Probability given the words after the place, NaN for a forward model.
    """

    word: str
    probability: float
    forward: float
    backward: float


@isolated
@torch.no_grad()
def find_substitutes(
    bilm: BiLM, words: Sequence[str], position: int, *, k: int = 10, state: str = "reset"
) -> List[Substitute]:
    """Find the words that a biLM expects in a place. The word that stands there is not read.

    The directions of a biLM are independent (Peters et al. 2018, sec. 3.1). By Bayes' rule, a word is as probable as
    p(word | left) p(word | right) / p(word), if left and right depend on each other only through the word. p(word) is
    taken from Zipf's law, since vocabularies are sorted by frequency.

    bilm (BiLM): With its softmax and its vocabulary.
    words (Sequence[str]): The tokens of a sentence.
    position (int): Index of the word to replace, from 0.
    k (int): Number of words to return.
    state (str): Recurrent state before the sentence: "reset" or "steady".
    RETURNS (List[Substitute]): The k most probable words, without `<S>`, `</S>` and `<UNK>`.
    RAISES (ValueError): For a `k` below 1, an unknown state or a position that is not in the sentence; EL007 without a
        softmax or a vocabulary, EL011 for words that are not a list of strings.
    """
    check_positive("k", k)
    (text,) = check_sentences([words])
    if not 0 <= position < len(text):
        raise ValueError(
            f"Position {position} is not in a sentence of {len(text)} words. Give a sentence that has words, and a "
            "position from 0 to the number of words minus 1."
        )
    head, vocabulary = require_language_model(bilm.head, bilm.vocabulary, "substitutes")
    n_directions = bilm.config.n_directions
    top = bilm.encode([text], state=check_state(state), boundaries=True)[-1]  # (n + 2, D), <S> first
    # The forward direction predicts a word from the row before it, the backward direction from the row after it.
    rows = [top[position], top[position + 2]][:n_directions]
    halves = [row.chunk(n_directions)[d] for d, row in enumerate(rows)]
    log_probs = torch.log_softmax(head(torch.stack(halves)).float(), dim=1)  # (d, V)
    scores = log_probs.sum(dim=0) - (n_directions - 1) * _log_frequencies(len(vocabulary)).to(top.device)
    joint = torch.log_softmax(scores, dim=0)
    special_ids = [vocabulary.bos_id, vocabulary.eos_id, vocabulary.unk_id]
    joint[special_ids] = -torch.inf
    best = joint.topk(min(k, len(joint) - len(special_ids))).indices.tolist()
    return [_make_substitute(vocabulary.words[i], joint[i], log_probs[:, i]) for i in best]


def _log_frequencies(n_words: int) -> Tensor:
    """Log probabilities by Zipf's law, shape (V,)."""
    return torch.log_softmax(-torch.arange(1, n_words + 1, dtype=torch.float32).log(), dim=0)


def _make_substitute(word: str, joint: Tensor, log_probs: Tensor) -> Substitute:
    forward, backward = [*log_probs.exp().tolist(), float("nan")][:2]
    return Substitute(word, float(joint.exp()), forward, backward)
