"""The transformer encoder: what a token sees, that nothing else does, and its errors."""

import copy
import pickle

import numpy as np
import pytest
from inference.forcing import needs_kernel
from transformers_tiny import SENTENCES, make_transformer

from spacy_elmo.inference import kernel

TOLERANCE = 1e-5


@pytest.mark.parametrize("directions", ["both", "forward"])
@pytest.mark.parametrize("batch_tokens", [1, 7, 8192])
def test_layers_do_not_depend_on_the_batch(directions, batch_tokens):
    bilm = make_transformer(directions=directions)
    together = bilm.embed(SENTENCES, boundaries=True, batch_tokens=batch_tokens)
    backwards = bilm.embed(SENTENCES[::-1] * 3, boundaries=True, batch_tokens=batch_tokens)[: len(SENTENCES)][::-1]
    for words, one, other in zip(SENTENCES, together, backwards):
        alone = bilm.embed([words], boundaries=True)[0]
        assert alone.shape == (3, len(words) + 2, bilm.config.output_width)
        np.testing.assert_allclose(one, alone, rtol=0, atol=TOLERANCE)
        np.testing.assert_allclose(other, alone, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("boundaries", [True, False])
def test_training_and_inference_agree(boundaries):
    bilm = make_transformer()
    wanted = np.concatenate(bilm.embed(SENTENCES, boundaries=boundaries), axis=1)
    found = bilm.encode(SENTENCES, boundaries=boundaries, with_grad=True)
    np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(bilm.encode(SENTENCES, boundaries=boundaries), wanted, rtol=0, atol=TOLERANCE)


def test_forward_sees_the_past_and_backward_the_future():
    bilm = make_transformer()
    before, after = bilm.embed([["a", "b", "c", "d"], ["a", "b", "x", "d"]])
    changed = np.abs(before - after).max(axis=0) > 1e-4  # (n, D)
    width = bilm.config.projection_width
    assert changed[:, :width].any(axis=1).tolist() == [False, False, True, True]
    assert changed[:, width:].any(axis=1).tolist() == [True, True, True, False]


def test_layer_0_is_the_word_and_the_others_know_the_position():
    (layers,) = make_transformer().embed([["the", "the", "the"]])
    assert np.ptp(layers[0], axis=0).max() == 0.0
    assert np.array_equal(layers[0][:, :8], layers[0][:, 8:])
    assert np.ptp(layers[1], axis=0).min() > 1e-4


@pytest.mark.parametrize(
    "ask",
    [
        lambda bilm: bilm.embed(SENTENCES, state="carry"),
        lambda bilm: bilm.embed(SENTENCES, return_state=True),
        lambda bilm: list(bilm.iter_encode(SENTENCES, state="carry")),
        lambda bilm: bilm.perplexity(SENTENCES, state="carry"),
        lambda bilm: bilm.token_losses(SENTENCES, state="carry"),
        lambda bilm: bilm.steady_state,
        lambda bilm: bilm.compute_steady_state(),
    ],
)
def test_a_state_is_refused(ask):
    with pytest.raises(ValueError, match="EL340.*transformer"):
        ask(make_transformer(head=True))


@pytest.mark.parametrize("embed", ["embed", "encode"])
def test_long_sequences_are_refused(embed):
    bilm = make_transformer()
    settings = {"with_grad": True} if embed == "encode" else {}
    assert len(getattr(bilm, embed)([["a"] * 198], **settings)[0]) > 0
    with pytest.raises(ValueError, match=r"EL341.*201 tokens.*at most 200"):
        getattr(bilm, embed)([["a"], ["a"] * 199], **settings)


@needs_kernel
@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_reduced_precision_is_that_of_rounded_weights(precision):
    """AVX512-BF16 rounds the inputs of products, too."""
    bilm = make_transformer()
    exact = bilm.embed(SENTENCES)
    found = bilm.set_precision(precision).embed(SENTENCES)
    rounded = bilm.set_precision("float32").embed(SENTENCES)
    tolerance = 0.1 if kernel.native.INSTRUCTION_SET == "avx512_bf16" else 1e-5
    for one, two, other in zip(found, rounded, exact):
        np.testing.assert_allclose(one, two, rtol=0, atol=tolerance)
        assert not one.size or 0 < np.abs(one - other).max() < 0.1


def test_copies_and_pickles_give_the_same_vectors():
    bilm = make_transformer()
    wanted = bilm.embed(SENTENCES)
    for other in (copy.deepcopy(bilm), pickle.loads(pickle.dumps(bilm))):
        assert all(np.array_equal(*pair) for pair in zip(other.embed(SENTENCES), wanted))
