"""Slices and groups of sequences; character ids give the same layers as words."""

import numpy as np
import pytest
import torch

from spacy_elmo import load_bilm
from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.network import BiLMNetwork
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.inference.encoder import inner_rows, split_groups, split_slices
from spacy_elmo.text.words import Vocabulary, character_ids


@pytest.mark.parametrize(
    "lengths, batch_tokens, slices",
    [
        ([], 4, []),
        ([0, 0, 0], 4, [(0, 3)]),
        ([3, 1, 1, 9, 0, 2], 4, [(0, 2), (2, 3), (3, 4), (4, 6)]),
        ([3, 1, 1], 1, [(0, 1), (1, 2), (2, 3)]),
    ],
)
def test_split_slices_keeps_the_budget_with_at_least_one_sequence(lengths, batch_tokens, slices):
    assert list(split_slices(lengths, batch_tokens)) == slices


@pytest.mark.parametrize(
    "start, stop, sizes, is_continued",
    [(0, 3, [3], False), (3, 9, [1, 5], True), (4, 9, [5], False), (9, 11, [1, 1], True), (10, 11, [1], False)],
)
def test_split_groups_counts_the_sequences_of_each_group_in_a_slice(start, stop, sizes, is_continued):
    """Groups of 4, 0, 6 and 1 sequences."""
    assert split_groups(np.cumsum([4, 0, 6, 1]), start, stop) == (sizes, is_continued)


def test_inner_rows_are_the_words_between_the_boundaries():
    assert inner_rows([2, 0, 1]).tolist() == [1, 2, 7]


WORDS = ["She", "sat", "on", "the", "bank", "\N{WATER WAVE}", "a" * 60]
INDEX = [[0, 1, 2, 3, 4], [], [5], [6, 3, 3], [1, 1]]


@pytest.fixture(scope="module")
def bilm():
    return load_bilm("en_elmo_sm")


RUNS = [[WORDS[number] for number in run] for run in INDEX]


@pytest.mark.parametrize("boundaries", [False, True])
@pytest.mark.parametrize("state", ["reset", "steady", "carry"])
@pytest.mark.parametrize("batch_tokens", [1, 4, 8192])
def test_ids_give_the_layers_of_their_words(bilm, state, batch_tokens, boundaries):
    ids, settings = character_ids(WORDS), {"state": state, "boundaries": boundaries, "batch_tokens": batch_tokens}
    wanted = bilm.encode(RUNS, group_lengths=[5], **settings)
    embedded = np.concatenate(bilm.embed(RUNS, **settings), axis=1)
    np.testing.assert_allclose(wanted.numpy(), embedded, atol=5e-6, rtol=0.0)
    for given in (ids, torch.from_numpy(ids), ids.astype("int32")):
        found = bilm.encode(INDEX, char_ids=given, group_lengths=[5], **settings)
        torch.testing.assert_close(found, wanted, atol=5e-6, rtol=0.0)
    if state == "reset":
        trained = bilm.encode(RUNS, boundaries=boundaries, with_grad=True)
        torch.testing.assert_close(trained, wanted, atol=5e-6, rtol=0.0)


def test_rows_of_any_ids_are_read_to_their_end(bilm):
    """Masked characters, padding inside a word, a word without padding."""
    ids = np.full((4, 50), 261)
    ids[0], ids[1, :9], ids[2, 20:24], ids[3] = 0, 0, 7, np.arange(50)
    network = bilm.network
    with torch.no_grad():
        wanted = network.word_vectors(torch.from_numpy(ids))
    found = bilm.encode([[0, 1, 2, 3]], char_ids=ids)[0]
    torch.testing.assert_close(found, torch.cat([wanted, wanted], dim=1), atol=1e-5, rtol=0.0)


@pytest.mark.parametrize(
    "ids, index, problem",
    [
        (np.ones((2, 49)), [[0]], r"shape \(2, 49\), should have \(words, 50\)"),
        (np.ones(50), [[0]], "shape"),
        (np.full((1, 50), 262), [[0]], "262 to 262, should be 0 to 261"),
        (np.full((1, 50), -1), [[0]], "-1 to -1"),
        (np.ones((2, 50)), [[0, 2]], "rows 0 to 2, but there are 2 rows"),
        (np.ones((2, 50)), [[-1]], "rows -1 to -1"),
    ],
)
def test_ids_of_something_else_are_refused(bilm, ids, index, problem):
    with pytest.raises(ValueError, match=f"EL017.*{problem}"):
        bilm.encode(index, char_ids=ids)


def test_a_bilm_of_whole_words_has_no_character_ids():
    network = BiLMNetwork(BiLMConfig(n_words=3, cell_width=8, projection_width=4))
    with pytest.raises(ValueError, match="EL017.*whole words"):
        BiLM(network, vocabulary=Vocabulary(["<S>", "</S>", "<UNK>"])).encode(INDEX, char_ids=character_ids(WORDS))


def test_ids_have_gradients(bilm):
    parameters = list(bilm.network.parameters())
    found, wanted = (
        torch.autograd.grad(layers.square().mean(), parameters)
        for layers in (
            bilm.encode(INDEX, char_ids=character_ids(WORDS), with_grad=True),
            bilm.encode(RUNS, with_grad=True),
        )
    )
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-3)


@pytest.mark.parametrize("with_grad", [False, True])
def test_sentences_without_words_need_no_ids(bilm, with_grad):
    for runs, settings, n_rows in (([[], []], {}, 0), ([[]], {"boundaries": True}, 2), ([], {}, 0)):
        found = bilm.encode(runs, char_ids=character_ids([]), with_grad=with_grad, **settings)
        assert found.shape == (3, n_rows, 256) == bilm.encode(runs, with_grad=with_grad, **settings).shape
