"""Truncating the rows of short words changes no vector; nor does the faster computation in training."""

import copy

import pytest
import torch

from spacy_elmo.bilm.char_cnn import MIN_BUCKET, CharCNN
from spacy_elmo.bilm.config import CharCNNConfig
from spacy_elmo.text.words import character_ids


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("max_characters", [12, 50])
def test_cut_rows_give_the_same_vectors(activation, max_characters):
    torch.manual_seed(0)
    config = CharCNNConfig(4, ((1, 3), (3, 4), (7, 5)), activation, 1, max_characters)
    char_cnn = CharCNN(config, 6)
    words = sorted(["", "a", "of", "x" * 60, *("w" * (i % 48) + str(i) for i in range(4 * MIN_BUCKET))], key=len)
    ids = torch.from_numpy(character_ids(words, max_characters))
    lengths = (ids != 261).sum(dim=1).tolist()
    with torch.no_grad():
        torch.testing.assert_close(char_cnn(ids, lengths), char_cnn(ids), rtol=0, atol=1e-6)


@pytest.mark.parametrize("embedding_width", [4, 5, 6, 7, 16])
@pytest.mark.parametrize("n_filters", [1, 2, 5, 9, 32])
def test_no_bit_of_a_word_depends_on_its_company(embedding_width, n_filters):
    torch.manual_seed(0)
    config = CharCNNConfig(embedding_width, ((1, n_filters), (3, n_filters)), "tanh", 0, 50)
    char_cnn = CharCNN(config, 2 * n_filters)
    words = ["bank", "a", "of", *("w" * (i % 40) + str(i) for i in range(70))]
    ids = torch.from_numpy(character_ids(words, 50))
    lengths = (ids != 261).sum(dim=1).tolist()
    with torch.no_grad():
        in_company = char_cnn(ids, lengths)
        alone = torch.cat([char_cnn(ids[i : i + 1], lengths[i : i + 1]) for i in range(len(words))])
    assert torch.equal(in_company, alone)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("has_lengths", [True, False])
@pytest.mark.parametrize("is_at_once", [True, False], ids=["one product, as on a GPU", "a product per filter"])
def test_vectors_and_gradients_in_training_are_those_of_plain_operations(
    activation, has_lengths, is_at_once, monkeypatch
):
    """For words of all lengths, the longest of which leave no room for padding."""
    monkeypatch.setattr("spacy_elmo.bilm.char_cnn.MIN_BUCKET", 4)
    config = CharCNNConfig(4, ((1, 5), (3, 4), (6, 7)), activation, 1, 20)
    torch.manual_seed(0)
    cnn = CharCNN(config, 6).double()
    if is_at_once:
        monkeypatch.setattr(cnn, "_pool_with_grad", lambda parts: cnn._pool_at_once(parts, 20))
    words = sorted((chr(97 + n % 26) * (n % 23) + "b" for n in range(100)), key=len)
    ids = torch.from_numpy(character_ids(words, 20))
    lengths = (ids != 261).sum(dim=1).tolist() if has_lengths else None
    plain = copy.deepcopy(cnn)
    plain.filters[0].register_forward_hook(lambda *_: None)  # operations that autograd differentiates
    found, wanted = cnn(ids, lengths), plain(ids)
    torch.testing.assert_close(found, wanted)
    seed = torch.randn(found.shape, dtype=torch.float64)
    gradients = (torch.autograd.grad(v, list(c.parameters()), seed) for v, c in ((found, cnn), (wanted, plain)))
    for (name, _), one, other in zip(cnn.named_parameters(), *gradients):
        torch.testing.assert_close(one, other, msg=name)
