"""A tiny random biLM on disk, with its vocabulary and softmax."""

from pathlib import Path

import pytest
import torch

from spacy_elmo.bilm.config import BiLMConfig, CharCNNConfig
from spacy_elmo.bilm.lm_head import SoftmaxHead
from spacy_elmo.bilm.model import BiLMNetwork
from spacy_elmo.encoding.facade import BiLM
from spacy_elmo.text.vocabulary import Vocabulary
from spacy_elmo.weights import save_bilm

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "on", "mat", "."]


@pytest.fixture(scope="session")
def bilm() -> BiLM:
    """16 wide, two layers, seeded."""
    torch.manual_seed(0)
    characters = CharCNNConfig(embedding_width=4, filters=((1, 8), (2, 8)), n_highway=1)
    config = BiLMConfig(char_cnn=characters, n_layers=2, cell_width=16, projection_width=8)
    head = SoftmaxHead(len(WORDS), 8).eval()
    meta = {"corpus": "none"}
    return BiLM(BiLMNetwork(config).eval(), vocabulary=Vocabulary(WORDS), head=head, meta=meta)


@pytest.fixture
def bilm_path(bilm: BiLM, tmp_path: Path) -> Path:
    """The tiny biLM in our own format."""
    save_bilm(bilm, tmp_path / "bilm")
    return tmp_path / "bilm"
