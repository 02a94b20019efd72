"""Perplexities by the definition."""

import math

import numpy as np
import pytest
import torch

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.lm_head import SoftmaxHead
from spacy_elmo.bilm.model import BiLMNetwork
from spacy_elmo.encoding.facade import BiLM
from spacy_elmo.text.vocabulary import Vocabulary

WORDS = ["<S>", "</S>", "<UNK>", "the", "bank", "sat", "."]
TEXT = [["the", "bank", "sat", "."], ["sat"], ["the", "unseen", "bank"], ["."]] * 6


@pytest.fixture(scope="module", params=["both", "forward"])
def bilm(request):
    torch.manual_seed(0)
    config = BiLMConfig.from_dict(
        {
            "char_cnn": {"embedding_width": 4, "filters": [[2, 8]], "n_highway": 1},
            "cell_width": 12,
            "projection_width": 6,
            "directions": request.param,
        }
    )
    return BiLM(BiLMNetwork(config), vocabulary=Vocabulary(WORDS), head=SoftmaxHead(len(WORDS), 6))


@pytest.mark.parametrize("state", ["reset", "steady"])
def test_sentences_by_themselves_equal_the_embeddings_through_the_softmax(bilm, state):
    result = bilm.perplexity(TEXT, state=state)
    forward = []
    for sentence in TEXT:
        rows = torch.from_numpy(bilm.embed([sentence], boundaries=True, state=state)[0][-1][:-1, :6])
        targets = torch.from_numpy(bilm.vocabulary.ids([*sentence, "</S>"]))
        forward.append(torch.nn.functional.cross_entropy(bilm.head(rows), targets, reduction="none").detach())
    losses = torch.cat(forward).double().numpy()
    assert result.n_tokens == len(losses) == sum(len(sentence) + 1 for sentence in TEXT) and result.n_dropped == 0
    assert result.forward == pytest.approx(math.exp(losses.mean()), rel=1e-5)
    error = losses.std(ddof=1) / math.sqrt(len(losses))
    assert result.forward_error == pytest.approx(result.forward * error, rel=1e-4)
    assert result.unk_rate == pytest.approx(6 / len(losses))
    assert math.isnan(result.backward) == (bilm.config.directions == "forward")


def test_backward_losses_of_sentences_by_themselves(bilm):
    if bilm.config.directions == "forward":
        return
    losses = bilm.token_losses(TEXT, state="reset", batch_size=1)
    rows = torch.from_numpy(bilm.embed([TEXT[0]], boundaries=True)[0][-1][1:, 6:])
    targets = torch.from_numpy(bilm.vocabulary.ids(["<S>", *TEXT[0]]))
    wanted = torch.nn.functional.cross_entropy(bilm.head(rows), targets, reduction="none").detach()
    np.testing.assert_allclose(losses[1, : len(wanted)], wanted, atol=1e-5)
    np.testing.assert_allclose(losses, bilm.token_losses(TEXT, state="reset"), atol=1e-5)


def test_carry_counts_or_reports_every_token(bilm):
    total = sum(len(sentence) + 1 for sentence in TEXT)
    for batch_size in (1, 2, 32):
        result = bilm.perplexity(TEXT, batch_size=batch_size)
        assert result.n_tokens + result.n_dropped == total
        assert result.n_dropped == 0 if batch_size == 1 else result.n_dropped < total / 3


def test_token_losses_are_what_is_averaged(bilm):
    losses = bilm.token_losses(TEXT, batch_size=1)
    assert bilm.perplexity(TEXT, batch_size=1).forward == pytest.approx(float(np.exp(losses[0].mean())), rel=1e-6)


def test_softmax_in_parts_gives_the_same(bilm):
    outputs, targets = torch.randn(50, 6), torch.randint(0, len(WORDS), (50,))
    whole = bilm.head.token_losses(outputs, targets)
    torch.testing.assert_close(bilm.head.token_losses(outputs, targets, max_scores=20), whole)


@pytest.mark.parametrize(
    "arguments",
    [
        {"sentences": []},
        {"sentences": TEXT, "state": "settled"},
        {"sentences": TEXT, "batch_size": 0},
        {"sentences": ["a text that is not tokenized"]},
    ],
)
def test_wrong_input_is_an_error(bilm, arguments):
    with pytest.raises(ValueError, match="should be|okeni"):
        bilm.perplexity(**arguments)
