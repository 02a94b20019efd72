"""Products with packed weights equal torch's own, with and without oneDNN."""

import os
import subprocess
import sys

import pytest
import torch

from spacy_elmo.bilm.config import BiLMConfig, CharCNNConfig
from spacy_elmo.bilm.model import BiLMNetwork
from spacy_elmo.inference import lstm, products, runner
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.inference.products import PackedProduct, has_packing

WIDE, NARROW = 2048, 24
needs_packing = pytest.mark.skipif(not has_packing(torch.zeros(1)), reason="torch without oneDNN")


def make_weight(n_in=WIDE, n_out=NARROW):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(1, n_in, n_out, generator=generator) / n_in**0.5


def make_network(directions, n_layers):
    char_cnn = CharCNNConfig(embedding_width=4, filters=((1, 8), (2, 8)), activation="relu", n_highway=1)
    return BiLMNetwork(BiLMConfig(char_cnn, None, n_layers, 16, 8, 3.0, 3.0, directions=directions)).eval()


@needs_packing
@pytest.mark.parametrize("n_in, n_out", [(24, 96), (128, 640), (1024, 128), (WIDE, NARROW), (512, 16384), (4096, 512)])
def test_a_row_is_identical_in_any_batch(n_in, n_out):
    product, rows = PackedProduct(make_weight(n_in, n_out)), torch.randn(1, 130, n_in)
    other, bias = torch.randn(1, 130, n_out), torch.randn(1, 1, n_out)
    wanted, wanted_plus = product(rows, bias), product.plus(rows, other)
    for n_rows in (1, 2, 3, 7, 8, 9, 31, 64, 129):
        assert torch.equal(product(rows[:, :n_rows], bias), wanted[:, :n_rows])
        assert torch.equal(product.plus(rows[:, :n_rows], other[:, :n_rows]), wanted_plus[:, :n_rows])


@pytest.mark.parametrize("directions", ["both", "forward"])
def test_layers_are_the_same_without_packing(monkeypatch, directions):
    network = make_network(directions, n_layers=2)
    sentences = [["She", "sat"], [], ["the", "bank", "of", "the", "river"], ["Oslo"]]
    found = BiLM(network).embed(sentences, state="steady")
    for module in (products, lstm, runner):
        monkeypatch.setattr(module, "has_packing", lambda weight: False)
    for one, other in zip(found, BiLM(network).embed(sentences, state="steady")):
        torch.testing.assert_close(torch.from_numpy(one), torch.from_numpy(other), atol=1e-5, rtol=0.0)


@pytest.mark.parametrize("given, kept", [({}, "16"), ({"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "99"}, "99")])
def test_what_onednn_keeps_is_bounded_unless_the_user_says_otherwise(given, kept):
    """It would keep something for each of a thousand shapes, and a text has no end of them."""
    names = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
    environment = {name: value for name, value in os.environ.items() if name not in names} | given
    code = f"import os, spacy_elmo.bilm.model, spacy_elmo.inference.lstm; print(*[os.environ[n] for n in {names}])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert found.stdout.split() == [kept, "16"]
