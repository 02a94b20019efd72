"""The `BiLM` facade: vectors do not depend on the batch; states, errors."""

import random

import numpy as np
import pytest
import spacy
import torch
from nn.tiny import CONFIG, make_bilm

from spacy_elmo.bilm.state import BiLMState
from spacy_elmo.inference.bilm import BiLM

LIMIT = 1e-6


@pytest.fixture(scope="module")
def bilm():
    return make_bilm()


@pytest.fixture(scope="module")
def sentences():
    rng = random.Random(0)
    words = ["the", "bank", "river", "She", "sat", ".", "quickly", "東京", "x" * 80, ""]
    return [[rng.choice(words) for _ in range(rng.randrange(0, 30))] for _ in range(120)]


@pytest.mark.parametrize("state", ["reset", "steady"])
@pytest.mark.parametrize("batch_tokens", [1, 50, 100_000])
def test_vectors_do_not_depend_on_batch_or_order(bilm, sentences, state, batch_tokens):
    alone = [bilm.embed([sentence], state=state)[0] for sentence in sentences]
    order = list(range(len(sentences)))
    random.Random(1).shuffle(order)
    company = [sentences[i] for i in order] + [["long"] * 2000]
    together = bilm.embed(company, state=state, batch_tokens=batch_tokens)
    for i, found in zip(order, together):
        np.testing.assert_allclose(found, alone[i], rtol=0, atol=LIMIT)


def test_word_cache_changes_nothing_and_stays_bounded(sentences):
    bilm = make_bilm()
    wanted = bilm.embed(sentences)
    bytes_per_word = 4 * CONFIG.projection_width
    for n_words in (1000, 12, 3, 0, 3, 1000):
        bilm.word_cache.max_bytes = n_words * bytes_per_word
        assert len(bilm.word_cache) <= n_words
        for _ in range(2):
            for start in range(0, len(sentences), 7):
                for found, want in zip(bilm.embed(sentences[start : start + 7]), wanted[start : start + 7]):
                    np.testing.assert_allclose(found, want, rtol=0, atol=LIMIT)
            assert len(bilm.word_cache) <= n_words


def test_layers_choose_and_shapes_fit(bilm):
    words = ["She", "sat", "."]
    every = bilm.embed([words, []])
    assert every[0].shape == (3, 3, 16) and every[1].shape == (3, 0, 16) and every[0].dtype == np.float32
    np.testing.assert_array_equal(bilm.embed([words], layers="top")[0], every[0][-1])
    for number in (1, np.int64(1), np.uint8(1)):
        np.testing.assert_array_equal(bilm.embed([words], layers=number)[0], every[0][1])
    np.testing.assert_allclose(bilm.embed([words], layers="mean")[0], every[0].mean(axis=0), atol=LIMIT)
    assert bilm.embed([]) == []
    every[0][:] = 7
    assert every[0].base is None and not (every[1] == 7).any()  # arrays are their own


def test_carry_by_hand_equals_carry_by_group(bilm, sentences):
    texts = [sentences[:4], sentences[4:5], sentences[5:9]]
    runs = [run for text in texts for run in text]
    for batch_tokens in (1, 30, 4096):
        rows = bilm.encode(runs, state="carry", group_lengths=[4, 1, 4], batch_tokens=batch_tokens)
        start = 0
        for text in texts:
            state = None
            for run in text:
                (found,), state = bilm.embed([run], state=state, return_state=True)
                np.testing.assert_allclose(rows[:, start : start + len(run)].numpy(), found, rtol=0, atol=LIMIT)
                start += len(run)


@pytest.mark.parametrize("batch_tokens", [1, 30, 4096])
def test_carry_gives_the_same_vectors_with_and_without_the_state(bilm, sentences, batch_tokens):
    text, rest = sentences[:9], sentences[9]
    wanted = bilm.embed([*text, rest], state="carry")
    found, state = bilm.embed(text, state="carry", return_state=True, batch_tokens=batch_tokens)
    assert state.n_rows == 1
    (last,), _ = bilm.embed([rest], state=state, return_state=True)
    for rows, want in zip([*found, last], wanted):
        np.testing.assert_allclose(rows, want, rtol=0, atol=LIMIT)
    assert np.abs(wanted[1] - bilm.embed(text)[1]).max() > 1e-4


def test_a_call_without_sentences_carries_the_state(bilm, sentences):
    vectors, state = bilm.embed([], state="carry", return_state=True)
    assert vectors == [] and state.n_rows == 1 and not state.h.any() and not state.c.any()
    _, before = bilm.embed(sentences[:1], state=None, return_state=True)
    vectors, after = bilm.embed([], state=before, return_state=True)
    assert vectors == [] and torch.equal(after.h, before.h) and torch.equal(after.c, before.c)


def test_moving_keeps_a_steady_state_that_is_known(sentences):
    given = BiLMState(torch.full((2, 1, 16), 0.5), torch.full((2, 1, 32), 0.5))
    bilm = BiLM(make_bilm().network, steady_state=given)
    torch.testing.assert_close(bilm.to("cpu").steady_state.h, given.h)
    bilm.clear_caches()
    assert (bilm.steady_state.h - given.h).abs().max() > 1e-3


def test_sentences_can_come_one_by_one(bilm, sentences):
    ours = bilm.embed(iter(tuple(sentence) for sentence in sentences))
    assert all(np.array_equal(x, y) for x, y in zip(ours, bilm.embed(sentences), strict=True))
    assert torch.equal(bilm.encode(iter(sentences)), bilm.encode(sentences))
    assert [start for start, _, _ in bilm.iter_encode(iter(sentences), batch_tokens=1)] == list(range(len(sentences)))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda b: b.embed(["not tokenized"]), "EL011"),
        (lambda b: b.embed([["a", 3]]), "EL011.*not strings"),
        (lambda b: b.embed([["a"], None]), "EL011.*Sentence 1 is a NoneType, but should be a list of strings"),
        (lambda b: list(b.iter_encode([["a", None]])), "EL011.*Sentence 0 is a list with items that are not strings"),
        (lambda b: list(b.iter_encode([spacy.blank("en")("She sat.")])), "EL011.*Sentence 0 is a Doc with items"),
        (lambda b: b.embed([["a"]], layers="bottom"), "bottom"),
        (lambda b: b.embed([["a"]], layers=3), "0 to 2"),
        (lambda b: b.embed([["a"]], state="settled"), "settled"),
        (lambda b: b.embed([["a"]], state=np.zeros(3)), "The state is a ndarray, but should be"),
        (
            lambda b: b.embed([["a"]], state=BiLMState(torch.zeros(2, 1, 5), torch.zeros(2, 1, 32))),
            "state has shape",
        ),
        (lambda b: b.perplexity([["a"]]), "EL007.*no softmax"),
        *(
            (lambda b, n=n: b.embed([["a"]], batch_tokens=n), f"batch_tokens is {n!r}, but should be a whole number")
            for n in (0, "5", 1.5)
        ),
    ],
)
def test_wrong_input_says_what_is_wanted(bilm, call, message):
    with pytest.raises(ValueError, match=message):
        call(bilm)
