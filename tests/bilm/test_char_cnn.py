"""Truncating the rows of short words changes no vector."""

import pytest
import torch

from spacy_elmo.bilm.char_cnn import MIN_BUCKET, CharCNN, _LargestWindow
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


def _words(n_words=30, n_characters=14):
    generator = torch.Generator().manual_seed(3)
    char_ids = torch.randint(1, 40, (n_words, n_characters), generator=generator)
    lengths = torch.randint(3, n_characters - 4, (n_words,), generator=generator).sort().values.tolist()
    for row, length in zip(char_ids, lengths):
        row[length:] = 261  # padding, of which equal windows consist
    return char_ids, lengths


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("has_lengths", [True, False])
def test_training_path_equals_the_plain_one(activation, has_lengths, monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setattr("spacy_elmo.bilm.char_cnn.MIN_BUCKET", 4)
    config = CharCNNConfig(embedding_width=4, filters=((1, 5), (2, 3), (4, 6)), activation=activation, n_highway=1)
    cnn = CharCNN(config, 6).double()
    for char_filter in cnn.filters:
        torch.nn.init.normal_(char_filter.weight)
    char_ids, lengths = _words()
    lengths = lengths if has_lengths else None
    found = cnn(char_ids, lengths)
    with torch.no_grad():
        torch.testing.assert_close(cnn(char_ids, lengths), found)
    monkeypatch.setattr(cnn, "_pool_with_grad", lambda parts: torch.cat([cnn._pool(rows) for rows in parts]))
    wanted = cnn(char_ids, lengths)
    seed = torch.randn(found.shape, dtype=torch.float64)
    gradients = (torch.autograd.grad(vectors, list(cnn.parameters()), seed) for vectors in (found, wanted))
    for (name, _), got, want in zip(cnn.named_parameters(), *gradients):
        torch.testing.assert_close(got, want, msg=name)


def test_gradients_equal_finite_differences():
    torch.manual_seed(0)
    table = torch.randn(9, 2, 3, dtype=torch.float64, requires_grad=True)
    parts = torch.randint(0, 9, (4, 7)), torch.randint(0, 9, (2, 5))
    assert torch.autograd.gradcheck(lambda table: _LargestWindow.apply(table, *parts), (table,))


def test_one_product_for_all_filters_gives_the_same(monkeypatch):
    """As on a GPU, for words of all lengths, the longest of which leave no room for padding."""
    config = CharCNNConfig(embedding_width=4, filters=((1, 5), (3, 4), (6, 7)), max_characters=20)
    torch.manual_seed(0)
    cnn = CharCNN(config, 16).double()
    words = sorted((chr(97 + n % 26) * (n % 23) + "b" for n in range(400)), key=len)
    ids = torch.from_numpy(character_ids(words, 20))
    arguments = ids, (ids != 261).sum(dim=1).tolist()
    found = []
    for is_at_once in (False, True):
        if is_at_once:
            monkeypatch.setattr(cnn, "_pool_with_grad", lambda parts: cnn._pool_at_once(parts, 20))
        cnn.zero_grad()
        features = cnn(*arguments)
        (features * torch.linspace(-1, 1, features.numel()).view_as(features)).sum().backward()
        found.append([features.detach(), *(parameter.grad.clone() for parameter in cnn.parameters())])
    torch.testing.assert_close(found[0][0], found[1][0])
    torch.testing.assert_close(cnn._pool_at_once(cnn._cut(*arguments), 20), cnn._pool(ids))
    for one, other in zip(found[0][1:], found[1][1:], strict=True):
        torch.testing.assert_close(one, other)
