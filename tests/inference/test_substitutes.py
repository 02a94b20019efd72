"""Words that a biLM expects in a place, against Bayes' rule on the losses of every word of the vocabulary."""

import math
from typing import Sequence

import numpy as np
import pytest
import torch
from nn.tiny import make_network

from spacy_elmo import BiLM
from spacy_elmo.bilm.network import SoftmaxHead
from spacy_elmo.inference.substitutes import find_substitutes
from spacy_elmo.text.words import Vocabulary

WORDS = ["<S>", "</S>", "<UNK>", *"the of bank river money sat on in".split()]
SENTENCE = ["the", "bank", "of", "Xanadu"]


def _bilm(directions: str = "both", words: Sequence[str] = WORDS) -> BiLM:
    head = SoftmaxHead(len(WORDS), 8)
    torch.nn.init.normal_(head.weight, std=2.0, generator=torch.Generator().manual_seed(3))
    return BiLM(make_network(3, directions=directions).eval(), vocabulary=Vocabulary(words), head=head)


@pytest.mark.parametrize("position", range(len(SENTENCE)))
def test_probabilities_are_those_of_the_losses(position: int) -> None:
    bilm = _bilm()
    found = find_substitutes(bilm, SENTENCE, position, k=len(WORDS))
    assert {one.word for one in found} == set(WORDS[3:])
    # The loss of a word in this place does not depend on the word itself, so each word is put there.
    scores = {}
    for rank, word in enumerate(WORDS, 1):
        replaced = [*SENTENCE[:position], word, *SENTENCE[position + 1 :]]
        losses = bilm.token_losses([replaced])[0][:, position] if word not in WORDS[:2] else None
        if losses is not None:
            scores[word] = (*np.exp(-losses).tolist(), float(np.exp(-losses.sum())) * rank)
    for one in found:
        forward, backward, _ = scores[one.word]
        assert one.forward == pytest.approx(forward, rel=1e-4)
        assert one.backward == pytest.approx(backward, rel=1e-4)
    joint = [scores[one.word][2] for one in found]
    assert joint == sorted(joint, reverse=True)
    ratios = [one.probability / score for one, score in zip(found, joint)]
    assert ratios == pytest.approx([ratios[0]] * len(ratios), rel=1e-4)
    assert sum(one.probability for one in found) < 1


@pytest.mark.issue(60)
def test_special_words_are_no_substitutes_wherever_the_vocabulary_has_them() -> None:
    found = find_substitutes(_bilm(words=[*WORDS[3:], *WORDS[:3]]), SENTENCE, 1, k=len(WORDS))
    assert {one.word for one in found} == set(WORDS[3:])


def test_word_in_the_place_is_not_read() -> None:
    bilm = _bilm()
    assert find_substitutes(bilm, SENTENCE, 1) == find_substitutes(bilm, ["the", "zebra", *SENTENCE[2:]], 1)


def test_forward_model_uses_the_words_before() -> None:
    found = find_substitutes(_bilm("forward"), SENTENCE, 1, k=2)
    assert len(found) == 2
    assert all(math.isnan(one.backward) and one.probability == pytest.approx(one.forward) for one in found)
    others = find_substitutes(_bilm("forward"), [SENTENCE[0], "zebra", "in"], 1, k=2)
    assert [one[:3] for one in found] == [one[:3] for one in others]


def test_other_bad_input_is_an_error() -> None:
    bilm = _bilm()
    with pytest.raises(ValueError, match="k is 0"):
        find_substitutes(bilm, SENTENCE, 0, k=0)
    with pytest.raises(ValueError, match="EL011"):
        find_substitutes(bilm, "the bank", 0)
    with pytest.raises(ValueError, match="The state is"):
        find_substitutes(bilm, SENTENCE, 0, state="old")
    bilm.head = None
    with pytest.raises(ValueError, match="EL007.*substitutes"):
        find_substitutes(bilm, SENTENCE, 0)
