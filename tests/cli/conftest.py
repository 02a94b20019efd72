"""A tiny random biLM on disk, with its vocabulary and softmax."""

from pathlib import Path
from typing import Any, List

import pytest
import torch

from spacy_elmo.bilm.config import BiLMConfig, CharCNNConfig
from spacy_elmo.bilm.lm_head import SoftmaxHead
from spacy_elmo.bilm.model import BiLMNetwork
from spacy_elmo.inference.bilm import BiLM
from spacy_elmo.text.words import Vocabulary
from spacy_elmo.weights import save_bilm

SPECIAL = ["<S>", "</S>", "<UNK>"]
WORDS = [*SPECIAL, "the", "cat", "sat", "on", "mat", "."]
FRENCH = ["l'", "affaire", "est", "tr\xe8s", "d\u2019", "\u0153uvre", "."]


def _make_bilm(words: List[str], **meta: Any) -> BiLM:
    torch.manual_seed(0)
    characters = CharCNNConfig(embedding_width=4, filters=((1, 8), (2, 8)), n_highway=1)
    config = BiLMConfig(char_cnn=characters, n_layers=2, cell_width=16, projection_width=8)
    head = SoftmaxHead(len(words), 8).eval()
    return BiLM(BiLMNetwork(config).eval(), vocabulary=Vocabulary(words), head=head, meta=meta)


@pytest.fixture(scope="session")
def bilm() -> BiLM:
    """16 wide, two layers, seeded."""
    return _make_bilm(WORDS, corpus="none")


@pytest.fixture
def bilm_path(bilm: BiLM, tmp_path: Path) -> Path:
    """The tiny biLM in our own format."""
    save_bilm(bilm, tmp_path / "bilm")
    return tmp_path / "bilm"


@pytest.fixture(scope="session")
def french(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A biLM whose meta data say that it is French, with words that ASCII does not have."""
    path = tmp_path_factory.mktemp("french") / "bilm"
    save_bilm(_make_bilm([*SPECIAL, *FRENCH, "\u6f22\u5b57"], lang="fr"), path)
    return path
